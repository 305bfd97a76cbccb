"""Delays of float32 tensors in Triton, the twins of the definition: filters (`ops/filter`) that only delay."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitspike.ops.filter.spike_filter import SpikeFilter
from bitspike.ops.filter.triton import filter_backward, hard_kernel, soft_kernel
from bitspike.ops.first_order import first_order
from bitspike.ops.launch import on
from bitspike.ops.saved import contiguous_tensors


def soft(x: Tensor, delays: Tensor, longest: int, width: Tensor) -> Tensor:
    """out[t, b, j] = sum over k in 0..longest of taps[j, k] * x[t - k, b, j], with gradients for x and the delays.

    x is `[T, B, N, ...]` float32, delays `[N]` float32, width a 0-d float32 tensor on the same device; `longest` is at
    most LONGEST.
    """
    out: Tensor = _Soft.apply(x, delays, width, longest)
    return out


@first_order
class _Soft(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, delays: Tensor, width: Tensor, longest: int) -> Tensor:
        x, delays = x.contiguous(), delays.contiguous()
        out = torch.empty_like(x)
        with on(x):
            soft_kernel(x, SpikeFilter(delays, longest, width), out)
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, delays, width)
        ctx.longest = longest
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, delays, width = contiguous_tensors(ctx)
        grad = grads[0].contiguous()
        of_x, of_delays = ctx.needs_input_grad[:2]
        spike_filter = SpikeFilter(delays, ctx.longest, width)
        grad_x, found = filter_backward(grad, grad if x is None else x, spike_filter, of_x=of_x, of_delays=of_delays)
        flat = of_delays and spike_filter.taps == 1  # one tap weighs 1 whatever the delay is
        return grad_x, torch.zeros_like(delays) if flat else found.delays, None, None


def hard(x: Tensor, delays: Tensor) -> Tensor:
    """out[t, b, j] = x[t - delays[j], b, j], with a gradient for x; delays `[N]` are whole steps, int32."""
    out: Tensor = _Hard.apply(x, delays)
    return out


@first_order
class _Hard(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, delays: Tensor) -> Tensor:
        ctx.save_for_backward(delays)
        return _shifted(x, delays)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (delays,) = contiguous_tensors(ctx)
        return _shifted(grads[0], -delays), None


def _shifted(x: Tensor, delays: Tensor) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    if x.numel():
        with on(x):
            hard_kernel(x, delays, out)
    return out


def shifted(spikes: Tensor, delays: Tensor, past: Tensor | None) -> Tensor:
    """Compute the definition's `shifted`; without a `past` the steps before the first are 0."""
    whole = delays.int()
    return hard(spikes, whole) if past is None else hard(torch.cat([past, spikes]), whole)[len(past) :]


def filtered(spikes: Tensor, delays: Tensor, longest: int, width: float | Tensor, past: Tensor | None) -> Tensor:
    """Compute the definition's `filtered` by its `taps`; sums are rounded in another order."""
    if isinstance(width, Tensor):
        width = width.to(spikes.device, torch.float32)
    else:
        width = torch.full((), width, dtype=torch.float32, device=spikes.device)
    if past is None:
        return soft(spikes, delays, longest, width)
    return soft(torch.cat([past, spikes]), delays, longest, width)[len(past) :]
