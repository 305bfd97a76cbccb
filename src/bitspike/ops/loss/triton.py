"""A loss and the right samples in one kernel; the plain definitions are in train/losses.py."""

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


def entropy_loss(
    scores: Tensor, own: Tensor, mixed_with: tuple[Tensor, Tensor] | None, scale: float, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the cross entropy of logits scale * scores `[B, C]`, and which samples are right, `[B]` 1 or 0.

    Samples have the class `own [B]`, or are mixed with the class and by the share (`[B]` float32) of `mixed_with`.
    """
    loss, rights = _EntropyLoss.apply(scores, own, mixed_with, scale, smoothing)
    return loss, rights


@first_order
class _EntropyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        own: Tensor,
        mixed_with: tuple[Tensor, Tensor] | None,
        scale: float,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        scores, own = scores.contiguous(), own.contiguous()
        batch, classes = scores.shape
        losses, rights = torch.empty(2, batch, dtype=torch.float32, device=scores.device)
        grads = torch.empty_like(scores)
        other, share = (own, losses) if mixed_with is None else (each.contiguous() for each in mixed_with)
        with on(scores):
            kernels._entropy_kernel[(batch,)](
                scores, own, other, share, losses, rights, grads, scale, smoothing, 1.0 / batch,
                MIXED=mixed_with is not None, CLASSES=classes, BLOCK=max(16, next_power_of_2(classes)), num_warps=1,
            )  # fmt: skip
        ctx.save_for_backward(grads)
        ctx.mark_non_differentiable(rights)
        return losses.sum(), rights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (by_score,) = ctx.saved_tensors
        return by_score * grads[0], None, None, None, None
