"""Shards: parts of one batch in several processes, so that each layer can act as if it had the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from bitspike.ops.norm.across import Across


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows `start:stop` of a batch of `total` that this process holds; `sum` adds a tensor up over all processes.

    `sum` must be differentiable: the gradient of a sum is the sum of the gradients. `everywhere` says that each process
    has a row at least; if not, all of them run the plain modules, so that they exchange the same.
    """

    start: int
    stop: int
    total: int
    sum: Callable[[Tensor], Tensor]
    everywhere: bool = True

    @property
    def across(self) -> Across:
        """The batch as fast batch norms take it."""
        return Across(self.stop - self.start, self.total, self.sum)


def set_shard(net: nn.Module, shard: Shard | None) -> None:
    """Set the shard of each layer of `net` that needs the whole batch; None: this process has all rows."""
    for module in net.modules():
        if hasattr(module, "shard"):
            module.shard = shard  # type: ignore[assignment]
