"""One batch over several processes: what each layer must know to act as if the whole batch were here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


def set_shard(net: nn.Module, shard: Shard | None) -> None:
    """Tell every layer of `net` that reaches across the batch which rows it has."""
    for module in net.modules():
        if hasattr(module, "shard"):
            module.shard = shard  # type: ignore[assignment]
