"""Delays in Triton: a thread owns a neuron for all of time, and adds each input to the outputs that it will reach.

`ahead[k]` is what is known of the output k steps from now. An input v adds taps[k] * v to each, then time moves on by
one place. Nothing is read twice, and the weights of the taps and the sums stay in registers. Backwards in time the same
sums give the gradient of the input. Outputs are multiplied by the neurons' gains (GAINS is the largest one, 0 for
none) as they are written.
"""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl

from bitspike.ops.dropout.reference import ROUNDS as _ROUNDS

ROUNDS = tl.constexpr(_ROUNDS)


@triton.jit
def _taps(delay, width, TAPS: tl.constexpr):
    """Return the weights of taps 0..TAPS-1, each shaped like `delay`: exp(-((k - delay) / width)**2 / 2), normalised.

    They are counted from the largest one, so that a narrow width does not make all of them 0. Those that the definition
    sets to 0 for the sake of CPUs (below 1e-20) stay as they are.
    """
    taps = ()
    if TAPS == 1:  # which weighs 1, whatever the delay and the width are
        taps += (tl.zeros_like(delay) + 1.0,)
    else:
        nearest = tl.minimum(tl.maximum(tl.floor(delay + 0.5), 0.0), TAPS - 1.0)
        away = (nearest - delay) / width
        least = away * away * 0.5
        weights = ()
        total = tl.zeros_like(delay)
        for k in tl.static_range(TAPS):
            away = (k - delay) / width
            weight = tl.exp(least - away * away * 0.5)
            weights += (weight,)
            total += weight
        for k in tl.static_range(TAPS):
            taps += (weights[k] / total,)
    return taps


@triton.jit
def _gain(gains, mask, GAINS: tl.constexpr):
    """Return the whole gains at `gains`, within 0..GAINS; halves go to the even neighbour, as in the definition.

    A sum with 1.5 * 2**23 has no room for a fraction.
    """
    held = tl.minimum(tl.maximum(tl.load(gains, mask=mask, other=0.0), 0.0), GAINS * 1.0)
    return (held + 12582912.0) - 12582912.0


@triton.jit
def _nothing(like, TAPS: tl.constexpr):
    """Return TAPS zeros shaped like `like`: what is known of the outputs before the first input."""
    zeros = ()
    for _ in tl.static_range(TAPS):
        zeros += (tl.zeros_like(like),)
    return zeros


@triton.jit
def _added(ahead, taps, value, TAPS: tl.constexpr):
    """Return `ahead` one step later, with taps[k] * value added: its first entry is the output of this step."""
    later = ()
    for k in tl.static_range(TAPS):
        if k + 1 < TAPS:
            later += (tl.fma(taps[k], value, ahead[k + 1]),)
        else:
            later += (taps[k] * value,)
    return later


@triton.jit
def _added_ramp(ramp, taps, value, now: tl.constexpr, TAPS: tl.constexpr):
    """Return what `_added` makes of value * now: each value times its time since an origin.

    `now` is the time of this step since the origin, 0 to 3. Backwards in time, ramp[0] - now * ahead[0] then weighs
    each value by taps[k] * k, because it came from k steps later. The origin moves along (`_four_earlier`), so that
    times stay small numbers and the difference is as exact as its terms.
    """
    if now == 0:
        later = ()
        for k in tl.static_range(TAPS):
            if k + 1 < TAPS:
                later += (ramp[k + 1],)
            else:
                later += (tl.zeros_like(ramp[k]),)
        return later
    return _added(ramp, taps, value * now, TAPS)


@triton.jit
def _four_earlier(ramp, ahead, TAPS: tl.constexpr):
    """Return `ramp` for an origin of time that lies four steps earlier."""
    later = ()
    for k in tl.static_range(TAPS):
        later += (tl.fma(ahead[k], 4.0, ramp[k]),)
    return later


@triton.jit
def _steps(x, t, T, at, real, row):
    """Return steps t..t+3 of `x [T, row]` at the places `at`, in their stored dtype; 0 outside of time."""
    steps = ()
    for k in tl.static_range(4):
        steps += (tl.load((x + t * row + k * row) + at, mask=real & (t + k >= 0) & (t + k < T), other=0),)
    return steps


@triton.jit
def _store_halves(out, at, value, mask, STRIDE: tl.constexpr, HALVES: tl.constexpr):
    """Store `value` in out's dtype; with two HALVES also 2**11 times what that leaves over, STRIDE places on."""
    first = value.to(out.dtype.element_ty)
    tl.store(out + at, first, mask=mask)
    if HALVES > 1:
        rest = (value - first.to(tl.float32)) * 2048.0
        tl.store(out + at + STRIDE, rest.to(out.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["T", "below", "first_row"])
def _soft_fwd_kernel(
    x, delays, width, key, gains, out, T, total, row, below, keep, first_row,
    NEURONS: tl.constexpr, PLACES: tl.constexpr, STRIDE: tl.constexpr, LAYER: tl.constexpr, DROP: tl.constexpr,
    TAPS: tl.constexpr, GAINS: tl.constexpr, HALVES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[t, b, c] = gain * sum over k of taps[k] * x[t - k, b, c]; 0 for c from NEURONS * PLACES to STRIDE.

    `total` and `row` are the numbers of a step in out and in x. With DROP, x is dropped first, as Dropout does. With
    two HALVES a row of out has two parts of STRIDE (`_store_halves`).
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b, c = i // STRIDE, i % STRIDE
    real = (i < total) & (c < NEURONS * PLACES)
    at = b * (NEURONS * PLACES) + c
    first = i + b * (STRIDE * (HALVES - 1))
    inside = i < total
    step, row = (tl.full([], 0, tl.int64) + total) * HALVES, tl.full([], 0, tl.int64) + row
    delay = tl.load(delays + c // PLACES, mask=real, other=0.0) if TAPS > 1 else tl.zeros([BLOCK], tl.float32)
    taps = _taps(delay, tl.load(width) if TAPS > 1 else 1.0, TAPS)
    gain = _gain(gains + c // PLACES, real, GAINS) if GAINS else 1.0
    ahead = _nothing(delay, TAPS)
    seed = tl.load(key) if DROP else 0
    drawn = at + first_row * (NEURONS * PLACES)
    near = _steps(x, 0, T, at, real, row)
    far = _steps(x, 4, T, at, real, row)
    for t in range(0, T, 4):
        farther = _steps(x, t + 8, T, at, real, row)
        draws = tl.philox(seed, drawn, t // 4, LAYER, 0, ROUNDS) if DROP else (0, 0, 0, 0)
        for k in tl.static_range(4):
            value = near[k].to(tl.float32)
            if DROP:
                value = tl.where(draws[k] >= below, value * keep, 0.0)
            ahead = _added(ahead, taps, value, TAPS)
            value = ahead[0] * gain if GAINS else ahead[0]
            _store_halves(out + t * step + k * step, first, value, inside & (t + k < T), STRIDE, HALVES)
        near, far = far, farther


@triton.jit(do_not_specialize=["T", "below", "first_row"])
def _soft_bwd_kernel(
    grad, x, delays, width, key, gains, out, sums, T, total, row, below, keep, first_row,
    NEURONS: tl.constexpr, PLACES: tl.constexpr, STRIDE: tl.constexpr, LAYER: tl.constexpr, DROP: tl.constexpr,
    OF_X: tl.constexpr, SUMS: tl.constexpr, TAPS: tl.constexpr, GAINS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[t] = gain * f[t], the gradient of x; f[t] = sum over k of taps[k] * grad[t + k], through the dropout.

    sums[0, place] = sum over t of x[t] * f[t]: the gain's gradient. With two SUMS, sums[1, place] is the same with
    taps[k] * k: the delay's gradient is made of both. The gradient has rows of STRIDE, as the output of
    `_soft_fwd_kernel`; `out`, `x` and `sums` have none.
    """
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b, c = at // (NEURONS * PLACES), at % (NEURONS * PLACES)
    real = at < row
    i = b * STRIDE + c
    total, row = tl.full([], 0, tl.int64) + total, tl.full([], 0, tl.int64) + row
    delay = tl.load(delays + c // PLACES, mask=real, other=0.0) if TAPS > 1 else tl.zeros([BLOCK], tl.float32)
    taps = _taps(delay, tl.load(width) if TAPS > 1 else 1.0, TAPS)
    gain = _gain(gains + c // PLACES, real, GAINS) if GAINS else 1.0
    ahead = _nothing(delay, TAPS)
    ramp = _nothing(delay, TAPS)
    one = tl.zeros_like(delay)
    two = tl.zeros_like(delay)
    seed = tl.load(key) if DROP else 0
    drawn = at + first_row * (NEURONS * PLACES)
    last = (T - 1) // 4 * 4
    grads, far_grads = _steps(grad, last, T, i, real, total), _steps(grad, last - 4, T, i, real, total)
    values = _steps(x, last, T, at, real, row) if SUMS else grads
    far_values = _steps(x, last - 4, T, at, real, row) if SUMS else grads
    for back in range(0, T, 4):
        t = last - back
        farther_grads = _steps(grad, t - 8, T, i, real, total)
        farther_values = _steps(x, t - 8, T, at, real, row) if SUMS else grads
        draws = tl.philox(seed, drawn, t // 4, LAYER, 0, ROUNDS) if DROP else (0, 0, 0, 0)
        for j in tl.static_range(4):
            g = grads[3 - j].to(tl.float32)
            ahead = _added(ahead, taps, g, TAPS)
            share = tl.where(draws[3 - j] >= below, keep, 0.0) if DROP else 1.0
            f = ahead[0] * share
            now = t + 3 - j
            if OF_X:
                of_x = f * gain if GAINS else f
                tl.store((out + t * row + (3 - j) * row) + at, of_x.to(out.dtype.element_ty), mask=real & (now < T))
            if SUMS:
                value = values[3 - j].to(tl.float32)
                one += value * f
            if SUMS > 1:
                ramp = _added_ramp(ramp, taps, g, 3 - j, TAPS)
                two += value * ((ramp[0] - ahead[0] * (3 - j)) * share)
        if SUMS > 1:
            ramp = _four_earlier(ramp, ahead, TAPS)
        grads, values = far_grads, far_values
        far_grads, far_values = farther_grads, farther_values
    if SUMS:
        tl.store(sums + at, one, mask=real)
    if SUMS > 1:
        tl.store(sums + row + at, two, mask=real)


@triton.jit(do_not_specialize=["batch"])
def _filter_grad_kernel(
    sums, delays, width, gains, of_delays, of_gains, batch,
    NEURONS: tl.constexpr, PLACES: tl.constexpr, STRIDE: tl.constexpr, TAPS: tl.constexpr, GAINS: tl.constexpr,
    SUMS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """of_gains[j] = one, of_delays[j] = gain * (two - mean * one) / width**2; mean = sum over k of taps[k] * k.

    One and two are sums[0] and sums[1], `[batch, STRIDE]`, added over the batch and the neuron's PLACES, because the
    derivative of taps[k] by the delay is taps[k] * (k - mean) / width**2. Without two SUMS there are no delays.
    """
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = j < NEURONS
    one = tl.zeros([ROWS, BLOCK], tl.float32)
    two = tl.zeros([ROWS, BLOCK], tl.float32)
    size = batch.to(tl.int64) * STRIDE
    for begin in range(0, batch * PLACES, ROWS):
        r = begin + tl.arange(0, ROWS)[:, None]
        at = (r // PLACES).to(tl.int64) * STRIDE + j[None, :] * PLACES + r % PLACES
        inside = (r < batch * PLACES) & real[None, :]
        one += tl.load(sums + at, mask=inside, other=0.0)
        if SUMS > 1:
            two += tl.load(sums + size + at, mask=inside, other=0.0)
    of_gain = tl.sum(one, axis=0)
    if GAINS:
        tl.store(of_gains + j, of_gain, mask=real)
    if SUMS > 1:
        width = tl.load(width)
        taps = _taps(tl.load(delays + j, mask=real, other=0.0), width, TAPS)
        mean = tl.zeros([BLOCK], tl.float32)
        for k in tl.static_range(TAPS):
            mean += taps[k] * (k * 1.0)
        grad = (tl.sum(two, axis=0) - mean * of_gain) / (width * width)
        if GAINS:
            grad *= _gain(gains + j, real, GAINS)
        tl.store(of_delays + j, grad, mask=real)


@triton.jit(do_not_specialize=["T"])
def _hard_kernel(
    x, delays, gains, out, T, total, row,
    NEURONS: tl.constexpr, PLACES: tl.constexpr, STRIDE: tl.constexpr, GAINS: tl.constexpr, HALVES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """out[t, b, c] = gain * x[t - delays[c], b, c], whole steps; a negative delay is a look ahead. 0 outside of time.

    out has rows of STRIDE, in HALVES (`_store_halves`), x of NEURONS * PLACES; a program takes BLOCK places of a step.
    """
    t = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b, c = i // STRIDE, i % STRIDE
    real = (i < total) & (c < NEURONS * PLACES)
    then = t - tl.load(delays + c // PLACES, mask=real, other=0)
    real = real & (then >= 0) & (then < T)
    value = tl.load(x + then.to(tl.int64) * row + b * (NEURONS * PLACES) + c, mask=real, other=0).to(tl.float32)
    if GAINS:
        value *= _gain(gains + c // PLACES, real, GAINS)
    first = i + b * (STRIDE * (HALVES - 1))
    _store_halves(out + t.to(tl.int64) * total * HALVES, first, value, i < total, STRIDE, HALVES)
