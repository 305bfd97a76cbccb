"""The count loss in one kernel a direction; its plain definition is `train.losses.count_loss`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bitspike.ops.fused import loss_kernels as kernels


def count_loss(spikes: Tensor, labels: Tensor, on: int, off: int) -> Tensor:
    """mean over samples and classes of (n - target)**2 / T; n counts spikes `[T, B, C]`, the target is on or off."""
    loss: Tensor = _CountLoss.apply(spikes, labels, on, off)
    return loss


class _CountLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, spikes: Tensor, labels: Tensor, on: int, off: int) -> Tensor:
        steps, batch, classes = spikes.shape
        size, block = batch * classes, 16
        losses = torch.empty(-(-size // block), device=spikes.device)
        grads = torch.empty(batch, classes, device=spikes.device)
        kernels._count_loss_kernel[(len(losses),)](
            spikes.contiguous(), labels, losses, grads, steps, size, on, off, 1.0 / (size * steps),
            CLASSES=classes, T_BLOCK=128, BLOCK=block, num_warps=4,
        )  # fmt: skip
        ctx.save_for_backward(grads)
        ctx.steps = steps
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (by_count,) = ctx.saved_tensors
        return (by_count * grads[0]).expand(ctx.steps, *by_count.shape), None, None, None
