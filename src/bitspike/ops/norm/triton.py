"""Batch norm of every step in Triton: two passes over x forward, two over x and the gradient backward."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from triton import next_power_of_2

from bitspike.ops.launch import at_once, on
from bitspike.ops.norm import kernels, kernels_statistics
from bitspike.ops.norm.across import Across
from bitspike.ops.norm.reference import Averages

_TILE = 1024  # values that a program of sums holds
_MOST_PLACES = 128  # of them in a row
_ROWS, _NEURONS = 8, 256  # what a program that applies takes


class _Shape(NamedTuple):
    steps: int
    batch: int
    channels: int
    places: int

    @property
    def parts(self) -> int:
        """The number of parts a batch is summed in: enough programs to fill a GPU, but few to add up."""
        return max(1, min(8, self.batch // 8))

    @property
    def share(self) -> int:
        """The number of samples in a part."""
        return -(-self.batch // self.parts)

    def tile(self) -> tuple[int, int]:
        """Return the number of channels and places that a program of sums takes."""
        places = min(next_power_of_2(self.places), _MOST_PLACES)
        return min(next_power_of_2(self.channels), max(_TILE // places, 1)), places


def _shape(x: Tensor) -> _Shape:
    steps, batch, channels, height, width = x.shape
    return _Shape(steps, batch, channels, height * width)


def forward(
    x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, eps: float, across: Across | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output, and the mean and 1 / sqrt(variance + eps) of every step and channel, `[T, C]` float32.

    With `across`, these are of a batch that lies in several processes, of which x has the rows that are here.
    """
    shape = _shape(x)
    steps, batch, channels, places = shape
    c_block, p_block = shape.tile()
    few = at_once(4, 64)
    sums = torch.empty(2, steps, shape.parts, channels, dtype=torch.float64, device=x.device)
    mean, scale, inverse = torch.empty(3, steps, channels, dtype=torch.float32, device=x.device)
    track = averages.mean is not None and averages.variance is not None
    running = (averages.mean, averages.variance) if track else (weight, weight)
    out = torch.empty_like(x)
    with on(x):
        kernels._sums_kernel[(steps, shape.parts, -(-channels // c_block))](
            x, sums, batch, shape.share,
            CHANNELS=channels, PLACES=places, PARTS=shape.parts, C_BLOCK=c_block, P_BLOCK=p_block,
        )  # fmt: skip
        parts, count = shape.parts, batch * places
        if across is not None:
            sums, parts, count = across.sum(sums.sum(2)), 1, across.count(count)
        kernels_statistics._finish_kernel[(-(-channels // few),)](
            sums, weight, *running, mean, scale, inverse,
            steps, count, float(averages.momentum), float(eps), QUOTIENT=1, CHANNELS=channels,
            STRIDE=channels, PARTS=parts, SHARED=False, TRACK=track, T_BLOCK=64, C_BLOCK=few,
        )  # fmt: skip
        kernels._apply_kernel[_programs(shape)](
            x, mean, scale, bias, out, batch, CHANNELS=channels, PLACES=places, R_BLOCK=_ROWS, N_BLOCK=_NEURONS
        )
    return out, mean, inverse


def backward(
    grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, inverse: Tensor, across: Across | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, weight and bias; with `across`, those of the parameters are of the rows here."""
    shape = _shape(x)
    steps, batch, channels, places = shape
    c_block, p_block = shape.tile()
    few = at_once(4, 64)
    sums = torch.empty(2, steps, shape.parts, channels, dtype=torch.float32, device=x.device)
    totals = torch.empty(2, steps, channels, dtype=torch.float32, device=x.device)
    grad_weight, grad_bias = torch.empty_like(weight), torch.empty_like(weight)
    out = torch.empty_like(x)
    with on(x):
        kernels._grad_sums_kernel[(steps, shape.parts, -(-channels // c_block))](
            grad, x, mean, sums, batch, shape.share,
            CHANNELS=channels, PLACES=places, PARTS=shape.parts, C_BLOCK=c_block, P_BLOCK=p_block,
        )  # fmt: skip
        kernels_statistics._gather_kernel[(-(-channels // few),)](
            sums, inverse, totals, grad_weight, grad_bias, steps,
            CHANNELS=channels, STRIDE=channels, PARTS=shape.parts, SHARED=False, T_BLOCK=64, C_BLOCK=few,
        )  # fmt: skip
        whole = batch
        if across is not None:
            totals, whole = across.sum(totals), across.total * (batch // across.here)
        kernels._grad_kernel[_programs(shape)](
            grad, x, weight, mean, inverse, totals, out, batch, whole,
            CHANNELS=channels, PLACES=places, R_BLOCK=_ROWS, N_BLOCK=_NEURONS,
        )  # fmt: skip
    return out, grad_weight, grad_bias


def _programs(shape: _Shape) -> tuple[int, int, int]:
    """Return the grid of programs of a kernel that applies statistics."""
    return shape.steps, -(-shape.batch // _ROWS), -(-shape.channels * shape.places // _NEURONS)
