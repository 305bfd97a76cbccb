"""The plain definition of the bushy cells: each fires when many of its nerve fibres fire together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bitspike.ops.dropout.reference import philox


@dataclass(frozen=True, slots=True)
class BushyCells:
    """The constants of nerve fibres and bushy cells (those of lauscher 1.0.1)."""

    fibres: int = 40
    """The nerve fibres that end on one cell. All of them hear the same hair cell."""
    refractory_s: float = 1e-3
    """How long a fibre, and a cell, cannot fire after a spike."""
    membrane_s: float = 1e-3
    """The time constant of the membrane."""
    synapse_s: float = 5e-4
    """The time constant of the synaptic current."""
    weight: float = 13e3
    """The weight of all fibres together, in thresholds a second."""

    def per_step(self, rate: float) -> tuple[int, float, float, float]:
        """Return the refractory steps, the decays of membrane and current, and the weight of one fibre."""
        membrane, synapse = (math.exp(-1 / (rate * tau)) for tau in (self.membrane_s, self.synapse_s))
        return math.ceil(self.refractory_s * rate), membrane, synapse, self.weight / self.fibres / rate


BUSHY_CELLS = BushyCells()


def uniforms(units: range, steps: int, seed: int) -> Tensor:
    """Draw numbers in (0, 1), `[units, steps]`: a function of seed, unit and step alone."""
    unit = torch.arange(units.start, units.stop)[:, None]
    block = torch.arange(-(-steps // 4))
    still = torch.zeros_like(block)
    draws = torch.stack(
        philox((unit + still, block + 0 * unit, still + 0 * unit, still + 0 * unit), torch.tensor(seed)), 2
    )
    return (draws.flatten(1)[:, :steps].double() + 0.5) / 2**32


def bushy_cells(
    probability: Tensor, rate: float, seed: int, first_unit: int = 0, model: BushyCells = BUSHY_CELLS
) -> Tensor:
    """Return the spikes `[units, T]`, uint8, of bushy cells whose fibres fire with `probability [units, T]`, float64.

    A fibre that is not refractory fires with its probability. Only how many fire matters, so this number is drawn as a
    whole: it is binomial, out of those that did not fire in the steps before. The current decays and gains 1 for each.
    The membrane decays and gains weight * current. It fires from 1 on; then it is 0 until the refractory time is over.
    """
    refractory, decay, synapse, weight = model.per_step(rate)
    units, steps = probability.shape
    draws = uniforms(range(first_unit, first_unit + units), steps, seed)
    fired = torch.zeros(refractory, units, dtype=torch.int64)  # in the last steps, a ring
    free = torch.full((units,), model.fibres)
    u, current = torch.zeros(2, units, dtype=torch.float64)
    until = torch.zeros(units, dtype=torch.int64)  # the step from which the cell is no longer refractory
    spikes = torch.zeros(units, steps, dtype=torch.uint8)
    for t in range(steps):
        oldest = fired[t % refractory]
        free += oldest
        oldest.copy_(binomial(draws[:, t], free, probability[:, t]))
        free -= oldest
        current = current * synapse + oldest
        u = torch.where(until <= t, u * decay + current * weight, 0.0)
        spike = u >= 1
        spikes[:, t] = spike
        u = torch.where(spike, 0.0, u)
        until = torch.where(spike, t + 1 + refractory, until)
    return spikes


def binomial(u: Tensor, n: Tensor, p: Tensor) -> Tensor:
    """Return how many of n trials succeed, each with probability p: the smallest k with P(at most k) > u."""
    failure = 1 - p
    chance = power(failure, n)
    below, count = chance.clone(), torch.zeros_like(n)
    odds = p / torch.where(p < 1, failure, 1.0)
    while (more := (u >= below) & (count < n)).any():
        chance = chance * ((n - count) * odds) / (count + 1)
        below = torch.where(more, below + chance, below)
        count = count + more
    return torch.where(p < 1, count, n)


def power(base: Tensor, n: Tensor) -> Tensor:
    """base**n for whole n in 0..63, by squaring, so that C rounds alike."""
    result = torch.ones_like(base)
    for bit in range(6):
        result = torch.where((n >> bit) & 1 == 1, result * base, result)
        base = base * base
    return result
