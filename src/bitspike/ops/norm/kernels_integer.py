"""Batch norm of channels-last currents in Triton: sums of whole numbers are exact in any order, REAL ones float64."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit
def _sums_kernel(
    current, sums, rows, share,
    REAL: tl.constexpr, STRIDE: tl.constexpr, PARTS: tl.constexpr, R_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr,
):  # fmt: skip
    """sums[0, t, part, c] of the current, sums[1, ...] of its square, over a part of `[T, rows, STRIDE]`; float64."""
    t, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.program_id(2) * C_BLOCK + tl.arange(0, C_BLOCK)
    one = tl.zeros([R_BLOCK, C_BLOCK], tl.float64 if REAL else tl.int64)
    two = tl.zeros([R_BLOCK, C_BLOCK], tl.float64 if REAL else tl.int64)
    for begin in tl.range(0, share, R_BLOCK, num_stages=3):
        r = part * share + begin + tl.arange(0, R_BLOCK)
        inside = ((begin + tl.arange(0, R_BLOCK) < share) & (r < rows))[:, None] & (c < STRIDE)[None, :]
        held = tl.load(current + (t * rows + r[:, None]) * STRIDE + c[None, :], mask=inside, other=0)
        x = held.to(tl.float64) if REAL else held.to(tl.int32)
        one += x
        if REAL or current.dtype.element_ty == tl.int16:  # below 2**30
            two += x * x
        else:
            two += x.to(tl.int64) * x
    at = (t * PARTS + part) * STRIDE + c
    tl.store(sums + at, tl.sum(one, axis=0).to(tl.float64), mask=c < STRIDE)
    size = tl.num_programs(0).to(tl.int64) * PARTS * STRIDE
    tl.store(sums + size + at, tl.sum(two, axis=0).to(tl.float64), mask=c < STRIDE)


@triton.jit
def _grad_sums_kernel(
    grad, current, mean, sums, rows, share,
    QUOTIENT: tl.constexpr, STRIDE: tl.constexpr, STRIDE_G: tl.constexpr, NORM_STEP: tl.constexpr, PARTS: tl.constexpr,
    R_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr,
):  # fmt: skip
    """sums[0, t, part, c] of the gradient, sums[1, ...] of the gradient times the centred current.

    The gradient has STRIDE_G channels, which may be fewer than the current's. NORM_STEP is the stride of the mean in
    time: 0 if all steps share it.
    """
    t, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.program_id(2) * C_BLOCK + tl.arange(0, C_BLOCK)
    middle = tl.load(mean + t * NORM_STEP + c, mask=c < STRIDE, other=0.0)
    one = tl.zeros([R_BLOCK, C_BLOCK], tl.float32)
    two = tl.zeros([R_BLOCK, C_BLOCK], tl.float32)
    for begin in tl.range(0, share, R_BLOCK, num_stages=3):
        r = part * share + begin + tl.arange(0, R_BLOCK)
        inside = ((begin + tl.arange(0, R_BLOCK) < share) & (r < rows))[:, None] & (c < STRIDE)[None, :]
        row = t * rows + r[:, None]
        given = inside & (c < STRIDE_G)[None, :]
        g = tl.load(grad + row * STRIDE_G + c[None, :], mask=given, other=0.0).to(tl.float32)
        x = tl.load(current + row * STRIDE + c[None, :], mask=inside, other=0).to(tl.float32) * (1.0 / QUOTIENT)
        one += g
        two += g * (x - middle[None, :])
    at = (t * PARTS + part) * STRIDE + c
    tl.store(sums + at, tl.sum(one, axis=0), mask=c < STRIDE)
    tl.store(sums + tl.num_programs(0).to(tl.int64) * PARTS * STRIDE + at, tl.sum(two, axis=0), mask=c < STRIDE)


@triton.jit(do_not_specialize=["T", "count"])
def _apply_kernel(
    grad, current, mean, scale, inverse, totals, out, rows, count, T,
    QUOTIENT: tl.constexpr, STRIDE: tl.constexpr, STRIDE_G: tl.constexpr, NORM_STEP: tl.constexpr,
    R_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr,
):  # fmt: skip
    """out = scale * (grad - mean of grad - centred * inverse**2 * mean of grad * centred): the current's gradient.

    `totals [2, T, STRIDE]` and the statistics have T rows, one if NORM_STEP is 0.
    """
    t = tl.program_id(1).to(tl.int64)
    r = tl.program_id(0) * R_BLOCK + tl.arange(0, R_BLOCK)
    c = tl.program_id(2) * C_BLOCK + tl.arange(0, C_BLOCK)
    row = t * NORM_STEP + c
    there = c < STRIDE
    middle = tl.load(mean + row, mask=there, other=0.0)
    factor = tl.load(scale + row, mask=there, other=0.0)
    inv = tl.load(inverse + row, mask=there, other=0.0)
    one = tl.load(totals + row, mask=there, other=0.0) / count
    two = tl.load(totals + T.to(tl.int64) * STRIDE + row, mask=there, other=0.0) / count * inv * inv
    at = (t * rows + r[:, None]) * STRIDE + c[None, :]
    inside = (r < rows)[:, None] & there[None, :]
    given = inside & (c < STRIDE_G)[None, :]
    g = tl.load(grad + (t * rows + r[:, None]) * STRIDE_G + c[None, :], mask=given, other=0.0).to(tl.float32)
    x = tl.load(current + at, mask=inside, other=0).to(tl.float32) * (1.0 / QUOTIENT)
    dx = factor[None, :] * (g - one[None, :] - (x - middle[None, :]) * two[None, :])
    tl.store(out + at, dx.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _normalize_kernel(
    current, mean, scale, shift, out, rows, norm_step,
    CHANNELS: tl.constexpr, STRIDE: tl.constexpr, R_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr,
):  # fmt: skip
    """out[t, r, c] = (current[t, r, c] - mean) * scale + shift, without the current's padding, rounded at each step."""
    t = tl.program_id(1).to(tl.int64)
    r = tl.program_id(0) * R_BLOCK + tl.arange(0, R_BLOCK)
    c = tl.program_id(2) * C_BLOCK + tl.arange(0, C_BLOCK)
    there = c < CHANNELS
    middle = tl.load(mean + t * norm_step + c, mask=there, other=0.0)[None, :]
    factor = tl.load(scale + t * norm_step + c, mask=there, other=0.0)[None, :]
    offset = tl.load(shift + c, mask=there, other=0.0)[None, :]
    inside = (r < rows)[:, None] & there[None, :]
    row = t * rows + r[:, None]
    x = tl.load(current + row * STRIDE + c[None, :], mask=inside, other=0).to(tl.float32)
    tl.store(out + row * CHANNELS + c[None, :], (x - middle) * factor + offset, mask=inside)
