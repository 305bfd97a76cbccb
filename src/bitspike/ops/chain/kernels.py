"""The scan of hidden layers in Triton: the membrane stays in registers, spikes are written as bits.

A forward program holds BLOCK words of 32 neurons; neuron i of a step is (b, y, x, channel), channels last. The order of
operations is that of `lif`, each rounded: launched without fused multiply-adds, spikes are the reference's. Time goes
in rounds of four steps (which share a draw of the dropout); while one is computed the next two are being read, since
nothing else hides the memory's latency where neurons are few.
"""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl

from bitspike.ops.dropout.reference import ROUNDS as _ROUNDS
from bitspike.ops.lif.kernels_surrogate import _surrogate

ROUNDS = tl.constexpr(_ROUNDS)


@triton.jit
def _rows(x, t, T, i, real, total):
    """Return rows t..t+3 of `x [T, total]`; a row has one address, and its neurons have offsets of 32 bits."""
    rows = ()
    for k in tl.static_range(4):
        rows += (tl.load((x + (t + k) * total) + i, mask=real & (t + k >= 0) & (t + k < T), other=0.0),)
    return rows


@triton.jit
def _current(
    raw, mean, scale, draw, shift, bias, below, keep,
    QUOTIENT: tl.constexpr, NORM: tl.constexpr, BIAS: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Return the current that enters the neuron: raw / QUOTIENT, normalized, plus bias, after dropout."""
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


@triton.jit(do_not_specialize=["T", "norm_step", "below"])
def _scan_fwd_kernel(
    current, bits, surrogate, mean, scale, shift, bias, key, beta, theta, center, slope, T, total,
    norm_step, below, keep,
    NEURONS: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, LAYER: tl.constexpr, QUOTIENT: tl.constexpr,
    STATIC: tl.constexpr, NORM: tl.constexpr, BIAS: tl.constexpr, DROP: tl.constexpr, SAVE: tl.constexpr,
    SURROGATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute bits[t] from the current of step t; STATIC: from one current `[B, C, H, W]` for all steps."""
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
    shift = tl.load(shift + c, mask=real, other=0.0) if NORM else 0.0
    bias = tl.load(bias + c, mask=real, other=0.0) if BIAS else 0.0
    seed = tl.load(key) if DROP else 0
    if STATIC:
        constant = tl.load(current + here * (NEURONS // STRIDE) + n // STRIDE, mask=real, other=0.0)
        near = (constant, constant, constant, constant)
        far = near
    else:
        near = _rows(current, 0, T, i, real, total)
        far = _rows(current, 4, T, i, real, total)
    means = _rows(mean, 0, T, c, real, norm_step) if NORM else (0.0, 0.0, 0.0, 0.0)
    scales = _rows(scale, 0, T, c, real, norm_step) if NORM else (0.0, 0.0, 0.0, 0.0)
    u = tl.zeros([BLOCK, 32], tl.float32)
    reset = tl.zeros([BLOCK, 32], tl.float32)  # theta * z, which is theta or 0 exactly
    for t in range(0, T, 4):
        farther = near if STATIC else _rows(current, t + 8, T, i, real, total)
        next_means = _rows(mean, t + 4, T, c, real, norm_step) if NORM else means
        next_scales = _rows(scale, t + 4, T, c, real, norm_step) if NORM else scales
        draws = tl.philox(seed, here, t // 4, LAYER, 0, ROUNDS) if DROP else (0, 0, 0, 0)
        for k in tl.static_range(4):
            x = _current(
                near[k], means[k], scales[k], draws[k], shift, bias, below, keep, QUOTIENT, NORM, BIAS, DROP
            )  # fmt: skip
            u = (beta * u + x) - reset
            fired = u >= theta
            reset = tl.where(fired, theta, 0.0)
            packed = tl.sum(tl.where(fired, 1 << lane, 0), axis=1)
            tl.store((bits + (t + k) * (total // 32)) + word, packed, mask=(word * 32 < total) & (t + k < T))
            if SAVE:
                s = _surrogate(u, center, slope, SURROGATE)
                tl.store((surrogate + (t + k) * total) + i, s.to(surrogate.dtype.element_ty), mask=inside & (t + k < T))
        near, far, means, scales = far, farther, next_means, next_scales


@triton.jit(do_not_specialize=["T", "below"])
def _scan_bwd_kernel(
    grad, surrogate, out, sums, key, beta, T, total, below, keep,
    NEURONS: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, LAYER: tl.constexpr,
    DROP: tl.constexpr, SUM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[t] = g[t] through the dropout, with g[t] = grad[t] * surrogate[t] + beta * g[t+1]; sums: out over time."""
    total = tl.full([], 0, tl.int64) + total
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    here = (i // NEURONS) * CHANNELS + (i % NEURONS) % STRIDE
    beta = tl.load(beta)
    seed = tl.load(key) if DROP else 0
    g = tl.zeros([BLOCK], tl.float32)
    whole = tl.zeros([BLOCK], tl.float32)
    last = (T - 1) // 4 * 4
    grads, factors = _rows(grad, last, T, i, inside, total), _rows(surrogate, last, T, i, inside, total)
    far_grads, far_factors = _rows(grad, last - 4, T, i, inside, total), _rows(surrogate, last - 4, T, i, inside, total)
    for back in range(0, T, 4):
        t = last - back
        farther_grads = _rows(grad, t - 8, T, i, inside, total)
        farther_factors = _rows(surrogate, t - 8, T, i, inside, total)
        draws = tl.philox(seed, here, t // 4, LAYER, 0, ROUNDS) if DROP else (0, 0, 0, 0)
        for j in tl.static_range(4):
            g = grads[3 - j].to(tl.float32) * factors[3 - j].to(tl.float32) + beta * g
            value = tl.where(draws[3 - j] >= below, g * keep, 0.0) if DROP else g
            now = t + 3 - j
            tl.store((out + now * total) + i, value.to(out.dtype.element_ty), mask=inside & (now < T))
            whole += value
        grads, factors = far_grads, far_factors
        far_grads, far_factors = farther_grads, farther_factors
    if SUM:
        tl.store(sums + i, whole, mask=inside)


@triton.jit(do_not_specialize=["T", "below"])
def _static_bwd_kernel(
    current, grad, out, key, beta, theta, center, slope, T, total, below, keep,
    NEURONS: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, LAYER: tl.constexpr,
    SURROGATE: tl.constexpr, DROP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out = the gradient `[B, C, H, W]` of a current that is constant in time; the scan is run again for it.

    sum_t g[t] = sum_s gz[s] * s(u[s]) * (1 + beta + ... + beta**s): it can be added up forward, while u is made again.
    """
    total = tl.full([], 0, tl.int64) + total
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    n, b = i % NEURONS, i // NEURONS
    c = n % STRIDE
    real = inside & (c < CHANNELS)
    here = b * CHANNELS + c
    at = here * (NEURONS // STRIDE) + n // STRIDE
    beta, theta, center = tl.load(beta), tl.load(theta), tl.load(center)
    seed = tl.load(key) if DROP else 0
    constant = tl.load(current + at, mask=real, other=0.0)
    u = tl.zeros([BLOCK], tl.float32)
    reset = tl.zeros([BLOCK], tl.float32)
    reach = tl.zeros([BLOCK], tl.float32)  # how much of the constant current is in u
    acc = tl.zeros([BLOCK], tl.float32)
    near = _rows(grad, 0, T, i, real, total)
    far = _rows(grad, 4, T, i, real, total)
    for t in range(0, T, 4):
        farther = _rows(grad, t + 8, T, i, real, total)
        draws = tl.philox(seed, here, t // 4, LAYER, 0, ROUNDS) if DROP else (0, 0, 0, 0)
        for k in tl.static_range(4):  # a step beyond T has a gradient of 0 and adds nothing
            x = tl.where(draws[k] >= below, constant * keep, 0.0) if DROP else constant
            share = tl.where(draws[k] >= below, keep, 0.0) if DROP else 1.0
            u = (beta * u + x) - reset
            reset = tl.where(u >= theta, theta, 0.0)
            reach = beta * reach + share
            acc += near[k].to(tl.float32) * _surrogate(u, center, slope, SURROGATE) * reach
        near, far = far, farther
    tl.store(out + at, acc, mask=real)


@triton.jit(do_not_specialize=["T"])
def _count_kernel(bits, counts, T, total, BLOCK: tl.constexpr, T_BLOCK: tl.constexpr):
    """counts[i] = sum over t of bit i of bits[t]: spikes of each neuron for each sample."""
    total = tl.full([], 0, tl.int64) + total
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    count = tl.zeros([T_BLOCK, BLOCK], tl.int32)
    for begin in range(0, T, T_BLOCK):
        t = begin + tl.arange(0, T_BLOCK)[:, None]
        word = tl.load(bits + t * (total // 32) + (i // 32)[None, :], mask=(t < T) & (i < total)[None, :], other=0)
        count += (word >> (i % 32)[None, :]) & 1
    tl.store(counts + i, tl.sum(count, axis=0).to(tl.float32), mask=i < total)
