"""The memory layout of spikes (bits, channels last) and of weights (a synapse and its pool as one strided kernel).

A step of one sample is a row. A row of a hidden layer holds height x width x channels neurons in that order, channels
padded so that what one kernel row reads begins at a 32-bit word. `AvgPool_p(Conv_k(x))` is a kernel of k + p - 1 with
stride p, whose weights are sums of at most p*p signs; its output is a whole number, p*p times the current. A dense
layer is a kernel as large as its input.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

WORD = 32


def padded(n: int, multiple: int) -> int:
    """Return the least multiple of `multiple` that is not below `n`."""
    return -(-n // multiple) * multiple


@dataclass(frozen=True, slots=True)
class Grid:
    """The neurons of a layer: `channels` of `height x width`, stored channels last, `stride` channels apart."""

    channels: int
    height: int = 1
    width: int = 1
    stride: int = 0  # of a place, in neurons; channels, padded
    dense: bool = False  # of a dense layer, which has no places

    def __post_init__(self) -> None:
        if not self.stride:
            object.__setattr__(self, "stride", self.channels)

    @property
    def neurons(self) -> int:
        """The number of neurons in a row, with padding."""
        return self.height * self.width * self.stride


@dataclass(frozen=True, slots=True)
class Synapse:
    """A kernel `rows x columns` over `source`, average-pooled by `pool`, giving `channels` of `height x width`."""

    source: Grid
    channels: int
    rows: int
    columns: int
    pool: int = 1

    @property
    def kernel_height(self) -> int:
        return self.rows + self.pool - 1

    @property
    def kernel_width(self) -> int:
        return self.columns + self.pool - 1

    @property
    def height(self) -> int:
        return (self.source.height - self.rows + 1) // self.pool

    @property
    def width(self) -> int:
        return (self.source.width - self.columns + 1) // self.pool

    @property
    def run(self) -> int:
        """The number of words that one row of the kernel reads."""
        return -(-self.kernel_width * self.source.stride // WORD)

    @property
    def words(self) -> int:
        """The number of words that the whole kernel reads."""
        return self.kernel_height * self.run

    @property
    def bound(self) -> int:
        """The largest output that spikes can give."""
        return self.rows * self.columns * self.source.channels * self.pool**2


def aligned_grid(channels: int, height: int, width: int, reader_pool: int, reader_dense: bool) -> Grid:
    """Return the grid of a layer whose spikes a kernel with stride `reader_pool` reads (all at once, if dense)."""
    if reader_dense:
        multiple = WORD // gcd(WORD, width)
    elif reader_pool % 2 or width % 2:
        multiple = WORD
    else:
        multiple = WORD // 2
    return Grid(channels, height, width, padded(channels, multiple))
