"""The recurrent scan's Triton kernels: a program owns ROWS samples with all their neurons, for all of time.

Every neuron gets the spikes of all neurons of its sample one step later. Threads cannot read each other's registers, so
spikes (`z_last`) and gradients (`grads`) go through memory, where the program finds them in its cache. A barrier
separates writing from reading. With weights of -1 and +1 sums are exact in any order, and the scale rounds once. Launch
with enable_fp_fusion=False, as kernels.py says.
"""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl

from bitspike.ops.lif.kernels import _each, _keep, _step
from bitspike.ops.lif.kernels_surrogate import _surrogate


@triton.jit
def _samples(batch, neurons, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Return the program's samples, the places `[ROWS, WIDTH]` of their neurons in a step, and which of them exist."""
    b = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    n = tl.arange(0, WIDTH)
    return b, b[:, None] * neurons + n[None, :], (b < batch)[:, None] & (n < neurons)[None, :]


@triton.jit
def _product(x, weight, b, batch, neurons, ROWS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr):
    """sum_k x[b, k] * weight[k, n], DEPTH neurons k at a time, in float32."""
    n = tl.arange(0, WIDTH)
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for first in range(0, WIDTH, DEPTH):
        k = first + tl.arange(0, DEPTH)
        values = tl.load(
            x + b[:, None] * neurons + k[None, :], mask=(b < batch)[:, None] & (k < neurons)[None, :], other=0.0
        )
        weights = tl.load(
            weight + k[:, None] * tl.cast(neurons, tl.int64) + n[None, :],
            mask=(k < neurons)[:, None] & (n < neurons)[None, :],
            other=0.0,
        )
        total = tl.dot(values, weights, total, input_precision="ieee")
    return total


@triton.jit(do_not_specialize=["steps"])
def _recurrent_fwd_kernel(
    current, current_t, current_n, turned, beta, beta_p, theta, theta_p, center, center_p, u0, a0,
    spikes, membrane, surrogate, before, u_last, z_last, a_last,
    steps, batch, neurons, slope, scale, rho, gain, strength,
    SURROGATE: tl.constexpr, ADAPTIVE: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Run the scan with scale * (z[t-1] @ turned) in every step, turned = recurrent.T; `z_last` holds first spikes."""
    b, n, live = _samples(batch, neurons, ROWS, WIDTH)
    wide = tl.cast(batch, tl.int64) * neurons
    decay = tl.load(beta + n % beta_p, mask=live, other=0.0)
    level = tl.load(theta + n % theta_p, mask=live, other=0.0)
    middle = tl.load(center + n % center_p, mask=live, other=0.0)
    u, z, a = _each(u0, n, live), _each(z_last, n, live), _each(a0, n, live)
    reset = (level + strength * a) * z if ADAPTIVE else level * z
    t = 0
    while t < steps:
        row = tl.load(current + t * tl.cast(current_t, tl.int64) + n * current_n, mask=live, other=0.0)
        recurrent_input = scale * _product(z_last, turned, b, batch, neurons, ROWS, WIDTH, DEPTH)
        at = t * wide + n
        _keep(before, at, u, live)
        u, z, a, reset = _step((u, z, a, reset), row, recurrent_input, decay, level, rho, gain, strength, ADAPTIVE)
        tl.debug_barrier()  # all have read the last spikes
        tl.store(z_last + n, z, mask=live)
        tl.debug_barrier()  # and all have written theirs
        _keep(spikes, at, z, live)
        _keep(membrane, at, u, live)
        if surrogate is not None:
            center_now = middle + strength * a if ADAPTIVE else middle
            _keep(surrogate, at, _surrogate(u, center_now, slope, SURROGATE), live)
        t += 1
    _keep(u_last, n, u, live)
    _keep(a_last, n, a, live)


@triton.jit(do_not_specialize=["steps"])
def _recurrent_bwd_kernel(
    surrogate, before, gz, gz_t, gz_n, gu, gu_t, gu_n, gu_last, gz_last, ga_last, recurrent, beta, beta_p,
    grads, grad_u0, grad_z0, grad_a0, grad_beta,
    steps, batch, neurons, rho, gain, strength,
    ADAPTIVE: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """g[t] = gz[t]*s(u[t]) + gu[t] + beta*g[t+1], where gz[t] also holds g[t+1] @ recurrent; all g[t] go to `grads`."""
    b, n, live = _samples(batch, neurons, ROWS, WIDTH)
    wide = tl.cast(batch, tl.int64) * neurons
    decay = tl.load(beta + n % beta_p, mask=live, other=0.0)
    g, later, ga = _each(gu_last, n, live), _each(gz_last, n, live), _each(ga_last, n, live)
    of_beta = tl.zeros((ROWS, WIDTH), tl.float32)
    t = steps - 1
    while t >= 0:
        at = t * wide + n
        if gz is not None:
            later += tl.load(gz + t * tl.cast(gz_t, tl.int64) + n * gz_n, mask=live, other=0.0).to(tl.float32)
        if gu is not None:
            g += tl.load(gu + t * tl.cast(gu_t, tl.int64) + n * gu_n, mask=live, other=0.0).to(tl.float32)
        through = tl.load(surrogate + at, mask=live, other=0.0).to(tl.float32) * later
        g += through
        tl.store(grads + at, g, mask=live)
        if before is not None:
            of_beta += g * tl.load(before + at, mask=live, other=0.0).to(tl.float32)
        tl.debug_barrier()  # a row of `grads` is written once, so nobody can still be reading it
        later = _product(grads + t * wide, recurrent, b, batch, neurons, ROWS, WIDTH, DEPTH)
        if ADAPTIVE:
            ga = ga - strength * through
            later += gain * ga
            ga = rho * ga
        g = decay * g
        t -= 1
    _keep(grad_u0, n, g, live)
    _keep(grad_z0, n, later, live)
    _keep(grad_a0, n, ga, live)
    _keep(grad_beta, n, of_beta, live)
