"""The recurrent scan in Triton: one kernel for each direction; the weights' gradient is one product."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitspike.ops.first_order import first_order
from bitspike.ops.lif.triton import Form, float32, launch, period_of, plain, rows_of
from bitspike.ops.saved import saved_tensors

_ROWS = 16  # samples a program: the least that Triton multiplies
_DEPTH = 32  # neurons a product takes at a time


@first_order
class RecurrentLIF(torch.autograd.Function):
    """Eq. 1-2 with scale * (z[t-1] @ recurrent.T) added to the current `[T, ..., N]`."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[Tensor | None, ...]:
        current, beta, u0, z0, a0, theta, center, recurrent, form = args
        device, shape = current.device, (form.steps, *form.shape)
        learning = any(ctx.needs_input_grad)
        spikes = torch.empty(shape, dtype=current.dtype, device=device)
        membrane = float32(shape, device) if form.keep_membrane else None
        surrogate = torch.empty(shape, dtype=torch.bfloat16, device=device) if learning else None
        before = torch.empty_like(surrogate) if surrogate is not None and ctx.needs_input_grad[1] else None
        u_last, a_last = float32(form.shape, device), float32(form.shape, device) if form.adaptive else None
        z_last = torch.zeros_like(u_last) if z0 is None else z0.clone(memory_format=torch.contiguous_format)
        _launch(
            "_recurrent_fwd_kernel",
            form,
            *rows_of(current, form),
            recurrent.T.contiguous(),
            *period_of(beta, form.shape),
            *period_of(theta, form.shape),
            *period_of(center, form.shape),
            plain(u0),
            plain(a0),
            spikes,
            membrane,
            surrogate,
            before,
            u_last,
            z_last,
            a_last,
            form.steps,
            form.neurons // max(form.shape[-1], 1),
            form.shape[-1],
            form.slope,
            float(form.recurrent_scale),
            *form.adaptation(),
            SURROGATE=form.surrogate,
        )
        ctx.save_for_backward(beta, recurrent, z0, spikes, surrogate, before)
        ctx.form = form
        ctx.set_materialize_grads(False)
        return spikes, membrane, u_last, z_last, a_last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        beta, recurrent, z0, spikes, surrogate, before = saved_tensors(ctx)
        form: Form = ctx.form
        grad_spikes, grad_membrane, *grad_last = grads
        needs, device = ctx.needs_input_grad, beta.device
        every = float32((form.steps, *form.shape), device)
        grad_beta, grad_u0, grad_z0, grad_a0 = (float32(form.shape, device) if needs[i] else None for i in range(1, 5))
        _launch(
            "_recurrent_bwd_kernel",
            form,
            plain(surrogate),
            plain(before),
            *rows_of(grad_spikes, form),
            *rows_of(grad_membrane, form),
            *map(plain, grad_last),
            (form.recurrent_grad * form.recurrent_scale * recurrent).contiguous(),
            *period_of(beta, form.shape),
            every,
            grad_u0,
            grad_z0,
            grad_a0,
            grad_beta,
            form.steps,
            form.neurons // max(form.shape[-1], 1),
            form.shape[-1],
            *form.adaptation(),
        )
        grad_current = (every.sum(0) if form.static else every).to(spikes.dtype) if needs[0] else None
        if grad_beta is not None:
            grad_beta = grad_beta.sum_to_size(beta.shape)
        grad_recurrent = _outer(every, spikes, z0).mul_(form.recurrent_scale) if needs[7] else None
        return grad_current, grad_beta, grad_u0, grad_z0, grad_a0, None, None, grad_recurrent, None


def _outer(g: Tensor, spikes: Tensor, z0: Tensor | None) -> Tensor:
    """sum over time and batch of g[t][:, None] * z[t-1][None, :], the gradient of a recurrent weight [N, N]."""
    total = g[1:].flatten(0, -2).T @ spikes[:-1].flatten(0, -2).to(g.dtype)
    return total if z0 is None else total + g[0].flatten(0, -2).T @ z0.flatten(0, -2)


def _launch(name: str, form: Form, *args: Any, **constants: Any) -> None:
    from bitspike.ops.lif import kernels_recurrent as kernels

    neurons = max(form.shape[-1], 1)
    width = max(_DEPTH, 1 << (neurons - 1).bit_length())
    programs = -(-(form.neurons // neurons) // _ROWS)
    shape = {"ADAPTIVE": form.adaptive, "ROWS": _ROWS, "WIDTH": width, "DEPTH": _DEPTH}
    launch(getattr(kernels, name), programs, *args, warps=min(max(width // 16, 4), 16), **shape, **constants)
