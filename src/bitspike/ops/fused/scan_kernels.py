"""The scan of hidden layers in Triton: the membrane in registers, spikes out as bits, the current taken as it comes.

A program holds BLOCK words of 32 neurons; neuron i of a step is (b, y, x, channel), channels last. The order of
operations is that of `lif`, each rounded: launched without fused multiply-adds, spikes are the reference's. While four
steps are computed the next eight are being read, since nothing else hides the memory's latency where neurons are few.
"""

from __future__ import annotations

import triton
import triton.language as tl

from bitspike.ops.dropout import ROUNDS as _ROUNDS

ROUNDS = tl.constexpr(_ROUNDS)


@triton.jit
def _read(x, t, T, i, real, total):
    """Row t of `x [T, total]`; the row's address is one number for all neurons, their offsets have 32 bits."""
    return tl.load((x + t * total) + i, mask=real & (t < T), other=0.0)


@triton.jit
def _current(
    raw, mean, scale, draw, shift, bias, below, keep,
    QUOTIENT: tl.constexpr, NORM: tl.constexpr, BIAS: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """raw / QUOTIENT, normalized, plus bias, dropped out: what enters the neuron."""
    x = raw.to(tl.float32)
    if QUOTIENT > 1:
        x = x * (1.0 / QUOTIENT) if (QUOTIENT & (QUOTIENT - 1)) == 0 else tl.div_rn(x, QUOTIENT * 1.0)
    if NORM:
        x = (x - mean) * scale + shift
    if BIAS:
        x = x + bias
    if DROP:
        x = tl.where(draw >= below, x * keep, 0.0)
    return x


@triton.jit
def _surrogate(u, center, slope):
    """1 / (1 + slope * |center - u|)**2, by one reciprocal root."""
    root = tl.rsqrt(1.0 + slope * tl.abs(center - u))
    inverse = root * root
    return inverse * inverse


@triton.jit
def _fwd_step(
    u, reset, x, t, T, i, word, lane, inside, total, bits, surrogate, beta, theta, center, slope, SAVE: tl.constexpr
):
    """One step of Eq. 1-2, its spikes stored as bits and, for backward, its surrogate gradient.

    reset is theta * z, which is theta or 0 exactly.
    """
    u = (beta * u + x) - reset
    fired = u >= theta
    packed = tl.sum(tl.where(fired, 1 << lane, 0), axis=1)
    tl.store((bits + t * (total // 32)) + word, packed, mask=(word * 32 < total) & (t < T))
    if SAVE:
        s = _surrogate(u, center, slope)
        tl.store((surrogate + t * total) + i, s.to(surrogate.dtype.element_ty), mask=inside & (t < T))
    return u, tl.where(fired, theta, 0.0)


@triton.jit(do_not_specialize=["T", "norm_step", "below"])
def _scan_fwd_kernel(
    current, bits, surrogate, mean, scale, shift, bias, key, beta, theta, center, slope, T, total,
    norm_step, below, keep,
    NEURONS: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, LAYER: tl.constexpr, QUOTIENT: tl.constexpr,
    STATIC: tl.constexpr, NORM: tl.constexpr, BIAS: tl.constexpr, DROP: tl.constexpr, SAVE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """bits[t] from the current of step t; STATIC: from the one current `[B, C, H, W]` of all steps."""
    total = tl.full([], 0, tl.int64) + total  # t * total may pass 2**31
    lane = tl.arange(0, 32)[None, :]
    word = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = word[:, None] * 32 + lane
    inside = i < total
    n, b = i % NEURONS, i // NEURONS
    c = n % STRIDE
    real = inside & (c < CHANNELS)
    beta, theta, center = tl.load(beta), tl.load(theta), tl.load(center)
    here = b * CHANNELS + c
    shifts = tl.load(shift + c, mask=real, other=0.0) if NORM else 0.0
    biases = tl.load(bias + c, mask=real, other=0.0) if BIAS else 0.0
    seed = tl.load(key) if DROP else 0
    u = tl.zeros([BLOCK, 32], tl.float32)
    reset = tl.zeros([BLOCK, 32], tl.float32)
    if STATIC:
        places: tl.constexpr = NEURONS // STRIDE
        f0 = tl.load(current + here * places + n // STRIDE, mask=real, other=0.0)
        f1, f2, f3 = f0, f0, f0
    else:  # what the next four steps read, and the four after them
        f0, f1 = _read(current, 0, T, i, real, total), _read(current, 1, T, i, real, total)
        f2, f3 = _read(current, 2, T, i, real, total), _read(current, 3, T, i, real, total)
        h0, h1 = _read(current, 4, T, i, real, total), _read(current, 5, T, i, real, total)
        h2, h3 = _read(current, 6, T, i, real, total), _read(current, 7, T, i, real, total)
    if NORM:
        m0, m1 = _read(mean, 0, T, c, real, norm_step), _read(mean, 1, T, c, real, norm_step)
        m2, m3 = _read(mean, 2, T, c, real, norm_step), _read(mean, 3, T, c, real, norm_step)
        k0, k1 = _read(scale, 0, T, c, real, norm_step), _read(scale, 1, T, c, real, norm_step)
        k2, k3 = _read(scale, 2, T, c, real, norm_step), _read(scale, 3, T, c, real, norm_step)
    for t in range(0, T, 4):
        a0, a1, a2, a3 = f0, f1, f2, f3
        p0, p1, p2, p3 = 0.0, 0.0, 0.0, 0.0
        q0, q1, q2, q3 = 0.0, 0.0, 0.0, 0.0
        d0, d1, d2, d3 = 0, 0, 0, 0
        if not STATIC:
            f0, f1, f2, f3 = h0, h1, h2, h3
            h0, h1 = _read(current, t + 8, T, i, real, total), _read(current, t + 9, T, i, real, total)
            h2, h3 = _read(current, t + 10, T, i, real, total), _read(current, t + 11, T, i, real, total)
        if NORM:
            p0, p1, p2, p3 = m0, m1, m2, m3
            q0, q1, q2, q3 = k0, k1, k2, k3
            m0, m1 = _read(mean, t + 4, T, c, real, norm_step), _read(mean, t + 5, T, c, real, norm_step)
            m2, m3 = _read(mean, t + 6, T, c, real, norm_step), _read(mean, t + 7, T, c, real, norm_step)
            k0, k1 = _read(scale, t + 4, T, c, real, norm_step), _read(scale, t + 5, T, c, real, norm_step)
            k2, k3 = _read(scale, t + 6, T, c, real, norm_step), _read(scale, t + 7, T, c, real, norm_step)
        if DROP:
            d0, d1, d2, d3 = tl.philox(seed, here, t // 4, LAYER, 0, ROUNDS)
        x = _current(a0, p0, q0, d0, shifts, biases, below, keep, QUOTIENT, NORM, BIAS, DROP)
        u, reset = _fwd_step(
            u, reset, x, t, T, i, word, lane, inside, total, bits, surrogate, beta, theta, center, slope, SAVE
        )
        x = _current(a1, p1, q1, d1, shifts, biases, below, keep, QUOTIENT, NORM, BIAS, DROP)
        u, reset = _fwd_step(
            u, reset, x, t + 1, T, i, word, lane, inside, total, bits, surrogate, beta, theta, center, slope, SAVE
        )
        x = _current(a2, p2, q2, d2, shifts, biases, below, keep, QUOTIENT, NORM, BIAS, DROP)
        u, reset = _fwd_step(
            u, reset, x, t + 2, T, i, word, lane, inside, total, bits, surrogate, beta, theta, center, slope, SAVE
        )
        x = _current(a3, p3, q3, d3, shifts, biases, below, keep, QUOTIENT, NORM, BIAS, DROP)
        u, reset = _fwd_step(
            u, reset, x, t + 3, T, i, word, lane, inside, total, bits, surrogate, beta, theta, center, slope, SAVE
        )


@triton.jit(do_not_specialize=["T"])
def _count_kernel(bits, counts, T, total, BLOCK: tl.constexpr, T_BLOCK: tl.constexpr):
    """counts[i] = sum over t of bit i of bits[t]: spikes of each neuron for each sample."""
    total = tl.full([], 0, tl.int64) + total
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    count = tl.zeros([T_BLOCK, BLOCK], tl.int32)
    for begin in range(0, T, T_BLOCK):
        t = begin + tl.arange(0, T_BLOCK)[:, None]
        word = tl.load(bits + t * (total // 32) + i // 32, mask=(t < T) & (i < total), other=0)
        count += (word >> (i % 32)) & 1
    whole = tl.sum(count, axis=0)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(counts + i, whole.to(tl.float32), mask=i < total)


@triton.jit
def _bwd_step(g, gz, s, draw, t, T, i, inside, total, out, whole, beta, below, keep, DROP: tl.constexpr):
    """g[t] = gz[t] * s(u[t]) + beta * g[t+1], through the dropout, into out."""
    g = gz.to(tl.float32) * s.to(tl.float32) + beta * g
    grad = g
    if DROP:
        grad = tl.where(draw >= below, g * keep, 0.0)
    tl.store((out + t * total) + i, grad.to(out.dtype.element_ty), mask=inside & (t < T))
    return g, whole + grad


@triton.jit(do_not_specialize=["T", "below"])
def _scan_bwd_kernel(
    grad, surrogate, out, sums, key, beta, T, total, below, keep,
    NEURONS: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, LAYER: tl.constexpr,
    DROP: tl.constexpr, SUM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[t], the gradient of the normalized (or plain) current, from that of the spikes; sums: its sum over time."""
    total = tl.full([], 0, tl.int64) + total
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    n, b = i % NEURONS, i // NEURONS
    here = b * CHANNELS + n % STRIDE
    beta = tl.load(beta)
    seed = tl.load(key) if DROP else 0
    g = tl.zeros([BLOCK], tl.float32)
    whole = tl.zeros([BLOCK], tl.float32)
    last = (T - 1) // 4 * 4
    early = inside & (last >= 4)
    z0, z1 = _read(grad, last, T, i, inside, total), _read(grad, last + 1, T, i, inside, total)
    z2, z3 = _read(grad, last + 2, T, i, inside, total), _read(grad, last + 3, T, i, inside, total)
    s0, s1 = _read(surrogate, last, T, i, inside, total), _read(surrogate, last + 1, T, i, inside, total)
    s2, s3 = _read(surrogate, last + 2, T, i, inside, total), _read(surrogate, last + 3, T, i, inside, total)
    y0, y1 = _read(grad, last - 4, T, i, early, total), _read(grad, last - 3, T, i, early, total)
    y2, y3 = _read(grad, last - 2, T, i, early, total), _read(grad, last - 1, T, i, early, total)
    r0, r1 = _read(surrogate, last - 4, T, i, early, total), _read(surrogate, last - 3, T, i, early, total)
    r2, r3 = _read(surrogate, last - 2, T, i, early, total), _read(surrogate, last - 1, T, i, early, total)
    for back in range(0, T, 4):
        t = last - back
        a0, a1, a2, a3 = z0, z1, z2, z3
        b0, b1, b2, b3 = s0, s1, s2, s3
        z0, z1, z2, z3 = y0, y1, y2, y3
        s0, s1, s2, s3 = r0, r1, r2, r3
        more = inside & (t >= 8)
        y0, y1 = _read(grad, t - 8, T, i, more, total), _read(grad, t - 7, T, i, more, total)
        y2, y3 = _read(grad, t - 6, T, i, more, total), _read(grad, t - 5, T, i, more, total)
        r0, r1 = _read(surrogate, t - 8, T, i, more, total), _read(surrogate, t - 7, T, i, more, total)
        r2, r3 = _read(surrogate, t - 6, T, i, more, total), _read(surrogate, t - 5, T, i, more, total)
        d0, d1, d2, d3 = 0, 0, 0, 0
        if DROP:
            d0, d1, d2, d3 = tl.philox(seed, here, t // 4, LAYER, 0, ROUNDS)
        g, whole = _bwd_step(g, a3, b3, d3, t + 3, T, i, inside, total, out, whole, beta, below, keep, DROP)
        g, whole = _bwd_step(g, a2, b2, d2, t + 2, T, i, inside, total, out, whole, beta, below, keep, DROP)
        g, whole = _bwd_step(g, a1, b1, d1, t + 1, T, i, inside, total, out, whole, beta, below, keep, DROP)
        g, whole = _bwd_step(g, a0, b0, d0, t, T, i, inside, total, out, whole, beta, below, keep, DROP)
    if SUM:
        tl.store(sums + i, whole, mask=inside)


@triton.jit
def _static_step(
    u, reset, reach, acc, raw, gz, draw, beta, theta, center, slope, below, keep, DROP: tl.constexpr
):
    """One step forward again; `reach` is how much of the constant current is in u."""
    x = raw
    share = 1.0
    if DROP:
        x = tl.where(draw >= below, raw * keep, 0.0)
        share = tl.where(draw >= below, keep, 0.0)
    u = (beta * u + x) - reset
    reach = beta * reach + share
    return u, tl.where(u >= theta, theta, 0.0), reach, acc + gz.to(tl.float32) * _surrogate(u, center, slope) * reach


@triton.jit(do_not_specialize=["T", "below"])
def _static_bwd_kernel(
    current, grad, out, key, beta, theta, center, slope, T, total, below, keep,
    NEURONS: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, LAYER: tl.constexpr,
    DROP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient `[B, C, H, W]` of a current that is constant in time; nothing of the forward pass was kept.

    sum_t g[t] = sum_s gz[s] * s(u[s]) * (1 + beta + ... + beta**s): it can be added up forward, while u is made again.
    """
    total = tl.full([], 0, tl.int64) + total
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    n, b = i % NEURONS, i // NEURONS
    c = n % STRIDE
    real = inside & (c < CHANNELS)
    here = b * CHANNELS + c
    beta, theta, center = tl.load(beta), tl.load(theta), tl.load(center)
    seed = tl.load(key) if DROP else 0
    places: tl.constexpr = NEURONS // STRIDE
    at = (b * CHANNELS + c) * places + n // STRIDE
    raw = tl.load(current + at, mask=real, other=0.0)
    u = tl.zeros([BLOCK], tl.float32)
    reset = tl.zeros([BLOCK], tl.float32)
    reach = tl.zeros([BLOCK], tl.float32)
    acc = tl.zeros([BLOCK], tl.float32)
    z0, z1 = _read(grad, 0, T, i, real, total), _read(grad, 1, T, i, real, total)
    z2, z3 = _read(grad, 2, T, i, real, total), _read(grad, 3, T, i, real, total)
    for t in range(0, T, 4):
        a0, a1, a2, a3 = z0, z1, z2, z3
        z0, z1 = _read(grad, t + 4, T, i, real, total), _read(grad, t + 5, T, i, real, total)
        z2, z3 = _read(grad, t + 6, T, i, real, total), _read(grad, t + 7, T, i, real, total)
        d0, d1, d2, d3 = 0, 0, 0, 0
        if DROP:
            d0, d1, d2, d3 = tl.philox(seed, here, t // 4, LAYER, 0, ROUNDS)
        # a step beyond T has a gradient of 0 and adds nothing
        u, reset, reach, acc = _static_step(u, reset, reach, acc, raw, a0, d0, beta, theta, center, slope, below, keep, DROP)
        u, reset, reach, acc = _static_step(u, reset, reach, acc, raw, a1, d1, beta, theta, center, slope, below, keep, DROP)
        u, reset, reach, acc = _static_step(u, reset, reach, acc, raw, a2, d2, beta, theta, center, slope, below, keep, DROP)
        u, reset, reach, acc = _static_step(u, reset, reach, acc, raw, a3, d3, beta, theta, center, slope, below, keep, DROP)
    tl.store(out + at, acc, mask=real)
