"""The form of a layer's synapse: a convolution's stride and padding, and the pools behind it."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple


class Pool(NamedTuple):
    """A pool without padding: the average or the largest of size x size values, every `stride` values."""

    kind: Literal["average", "max"]
    size: int
    stride: int


class Form(NamedTuple):
    """Stride and padding (rows, columns) of a convolution, and its pools in order; a dense layer has the defaults."""

    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    pools: tuple[Pool, ...] = ()

    @property
    def divisor(self) -> int:
        """The number of values that the average pools take the mean of."""
        return math.prod(pool.size**2 for pool in self.pools if pool.kind == "average")

    def fits(self, height: int, width: int, rows: int, columns: int) -> bool:
        """Return whether images leave a place after a convolution with kernels of rows x columns, and every pool."""
        sides = [
            (side + 2 * padding - size) // stride + 1
            for side, padding, size, stride in zip(
                (height, width), self.padding, (rows, columns), self.stride, strict=True
            )
        ]
        for pool in self.pools:
            if min(sides) < 1:
                return False
            sides = [(side - pool.size) // pool.stride + 1 for side in sides]
        return min(sides) >= 1
