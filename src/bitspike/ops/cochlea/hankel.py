"""The Hankel functions of the first kind, H0 and H1, for complex numbers."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

SMALL = 2.0  # below it the power series loses no digits
TERMS = 16  # of the power series
WIDTH, POINTS = 0.25, 25  # of the trapezoidal rule
EULER = 0.57721566490153286


def hankel(order: Literal[0, 1], z: Tensor) -> Tensor:
    """H(z) = J(z) + i Y(z) for complex128 z with Re z > 0 and Im z >= 0, to 1e-13 of its size.

    Small z take the power series. For others H is `exp(i (z - pi/4)) sqrt(2 / (pi z)) / sqrt(pi)` times the integral of
    `exp(-s^2) / root` over all s, where `root = sqrt(1 + i s^2 / (2 z))`; for order 1 of `-2 i s^2 exp(-s^2) root`. The
    trapezoidal rule is exact here for all that doubles can tell.
    """
    return torch.where(z.abs() < SMALL, _series(order, z), _integral(order, z))


def _series(order: int, z: Tensor) -> Tensor:
    """Return J + i Y from their power series: J is the sum of c_k = (z/2)^n (-z^2/4)^k / (k! (k+n)!).

    Y is 2/pi log(z/2) J - 1/pi (the sum of (psi(k+1) + psi(k+n+1)) c_k), and for n = 1 also -2/(pi z).
    """
    z = torch.where(z.abs() < SMALL, z, torch.ones_like(z))
    term = (0.5 * z) ** order
    psi = -EULER, -EULER + order  # psi(1) and psi(n + 1)
    j, tail = term.clone(), (psi[0] + psi[1]) * term
    for k in range(1, TERMS + 1):
        term = term * (-0.25 * z * z) / (k * (k + order))
        psi = psi[0] + 1 / k, psi[1] + 1 / (k + order)
        j += term
        tail += (psi[0] + psi[1]) * term
    y = (2 * torch.log(0.5 * z) * j - tail - order * 2 / z) / math.pi
    return j + 1j * y


def _integral(order: int, z: Tensor) -> Tensor:
    total = torch.full_like(z, 0.5 if order == 0 else 0.0)
    for k in range(1, POINTS):
        s2 = (k * WIDTH) ** 2
        root = torch.sqrt(1 + s2 * 0.5j / z)
        total += math.exp(-s2) * (1 / root if order == 0 else -2j * s2 * root)
    total *= 2 * WIDTH / math.sqrt(math.pi)
    return torch.exp(1j * (z - math.pi / 4)) * torch.sqrt(2 / (math.pi * z)) * total
