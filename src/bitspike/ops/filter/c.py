"""Spike filters in C on the CPU, float32: outputs with the definition's bits, gradients to float32's rounding."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from bitspike.ops.buffers import pool
from bitspike.ops.dropout.c import Draw
from bitspike.ops.first_order import first_order
from bitspike.ops.native.library import COUNT, NUMBER, POINTER, address, declare, kernels, succeed
from bitspike.ops.saved import contiguous_tensors

_ALONE = 1 << 15  # values below which waking a second thread costs more than it saves
_PARTS = 16  # of a batch, each with a sum of its own: a fixed number, so that threads change no bit
_PER_DRAW = 4  # steps that share a draw of dropout


class _CFilter(ctypes.Structure):
    """`Filter` of filter.c, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("steps", "reach", "batch", "neurons", "sites")),
        *((name, ctypes.c_void_p) for name in ("past", "weights", "gains", "kept")),
        ("scale", ctypes.c_float),
    )


declare("filter_shift", *[POINTER] * 3, NUMBER, POINTER)
declare("filter_shift_backward", *[POINTER] * 3, NUMBER, POINTER, POINTER)
declare("filter_soft", *[POINTER] * 3, NUMBER, POINTER, POINTER)
declare("filter_soft_backward", *[POINTER] * 3, COUNT, NUMBER, *[POINTER] * 3)


def soft(
    x: Tensor,
    weights: Tensor,
    past: Tensor | None = None,
    gains: Tensor | None = None,
    draws: Draw | None = None,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """out[t, :, j] = gains[j] * (sum over k of weights[j, k] * x[t - k, :, j]); without a `past` steps before are 0.

    With `draws` the input goes through dropout first, and what is kept is multiplied by `scale`. Also returned are the
    last steps of past and input after dropout, as many as weights reach back.
    """
    past = None if past is None else past.contiguous()
    found: tuple[Tensor, Tensor] = _Soft.apply(x.contiguous(), weights.contiguous(), past, gains, draws, scale)
    return found


def hard(x: Tensor, delays: Tensor, past: Tensor | None, reach: int) -> Tensor:
    """out[t, :, j] = x[t - delays[j], :, j], whole steps up to `reach`; without a `past` the steps before are 0."""
    past = None if past is None else past.contiguous()
    out: Tensor = _Hard.apply(x.contiguous(), delays.contiguous(), past, reach)
    return out


@first_order
class _Soft(torch.autograd.Function):
    """A filter's output, and its last steps after dropout; both have gradients."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weights: Tensor, past: Tensor | None, gains: Tensor | None, draws: Draw | None,
        scale: float,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        reach = weights.shape[1] - 1
        kept = None
        if draws is not None:
            kept = torch.empty((-(-len(x) // _PER_DRAW), *x.shape[1:]), dtype=torch.uint8, device="cpu")
        ctx.save_for_backward(x, weights, past, gains, kept)
        ctx.scale = scale
        ctx.set_materialize_grads(False)
        out, held = pool.empty(x.shape), pool.empty((reach, *x.shape[1:]))
        given = _filter(x, reach, past, weights, gains, kept, scale)
        drawn = None if draws is None else ctypes.byref(draws)
        arguments = ctypes.byref(given), x.data_ptr(), drawn, _threads(x)
        succeed("filter_soft", kernels().filter_soft(*arguments, *map(address, (held, out))))
        if not (ctx.needs_input_grad[0] or ctx.needs_input_grad[2]):
            ctx.mark_non_differentiable(held)
        return out, held

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, weights, past, gains, kept = contiguous_tensors(ctx)
        of_out, of_held = grads
        grad = torch.zeros_like(x) if of_out is None else of_out.contiguous()
        reach, parts = weights.shape[1] - 1, min(x.shape[1], _PARTS)
        of_x, of_past = _gradients(ctx.needs_input_grad[0], ctx.needs_input_grad[2], grad, reach)
        sums = None
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[3]:
            sums = torch.zeros((parts, *weights.shape), dtype=torch.float64, device="cpu")
        given = _filter(x, reach, past, weights, gains, kept, ctx.scale)
        arguments = ctypes.byref(given), *map(address, (x, grad)), parts, _threads(x)
        failed = kernels().filter_soft_backward(*arguments, *map(address, (of_x, of_past, sums)))
        succeed("filter_soft_backward", failed)
        if of_held is not None:
            _add_held(of_held, len(x), of_x, of_past, kept, ctx.scale)
        of_weights, of_gains = _learnt(None if sums is None else sums.sum(0), weights, gains)
        return of_x, of_weights, of_past, of_gains, None, None


def _learnt(sums: Tensor | None, weights: Tensor, gains: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of weights and gains from the sums `[N, reach + 1]` of gradient times earlier input."""
    if sums is None:
        return None, None
    if gains is None:
        return sums.float(), None
    return (sums * gains[:, None]).float(), (sums * weights).sum(1).float()


def _add_held(
    grad: Tensor, steps: int, of_x: Tensor | None, of_past: Tensor | None, kept: Tensor | None, scale: float
) -> None:
    """Add the gradient of the last steps to those of the input, of so many steps, and of the steps before it."""
    new = min(steps, len(grad))  # of the last steps that are input
    if of_x is not None and new:
        share = grad[len(grad) - new :]
        if kept is not None:
            t = torch.arange(steps - new, steps, device="cpu")
            bits = kept[t // _PER_DRAW] >> (t % _PER_DRAW).to(torch.uint8).view(-1, *[1] * (grad.dim() - 1))
            share = share * scale * (bits & 1)
        of_x[steps - new :] += share
    if of_past is not None and new < len(grad):
        of_past[new:] += grad[: len(grad) - new]


@first_order
class _Hard(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, delays: Tensor, past: Tensor | None, reach: int) -> Tensor:
        ctx.save_for_backward(delays)
        ctx.reach = reach
        out, given = pool.empty(x.shape), _filter(x, reach, past)
        failed = kernels().filter_shift(ctypes.byref(given), *map(address, (x, delays)), _threads(x), out.data_ptr())
        succeed("filter_shift", failed)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (delays,) = contiguous_tensors(ctx)
        grad = grads[0].contiguous()
        of_x, of_past = _gradients(ctx.needs_input_grad[0], ctx.needs_input_grad[2], grad, ctx.reach)
        arguments = ctypes.byref(_filter(grad, ctx.reach)), *map(address, (grad, delays)), _threads(grad)
        succeed("filter_shift_backward", kernels().filter_shift_backward(*arguments, *map(address, (of_x, of_past))))
        return of_x, None, of_past, None


def _gradients(of_x: bool, of_past: bool, grad: Tensor, reach: int) -> tuple[Tensor | None, Tensor | None]:
    """Return memory for the gradients that are needed."""
    return (
        pool.empty(grad.shape) if of_x else None,
        pool.empty((reach, *grad.shape[1:])) if of_past else None,
    )


def _filter(
    x: Tensor, reach: int, past: Tensor | None = None, weights: Tensor | None = None, gains: Tensor | None = None,
    kept: Tensor | None = None, scale: float = 1.0,
) -> _CFilter:  # fmt: skip
    """Return a filter as C kernels take it, for an input of x's shape."""
    sizes = x.shape[0], reach, x.shape[1], x.shape[2], x.shape[3:].numel()
    return _CFilter(*sizes, *map(address, (past, weights, gains, kept)), scale)


def _threads(x: Tensor) -> int:
    return torch.get_num_threads() if x.numel() >= _ALONE else 1
