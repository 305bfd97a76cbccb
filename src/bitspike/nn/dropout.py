"""The dropout module: it acts on the current of a layer, or on the spikes that enter it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from bitspike.nn.checked import Check, Checked
from bitspike.nn.sharding import Shard
from bitspike.ops.available import transformed
from bitspike.ops.checks import as_number
from bitspike.ops.dropout import c as dropout_c
from bitspike.ops.dropout.reference import dropout
from bitspike.ops.native.library import library, usable


def as_share(where: str, name: str, value: object) -> float:
    """Return the share of a current to drop, as a Python float in [0, 1)."""
    share = as_number(where, name, value)
    if not 0 <= share < 1:
        raise ValueError(f"{where}: {name} must be in [0, 1), but is {share!r}; it is the share that is dropped")
    return share


class Dropout(nn.Dropout, Checked):
    """nn.Dropout on `[T, B, ...]`; with a `key` (one int64 tensor), the mask is a function of key, layer and place.

    With a shard, the mask is drawn for the whole batch and this process's rows taken. All processes draw from the same
    seed, so the mask is that of one process with the whole batch (without a key on a GPU one process draws otherwise:
    there only processes agree among themselves).
    """

    checks: ClassVar[Mapping[str, Check]] = {"p": lambda module, value: as_share(type(module).__name__, "p", value)}
    shard: Shard | None = None
    key: Tensor | None = None

    def __init__(self, p: float = 0.5, layer: int = 0) -> None:
        super().__init__(as_share(type(self).__name__, "p", p))
        self.layer = layer

    @property
    def active(self) -> bool:
        """True if a call drops anything: in training mode, if `p` is not 0."""
        return self.p > 0 and self.training

    def forward(self, x: Tensor) -> Tensor:
        if not self.active:
            return x
        if self.key is not None:
            return self._from_key(self.key, x, self.shard.start if self.shard else 0)
        if self.shard is None:
            return super().forward(x)
        kept = torch.empty(x.shape[0], self.shard.total, *x.shape[2:], device=x.device, dtype=x.dtype)
        kept.bernoulli_(1 - self.p).div_(1 - self.p)
        return x * kept[:, self.shard.start : self.shard.stop]

    def _from_key(self, key: Tensor, x: Tensor, first_row: int) -> Tensor:
        if x.device.type != "cpu" or type(x) not in (Tensor, nn.Parameter) or library() is None or transformed():
            return dropout(x, self.p, key, self.layer, first_row)
        draws = dropout_c.draw(self.p, key, self.layer, first_row * x.shape[2:].numel())
        if usable(x):
            return dropout_c.dropout(x, draws, 1 / (1 - self.p))
        return torch.where(dropout_c.keep_mask(tuple(x.shape), draws).bool(), x * (1 / (1 - self.p)), 0)


def set_dropout_key(net: nn.Module, key: Tensor | None) -> None:
    """Make every dropout of `net` draw from `key`, which may be rewritten in place between iterations.

    With None they draw from PyTorch's generator.
    """
    for module in net.modules():
        if isinstance(module, Dropout):
            module.key = key
