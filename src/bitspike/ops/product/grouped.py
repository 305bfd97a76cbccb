"""Many small dense layers at once, one for each group (a seed, a variant); no group sees another's numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitspike.ops.first_order import first_order


@first_order
class _GroupedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        out = x.new_empty(x.shape[0], *weight.shape[:2])
        # Products write their group's stripe in place: a batched product would put the group before time,
        # and turning that around costs as much as the product.
        for group in range(len(weight)):
            torch.mm(x[:, group], weight[group].T, out=out[:, group])
        return out.add_(bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, weight = ctx.saved_tensors
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        grad_weight = torch.empty_like(weight)
        for group in range(len(weight)):
            torch.mm(grad[:, group].T, x[:, group], out=grad_weight[group])
            if grad_x is not None:
                torch.mm(grad[:, group], weight[group], out=grad_x[:, group])
        return grad_x, grad_weight, grad.sum(0)


def grouped_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """y[t, g] = weight[g] @ x[t, g] + bias[g]; x `[T, G, I]`, weight `[G, O, I]`, bias `[G, O]`, y `[T, G, O]`.

    Examples:
        >>> import torch
        >>> from bitspike.ops import grouped_linear
        >>> x, weight, bias = torch.ones(10, 2, 3), torch.ones(2, 4, 3), torch.zeros(2, 4)
        >>> grouped_linear(x, weight, bias).shape  # [T, groups, outputs]
        torch.Size([10, 2, 4])
    """
    if x.dim() != 3 or weight.dim() != 3 or x.shape[1:] != (weight.shape[0], weight.shape[2]):
        raise ValueError(
            f"grouped_linear: x must be [T, G, I] and weight [G, O, I], "
            f"but have shapes {list(x.shape)} and {list(weight.shape)}"
        )
    if bias.shape != weight.shape[:2]:
        raise ValueError(
            f"grouped_linear: bias must be [G, O] = {list(weight.shape[:2])}, but has shape {list(bias.shape)}"
        )
    y: Tensor = _GroupedLinear.apply(x, weight, bias)
    return y
