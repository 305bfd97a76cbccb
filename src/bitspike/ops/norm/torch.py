"""Batch norm of every step by its own statistics, all steps at once: the time-parallel twin of T calls of F.batch_norm.

The passes below run anywhere; on a GPU the kernels of triton.py read each tensor once in a pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitspike.ops.available import fused_on_gpu
from bitspike.ops.first_order import first_order
from bitspike.ops.norm.reference import Averages
from bitspike.ops.saved import contiguous_tensors

_OVER = (1, 3, 4)  # what a step's statistics are taken over: batch, height, width


def step_norm(
    x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, eps: float, *, kernels: bool | None = None
) -> Tensor:
    """(x - mean[t, c]) / sqrt(variance[t, c] + eps) * weight[c] + bias[c], x `[T, B, C, H, W]`.

    As the stack of F.batch_norm(x[t], ...) over t, whose sums are rounded in another order. The running averages make
    their T moves by `momentum` at once: r * (1 - m)**T + sum_t m * (1 - m)**(T - 1 - t) * now[t], with the unbiased
    variance. Nothing waits for the device. Sums are float32 or wider whatever x is; x and the statistics are kept for
    the backward pass, which cannot be differentiated again. `kernels` says whether Triton computes; None: on a GPU,
    where it can.
    """
    if kernels is None:
        kernels = fused_on_gpu(x.device) and _fit_kernels(x, weight, bias, averages)
    out: Tensor = _StepNorm.apply(x.contiguous(), weight.contiguous(), bias.contiguous(), averages, eps, kernels)
    return out


def _fit_kernels(x: Tensor, weight: Tensor, bias: Tensor, averages: Averages) -> bool:
    """Return whether kernels apply: all is float32 (x perhaps half), and the averages keep more than the last step."""
    parts = (weight, bias, averages.mean, averages.variance)
    small = x.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return small and averages.momentum < 1 and all(part is None or part.dtype == torch.float32 for part in parts)


@first_order
class _StepNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, eps: float, kernels: bool
    ) -> Tensor:
        if kernels:
            from bitspike.ops.norm.triton import forward

            out, mean, inverse = forward(x, weight, bias, averages, eps)
        else:
            out, mean, inverse = _forward(x, weight, bias, averages, eps)
        ctx.save_for_backward(x, weight, mean, inverse)
        ctx.kernels = kernels
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse = contiguous_tensors(ctx)
        if ctx.kernels:
            from bitspike.ops.norm.triton import backward

            return *backward(grads[0].contiguous(), x, weight, mean, inverse), None, None, None
        return *_backward(grads[0], x, weight, mean, inverse), None, None, None


def _forward(x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output, and the mean and 1 / sqrt(variance + eps) of every step and channel, `[T, 1, C, 1, 1]`."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    variance, mean = torch.var_mean(wide, _OVER, correction=0, keepdim=True)
    _move(averages, mean[:, 0, :, 0, 0], variance[:, 0, :, 0, 0], x[0].numel() // x.shape[2])
    inverse = torch.rsqrt(variance + eps)
    # Centred first: x * scale + (bias - mean * scale) would cancel where the mean is far from 0.
    out = torch.addcmul(_by_channel(bias, wide), wide - mean, _by_channel(weight, wide) * inverse)
    return out.to(x.dtype), mean, inverse


def _move(averages: Averages, mean: Tensor, variance: Tensor, count: int) -> None:
    """Move the running averages T times, in place, towards each step's mean and unbiased variance `[T, C]`."""
    steps, keep = len(mean), 1 - averages.momentum
    later = torch.arange(steps - 1, -1, -1, dtype=mean.dtype, device=mean.device)
    shares = (averages.momentum * torch.pow(keep, later))[:, None]
    unbiased = variance * (count / max(count - 1, 1))
    for running, now in ((averages.mean, mean), (averages.variance, unbiased)):
        if running is not None:
            # not a product of matrices, which might round to TF32
            running.mul_(keep**steps).add_((shares * now).sum(0).to(running.dtype))


def _backward(grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, weight and bias."""
    grad, centred = grad.to(mean.dtype), x - mean
    count = x[0].numel() // x.shape[2]
    sums = grad.sum(_OVER, keepdim=True)
    products = (grad * centred).sum(_OVER, keepdim=True)
    slant = products * inverse.square() / count
    grad_x = _by_channel(weight, mean) * inverse * (grad - sums / count - centred * slant)
    grad_weight, grad_bias = (products * inverse).sum((0, 1, 3, 4)), sums.sum((0, 1, 3, 4))
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype), grad_bias.to(weight.dtype)


def _by_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.to(like.dtype)[:, None, None]
