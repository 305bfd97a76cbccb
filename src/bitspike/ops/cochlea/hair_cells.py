"""The plain definition of the inner hair cells: how likely a nerve fibre fires when the membrane moves.

The transmitter-pool model of Meddis (J. Acoust. Soc. Am. 83, 1056, 1988), with the symbols of its rate constants.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class HairCells:
    """The rate constants, each in 1/s but A, B and M (those of lauscher 1.0.1)."""

    a: float = 5.0
    """A: the velocity at which the membrane begins to let transmitter out is -A."""
    b: float = 300.0
    """B: the velocity, from -A on, at which half of g is reached."""
    g: float = 2000.0
    """g: the largest rate of release."""
    y: float = 5.05
    """y: the rate at which the free pool is filled from the factory."""
    l: float = 2500.0  # noqa: E741
    """l: the rate of loss from the cleft."""
    r: float = 6580.0
    """r: the rate at which the cleft's transmitter returns into the cell."""
    x: float = 66.3
    """x: the rate at which what returned is made ready again."""
    m: float = 1.0
    """M: the size of the free pool, above which it is not filled."""
    h: float = 50000.0
    """h: spikes a second for all of the pool in the cleft."""

    def at_rest(self) -> tuple[float, float, float]:
        """Return what the free pool, the cleft and the store of returned transmitter hold when nothing moves."""
        k = self.g * self.a / (self.a + self.b)
        cleft = self.m * self.y * k / (self.l * k + self.y * (self.l + self.r))
        return cleft * (self.l + self.r) / k, cleft, cleft * self.r / self.x

    def per_step(self, rate: float) -> tuple[float, ...]:
        """Return A, B, M and then g, y, l + r, r, x, h as shares of a time step, of which there are `rate` a second."""
        rates = (self.g, self.y, self.l + self.r, self.r, self.x, self.h)
        return self.a, self.b, self.m, *(each / rate for each in rates)


HAIR_CELLS = HairCells()


def hair_cells(velocity: Tensor, rate: float, model: HairCells = HAIR_CELLS) -> Tensor:
    """Return the probability `[units, T]` that a nerve fibre fires in a step, for `velocity [units, T]`, float64.

    In a step the free pool q loses k q to the cleft, k = g (v + A) / (v + A + B) or 0 below -A. It gains y (M - q) from
    the factory, or nothing above M, and x w from the store w. The cleft c loses l c, and r c to the store. The result
    is h c. All start at rest, and none falls below 0.
    """
    a, b, m, g, y, loss, r, x, h = model.per_step(rate)
    q, c, w = (torch.full_like(velocity[:, 0], held) for held in model.at_rest())
    moved = velocity + a
    release = torch.where(moved > 0, g * moved / (moved + b), torch.zeros_like(moved))
    out = torch.empty_like(velocity)
    for t, k in enumerate(release.unbind(1)):
        filled = torch.where(q < m, y * m - y * q, torch.zeros_like(q))
        ejected, reprocessed = k * q, x * w
        q, c, w = (
            (q + filled - ejected + reprocessed).clamp_min(0),
            (c + ejected - loss * c).clamp_min(0),
            (w + r * c - reprocessed).clamp_min(0),
        )
        out[:, t] = c * h
    return out
