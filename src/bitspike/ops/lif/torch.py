"""The scan in PyTorch as one autograd function: buffers are allocated once, and the backward pass is written by hand.

It runs on any device and dtype, and is the fast path of recurrent and adaptive neurons.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from bitspike.ops.first_order import first_order
from bitspike.ops.lif.scan import Scan
from bitspike.ops.lif.state import LIFOutput, LIFState
from bitspike.ops.lif.surrogate import GRADS, Surrogate
from bitspike.ops.saved import saved_tensors


def run(scan: Scan) -> LIFOutput:
    """Compute Eq. 1-2 as one autograd function."""
    adaptation = (scan.adaptation.rho, scan.adaptation.strength) if scan.adaptation else None
    form = _Form(
        scan.steps,
        scan.static,
        scan.dtype,
        scan.slope,
        scan.surrogate,
        adaptation,
        scan.keep_membrane,
        scan.recurrent_scale,
        scan.recurrent_grad,
    )
    u0, z0, a0 = scan.state[:3]
    spikes, membrane, u, z, a = _LIF.apply(
        scan.current, scan.beta, u0, z0, a0, scan.recurrent, scan.theta, scan.center, form
    )
    return LIFOutput(spikes, membrane, LIFState(u, z, a))


class _Form(NamedTuple):
    """The part of a Scan that is not tensors."""

    steps: int
    static: bool
    dtype: torch.dtype
    slope: float
    surrogate: Surrogate
    adaptation: tuple[float, float] | None  # rho, strength
    keep_membrane: bool
    recurrent_scale: float
    recurrent_grad: float


@first_order
class _LIF(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[Tensor | None, ...]:
        current, beta, u, z, a, recurrent, theta, center, form = args
        learning = any(ctx.needs_input_grad)
        currents = [current] * form.steps if form.static else current.unbind()
        shape = currents[0].shape
        spikes = current.new_empty((form.steps, *shape))
        us = _rows(form.steps if learning or form.keep_membrane else 2, u)
        zs = spikes if spikes.dtype == form.dtype else _rows(form.steps if learning else 2, u)
        levels = None if a is None else _rows(form.steps if learning else 2, u)
        u0, z0 = u, z
        rho, strength = form.adaptation or (0.0, 0.0)
        threshold = theta if a is None else theta + strength * a
        for t, i in enumerate(currents):
            row = us[t % len(us)]
            torch.mul(u, beta, out=row)
            row.add_(i)
            if recurrent is not None:
                row.add_((z @ recurrent.T).mul_(form.recurrent_scale))
            row.addcmul_(z, threshold, value=-1)  # z is 0 or 1, so the product is exact
            if levels is not None:
                a = levels[t % len(levels)].copy_(torch.add(rho * a, z, alpha=1 - rho))
                threshold = theta + strength * a
            u, z = row, zs[t % len(zs)]
            torch.ge(u, threshold, out=z)
            if zs is not spikes:
                spikes[t].copy_(z)
        ctx.save_for_backward(beta, u0, z0, recurrent, center, us, zs, levels)
        ctx.form = form
        ctx.set_materialize_grads(False)
        ctx.current_dtype = current.dtype
        # The state's rows are clones: an output that is a view of another would forbid in-place use of either.
        state = [None if row is None else row.clone() for row in (u, z, a)]
        return spikes, us if form.keep_membrane else None, *state

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        beta, u0, z0, recurrent, center, us, zs, levels = saved_tensors(ctx)
        form: _Form = ctx.form
        rho, strength = form.adaptation or (0.0, 0.0)
        grad_spikes, grad_membrane, grad_u, grad_z, grad_a = grads
        zero = torch.zeros_like(u0)
        g = zero if grad_u is None else grad_u  # of u[t], from later steps and the state
        gz = zero if grad_z is None else grad_z  # of z[t], likewise
        ga = grad_a  # of a[t], likewise
        per_step = None if form.static else us.new_empty((form.steps, *u0.shape))
        grad_current, grad_beta = zero.clone(), zero.clone()
        grad_recurrent = None if recurrent is None else torch.zeros_like(recurrent)
        back = None if recurrent is None else form.recurrent_grad * form.recurrent_scale * recurrent
        for t in reversed(range(form.steps)):
            if grad_spikes is not None:
                gz = gz + grad_spikes[t]
            middle = center if levels is None else center + strength * levels[t]
            through_spike = GRADS[form.surrogate](us[t], middle, form.slope).mul_(gz)
            g = g + through_spike
            if grad_membrane is not None:
                g = g + grad_membrane[t]
            if per_step is None:
                grad_current += g
            else:
                per_step[t] = g
            before_u, before_z = (us[t - 1], zs[t - 1]) if t else (u0, z0)
            if ctx.needs_input_grad[1]:
                grad_beta.addcmul_(g, before_u)
            gz = zero
            if levels is not None:
                # z[t] compares u[t] with center + strength * a[t], and a[t] = rho * a[t-1] + (1 - rho) * z[t-1].
                ga = (zero if ga is None else ga) - strength * through_spike
                gz = (1 - rho) * ga
                ga = rho * ga
            if back is not None and grad_recurrent is not None:
                grad_recurrent += _outer(g, before_z)
                gz = gz + g @ back
            g = beta * g
        return (
            (grad_current if per_step is None else per_step).to(ctx.current_dtype),
            grad_beta.sum_to_size(beta.shape) if ctx.needs_input_grad[1] else None,
            g,
            gz if ctx.needs_input_grad[3] else None,
            ga,
            None if grad_recurrent is None else grad_recurrent.mul_(form.recurrent_scale),
            None,
            None,
            None,
        )


def _rows(steps: int, like: Tensor) -> Tensor:
    return like.new_empty((steps, *like.shape))


def _outer(g: Tensor, z: Tensor) -> Tensor:
    """sum over the batch of g[:, None] * z[None, :], the gradient of a recurrent weight [N, N]."""
    return g.flatten(0, -2).T @ z.flatten(0, -2)
