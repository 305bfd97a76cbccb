"""Batch norm of real currents `[T, B, C, places]` in Triton; kernels_statistics.py turns sums into statistics.

A program of sums holds C_BLOCK channels times P_BLOCK places and goes through a part of the batch; one that applies
takes R_BLOCK samples times N_BLOCK neurons of a step.
"""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit
def _sums_kernel(
    x, sums, batch, share,
    CHANNELS: tl.constexpr, PLACES: tl.constexpr, PARTS: tl.constexpr, C_BLOCK: tl.constexpr, P_BLOCK: tl.constexpr,
):  # fmt: skip
    """sums[0, t, part, c] of x, sums[1, ...] of x * x, in float64, so that large means do not hide small variances."""
    t, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.program_id(2) * C_BLOCK + tl.arange(0, C_BLOCK)
    one = tl.zeros([C_BLOCK, P_BLOCK], tl.float64)
    two = tl.zeros([C_BLOCK, P_BLOCK], tl.float64)
    for i in tl.range(0, share, num_stages=3):
        b = part * share + i
        for begin in range(0, PLACES, P_BLOCK):
            p = begin + tl.arange(0, P_BLOCK)
            inside = (c < CHANNELS)[:, None] & (p < PLACES)[None, :] & (b < batch)
            at = ((t * batch + b) * CHANNELS + c[:, None]) * PLACES + p[None, :]
            value = tl.load(x + at, mask=inside, other=0.0).to(tl.float64)
            one += value
            two += value * value
    at = (t * PARTS + part) * CHANNELS + c
    size = tl.num_programs(0).to(tl.int64) * PARTS * CHANNELS
    tl.store(sums + at, tl.sum(one, axis=1), mask=c < CHANNELS)
    tl.store(sums + size + at, tl.sum(two, axis=1), mask=c < CHANNELS)


@triton.jit
def _grad_sums_kernel(
    grad, x, mean, sums, batch, share,
    CHANNELS: tl.constexpr, PLACES: tl.constexpr, PARTS: tl.constexpr, C_BLOCK: tl.constexpr, P_BLOCK: tl.constexpr,
):  # fmt: skip
    """sums[0, t, part, c] of the gradient, sums[1, ...] of the gradient times the centred x."""
    t, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.program_id(2) * C_BLOCK + tl.arange(0, C_BLOCK)
    middle = tl.load(mean + t * CHANNELS + c, mask=c < CHANNELS, other=0.0)[:, None]
    one = tl.zeros([C_BLOCK, P_BLOCK], tl.float32)
    two = tl.zeros([C_BLOCK, P_BLOCK], tl.float32)
    for i in tl.range(0, share, num_stages=3):
        b = part * share + i
        for begin in range(0, PLACES, P_BLOCK):
            p = begin + tl.arange(0, P_BLOCK)
            inside = (c < CHANNELS)[:, None] & (p < PLACES)[None, :] & (b < batch)
            at = ((t * batch + b) * CHANNELS + c[:, None]) * PLACES + p[None, :]
            g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
            one += g
            two += g * (tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - middle)
    at = (t * PARTS + part) * CHANNELS + c
    size = tl.num_programs(0).to(tl.int64) * PARTS * CHANNELS
    tl.store(sums + at, tl.sum(one, axis=1), mask=c < CHANNELS)
    tl.store(sums + size + at, tl.sum(two, axis=1), mask=c < CHANNELS)


@triton.jit
def _apply_kernel(
    x, mean, scale, bias, out, batch,
    CHANNELS: tl.constexpr, PLACES: tl.constexpr, R_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr,
):  # fmt: skip
    """out = (x - mean[t, c]) * scale[t, c] + bias[c]."""
    t = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1) * R_BLOCK + tl.arange(0, R_BLOCK)
    n = tl.program_id(2) * N_BLOCK + tl.arange(0, N_BLOCK)
    there = n < CHANNELS * PLACES
    c = n // PLACES
    middle = tl.load(mean + t * CHANNELS + c, mask=there, other=0.0)[None, :]
    factor = tl.load(scale + t * CHANNELS + c, mask=there, other=0.0)[None, :]
    offset = tl.load(bias + c, mask=there, other=0.0)[None, :]
    at = (t * batch + b[:, None]) * (CHANNELS * PLACES) + n[None, :]
    inside = (b < batch)[:, None] & there[None, :]
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, ((value - middle) * factor + offset).to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["whole"])  # a batch of 1 would become a Python number
def _grad_kernel(
    grad, x, weight, mean, inverse, totals, out, batch, whole,
    CHANNELS: tl.constexpr, PLACES: tl.constexpr, R_BLOCK: tl.constexpr, N_BLOCK: tl.constexpr,
):  # fmt: skip
    """out = weight * inverse * (grad - mean of grad - centred * inverse**2 * mean of grad * centred).

    The statistics are of `whole` samples, of which `batch` are here.
    """
    t = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1) * R_BLOCK + tl.arange(0, R_BLOCK)
    n = tl.program_id(2) * N_BLOCK + tl.arange(0, N_BLOCK)
    there = n < CHANNELS * PLACES
    c = n // PLACES
    row = t * CHANNELS + c
    size = tl.num_programs(0).to(tl.int64) * CHANNELS
    count = (whole * PLACES).to(tl.float32)
    middle = tl.load(mean + row, mask=there, other=0.0)
    inv = tl.load(inverse + row, mask=there, other=0.0)
    factor = tl.load(weight + c, mask=there, other=0.0) * inv
    level = tl.load(totals + row, mask=there, other=0.0) / count
    slant = tl.load(totals + size + row, mask=there, other=0.0) / count * inv * inv
    at = (t * batch + b[:, None]) * (CHANNELS * PLACES) + n[None, :]
    inside = (b < batch)[:, None] & there[None, :]
    g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    centred = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - middle[None, :]
    value = factor[None, :] * (g - level[None, :] - centred * slant[None, :])
    tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)
