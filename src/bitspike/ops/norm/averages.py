"""What batch norm keeps for evaluation, and every way of computing it moves."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Averages(NamedTuple):
    """The running mean and variance `[C]` that move, and how far; both None if they are not kept."""

    mean: Tensor | None
    variance: Tensor | None
    momentum: float
