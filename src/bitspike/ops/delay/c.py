"""Delays in C on the CPU, float32: outputs with the definition's bits, gradients to 1e-6 of the largest."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from bitspike.ops.buffers import pool
from bitspike.ops.checks import is_ordinary
from bitspike.ops.first_order import first_order
from bitspike.ops.native import library
from bitspike.ops.native.library import COUNT, NUMBER, POINTER, address, declare, kernels, succeed
from bitspike.ops.saved import saved_tensors

_ALONE = 1 << 15  # values below which waking a second thread costs more than it saves
_PARTS = 16  # of a batch, each with a sum of its own: a fixed number, so that threads change no bit


class _CSeries(ctypes.Structure):
    """`Series` of delay.c, field by field."""

    _fields_ = [(name, ctypes.c_int64) for name in ("steps", "reach", "batch", "neurons", "sites")]


_SERIES = ctypes.POINTER(_CSeries)
declare("delay_shift", _SERIES, POINTER, POINTER, POINTER, NUMBER, POINTER)
declare("delay_shift_backward", _SERIES, POINTER, POINTER, NUMBER, POINTER, POINTER)
declare("delay_filter", _SERIES, POINTER, POINTER, POINTER, NUMBER, POINTER)
declare("delay_filter_backward", _SERIES, *[POINTER] * 4, COUNT, NUMBER, POINTER, POINTER, POINTER)


def refusal(spikes: Tensor) -> str | None:
    """Return why these spikes cannot be delayed in C; None if they can."""
    if spikes.device.type != "cpu":
        return f"the spikes are on {spikes.device}"
    if spikes.dtype != torch.float32:
        return f"the numbers are {spikes.dtype}, not float32"
    if not is_ordinary(spikes, spikes.shape, spikes.device) or spikes.numel() == 0:
        return "the spikes are no ordinary tensor, or empty"
    if library.library() is None:
        return "the compiled kernels are missing or out of date (reinstall bitspike where there is a C compiler)"
    return None


def shifted(spikes: Tensor, delays: Tensor, past: Tensor | None, reach: int) -> Tensor:
    """Compute the definition's `shifted`, bit for bit; without a `past` the `reach` steps before the first are 0."""
    out: Tensor = _Shift.apply(
        spikes.contiguous(), delays.contiguous(), None if past is None else past.contiguous(), reach
    )
    return out


def filtered(spikes: Tensor, weights: Tensor, past: Tensor | None) -> Tensor:
    """Compute the definition's `filtered`, bit for bit; without a `past` the steps before the first are 0."""
    out: Tensor = _Filter.apply(spikes.contiguous(), weights.contiguous(), None if past is None else past.contiguous())
    return out


@first_order
class _Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, spikes: Tensor, delays: Tensor, past: Tensor | None, reach: int) -> Tensor:
        ctx.save_for_backward(delays)
        ctx.reach = reach
        out = pool.empty(spikes.shape)
        given = map(address, (spikes, past, delays))
        failed = kernels().delay_shift(_series(spikes, reach), *given, _threads(spikes), out.data_ptr())
        succeed("delay_shift", failed)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (delays,) = saved_tensors(ctx)
        grad = grads[0].contiguous()
        of_spikes, of_past = _gradients(ctx.needs_input_grad[0], ctx.needs_input_grad[2], grad, ctx.reach)
        given = _series(grad, ctx.reach), grad.data_ptr(), delays.data_ptr(), _threads(grad)
        succeed("delay_shift_backward", kernels().delay_shift_backward(*given, address(of_spikes), address(of_past)))
        return of_spikes, None, of_past, None


@first_order
class _Filter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, spikes: Tensor, weights: Tensor, past: Tensor | None) -> Tensor:
        ctx.save_for_backward(spikes, weights, past)
        out = pool.empty(spikes.shape)
        given = map(address, (spikes, past, weights))
        series = _series(spikes, weights.shape[1] - 1)
        succeed("delay_filter", kernels().delay_filter(series, *given, _threads(spikes), out.data_ptr()))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        spikes, weights, past = saved_tensors(ctx)
        grad, reach = grads[0].contiguous(), weights.shape[1] - 1
        of_spikes, of_past = _gradients(ctx.needs_input_grad[0], ctx.needs_input_grad[2], grad, reach)
        parts = min(spikes.shape[1], _PARTS)
        sums = None
        if ctx.needs_input_grad[1]:
            sums = torch.zeros((parts, *weights.shape), dtype=torch.float64, device="cpu")
        given = _series(spikes, reach), *map(address, (spikes, past, weights, grad)), parts, _threads(spikes)
        failed = kernels().delay_filter_backward(*given, *map(address, (of_spikes, of_past, sums)))
        succeed("delay_filter_backward", failed)
        return of_spikes, None if sums is None else sums.sum(0).float(), of_past


def _gradients(of_spikes: bool, of_past: bool, grad: Tensor, reach: int) -> tuple[Tensor | None, Tensor | None]:
    """Return memory for the gradients that are needed."""
    return (
        pool.empty(grad.shape) if of_spikes else None,
        pool.empty((reach, *grad.shape[1:])) if of_past else None,
    )


def _series(x: Tensor, reach: int) -> _CSeries:
    return _CSeries(x.shape[0], reach, x.shape[1], x.shape[2], x.shape[3:].numel())


def _threads(x: Tensor) -> int:
    return torch.get_num_threads() if x.numel() >= _ALONE else 1
