"""A cost of spikes: its gradient is one number for every spike, which the backward pass adds."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from bitspike.nn.sharding import Shard
from bitspike.ops.checks import as_number

MOST = 1e37  # float32 holds up to 3e38


def as_cost(where: str, value: object) -> float:
    """Return the cost of a spike, a number from 0 to 1e37, as a Python float."""
    cost = as_number(where, "spike_cost", value)
    if not 0 <= cost <= MOST:
        raise ValueError(f"{where}: spike_cost must be a number from 0 to {MOST:g}, but is {cost!r}; 0 costs nothing")
    return cost


def gradient_of_spikes(cost: float, rows: int, glances: int, shard: Shard | None) -> float:
    """Return the gradient of `cost` times the mean number of spikes of a sample: cost / samples for each spike.

    `rows` is the size of the batch here, of which a sample takes `glances`; with a shard, samples of all processes
    count.
    """
    total = rows if shard is None else shard.total
    return cost / (total / glances) if cost and total else 0.0


def charge(spikes: Tensor, gradient: float) -> None:
    """Add `gradient` to the gradient of each spike, when the backward pass computes it."""
    if gradient and spikes.requires_grad:
        spikes.register_hook(partial(_add, gradient))


def _add(more: float, gradient: Tensor) -> Tensor:
    return gradient + more
