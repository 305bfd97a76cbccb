"""The paper's two losses: spike counts for classification, a membrane trace for temporal coding."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bitspike.ops.available import fused_on_gpu


def count_loss(spikes: Tensor, labels: Tensor, correct: float = 0.8, incorrect: float = 0.2) -> Tensor:
    """mean over batch and classes of (n - target)**2 / T; n counts spikes `[T, B, C]` over time.

    The target is correct*T for the right class and incorrect*T for the others, rounded down to whole spikes. The
    mean and the division by T are those of snnTorch's mse_count_loss, on whose scale the paper's learning rates stand.
    """
    return judge_counts(spikes, labels, correct, incorrect)[0]


def judge_counts(spikes: Tensor, labels: Tensor, correct: float, incorrect: float) -> tuple[Tensor, Tensor]:
    """The count loss, and which samples are right, `[B]`: those whose label fires most (first among equals)."""
    for name, value in (("spikes", spikes), ("labels", labels)):
        if not isinstance(value, Tensor):
            raise TypeError(f"count_loss: {name} must be a tensor, but is a {type(value).__name__}")
    if not spikes.is_floating_point():
        raise TypeError(f"count_loss: spikes must be floating point, but have dtype {spikes.dtype}")
    if spikes.dim() != 3 or len(spikes) == 0:
        raise ValueError(f"count_loss: spikes must be [T, B, classes] with T >= 1, but have shape {list(spikes.shape)}")
    steps, batch, classes = spikes.shape
    if labels.shape != (batch,) or labels.is_floating_point():
        raise ValueError(
            f"count_loss: labels must be whole numbers of shape [{batch}], one a sample, "
            f"but are {labels.dtype} of shape {list(labels.shape)}"
        )
    if not 0 <= incorrect < correct <= 1:
        raise ValueError(
            f"count_loss: rates must satisfy 0 <= incorrect < correct <= 1, but are {incorrect!r} and {correct!r}"
        )
    if not labels.is_cuda and batch and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise ValueError(
            f"count_loss: labels must be in 0..{classes - 1}, but range over {int(labels.min())}..{int(labels.max())}"
        )
    on, off = int(steps * correct), int(steps * incorrect)
    if spikes.dtype == torch.float32 and batch and fused_on_gpu(spikes.device):
        from bitspike.ops.fused import loss as fused

        if classes <= fused.MOST_CLASSES:
            return fused.count_loss(spikes, labels, on, off)
    count = spikes.sum(0, dtype=torch.promote_types(spikes.dtype, torch.float32))
    # as one_hot, which a GPU's deterministic mode makes of a sort
    right = labels[:, None] == torch.arange(classes, device=labels.device)
    target = right.to(count.dtype) * (on - off) + off
    return F.mse_loss(count, target) / steps, count.detach().argmax(1) == labels


def trace_loss(membrane: Tensor, target: Tensor) -> Tensor:
    """sum over time of (target - u)**2, averaged over the rest; membrane `[T, ...]`, target `[T]` or `[T, ...]`."""
    if not isinstance(target, Tensor):
        raise TypeError(f"trace_loss: target must be a tensor, but is a {type(target).__name__}")
    if not isinstance(membrane, Tensor):
        raise TypeError(
            f"trace_loss: membrane must be a tensor, but is {membrane!r}; run the layer with keep_membrane=True"
        )
    if target.shape[:1] != membrane.shape[:1]:
        raise ValueError(
            f"trace_loss: target must have the membrane's {membrane.shape[0] if membrane.dim() else 0} time steps, "
            f"but has shape {list(target.shape)}"
        )
    if target.dim() == 1:
        target = target.view(-1, *(1 for _ in membrane.shape[1:]))
    elif target.shape != membrane.shape:
        raise ValueError(
            f"trace_loss: target of shape {list(target.shape)} does not fit the membrane's {list(membrane.shape)}; "
            "give one value a time step, or the membrane's shape"
        )
    errors = (target - membrane) ** 2
    return errors.flatten(1).mean(1).sum() if errors.dim() > 1 else errors.sum()
