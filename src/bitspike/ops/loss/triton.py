"""The count loss and the right samples in one kernel; the plain definition is `count_loss` in train/losses.py."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from triton import next_power_of_2

from bitspike.ops.first_order import first_order
from bitspike.ops.launch import on
from bitspike.ops.loss import kernels

MOST_CLASSES = 512  # a program holds all classes of a sample


def count_loss(spikes: Tensor, labels: Tensor, on: int, off: int) -> tuple[Tensor, Tensor]:
    """mean over samples and classes of (n - target)**2 / T, and which samples are right, `[B]` 1 or 0.

    n counts spikes `[T, B, C]` over time, the target is `on` for the label and `off` for other classes; right is a
    sample whose label fires most, or first among equals that fire (`train.losses.fires_most`).
    """
    loss, rights = _CountLoss.apply(spikes, labels, on, off)
    return loss, rights


@first_order
class _CountLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, spikes: Tensor, labels: Tensor, on_target: int, off: int) -> tuple[Tensor, Tensor]:
        steps, batch, classes = spikes.shape
        losses, rights = torch.empty(2, batch, dtype=torch.float32, device=spikes.device)
        grads = torch.empty(batch, classes, dtype=torch.float32, device=spikes.device)
        with on(spikes):
            kernels._count_loss_kernel[(batch,)](
                spikes.contiguous(), labels.contiguous(), losses, rights, grads, steps, batch * classes, on_target, off,
                1.0 / (batch * classes * steps),
                CLASSES=classes, C_BLOCK=max(16, next_power_of_2(classes)), T_BLOCK=32, num_warps=2,
            )  # fmt: skip
        ctx.save_for_backward(grads)
        ctx.mark_non_differentiable(rights)
        ctx.steps = steps
        return losses.sum(), rights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (by_count,) = ctx.saved_tensors
        return (by_count * grads[0]).expand(ctx.steps, *by_count.shape), None, None, None
