"""Dropout of a whole `[T, B, ...]` tensor with the mask of reference.py; the backward pass draws it again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitspike.ops.dropout import kernels
from bitspike.ops.dropout.reference import dropped_below
from bitspike.ops.first_order import first_order


def dropout(x: Tensor, p: float, key: Tensor, layer: int, first_row: int = 0) -> Tensor:
    """x / (1 - p) where the mask keeps, else 0; rows are counted from `first_row` on."""
    out: Tensor = _Dropout.apply(x, p, key, layer, first_row)
    return out


@first_order
class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, key: Tensor, layer: int, first_row: int) -> Tensor:
        ctx.save_for_backward(key)
        ctx.p, ctx.layer, ctx.first_row = p, layer, first_row
        return _drop(x, p, key, layer, first_row)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (key,) = ctx.saved_tensors
        return _drop(grads[0], ctx.p, key, ctx.layer, ctx.first_row), None, None, None, None


def _drop(x: Tensor, p: float, key: Tensor, layer: int, first_row: int) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    total = x[0].numel()
    grid = (-(-total // 256), -(-len(x) // 4))
    first = first_row * x.shape[2:].numel()
    kernels._dropout_kernel[grid](
        x, out, key, len(x), total, first, dropped_below(p), 1 / (1 - p), layer, 256, num_warps=2
    )
    return out
