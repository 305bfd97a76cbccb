"""Batch norm of channels-last currents in Triton, and its gradient. Statistics of integer currents are exact."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bitspike.ops.launch import at_once
from bitspike.ops.norm import kernels_integer, kernels_statistics
from bitspike.ops.norm.across import Across
from bitspike.ops.product.geometry import Grid


@dataclass(frozen=True, slots=True)
class Norm:
    """A layer's batch norm: statistics of each step, or `shared` over time; evaluation uses `running`.

    With `across`, statistics are those of a batch that lies in several processes.
    """

    weight: Tensor
    bias: Tensor
    running: tuple[Tensor, Tensor] | None  # mean, variance
    momentum: float
    eps: float
    shared: bool
    across: Across | None = None

    def count(self, steps: int, rows: int) -> int:
        """Return the number of values that one mean is taken of, if `rows` of each step are here."""
        values = rows * (steps if self.shared else 1)
        return values if self.across is None else self.across.count(values)


@dataclass(frozen=True, slots=True)
class Normalizer:
    """The numbers that normalize a current: (x - mean[t, c]) * scale[t, c] + bias[c].

    `step` is the stride of t: 0 if all steps share one row.
    """

    mean: Tensor
    scale: Tensor
    inverse: Tensor
    bias: Tensor
    step: int


def _parts(rows: int) -> tuple[int, int]:
    """Return the number of parts that rows are summed in, and the number of rows in a part."""
    parts = max(1, min(8, rows // 256))
    return parts, -(-rows // parts)


def _channels(stride: int) -> int:
    return 64 if stride >= 64 else 32 if stride >= 32 else 16


def statistics(current: Tensor, grid: Grid, quotient: int, norm: Norm, *, real: bool = False) -> Normalizer:
    """Return the statistics of the raw current `[T, rows, stride]`, `quotient` times the current; move the averages.

    The raw current is whole numbers, unless it is `real`.
    """
    steps, rows, stride = current.shape
    count = norm.count(steps, rows)
    if count == 1 and not grid.dense:
        raise ValueError("batch norm: needs more than one value a channel to train on; use a larger batch")
    parts, share = _parts(rows)
    block = _channels(stride)
    sums = torch.empty(2, steps, parts, stride, dtype=torch.float64, device=current.device)
    kernels_integer._sums_kernel[(steps, parts, -(-stride // block))](
        current, sums, rows, share, REAL=real, STRIDE=stride, PARTS=parts, R_BLOCK=32, C_BLOCK=block
    )
    if norm.across is not None:  # whole numbers: exact in any order
        sums, parts = norm.across.sum(sums.sum((1, 2) if norm.shared else 2)), 1
    mean, scale, inverse = torch.empty(
        3, 1 if norm.shared else steps, stride, dtype=torch.float32, device=current.device
    )
    running = norm.running or (norm.weight, norm.weight)
    few = at_once(4, 64)
    kernels_statistics._finish_kernel[(-(-stride // few),)](
        sums, norm.weight, *running, mean, scale, inverse,
        sums[0].numel() // (parts * stride), count, norm.momentum, norm.eps, QUOTIENT=quotient,
        CHANNELS=grid.channels, STRIDE=stride, PARTS=parts, SHARED=norm.shared, TRACK=norm.running is not None,
        T_BLOCK=64, C_BLOCK=few,
    )  # fmt: skip
    return Normalizer(mean, scale, inverse, norm.bias, 0 if norm.shared else stride)


def running_normalizer(norm: Norm) -> Normalizer:
    """Return a normalizer by the running averages, as in evaluation; it is the same at every step."""
    if norm.running is None:
        raise ValueError("running_normalizer: this batch norm keeps no running averages")
    mean, var = norm.running
    inverse = torch.rsqrt(var + norm.eps)
    return Normalizer(mean, norm.weight * inverse, inverse, norm.bias, 0)


def normalized(current: Tensor, grid: Grid, normalizer: Normalizer) -> Tensor:
    """Return the current `[T, rows, stride]` normalized, `[T, rows, channels]` float32."""
    steps, rows, stride = current.shape
    out = torch.empty(steps, rows, grid.channels, dtype=torch.float32, device=current.device)
    block = _channels(grid.channels)
    kernels_integer._normalize_kernel[(-(-rows // 64), steps, -(-grid.channels // block))](
        current, normalizer.mean, normalizer.scale, normalizer.bias, out, rows, normalizer.step,
        CHANNELS=grid.channels, STRIDE=stride, R_BLOCK=64, C_BLOCK=block, enable_fp_fusion=False,
    )  # fmt: skip
    return out


def norm_backward(
    grad: Tensor, current: Tensor, normalizer: Normalizer, norm: Norm, grid: Grid, quotient: int, out: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the current (in `out`), weight and bias, from that of the normalized current.

    The current is `[T, rows, stride]`, and so is `out`, which may be `grad` itself. `grad` may lack the padding.
    Gradients of weight and bias are those of the rows here.
    """
    steps, rows, stride = current.shape
    given = grad.numel() // (steps * rows)
    parts, share = _parts(rows)
    block = _channels(stride)
    sums = torch.empty(2, steps, parts, stride, dtype=torch.float32, device=grad.device)
    kernels_integer._grad_sums_kernel[(steps, parts, -(-stride // block))](
        grad, current, normalizer.mean, sums, rows, share,
        QUOTIENT=quotient, STRIDE=stride, STRIDE_G=given, NORM_STEP=normalizer.step, PARTS=parts,
        R_BLOCK=32, C_BLOCK=block,
    )  # fmt: skip
    own = 1 if norm.shared else steps
    totals = torch.empty(2, own, stride, dtype=torch.float32, device=grad.device)
    weight_grad, bias_grad = torch.empty_like(norm.weight), torch.empty_like(norm.bias)
    few = at_once(4, 64)
    kernels_statistics._gather_kernel[(-(-stride // few),)](
        sums, normalizer.inverse, totals, weight_grad, bias_grad, steps,
        CHANNELS=grid.channels, STRIDE=stride, PARTS=parts, SHARED=norm.shared, T_BLOCK=64, C_BLOCK=few,
    )  # fmt: skip
    if norm.across is not None:
        totals = norm.across.sum(totals)
    kernels_integer._apply_kernel[(-(-rows // 64), steps, -(-stride // block))](
        grad, current, normalizer.mean, normalizer.scale, normalizer.inverse, totals, out,
        rows, norm.count(steps, rows), own,
        QUOTIENT=quotient, STRIDE=stride, STRIDE_G=given, NORM_STEP=normalizer.step, R_BLOCK=64, C_BLOCK=block,
    )  # fmt: skip
    return out, weight_grad, bias_grad
