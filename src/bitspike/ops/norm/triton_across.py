"""Batch norm of every step in Triton, of a batch that lies in several processes: one exchange a direction.

Forward they exchange the sums of values and of squares, in double; backward both sums of the gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitspike.ops.first_order import first_order
from bitspike.ops.norm.across import Across
from bitspike.ops.norm.reference import Averages
from bitspike.ops.norm.triton import backward, forward
from bitspike.ops.saved import contiguous_tensors


def step_norm_across(x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, eps: float, across: Across) -> Tensor:
    """Return the batch norm of torch.py's `step_norm` for the rows here: x `[T, B, C, H, W]`, weight and bias `[C]`."""
    out: Tensor = _Across.apply(x.contiguous(), weight.contiguous(), bias.contiguous(), averages, eps, across)
    return out


@first_order
class _Across(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, eps: float, across: Across
    ) -> Tensor:
        out, mean, inverse = forward(x, weight, bias, averages, eps, across)
        ctx.save_for_backward(x, weight, mean, inverse)
        ctx.across = across
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse = contiguous_tensors(ctx)
        return *backward(grads[0].contiguous(), x, weight, mean, inverse, ctx.across), None, None, None
