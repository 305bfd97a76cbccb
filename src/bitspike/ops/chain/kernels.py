"""The scan of hidden layers in Triton: the membrane stays in registers, spikes are written as bits.

A forward program holds BLOCK words of 32 neurons; neuron i of a step is (b, y, x, channel), channels last. The order of
operations is that of `lif`, each rounded: launched without fused multiply-adds, spikes are the reference's. Time goes
in rounds of four steps (which share a draw of the dropout); while one is computed the next two are being read, since
nothing else hides the memory's latency where neurons are few. Bounds of dropout have one type for all shares, so that
a new share compiles nothing.

Where the next layer's synapse has a delay, a gain or a dropout on spikes (TAPS > 0), the scan filters its own spikes as
they come and writes the rows that the next product takes; the backward scan filters that product's gradient as it reads
it. GAINS is the largest gain, or 0 without gains.
"""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl

from bitspike.ops.dropout.reference import ROUNDS as _ROUNDS
from bitspike.ops.filter.kernels import _added, _added_ramp, _four_earlier, _gain, _nothing, _store_halves, _taps
from bitspike.ops.lif.kernels_surrogate import _surrogate

ROUNDS = tl.constexpr(_ROUNDS)


@triton.jit
def _rows(x, t, T, i, real, total):
    """Return rows t..t+3 of `x [T, total]`; a row has one address, and its neurons have offsets of 32 bits.

    Products are of t alone, here and below: the others do not change in the loop over time.
    """
    rows = ()
    for k in tl.static_range(4):
        rows += (tl.load((x + t * total + k * total) + i, mask=real & (t + k >= 0) & (t + k < T), other=0.0),)
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


@triton.jit(do_not_specialize=["T", "norm_step", "below", "out_below", "first_row"])
def _scan_fwd_kernel(
    current, bits, surrogate, before, rows, mean, scale, shift, bias, key, beta, theta, center, delays, width, gains,
    slope, T, total, norm_step, below: tl.uint32, keep, out_below: tl.uint32, out_keep, first_row,
    NEURONS: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, LAYER: tl.constexpr, QUOTIENT: tl.constexpr,
    STATIC: tl.constexpr, NORM: tl.constexpr, PER_STEP: tl.constexpr, BIAS: tl.constexpr, DROP: tl.constexpr,
    SAVE: tl.constexpr, LEARN: tl.constexpr, PER_NEURON: tl.constexpr, SURROGATE: tl.constexpr,
    TAPS: tl.constexpr, SOFT: tl.constexpr, GAINS: tl.constexpr, HALVES: tl.constexpr, OUT_DROP: tl.constexpr,
    OUT_LAYER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute bits[t] from the current of step t; STATIC: from one current `[B, C, H, W]` for all steps.

    PER_STEP: the batch norm has numbers for each step. With TAPS, rows[t] are the spikes after dropout (OUT_DROP),
    delayed: SOFT, or by whole steps, and times their gain, in HALVES (`_store_halves`). LEARN keeps before[t] = u[t-1],
    which the gradient of beta needs.
    """
    total = tl.full([], 0, tl.int64) + total  # t * total may pass 2**31
    lane = tl.arange(0, 32)[None, :]
    word = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = word[:, None] * 32 + lane
    inside = i < total
    n, b = i % NEURONS, i // NEURONS
    c = n % STRIDE
    real = inside & (c < CHANNELS)
    beta = tl.load(beta + c, mask=real, other=0.0) if PER_NEURON else tl.load(beta)
    theta, center = tl.load(theta), tl.load(center)
    here = (b + first_row) * CHANNELS + c  # of the whole batch, if other processes hold rows before these
    shift = tl.load(shift + c, mask=real, other=0.0) if NORM else 0.0
    bias = tl.load(bias + c, mask=real, other=0.0) if BIAS else 0.0
    seed = tl.load(key) if DROP or OUT_DROP else 0
    gain = _gain(gains + c, real, GAINS) if GAINS else 1.0
    if SOFT:
        taps = _taps(tl.load(delays + c, mask=real, other=0.0), tl.load(width), TAPS)
        ahead = _nothing(taps[0], TAPS)
    elif TAPS > 1:
        delay = tl.load(delays + c, mask=real, other=0).to(tl.int64)
        history = tl.zeros([BLOCK, 32], tl.int64)  # bit k: whether the neuron fired k steps ago
    if STATIC:
        constant = tl.load(current + (b * CHANNELS + c) * (NEURONS // STRIDE) + n // STRIDE, mask=real, other=0.0)
        near = (constant, constant, constant, constant)
        far = near
    else:
        near = _rows(current, 0, T, i, real, total)
        far = _rows(current, 4, T, i, real, total)
    middle = tl.load(mean + c, mask=real, other=0.0) if NORM else 0.0
    factor = tl.load(scale + c, mask=real, other=0.0) if NORM else 0.0
    means = _rows(mean, 0, T, c, real, norm_step) if PER_STEP else (middle, middle, middle, middle)
    scales = _rows(scale, 0, T, c, real, norm_step) if PER_STEP else (factor, factor, factor, factor)
    u = tl.zeros([BLOCK, 32], tl.float32)
    reset = tl.zeros([BLOCK, 32], tl.float32)  # theta * z, which is theta or 0 exactly
    for t in range(0, T, 4):
        farther = near if STATIC else _rows(current, t + 8, T, i, real, total)
        next_means = _rows(mean, t + 4, T, c, real, norm_step) if PER_STEP else means
        next_scales = _rows(scale, t + 4, T, c, real, norm_step) if PER_STEP else scales
        draws = tl.philox(seed, here, t // 4, LAYER, 0, ROUNDS) if DROP else (0, 0, 0, 0)
        out_draws = tl.philox(seed, here, t // 4, OUT_LAYER, 0, ROUNDS) if OUT_DROP else (0, 0, 0, 0)
        for k in tl.static_range(4):
            x = _current(
                near[k], means[k], scales[k], draws[k], shift, bias, below, keep, QUOTIENT, NORM, BIAS, DROP
            )  # fmt: skip
            if LEARN:
                tl.store((before + t * total + k * total) + i, u.to(before.dtype.element_ty), mask=inside & (t + k < T))
            u = (beta * u + x) - reset
            fired = u >= theta
            reset = tl.where(fired, theta, 0.0)
            packed = tl.sum(tl.where(fired, 1 << lane, 0), axis=1)
            tl.store(
                (bits + t * (total // 32) + k * (total // 32)) + word, packed, mask=(word * 32 < total) & (t + k < T)
            )
            if SAVE:
                s = _surrogate(u, center, slope, SURROGATE)
                tl.store(
                    (surrogate + t * total + k * total) + i, s.to(surrogate.dtype.element_ty), mask=inside & (t + k < T)
                )
            if TAPS > 0:
                sent = fired & (out_draws[k] >= out_below) if OUT_DROP else fired
                if SOFT:
                    ahead = _added(ahead, taps, tl.where(sent, out_keep, 0.0), TAPS)
                    row = ahead[0]
                elif TAPS > 1:
                    history = (history << 1) | sent.to(tl.int64)
                    row = tl.where(((history >> delay) & 1) != 0, out_keep, 0.0)
                else:
                    row = tl.where(sent, out_keep, 0.0)
                if GAINS:
                    row = row * gain
                step = total * HALVES
                first = i + b * (NEURONS * (HALVES - 1))
                _store_halves(rows + t * step + k * step, first, row, inside & (t + k < T), NEURONS, HALVES)
        near, far, means, scales = far, farther, next_means, next_scales


@triton.jit(do_not_specialize=["T", "below", "out_below", "first_row"])
def _scan_bwd_kernel(
    grad, surrogate, before, bits, out, sums, beta_sums, filter_sums, key, beta, delays, width, gains,
    T, total, below: tl.uint32, keep, out_below: tl.uint32, out_keep, first_row, cost,
    NEURONS: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, LAYER: tl.constexpr,
    DROP: tl.constexpr, SUM: tl.constexpr, LEARN: tl.constexpr, PER_NEURON: tl.constexpr,
    TAPS: tl.constexpr, GAINS: tl.constexpr, FILTER_SUMS: tl.constexpr, OUT_DROP: tl.constexpr,
    OUT_LAYER: tl.constexpr, COST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[t] = g[t] through the dropout, with g[t] = gz[t] * surrogate[t] + beta * g[t+1]; sums: out over time.

    gz is `grad`, or with TAPS or GAINS what `_soft_bwd_kernel` makes of it, which also describes filter_sums
    `[FILTER_SUMS, B, neurons]`. COST adds `cost` to the gz of every neuron; the filter has no part in it. beta_sums is
    the sum over time of g[t] * u[t-1].
    """
    total = tl.full([], 0, tl.int64) + total
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    c = (i % NEURONS) % STRIDE
    here = (i // NEURONS + first_row) * CHANNELS + c
    real = inside & (c < CHANNELS)
    beta = tl.load(beta + c, mask=real, other=0.0) if PER_NEURON else tl.load(beta)
    seed = tl.load(key) if DROP or OUT_DROP else 0
    charge = tl.where(real, cost, 0.0) if COST else 0.0  # padding between neurons has a surrogate, but no spikes
    g = tl.zeros([BLOCK], tl.float32)
    whole = tl.zeros([BLOCK], tl.float32)
    of_beta = tl.zeros([BLOCK], tl.float32)
    if TAPS > 1:
        taps = _taps(tl.load(delays + c, mask=real, other=0.0), tl.load(width), TAPS)
        ahead = _nothing(g, TAPS)
        ramp = _nothing(g, TAPS)
    gain = _gain(gains + c, real, GAINS) if GAINS else 1.0
    one = tl.zeros([BLOCK], tl.float32)
    two = tl.zeros([BLOCK], tl.float32)
    last = (T - 1) // 4 * 4
    grads, factors = _rows(grad, last, T, i, inside, total), _rows(surrogate, last, T, i, inside, total)
    far_grads, far_factors = _rows(grad, last - 4, T, i, inside, total), _rows(surrogate, last - 4, T, i, inside, total)
    words = _rows(bits, last, T, i // 32, inside, total // 32) if FILTER_SUMS else (0, 0, 0, 0)
    for back in range(0, T, 4):
        t = last - back
        farther_grads = _rows(grad, t - 8, T, i, inside, total)
        farther_factors = _rows(surrogate, t - 8, T, i, inside, total)
        draws = tl.philox(seed, here, t // 4, LAYER, 0, ROUNDS) if DROP else (0, 0, 0, 0)
        out_draws = tl.philox(seed, here, t // 4, OUT_LAYER, 0, ROUNDS) if OUT_DROP else (0, 0, 0, 0)
        next_words = _rows(bits, t - 4, T, i // 32, inside, total // 32) if FILTER_SUMS else words
        befores = _rows(before, t, T, i, inside, total) if LEARN else (0.0, 0.0, 0.0, 0.0)
        for j in tl.static_range(4):
            gz = grads[3 - j].to(tl.float32)
            if TAPS > 1:
                if FILTER_SUMS > 1:
                    ramp = _added_ramp(ramp, taps, gz, 3 - j, TAPS)
                ahead = _added(ahead, taps, gz, TAPS)
                gz = ahead[0]
                ramped = ramp[0] - gz * (3 - j)
            if OUT_DROP:
                kept = out_draws[3 - j] >= out_below
                gz = tl.where(kept, gz * out_keep, 0.0)
            if FILTER_SUMS:
                fired = ((words[3 - j] >> (i % 32)) & 1) != 0
                one += tl.where(fired, gz, 0.0)
            if FILTER_SUMS > 1:
                two += tl.where(fired & kept, ramped * out_keep, 0.0) if OUT_DROP else tl.where(fired, ramped, 0.0)
            if GAINS:
                gz = gz * gain
            if COST:
                gz += charge
            g = gz * factors[3 - j].to(tl.float32) + beta * g
            if LEARN:
                of_beta += g * befores[3 - j].to(tl.float32)
            value = tl.where(draws[3 - j] >= below, g * keep, 0.0) if DROP else g
            now = t + 3 - j
            tl.store((out + t * total + (3 - j) * total) + i, value.to(out.dtype.element_ty), mask=inside & (now < T))
            whole += value
        if FILTER_SUMS > 1:
            ramp = _four_earlier(ramp, ahead, TAPS)
        grads, factors, words = far_grads, far_factors, next_words
        far_grads, far_factors = farther_grads, farther_factors
    if SUM:
        tl.store(sums + i, whole, mask=inside)
    if LEARN:
        tl.store(beta_sums + i, of_beta, mask=inside)
    if FILTER_SUMS:
        tl.store(filter_sums + i, one, mask=inside)
    if FILTER_SUMS > 1:
        tl.store((filter_sums + total) + i, two, mask=inside)


@triton.jit(do_not_specialize=["T", "below", "out_below", "first_row"])
def _static_bwd_kernel(
    current, grad, out, filter_sums, key, beta, theta, center, gains,
    slope, T, total, below: tl.uint32, keep, out_below: tl.uint32, out_keep, first_row, cost,
    NEURONS: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, LAYER: tl.constexpr,
    SURROGATE: tl.constexpr, DROP: tl.constexpr, PER_NEURON: tl.constexpr,
    OUT_DROP: tl.constexpr, OUT_LAYER: tl.constexpr, COST: tl.constexpr, GAINS: tl.constexpr,
    FILTER_SUMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out = the gradient `[B, C, H, W]` of a current that is constant in time; the scan is run again for it.

    sum_t g[t] = sum_s gz[s] * s(u[s]) * (1 + beta + ... + beta**s): it can be added up forward, while u is made again.
    COST adds `cost` to every gz. GAINS and FILTER_SUMS are as in `_scan_bwd_kernel`.
    """
    total = tl.full([], 0, tl.int64) + total
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    n, b = i % NEURONS, i // NEURONS
    c = n % STRIDE
    real = inside & (c < CHANNELS)
    here = (b + first_row) * CHANNELS + c
    at = (b * CHANNELS + c) * (NEURONS // STRIDE) + n // STRIDE
    beta = tl.load(beta + c, mask=real, other=0.0) if PER_NEURON else tl.load(beta)
    theta, center = tl.load(theta), tl.load(center)
    seed = tl.load(key) if DROP or OUT_DROP else 0
    constant = tl.load(current + at, mask=real, other=0.0)
    gain = _gain(gains + c, real, GAINS) if GAINS else 1.0
    one = tl.zeros([BLOCK], tl.float32)
    u = tl.zeros([BLOCK], tl.float32)
    reset = tl.zeros([BLOCK], tl.float32)
    reach = tl.zeros([BLOCK], tl.float32)  # how much of the constant current is in u
    acc = tl.zeros([BLOCK], tl.float32)
    near = _rows(grad, 0, T, i, real, total)
    far = _rows(grad, 4, T, i, real, total)
    for t in range(0, T, 4):
        farther = _rows(grad, t + 8, T, i, real, total)
        draws = tl.philox(seed, here, t // 4, LAYER, 0, ROUNDS) if DROP else (0, 0, 0, 0)
        out_draws = tl.philox(seed, here, t // 4, OUT_LAYER, 0, ROUNDS) if OUT_DROP else (0, 0, 0, 0)
        for k in tl.static_range(4):  # a step beyond T has a gradient of 0 and adds nothing
            x = tl.where(draws[k] >= below, constant * keep, 0.0) if DROP else constant
            share = tl.where(draws[k] >= below, keep, 0.0) if DROP else 1.0
            u = (beta * u + x) - reset
            reset = tl.where(u >= theta, theta, 0.0)
            reach = beta * reach + share
            gz = near[k].to(tl.float32)
            if OUT_DROP:
                gz = tl.where(out_draws[k] >= out_below, gz * out_keep, 0.0)
            if FILTER_SUMS:
                one += tl.where(u >= theta, gz, 0.0)
            if GAINS:
                gz = gz * gain
            if COST:
                gz += tl.where(t + k < T, cost, 0.0)
            acc += gz * _surrogate(u, center, slope, SURROGATE) * reach
        near, far = far, farther
    tl.store(out + at, acc, mask=real)
    if FILTER_SUMS:
        tl.store(filter_sums + i, one, mask=inside)


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
