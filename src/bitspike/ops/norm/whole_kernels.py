"""Batch norm of whole-number currents in Triton: sums per step and channel are exact in any order."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit
def _sums_kernel(
    current, sums, rows, share, STRIDE: tl.constexpr, PARTS: tl.constexpr, R_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr
):
    """sums[0 and 1, t, part, c]: the current and its square over a part of the rows `[T, rows, STRIDE]`, in float64."""
    t, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.program_id(2) * C_BLOCK + tl.arange(0, C_BLOCK)
    one = tl.zeros([R_BLOCK, C_BLOCK], tl.int64)
    two = tl.zeros([R_BLOCK, C_BLOCK], tl.int64)
    for begin in tl.range(0, share, R_BLOCK, num_stages=3):
        r = part * share + begin + tl.arange(0, R_BLOCK)
        inside = ((begin + tl.arange(0, R_BLOCK) < share) & (r < rows))[:, None] & (c < STRIDE)[None, :]
        x = tl.load(current + (t * rows + r[:, None]) * STRIDE + c[None, :], mask=inside, other=0).to(tl.int32)
        one += x
        if current.dtype.element_ty == tl.int16:  # below 2**30
            two += x * x
        else:
            two += x.to(tl.int64) * x
    at = (t * PARTS + part) * STRIDE + c
    tl.store(sums + at, tl.sum(one, axis=0).to(tl.float64), mask=c < STRIDE)
    size = tl.num_programs(0).to(tl.int64) * PARTS * STRIDE
    tl.store(sums + size + at, tl.sum(two, axis=0).to(tl.float64), mask=c < STRIDE)


@triton.jit(do_not_specialize=["T", "count"])
def _finish_kernel(
    sums, weight, running_mean, running_var, mean, scale, inverse, T, count, momentum, eps,
    QUOTIENT: tl.constexpr, CHANNELS: tl.constexpr, STRIDE: tl.constexpr, PARTS: tl.constexpr, SHARED: tl.constexpr,
    TRACK: tl.constexpr, T_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr,
):  # fmt: skip
    """mean, scale = weight / sqrt(var + eps) and inverse = 1 / sqrt(var + eps), `[T, STRIDE]`; running averages moved.

    T moves by `momentum` are one weighted sum; SHARED pools the statistics over time, and moves once.
    """
    c = tl.program_id(0) * C_BLOCK + tl.arange(0, C_BLOCK)
    real = c < CHANNELS
    gamma = tl.load(weight + c, mask=real, other=0.0)
    size = T.to(tl.int64) * PARTS * STRIDE
    pooled_one = tl.zeros([C_BLOCK], tl.float64)
    pooled_two = tl.zeros([C_BLOCK], tl.float64)
    if SHARED:
        for begin in range(0, T, T_BLOCK):
            t = begin + tl.arange(0, T_BLOCK)
            known = (t < T)[:, None] & real[None, :]
            for part in tl.static_range(PARTS):
                at = (t[:, None] * PARTS + part) * STRIDE + c[None, :]
                pooled_one += tl.sum(tl.load(sums + at, mask=known, other=0.0), axis=0)
                pooled_two += tl.sum(tl.load(sums + size + at, mask=known, other=0.0), axis=0)
    moved_mean = tl.zeros([C_BLOCK], tl.float32)
    moved_var = tl.zeros([C_BLOCK], tl.float32)
    n = count.to(tl.float64)
    for begin in range(0, T, T_BLOCK):
        t = begin + tl.arange(0, T_BLOCK)
        known = (t < T)[:, None] & real[None, :]
        one = tl.zeros([T_BLOCK, C_BLOCK], tl.float64)
        two = tl.zeros([T_BLOCK, C_BLOCK], tl.float64)
        if SHARED:
            one += pooled_one[None, :]
            two += pooled_two[None, :]
        else:
            for part in tl.static_range(PARTS):
                at = (t[:, None] * PARTS + part) * STRIDE + c[None, :]
                one += tl.load(sums + at, mask=known, other=0.0)
                two += tl.load(sums + size + at, mask=known, other=0.0)
        middle = one / n
        var = (two / n - middle * middle) / (QUOTIENT * QUOTIENT)
        var = tl.maximum(var, 0.0)
        middle = (middle / QUOTIENT).to(tl.float32)
        inv = (1.0 / tl.sqrt(var + eps)).to(tl.float32)
        at = t[:, None] * STRIDE + c[None, :]
        writes = (t < T)[:, None] & (c < STRIDE)[None, :]
        tl.store(mean + at, middle, mask=writes)
        tl.store(inverse + at, inv, mask=writes)
        tl.store(scale + at, gamma[None, :] * inv, mask=writes)
        if TRACK:
            last = T - 1 if SHARED else t  # pooled statistics move the averages once
            share = momentum * tl.exp2((T - 1 - last).to(tl.float32) * tl.log2(1.0 - momentum))
            share = tl.where((t < T) & ((t == T - 1) | (not SHARED)), share, 0.0)
            unbiased = (var * (n / tl.maximum(n - 1.0, 1.0))).to(tl.float32)
            moved_mean += tl.sum(share[:, None] * middle, axis=0)
            moved_var += tl.sum(share[:, None] * unbiased, axis=0)
    if TRACK:
        moves = 1.0 if SHARED else T.to(tl.float32)
        kept = tl.exp2(moves * tl.log2(1.0 - momentum))
        old_mean = tl.load(running_mean + c, mask=real, other=0.0)
        old_var = tl.load(running_var + c, mask=real, other=0.0)
        tl.store(running_mean + c, old_mean * kept + moved_mean, mask=real)
        tl.store(running_var + c, old_var * kept + moved_var, mask=real)


@triton.jit
def _grad_sums_kernel(
    grad, current, mean, sums, rows, share,
    QUOTIENT: tl.constexpr, STRIDE: tl.constexpr, PARTS: tl.constexpr, R_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr,
):  # fmt: skip
    """sums[0, t, part, c] of the gradient, sums[1, ...] of the gradient times the centred current."""
    t, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    c = tl.program_id(2) * C_BLOCK + tl.arange(0, C_BLOCK)
    middle = tl.load(mean + t * STRIDE + c, mask=c < STRIDE, other=0.0)
    one = tl.zeros([R_BLOCK, C_BLOCK], tl.float32)
    two = tl.zeros([R_BLOCK, C_BLOCK], tl.float32)
    for begin in tl.range(0, share, R_BLOCK, num_stages=3):
        r = part * share + begin + tl.arange(0, R_BLOCK)
        inside = ((begin + tl.arange(0, R_BLOCK) < share) & (r < rows))[:, None] & (c < STRIDE)[None, :]
        at = (t * rows + r[:, None]) * STRIDE + c[None, :]
        g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(current + at, mask=inside, other=0).to(tl.float32) * (1.0 / QUOTIENT)
        one += g
        two += g * (x - middle[None, :])
    at = (t * PARTS + part) * STRIDE + c
    tl.store(sums + at, tl.sum(one, axis=0), mask=c < STRIDE)
    tl.store(sums + tl.num_programs(0).to(tl.int64) * PARTS * STRIDE + at, tl.sum(two, axis=0), mask=c < STRIDE)


@triton.jit(do_not_specialize=["T"])
def _gather_kernel(
    sums, inverse, totals, weight_grad, bias_grad, T,
    CHANNELS: tl.constexpr, STRIDE: tl.constexpr, PARTS: tl.constexpr, SHARED: tl.constexpr,
    T_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr,
):  # fmt: skip
    """totals[0 and 1, t, c]: the sums over parts (SHARED: and over time); the gradients of batch norm's parameters."""
    c = tl.program_id(0) * C_BLOCK + tl.arange(0, C_BLOCK)
    size = T.to(tl.int64) * PARTS * STRIDE
    of_bias = tl.zeros([C_BLOCK], tl.float32)
    of_weight = tl.zeros([C_BLOCK], tl.float32)
    pooled = tl.zeros([C_BLOCK], tl.float32)
    for begin in range(0, T, T_BLOCK):
        t = begin + tl.arange(0, T_BLOCK)
        known = (t < T)[:, None] & (c < STRIDE)[None, :]
        one = tl.zeros([T_BLOCK, C_BLOCK], tl.float32)
        two = tl.zeros([T_BLOCK, C_BLOCK], tl.float32)
        for part in tl.static_range(PARTS):
            at = (t[:, None] * PARTS + part) * STRIDE + c[None, :]
            one += tl.load(sums + at, mask=known, other=0.0)
            two += tl.load(sums + size + at, mask=known, other=0.0)
        inv = tl.load(inverse + t[:, None] * STRIDE + c[None, :], mask=known, other=0.0)
        of_bias += tl.sum(one, axis=0)
        of_weight += tl.sum(two * inv, axis=0)
        pooled += tl.sum(two, axis=0)
        if not SHARED:
            tl.store(totals + t[:, None] * STRIDE + c[None, :], one, mask=known)
            tl.store(totals + T.to(tl.int64) * STRIDE + t[:, None] * STRIDE + c[None, :], two, mask=known)
    if SHARED:
        for begin in range(0, T, T_BLOCK):
            t = begin + tl.arange(0, T_BLOCK)
            known = (t < T)[:, None] & (c < STRIDE)[None, :]
            nothing = tl.zeros([T_BLOCK, C_BLOCK], tl.float32)
            tl.store(totals + t[:, None] * STRIDE + c[None, :], nothing + of_bias[None, :], mask=known)
            at = T.to(tl.int64) * STRIDE + t[:, None] * STRIDE + c[None, :]
            tl.store(totals + at, nothing + pooled[None, :], mask=known)
    tl.store(weight_grad + c, of_weight, mask=c < CHANNELS)
    tl.store(bias_grad + c, of_bias, mask=c < CHANNELS)


@triton.jit(do_not_specialize=["T", "count"])
def _apply_kernel(
    grad, current, mean, scale, inverse, totals, out, rows, count, T,
    QUOTIENT: tl.constexpr, STRIDE: tl.constexpr, R_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr,
):  # fmt: skip
    """out = scale * (grad - mean of grad - centred * inverse**2 * mean of grad * centred): the current's gradient."""
    t = tl.program_id(1).to(tl.int64)
    r = tl.program_id(0) * R_BLOCK + tl.arange(0, R_BLOCK)
    c = tl.program_id(2) * C_BLOCK + tl.arange(0, C_BLOCK)
    row = t * STRIDE + c
    there = c < STRIDE
    middle = tl.load(mean + row, mask=there, other=0.0)
    factor = tl.load(scale + row, mask=there, other=0.0)
    inv = tl.load(inverse + row, mask=there, other=0.0)
    one = tl.load(totals + row, mask=there, other=0.0) / count
    two = tl.load(totals + T.to(tl.int64) * STRIDE + row, mask=there, other=0.0) / count * inv * inv
    at = (t * rows + r[:, None]) * STRIDE + c[None, :]
    inside = (r < rows)[:, None] & there[None, :]
    g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(current + at, mask=inside, other=0).to(tl.float32) * (1.0 / QUOTIENT)
    dx = factor[None, :] * (g - one[None, :] - (x - middle[None, :]) * two[None, :])
    tl.store(out + at, dx.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["count"])
def _plain_sums_kernel(
    grad, current, sums, count, share,
    CHANNELS: tl.constexpr, PLACES: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """sums[4, part, c] of x, x*x, g and g*x over a part of a channel of `[B, C, H, W]`, x counted from its first value.

    From there, because the squares of values far from 0 would drown their spread.
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
def _plain_apply_kernel(
    grad, current, weight, sums, out, weight_grad, bias_grad, count, eps,
    CHANNELS: tl.constexpr, PLACES: tl.constexpr, PARTS: tl.constexpr,
    P_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Batch norm's backward pass for `[B, C, H, W]`, out as rows `[B * H * W, C]`; the gradients of its parameters.

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
