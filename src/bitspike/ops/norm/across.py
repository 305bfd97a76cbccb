"""A batch that lies in several processes: its statistics are those of the whole, from sums that they exchange."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Across:
    """The rows of a batch of `total` that are `here`, one at least; `sum` adds a tensor up over all processes.

    `sum` returns the same total in every process, in a new tensor, and needs no gradient. All processes call it as
    often and in the same order: once for each layer's statistics, and once for their gradient.
    """

    here: int
    total: int
    sum: Callable[[Tensor], Tensor]

    def count(self, values: int) -> int:
        """Return the number of values in all processes, if `values` of them are here."""
        return values // self.here * self.total
