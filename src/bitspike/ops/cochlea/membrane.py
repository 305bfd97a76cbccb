"""The plain definition of the basilar membrane: how fast each place of the cochlea moves when a sound comes in.

The hydrodynamic model in shallow water of Sieroka, Dosch and Rupp (J. Acoust. Soc. Am. 120, 297, 2006), solved at each
frequency by a wave whose length changes slowly along the cochlea.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bitspike.ops.cochlea.hankel import hankel

RATE = 48_000  # samples a second of the sound; the membrane has half as many


@dataclass(frozen=True, slots=True)
class Membrane:
    """The constants of the membrane in g, cm and s (those of lauscher 1.0.1)."""

    units: int = 700
    """Places along the cochlea, at equal distances; unit 0 hears the highest frequency."""
    length: float = 3.5
    """The place of the last unit."""
    stiffness: float = 1e9
    """C0: the stiffness at place 0."""
    softening: float = 3.0
    """alpha: the stiffness falls as exp(-alpha x)."""
    slack: float = 3500.0
    """a: what is taken from the stiffness everywhere."""
    damping: float = 0.15
    """delta: the damping is delta sqrt(C0 m) at place 0 and falls as exp(-alpha x / 2)."""
    height: float = 0.1
    """h: the height of the scala."""
    mass: float = 0.05
    """m: the mass of the membrane."""
    density: float = 1.0
    """rho: the density of the fluid."""

    @property
    def resistance(self) -> float:
        """The damping at place 0, R0."""
        return self.damping * math.sqrt(self.stiffness * self.mass)

    def places(self) -> Tensor:
        """Return the place of each unit `[units]`, float64."""
        return torch.linspace(0, self.length, self.units, dtype=torch.float64)


MEMBRANE = Membrane()


def frequencies(samples: int) -> Tensor:
    """Return the angular frequencies `[samples // 2 + 1]` of a sound's spectrum: from 1 Hz, where there is no zero."""
    return 2 * math.pi * torch.linspace(1, RATE // 2, samples // 2 + 1, dtype=torch.float64)


def spectrum(sound: Tensor) -> Tensor:
    """Return the spectrum `[samples // 2 + 1]`, complex128, of a sound `[samples]`, float64."""
    found: Tensor = torch.fft.rfft(sound)
    return found


def velocity(sound: Tensor, model: Membrane = MEMBRANE, units: slice = slice(None)) -> Tensor:
    """Return how fast the membrane moves at `units`, `[units, samples // 2 + 1]`, at half the rate of the sound.

    The spectrum times the transfer function is taken back to time as a whole: what lies above a quarter of the rate
    folds back, as in the published model. Times before the first sample are those after the last.
    """
    omega = frequencies(len(sound))
    response = transfer(omega, model.places()[units, None], model)
    moved: Tensor = torch.fft.ifft(response * spectrum(sound)).real
    return moved


def transfer(omega: Tensor, place: Tensor, model: Membrane = MEMBRANE) -> Tensor:
    """V = 2 omega / xi(x) * p(x) / p(0) * Z: the velocity at `place` for a unit of sound at `omega`; they broadcast."""
    zero = torch.zeros((), dtype=torch.float64)
    here, start = _pressure(omega, place, model), _pressure(omega, zero, model)
    return 2 * omega / _impedance(omega, place, model) * here * entrance(omega, model) / start


def entrance(omega: Tensor, model: Membrane = MEMBRANE) -> Tensor:
    """Z = i sqrt(2 C0 / h) conj(H0(z) / H1(z)) with z = 2 omega / alpha sqrt(2 / (h C0)): the ear's input impedance."""
    z = 2 * omega / model.softening * math.sqrt(2 / (model.height * model.stiffness))
    ratio = (hankel(0, z + 0j) / hankel(1, z + 0j)).conj()
    return 1j * math.sqrt(2 * model.stiffness / model.height) * ratio


def _impedance(omega: Tensor, place: Tensor, model: Membrane) -> Tensor:
    """xi = C0 exp(-alpha x) - a - m omega^2 - i omega R0 exp(-alpha x / 2)."""
    soft = torch.exp(-0.5 * model.softening * place)
    real = model.stiffness * soft * soft - model.slack - model.mass * omega**2
    return torch.complex(real, -omega * model.resistance * soft)


def _wavenumber(omega: Tensor, place: Tensor, model: Membrane) -> Tensor:
    """g = omega sqrt(rho / (h xi))."""
    return omega * torch.sqrt(model.density / (model.height * _impedance(omega, place, model)))


def _phase(omega: Tensor, place: Tensor, model: Membrane) -> Tensor:
    """G = 2 g(0) / alpha + the integral of g from 0 to x.

    With s = exp(-alpha x / 2) the integral is 2 i omega sqrt(rho / h) / (alpha k) log(F(1) / F(s)). Here k is
    sqrt(a + m omega^2), and F(s) = (2 i k sqrt(xi) - i omega R0 s - 2 k^2) / s.
    """

    def primitive(place: Tensor) -> Tensor:
        soft = torch.exp(-0.5 * model.softening * place)
        root = torch.sqrt(_impedance(omega, place, model))
        return (2j * k * root - 1j * omega * model.resistance * soft - 2 * k * k) / soft

    k = torch.sqrt(model.slack + model.mass * omega**2)
    zero = torch.zeros((), dtype=torch.float64)
    size = 2 * omega * math.sqrt(model.density / model.height) / (model.softening * k)
    integral = 1j * size * torch.log(primitive(zero) / primitive(place))
    return 2 * _wavenumber(omega, zero, model) / model.softening + integral


def _pressure(omega: Tensor, place: Tensor, model: Membrane) -> Tensor:
    """p = sqrt(G / g) H0(G)."""
    phase = _phase(omega, place, model)
    return torch.sqrt(phase / _wavenumber(omega, place, model)) * hankel(0, phase)
