"""Dropout from a key in C: the draws as C kernels take them, dropout of a whole current, and its mask."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from bitspike.ops.available import in_memory
from bitspike.ops.buffers import pool
from bitspike.ops.checks import is_ordinary
from bitspike.ops.dropout.reference import dropped_below, numbers
from bitspike.ops.native.library import COUNT, NUMBER, POINTER, declare, kernels

_ALONE = 1 << 15  # values below which waking a second thread costs more than it saves
declare("dropout_scale", POINTER, COUNT, COUNT, ctypes.c_float, NUMBER, POINTER, POINTER, result=None)
declare("dropout_mask", POINTER, COUNT, COUNT, NUMBER, POINTER, result=None)


class Draw(ctypes.Structure):
    """`Draw` of draw.h, field by field: the random numbers of dropout. All zero, it keeps everything."""

    _fields_ = (
        ("key", ctypes.c_uint64),
        ("layer", ctypes.c_int64),
        ("first", ctypes.c_int64),
        ("below", ctypes.c_uint32),
    )


def draw(p: float, key: Tensor, layer: int, first_place: int = 0) -> Draw:
    """Return the draws of the definition's `keep_mask`; place 0 of a step here is its place `first_place`."""
    return Draw(int(key) & (2**64 - 1), layer, first_place, dropped_below(p))


def keep_mask(shape: tuple[int, ...], draws: Draw) -> Tensor:
    """Return the mask of the definition's `keep_mask` as uint8 `[T, B, ...]`: 1 where the current is kept."""
    kept = torch.empty(shape, dtype=torch.uint8, device="cpu")
    places = torch.Size(shape[1:]).numel()
    kernels().dropout_mask(ctypes.byref(draws), shape[0], places, torch.get_num_threads(), kept.data_ptr())
    return kept


def dropout(x: Tensor, draws: Draw, scale: float) -> Tensor:
    """Return the definition's dropout of x `[T, B, ...]`, float32, bit for bit; the mask is drawn again backward.

    `scale`, by which what is kept is multiplied, is 1 / (1 - p).
    """
    out: Tensor = _Dropout.apply(x, draws, scale)
    return out


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, draws: Draw, scale: float) -> Tensor:
        ctx.draws, ctx.scale = draws, scale
        x, out, places = x.contiguous(), pool.empty(x.shape), x.shape[1:].numel()
        threads = torch.get_num_threads() if x.numel() >= _ALONE else 1
        given = ctypes.byref(draws), x.shape[0], places, scale, threads
        kernels().dropout_scale(*given, x.data_ptr(), out.data_ptr())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _of_gradient(grads[0], ctx.draws, ctx.scale), None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        return _of_gradient(tangents[0], ctx.draws, ctx.scale)


def _of_gradient(grad: Tensor, draws: Draw, scale: float) -> Tensor:
    """Return `dropout` of a gradient; by PyTorch if that has no memory of its own."""
    if is_ordinary(grad, grad.shape, torch.device("cpu")) and in_memory(grad):
        return dropout(grad, draws, scale)
    key = torch.tensor(ctypes.c_int64(draws.key).value, device="cpu")
    place = torch.arange(grad.shape[1:].numel(), device="cpu") + draws.first
    kept = numbers(len(grad), place, key, draws.layer) >= draws.below
    return torch.where(kept.view(grad.shape), grad * scale, 0)
