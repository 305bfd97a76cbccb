"""The backward pass of a plain batch norm `[B, C, H, W]` in Triton, for a current that is constant in time."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["count"])
def _sums_kernel(
    grad, current, sums, count, share,
    CHANNELS: tl.constexpr, PLACES: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """sums[4, part, c] of x, x*x, g and g*x over a part of a channel of `[B, C, H, W]`, x counted from its first value.

    Values are counted from the first one because the squares of large values would hide a small variance.
    """
    c, part = tl.program_id(0), tl.program_id(1)
    origin = tl.load(current + c * PLACES)
    sum_x = tl.zeros([BLOCK], tl.float32)
    sum_xx = tl.zeros([BLOCK], tl.float32)
    sum_g = tl.zeros([BLOCK], tl.float32)
    sum_gx = tl.zeros([BLOCK], tl.float32)
    for begin in range(0, share, BLOCK):
        e = (begin + tl.arange(0, BLOCK)).to(tl.int64)
        inside = e < share
        e += part * share
        inside = inside & (e < count)
        at = ((e // PLACES) * CHANNELS + c) * PLACES + e % PLACES
        x = tl.where(inside, tl.load(current + at, mask=inside, other=0.0) - origin, 0.0)
        g = tl.load(grad + at, mask=inside, other=0.0)
        sum_x += x
        sum_xx += x * x
        sum_g += g
        sum_gx += g * x
    out = sums + part * CHANNELS + c
    tl.store(out, tl.sum(sum_x, axis=0))
    tl.store(out + PARTS * CHANNELS, tl.sum(sum_xx, axis=0))
    tl.store(out + 2 * PARTS * CHANNELS, tl.sum(sum_g, axis=0))
    tl.store(out + 3 * PARTS * CHANNELS, tl.sum(sum_gx, axis=0))


@triton.jit(do_not_specialize=["count"])
def _apply_kernel(
    grad, current, weight, sums, out, weight_grad, bias_grad, count, eps,
    CHANNELS: tl.constexpr, PLACES: tl.constexpr, PARTS: tl.constexpr,
    P_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Run batch norm's backward pass for `[B, C, H, W]`: out as rows `[B * H * W, C]`, and its parameters' gradients.

    The mean, too, is counted from the channel's first value.
    """
    c = tl.arange(0, C_BLOCK)
    part = tl.arange(0, P_BLOCK)
    known = (part < PARTS)[:, None] & (c < CHANNELS)[None, :]
    at = sums + part[:, None] * CHANNELS + c[None, :]
    n = count.to(tl.float64)
    mean = tl.sum(tl.load(at, mask=known, other=0.0).to(tl.float64), axis=0) / n
    square = tl.sum(tl.load(at + PARTS * CHANNELS, mask=known, other=0.0).to(tl.float64), axis=0) / n
    g_mean = tl.sum(tl.load(at + 2 * PARTS * CHANNELS, mask=known, other=0.0).to(tl.float64), axis=0) / n
    gx_mean = (
        tl.sum(tl.load(at + 3 * PARTS * CHANNELS, mask=known, other=0.0).to(tl.float64), axis=0) / n - g_mean * mean
    )
    inverse = 1.0 / tl.sqrt(tl.maximum(square - mean * mean, 0.0) + eps)
    if tl.program_id(0) == 0:
        tl.store(weight_grad + c, (gx_mean * inverse * n).to(tl.float32), mask=c < CHANNELS)
        tl.store(bias_grad + c, (g_mean * n).to(tl.float32), mask=c < CHANNELS)
    slant = (gx_mean * inverse * inverse).to(tl.float32)[None, :]
    factor = (tl.load(weight + c, mask=c < CHANNELS, other=0.0) * inverse.to(tl.float32))[None, :]
    e = (tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK))[:, None]
    inside = (e < count) & (c < CHANNELS)[None, :]
    from_ = ((e // PLACES) * CHANNELS + c[None, :]) * PLACES + e % PLACES
    origin = tl.load(current + c * PLACES, mask=c < CHANNELS, other=0.0)[None, :]
    x = (tl.load(current + from_, mask=inside, other=0.0) - origin) - mean.to(tl.float32)[None, :]
    g = tl.load(grad + from_, mask=inside, other=0.0) - g_mean.to(tl.float32)[None, :]
    tl.store(out + e * CHANNELS + c[None, :], factor * (g - x * slant), mask=inside)
