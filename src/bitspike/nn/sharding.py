"""One batch over several processes: what each layer must know to act as if the whole batch were here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Shard:
    """This process holds rows `start:stop` of a batch of `total`; `sum` adds a tensor up over all processes.

    `sum` must be differentiable: the gradient of a sum is the sum of the gradients.
    """

    start: int
    stop: int
    total: int
    sum: Callable[[Tensor], Tensor]


class Dropout(nn.Dropout):
    """nn.Dropout on `[T, B, ...]`; with a shard, the mask is drawn for the whole batch and this process's rows taken.

    All processes draw from the same seed, so the mask is that of one process with the whole batch (on a GPU one
    process draws otherwise, so there only processes agree among themselves).
    """

    shard: Shard | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.shard is None or not self.training or self.p == 0:
            return super().forward(x)
        kept = torch.empty(x.shape[0], self.shard.total, *x.shape[2:], device=x.device, dtype=x.dtype)
        kept.bernoulli_(1 - self.p).div_(1 - self.p)
        return x * kept[:, self.shard.start : self.shard.stop]


def set_shard(net: nn.Module, shard: Shard | None) -> None:
    """Tell every layer of `net` that reaches across the batch which rows it has."""
    for module in net.modules():
        if hasattr(module, "shard"):
            module.shard = shard  # type: ignore[assignment]
