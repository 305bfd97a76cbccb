"""The cochlear model as a whole: from a sound to the spikes of some units, in C where it is there."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from bitspike.ops.cochlea import bushy_cells, c, hair_cells, membrane
from bitspike.ops.native.library import library

STEPS_RATE = membrane.RATE / 2


def cochlea(sound: Tensor) -> Callable[[range, int], Tensor]:
    """Return a function of units and seed that gives the spikes `[units, T]`, uint8, of a sound at 48 kHz, float64."""
    return _definition(sound) if library() is None else _fast(sound)


def _definition(sound: Tensor) -> Callable[[range, int], Tensor]:
    def spikes(units: range, seed: int) -> Tensor:
        velocity = membrane.velocity(sound, units=slice(units.start, units.stop))
        probability = hair_cells.hair_cells(velocity, STEPS_RATE)
        return bushy_cells.bushy_cells(probability, STEPS_RATE, seed, units.start)

    return spikes


def _fast(sound: Tensor) -> Callable[[range, int], Tensor]:
    filtered = c.FilteredSound(sound)

    def spikes(units: range, seed: int) -> Tensor:
        velocity = filtered.velocity(slice(units.start, units.stop))
        return c.bushy_cells(c.hair_cells(velocity, STEPS_RATE), STEPS_RATE, seed, units.start)

    return spikes
