"""The cochlear model in C on the CPU: the membrane to 1e-7 of its largest velocity, the cells bit for bit."""

from __future__ import annotations

import ctypes
import math
from functools import cache

import torch
from torch import Tensor

from bitspike.ops.cochlea.bushy_cells import BUSHY_CELLS, BushyCells
from bitspike.ops.cochlea.hair_cells import HAIR_CELLS, HairCells
from bitspike.ops.cochlea.membrane import MEMBRANE, RATE, Membrane, entrance, frequencies, spectrum
from bitspike.ops.native.library import COUNT, NUMBER, POINTER, declare, kernels, succeed

declare("cochlea_knots", POINTER, POINTER, COUNT, POINTER, COUNT, ctypes.c_double, NUMBER, POINTER)
declare(
    "cochlea_spectrum",
    *(POINTER, COUNT, COUNT, POINTER, COUNT, POINTER, POINTER, POINTER, NUMBER, POINTER),
    result=None,
)
declare("cochlea_hair_cells", POINTER, COUNT, COUNT, NUMBER, POINTER, POINTER, result=None)
declare("cochlea_bushy_cells", POINTER, COUNT, COUNT, COUNT, NUMBER, POINTER, POINTER)

NEAR = 8  # knots around a frequency, of membrane.c
SPACING, BEND = 0.007, 70.0  # knots are at BEND * sinh(SPACING * i) Hz: evenly spaced below BEND, then in proportion
NEGLIGIBLE = 1e-9  # of a unit's largest response; knots end later, as they lack the entrance


def _doubles(*names: str) -> tuple[tuple[str, type], ...]:
    return tuple((name, ctypes.c_double) for name in names)


class _Constants(ctypes.Structure):
    """`Constants` of membrane.c, field by field."""

    _fields_ = _doubles("stiffness", "softening", "slack", "resistance", "height", "mass", "density")


class _Pools(ctypes.Structure):
    """`Pools` of cells.c, field by field."""

    _fields_ = _doubles("a", "b", "m", "g", "y", "loss", "r", "x", "h", "q", "c", "w")


class _Bushy(ctypes.Structure):
    """`Bushy` of cells.c, field by field."""

    _fields_ = (
        ("fibres", ctypes.c_int64),
        ("refractory", ctypes.c_int64),
        *_doubles("decay", "synapse", "weight"),
        ("key", ctypes.c_uint64),
    )


@cache
def _knots(model: Membrane) -> tuple[Tensor, Tensor]:
    """Return the knots `[units, knots]` of all units, and the angular frequencies `[knots]` they are at."""
    start = math.asinh(1 / BEND)
    many = math.ceil((math.asinh(RATE / 2 / BEND) - start) / SPACING) + 1
    omega = 2 * math.pi * BEND * torch.sinh(start + SPACING * torch.arange(many, dtype=torch.float64))
    names = [name for name, _ in _Constants._fields_]
    constants, places = _Constants(*(getattr(model, name) for name in names)), model.places()
    out = torch.empty(model.units, many, dtype=torch.complex128)
    where = (places.data_ptr(), model.units, omega.data_ptr(), many)
    how = (NEGLIGIBLE / 1000, torch.get_num_threads(), out.data_ptr())
    succeed("cochlea_knots", kernels().cochlea_knots(ctypes.byref(constants), *where, *how))
    return out, omega


def _weights(omega: Tensor, many: int) -> tuple[Tensor, Tensor]:
    """Return the first of the knots near each frequency, int32, and Lagrange's weights `[frequencies, NEAR]`."""
    at = (torch.asinh(omega / (2 * math.pi * BEND)) - math.asinh(1 / BEND)) / SPACING
    first = (at.floor() - (NEAR // 2 - 1)).clamp(0, many - NEAR)
    beyond = (at - first)[:, None] - torch.arange(NEAR)
    weights = torch.ones(len(omega), NEAR, dtype=torch.float64)
    for j in range(NEAR):
        for other in range(NEAR):
            if other != j:
                weights[:, j] *= beyond[:, other] / (j - other)
    return first.int(), weights


class FilteredSound:
    """A sound whose spectrum is prepared for the membrane; `velocity` gives the movement at some units."""

    def __init__(self, sound: Tensor, model: Membrane = MEMBRANE) -> None:
        omega = frequencies(len(sound))
        self.steps = len(omega)
        self._knots, at = _knots(model)
        self._sound = spectrum(sound) * 2 * omega * entrance(omega, model)
        self._first, self._weights = _weights(omega, len(at))
        size = self._knots.real + torch.log(at * entrance(at, model).abs())
        heard = size > size.amax(1, keepdim=True) + math.log(NEGLIGIBLE)
        ends = at[(heard * torch.arange(len(at))).argmax(1)]
        silent = (self._sound.abs() > 0).nonzero()
        sounding = int(silent.max()) + 1 if len(silent) else 0
        self._last = torch.searchsorted(omega, ends, right=True).clamp_max(sounding)

    def velocity(self, units: slice) -> Tensor:
        """Return the definition's `velocity` at `units`."""
        knots, last = self._knots[units], self._last[units].contiguous()
        out = torch.empty(len(knots), self.steps // 2 + 1, dtype=torch.complex128)
        kernels().cochlea_spectrum(
            *(knots.data_ptr(), len(knots), knots.shape[1], self._sound.data_ptr(), self.steps),
            *(self._first.data_ptr(), self._weights.data_ptr(), last.data_ptr()),
            *(torch.get_num_threads(), out.data_ptr()),
        )
        moved: Tensor = torch.fft.irfft(out, n=self.steps)
        return moved


def hair_cells(velocity: Tensor, rate: float, model: HairCells = HAIR_CELLS) -> Tensor:
    """Return the definition's `hair_cells`."""
    velocity = velocity.contiguous()
    pools, out = _Pools(*model.per_step(rate), *model.at_rest()), torch.empty_like(velocity)
    where = (velocity.data_ptr(), out.data_ptr())
    kernels().cochlea_hair_cells(ctypes.byref(pools), *velocity.shape, torch.get_num_threads(), *where)
    return out


def bushy_cells(
    probability: Tensor, rate: float, seed: int, first_unit: int = 0, model: BushyCells = BUSHY_CELLS
) -> Tensor:
    """Return the definition's `bushy_cells`."""
    probability = probability.contiguous()
    bushy, spikes = _Bushy(model.fibres, *model.per_step(rate), seed), torch.empty(probability.shape, dtype=torch.uint8)
    where = (torch.get_num_threads(), probability.data_ptr(), spikes.data_ptr())
    failed = kernels().cochlea_bushy_cells(ctypes.byref(bushy), first_unit, *probability.shape, *where)
    succeed("cochlea_bushy_cells", failed)
    return spikes
