"""Shards: parts of one batch in several processes, so that each layer can act as if it had the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows `start:stop` of a batch of `total` that this process holds; `sum` adds a tensor up over all processes.

    `sum` must be differentiable: the gradient of a sum is the sum of the gradients.
    """

    start: int
    stop: int
    total: int
    sum: Callable[[Tensor], Tensor]


def set_shard(net: nn.Module, shard: Shard | None) -> None:
    """Set the shard of each layer of `net` that needs the whole batch; None: this process has all rows."""
    for module in net.modules():
        if hasattr(module, "shard"):
            module.shard = shard  # type: ignore[assignment]
