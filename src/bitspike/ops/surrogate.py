"""The spike and the gradient that stands in for its derivative (Eq. 2 and the clamped fast sigmoid)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def fast_sigmoid_grad(u: Tensor, center: Tensor | float, slope: float) -> Tensor:
    """ds/du = 1 / (1 + slope * |center - u|)**2."""
    return 1.0 / (1.0 + slope * (center - u).abs()) ** 2


class _Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, theta: Tensor, center: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(u, center)
        ctx.slope = slope
        return (u >= theta).to(u.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor | None, None]:
        u, center = ctx.saved_tensors
        grad_u = grads[0] * fast_sigmoid_grad(u, center, ctx.slope)
        grad_center = -grad_u if ctx.needs_input_grad[2] else None
        return grad_u, None, grad_center, None


def spike(u: Tensor, theta: Tensor, center: Tensor, slope: float) -> Tensor:
    """1 where u >= theta, else 0; the gradient is the fast sigmoid's around `center`, not around theta.

    `center` receives minus the gradient of u, for thresholds that depend on earlier spikes.
    """
    z: Tensor = _Spike.apply(u, theta, center, slope)
    return z
