"""The count loss in one kernel, with what it tells of accuracy; its plain definition is `train.losses.count_loss`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from triton import next_power_of_2

from bitspike.ops.fused import loss_kernels as kernels


def count_loss(spikes: Tensor, labels: Tensor, on: int, off: int) -> tuple[Tensor, Tensor]:
    """mean over samples and classes of (n - target)**2 / T, and which samples are right, `[B]` 1 or 0.

    n counts spikes `[T, B, C]` over time, the target is `on` for the label and `off` for other classes; right is a
    sample whose label fires most, or first among equals.
    """
    loss, rights = _CountLoss.apply(spikes, labels, on, off)
    return loss, rights


class _CountLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, spikes: Tensor, labels: Tensor, on: int, off: int) -> tuple[Tensor, Tensor]:
        steps, batch, classes = spikes.shape
        losses, rights = torch.empty(2, batch, device=spikes.device)
        grads = torch.empty(batch, classes, device=spikes.device)
        kernels._count_loss_kernel[(batch,)](
            spikes.contiguous(), labels, losses, rights, grads, steps, batch * classes, on, off,
            1.0 / (batch * classes * steps),
            CLASSES=classes, C_BLOCK=max(16, next_power_of_2(classes)), T_BLOCK=32, num_warps=2,
        )  # fmt: skip
        ctx.save_for_backward(grads)
        ctx.mark_non_differentiable(rights)
        ctx.steps = steps
        return losses.sum(), rights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (by_count,) = ctx.saved_tensors
        return (by_count * grads[0]).expand(ctx.steps, *by_count.shape), None, None, None


def tally_(sums: Tensor, loss: Tensor, rights: Tensor) -> None:
    """sums[0..2] (float64) += loss * samples, right samples, samples."""
    kernels._tally_kernel[(1,)](sums, loss.detach(), rights, len(rights), BLOCK=256)


def note_first_bad_(first: Tensor, norms: Tensor, step: Tensor) -> None:
    """first[i] = step where norms[i] is not finite and first[i] is still -1."""
    size = len(first)
    kernels._first_bad_kernel[(1,)](norms, first, step, SIZE=size, BLOCK=next_power_of_2(size), num_warps=1)


def gather_images(values: Tensor, labels: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """values[rows] / 255 in float32 and labels[rows], of uint8 images `[N, ...]`."""
    images = torch.empty(len(rows), *values.shape[1:], device=values.device)
    chosen = torch.empty(len(rows), dtype=labels.dtype, device=labels.device)
    if len(rows):
        size = values[0].numel()
        grid = (len(rows), -(-size // 1024))
        kernels._images_kernel[grid](values, labels, rows, images, chosen, SIZE=size, BLOCK=1024)
    return images, chosen
