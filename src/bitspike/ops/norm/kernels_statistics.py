"""Triton kernels that turn sums into statistics and gradients, for batch norms of integer and of real currents."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["T", "count"])
def _finish_kernel(
    sums, weight, running_mean, running_var, mean, scale, inverse, T, count, momentum, eps,
    QUOTIENT: tl.constexpr, CHANNELS: tl.constexpr, STRIDE: tl.constexpr, PARTS: tl.constexpr, SHARED: tl.constexpr,
    TRACK: tl.constexpr, T_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr,
):  # fmt: skip
    """mean, scale = weight / sqrt(var + eps) and inverse = 1 / sqrt(var + eps), `[T, STRIDE]`; running averages moved.

    T moves by `momentum` are one weighted sum. SHARED pools the statistics over time as if it were one step: one row.
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
    steps = T * 0 + 1 if SHARED else T
    moved_mean = tl.zeros([C_BLOCK], tl.float32)
    moved_var = tl.zeros([C_BLOCK], tl.float32)
    n = count.to(tl.float64)
    for begin in range(0, steps, T_BLOCK):
        t = begin + tl.arange(0, T_BLOCK)
        known = (t < steps)[:, None] & real[None, :]
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
        writes = (t < steps)[:, None] & (c < STRIDE)[None, :]
        tl.store(mean + at, middle, mask=writes)
        tl.store(inverse + at, inv, mask=writes)
        tl.store(scale + at, gamma[None, :] * inv, mask=writes)
        if TRACK:
            share = momentum * tl.exp2((steps - 1 - t).to(tl.float32) * tl.log2(1.0 - momentum))
            share = tl.where(t < steps, share, 0.0)
            unbiased = (var * (n / tl.maximum(n - 1.0, 1.0))).to(tl.float32)
            moved_mean += tl.sum(share[:, None] * middle, axis=0)
            moved_var += tl.sum(share[:, None] * unbiased, axis=0)
    if TRACK:
        kept = tl.exp2(steps.to(tl.float32) * tl.log2(1.0 - momentum))
        old_mean = tl.load(running_mean + c, mask=real, other=0.0)
        old_var = tl.load(running_var + c, mask=real, other=0.0)
        tl.store(running_mean + c, old_mean * kept + moved_mean, mask=real)
        tl.store(running_var + c, old_var * kept + moved_var, mask=real)


@triton.jit(do_not_specialize=["T"])
def _gather_kernel(
    sums, inverse, totals, weight_grad, bias_grad, T,
    CHANNELS: tl.constexpr, STRIDE: tl.constexpr, PARTS: tl.constexpr, SHARED: tl.constexpr,
    T_BLOCK: tl.constexpr, C_BLOCK: tl.constexpr,
):  # fmt: skip
    """totals[0 and 1, t, c] = sums over parts (SHARED: one row, over time too); also the gradients of the parameters.

    `inverse` has the rows of `totals`.
    """
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
        row = t * 0 if SHARED else t
        inv = tl.load(inverse + row[:, None] * STRIDE + c[None, :], mask=known, other=0.0)
        of_bias += tl.sum(one, axis=0)
        of_weight += tl.sum(two * inv, axis=0)
        pooled += tl.sum(two, axis=0)
        if not SHARED:
            tl.store(totals + t[:, None] * STRIDE + c[None, :], one, mask=known)
            tl.store(totals + T.to(tl.int64) * STRIDE + t[:, None] * STRIDE + c[None, :], two, mask=known)
    if SHARED:
        tl.store(totals + c, of_bias, mask=c < STRIDE)
        tl.store(totals + STRIDE + c, pooled, mask=c < STRIDE)
    tl.store(weight_grad + c, of_weight, mask=c < CHANNELS)
    tl.store(bias_grad + c, of_bias, mask=c < CHANNELS)
