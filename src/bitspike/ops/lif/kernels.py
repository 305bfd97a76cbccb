"""The scan's Triton kernels: a program owns BLOCK neurons for all of time, their state in registers.

A neuron's steps depend on each other, so few neurons wait for memory, not for arithmetic: time goes in rounds of AHEAD
steps, and the rows of the next round are on their way while this one is computed. Launch with enable_fp_fusion=False: a
fused multiply-add rounds once where the definition rounds twice, and then a spike flips.

Pointers that may be None are left out of the compiled kernel. In a tensor, rows are `_t` apart and neurons `_n`; a
parameter repeats every `_p` neurons. What lies outside of time is loaded as anything, and never stored. Where all rows
are alike (a STATIC current, STILL gradients of the spikes, as a loss on counts gives them) the first round's are kept.
"""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl

from bitspike.ops.lif.kernels_surrogate import _surrogate


@triton.jit
def _neurons(neurons, BLOCK: tl.constexpr):
    """Return the program's neurons, in int64, and which of them exist."""
    n = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return n, n < neurons


# Whether TRITON_INTERPRET=1 was set when this module was imported: kernels then run on the CPU.
INTERPRETED = not isinstance(_neurons, triton.JITFunction)


@triton.jit
def _each(pointer, n, live):
    """Return one value for each neuron in float32; zeros where there is no tensor."""
    if pointer is None:
        value = tl.zeros(n.shape, tl.float32)
    else:
        value = tl.load(pointer + n, mask=live, other=0.0).to(tl.float32)
    return value


@triton.jit
def _rows(pointer, t, WAY: tl.constexpr, stride_t, stride_n, n, live, steps, AHEAD: tl.constexpr):
    """Return AHEAD rows t, t + WAY, ... as a tuple, in their stored dtype; only the first use waits for them."""
    rows = ()
    if pointer is None:
        for _ in tl.static_range(AHEAD):
            rows += (tl.zeros(n.shape, tl.float32),)
    else:
        wide = tl.cast(stride_t, tl.int64)
        at = t * wide + n * stride_n
        for k in tl.static_range(AHEAD):
            within = (t + k < steps) if WAY == 1 else (t >= k)
            rows += (tl.load(pointer + at, mask=live & within),)
            at += WAY * wide
    return rows


@triton.jit
def _keep(pointer, at, value, where):
    """Store a value if there is a tensor for it."""
    if pointer is not None:
        tl.store(pointer + at, value.to(pointer.dtype.element_ty), mask=where)


@triton.jit
def _step(state, row, recurrent_input, beta, theta, rho, gain, strength, ADAPTIVE: tl.constexpr):
    """Eq. 1-2 for one step of (u, z, a, threshold * z); `recurrent_input` comes from the layer's spikes, or is None."""
    u, z, a, reset = state
    u = beta * u + row.to(tl.float32)
    if recurrent_input is not None:
        u += recurrent_input
    u -= reset
    threshold = theta
    if ADAPTIVE:
        a = rho * a + gain * z
        threshold = theta + strength * a
    fired = u >= threshold
    return u, tl.where(fired, 1.0, 0.0), a, tl.where(fired, threshold, 0.0)


@triton.jit
def _fwd_round(
    state, rows, t, steps, neurons, n, live, beta, theta, center, spikes, membrane, surrogate, before, ends,
    slope, rho, gain, strength,
    LAST: tl.constexpr, ADAPTIVE: tl.constexpr, SURROGATE: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Run AHEAD steps from t on and store the outputs that are asked for; the LAST round ends at the last step."""
    wide = tl.cast(neurons, tl.int64)
    at = t * wide + n
    for k in tl.static_range(AHEAD):
        within = live & (t + k < steps) if LAST else live
        _keep(before, at, state[0], within)
        state = _step(state, rows[k], None, beta, theta, rho, gain, strength, ADAPTIVE)
        u, z, a, _reset = state
        _keep(spikes, at, z, within)
        _keep(membrane, at, u, within)
        if surrogate is not None:
            middle = center + strength * a if ADAPTIVE else center
            _keep(surrogate, at, _surrogate(u, middle, slope, SURROGATE), within)
        if LAST:
            for i in tl.static_range(3):
                _keep(ends[i], n, state[i], live & (t + k == steps - 1))
        at += wide
    return state


@triton.jit(do_not_specialize=["steps"])
def _lif_fwd_kernel(
    current, current_t, current_n, beta, beta_p, theta, theta_p, center, center_p, u0, z0, a0,
    spikes, membrane, surrogate, before, u_last, z_last, a_last,
    steps, neurons, slope, rho, gain, strength,
    STATIC: tl.constexpr, ADAPTIVE: tl.constexpr, SURROGATE: tl.constexpr, AHEAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Run the scan; the backward pass needs only `surrogate` and `before` (u[t-1], for a learnt beta) of a step."""
    n, live = _neurons(neurons, BLOCK)
    decay = tl.load(beta + n % beta_p, mask=live, other=0.0)
    level = tl.load(theta + n % theta_p, mask=live, other=0.0)
    middle = tl.load(center + n % center_p, mask=live, other=0.0)
    u, z, a = _each(u0, n, live), _each(z0, n, live), _each(a0, n, live)
    reset = (level + strength * a) * z if ADAPTIVE else level * z
    state, ends = (u, z, a, reset), (u_last, z_last, a_last)
    rows = _rows(current, 0, 1, current_t, current_n, n, live, steps, AHEAD)
    t = 0
    # Not `for t in range(...)`: Triton's interpreter cannot count to an argument (with NumPy 2.4).
    while t + AHEAD < steps:
        ahead = rows if STATIC else _rows(current, t + AHEAD, 1, current_t, current_n, n, live, steps, AHEAD)
        state = _fwd_round(
            state, rows, t, steps, neurons, n, live, decay, level, middle, spikes, membrane, surrogate, before, ends,
            slope, rho, gain, strength, False, ADAPTIVE, SURROGATE, AHEAD,
        )  # fmt: skip
        rows = ahead
        t += AHEAD
    _fwd_round(
        state, rows, t, steps, neurons, n, live, decay, level, middle, spikes, membrane, surrogate, before, ends,
        slope, rho, gain, strength, True, ADAPTIVE, SURROGATE, AHEAD,
    )  # fmt: skip


@triton.jit
def _bwd_round(
    state, rows_s, rows_u, rows_gz, rows_gu, t, neurons, n, live, beta, grad_current, grads_start,
    rho, gain, strength, LAST: tl.constexpr, STATIC: tl.constexpr, ADAPTIVE: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Run AHEAD steps backwards from t; the LAST round ends at t = 0. The state: gradients of u, z, a; two sums."""
    wide = tl.cast(neurons, tl.int64)
    at = t * wide + n
    g, later, ga, of_current, of_beta = state
    for k in tl.static_range(AHEAD):
        within = live & (t >= k) if LAST else live
        through = rows_s[k].to(tl.float32) * (rows_gz[k].to(tl.float32) + later)
        g = g + through + rows_gu[k].to(tl.float32)
        if STATIC:
            of_current += tl.where(within, g, 0.0)
        else:
            _keep(grad_current, at, g, within)
        of_beta += tl.where(within, g * rows_u[k].to(tl.float32), 0.0)
        later = tl.zeros(n.shape, tl.float32)
        if ADAPTIVE:
            ga = ga - strength * through
            later = gain * ga
            ga = rho * ga
        g = beta * g
        if LAST:
            starts = (g, later, ga)
            for i in tl.static_range(3):
                _keep(grads_start[i], n, starts[i], live & (t == k))
        at -= wide
    return g, later, ga, of_current, of_beta


@triton.jit(do_not_specialize=["steps"])
def _lif_bwd_kernel(
    surrogate, before, gz, gz_t, gz_n, gu, gu_t, gu_n, gu_last, gz_last, ga_last, beta, beta_p,
    grad_current, grad_u0, grad_z0, grad_a0, grad_beta,
    steps, neurons, rho, gain, strength,
    STATIC: tl.constexpr, ADAPTIVE: tl.constexpr, STILL: tl.constexpr, AHEAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """g[t] = gz[t]*s(u[t]) + gu[t] + beta*g[t+1], backwards in time; a static current gets the sum.

    z[t] compares u[t] with center + strength*a[t], and a[t] = rho*a[t-1] + gain*z[t-1]: what an adaptive threshold
    sends back to the spikes before it comes as `later`.
    """
    n, live = _neurons(neurons, BLOCK)
    decay = tl.load(beta + n % beta_p, mask=live, other=0.0)
    none = tl.zeros(n.shape, tl.float32)
    state = (_each(gu_last, n, live), _each(gz_last, n, live), _each(ga_last, n, live), none, none)
    grads_start = (grad_u0, grad_z0, grad_a0)
    t = steps - 1
    rows_s = _rows(surrogate, t, -1, neurons, 1, n, live, steps, AHEAD)
    rows_u = _rows(before, t, -1, neurons, 1, n, live, steps, AHEAD)
    rows_gz = _rows(gz, t, -1, gz_t, gz_n, n, live, steps, AHEAD)
    rows_gu = _rows(gu, t, -1, gu_t, gu_n, n, live, steps, AHEAD)
    while t >= AHEAD:
        ahead_s = _rows(surrogate, t - AHEAD, -1, neurons, 1, n, live, steps, AHEAD)
        ahead_u = _rows(before, t - AHEAD, -1, neurons, 1, n, live, steps, AHEAD)
        ahead_gz = rows_gz if STILL else _rows(gz, t - AHEAD, -1, gz_t, gz_n, n, live, steps, AHEAD)
        ahead_gu = _rows(gu, t - AHEAD, -1, gu_t, gu_n, n, live, steps, AHEAD)
        state = _bwd_round(
            state, rows_s, rows_u, rows_gz, rows_gu, t, neurons, n, live, decay, grad_current, grads_start,
            rho, gain, strength, False, STATIC, ADAPTIVE, AHEAD,
        )  # fmt: skip
        rows_s, rows_u, rows_gz, rows_gu = ahead_s, ahead_u, ahead_gz, ahead_gu
        t -= AHEAD
    state = _bwd_round(
        state, rows_s, rows_u, rows_gz, rows_gu, t, neurons, n, live, decay, grad_current, grads_start,
        rho, gain, strength, True, STATIC, ADAPTIVE, AHEAD,
    )  # fmt: skip
    if STATIC:
        _keep(grad_current, n, state[3], live)
    _keep(grad_beta, n, state[4], live)


@triton.jit(do_not_specialize=["steps"])
def _lif_static_bwd_kernel(
    current, current_n, gz, gz_t, gz_n, gu, gu_t, gu_n, gu_last, gz_last,
    beta, beta_p, theta, theta_p, center, center_p, u0, z0,
    grad_current, grad_u0, grad_beta,
    steps, neurons, slope,
    SURROGATE: tl.constexpr, STILL: tl.constexpr, AHEAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """sum_t (gz[t]*s(u[t]) + gu[t]) * du[t]/dI, forwards in time: u is computed again, because no step was kept.

    The reset has no gradient, so du/dI = 1 + beta*du/dI, du/du0 = beta*du/du0 and du/dbeta = u + beta*du/dbeta, each
    of the step before.
    """
    n, live = _neurons(neurons, BLOCK)
    decay = tl.load(beta + n % beta_p, mask=live, other=0.0)
    level = tl.load(theta + n % theta_p, mask=live, other=0.0)
    middle = tl.load(center + n % center_p, mask=live, other=0.0)
    row = tl.load(current + n * current_n, mask=live, other=0.0)
    last_gu, last_gz = _each(gu_last, n, live), _each(gz_last, n, live)
    none = tl.zeros(n.shape, tl.float32)
    state = (_each(u0, n, live), none, none, level * _each(z0, n, live))
    by_current, by_u0, by_beta = none, none + 1.0, none
    of_current, of_u0, of_beta = none, none, none
    rows_gz = _rows(gz, 0, 1, gz_t, gz_n, n, live, steps, AHEAD)
    rows_gu = _rows(gu, 0, 1, gu_t, gu_n, n, live, steps, AHEAD)
    t = 0
    while t < steps:
        ahead_gz = rows_gz if STILL else _rows(gz, t + AHEAD, 1, gz_t, gz_n, n, live, steps, AHEAD)
        ahead_gu = _rows(gu, t + AHEAD, 1, gu_t, gu_n, n, live, steps, AHEAD)
        for k in tl.static_range(AHEAD):
            by_beta = state[0] + decay * by_beta
            by_current = 1.0 + decay * by_current
            by_u0 = decay * by_u0
            state = _step(state, row, None, decay, level, 0.0, 0.0, 0.0, False)
            last = t + k == steps - 1
            through = rows_gz[k].to(tl.float32) + tl.where(last, last_gz, 0.0)
            direct = rows_gu[k].to(tl.float32) + tl.where(last, last_gu, 0.0)
            g = tl.where(t + k < steps, through * _surrogate(state[0], middle, slope, SURROGATE) + direct, 0.0)
            of_current += g * by_current
            of_u0 += g * by_u0
            of_beta += g * by_beta
        rows_gz, rows_gu = ahead_gz, ahead_gu
        t += AHEAD
    _keep(grad_current, n, of_current, live)
    _keep(grad_u0, n, of_u0, live)
    _keep(grad_beta, n, of_beta, live)
