"""Losses: on spike counts with a target (the paper's), on counts as logits, and on a membrane trace."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from bitspike.ops.available import fused_on_gpu
from bitspike.ops.checks import hidden
from bitspike.train.labels import Labels, MixedLabels, class_shares, own_labels, sample_weights


def count_loss(spikes: Tensor, labels: Tensor, correct: float = 0.8, incorrect: float = 0.2) -> Tensor:
    """mean over batch and classes of (n - target)**2 / T; n counts spikes `[T, B, C]` over time.

    The target is correct*T for the right class and incorrect*T for the others, rounded down to whole spikes. The
    mean and the division by T are those of snnTorch's mse_count_loss, on whose scale the paper's learning rates stand.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> spikes = torch.zeros(10, 1, 2)  # [T, B, classes]
        >>> spikes[:8, 0, 1] = 1.0
        >>> loss = bitspike.count_loss(spikes, torch.tensor([1]))  # counts 0 and 8; targets 2 and 8
        >>> round(loss.item(), 4)
        0.2
    """
    return judge_counts(spikes, labels, correct, incorrect)[0]


def judge_counts(
    spikes: Tensor, labels: Tensor, correct: float, incorrect: float, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the count loss, and which samples are right, `[B]`: see `fires_most`.

    With `weights [C]` a sample's error counts as often as its class's weight says. The fused kernel has no weights.
    """
    _check_fit("count_loss", spikes, labels)
    steps, batch, classes = spikes.shape
    if not 0 <= incorrect < correct <= 1:
        raise ValueError(
            f"count_loss: rates must satisfy 0 <= incorrect < correct <= 1, but are {incorrect!r} and {correct!r}"
        )
    on, off = int(steps * correct), int(steps * incorrect)
    if weights is None and spikes.dtype == torch.float32 and batch and fused_on_gpu(spikes.device):
        from bitspike.ops.loss import triton as fused

        if classes <= fused.MOST_CLASSES:
            return fused.count_loss(spikes, labels, on, off)
    count = spike_count(spikes)
    target = class_shares(labels, classes, count.dtype) * (on - off) + off
    if weights is None:
        return F.mse_loss(count, target) / steps, fires_most(count, labels)
    errors = (count - target).square().mean(1) * sample_weights(labels, weights)
    return errors.mean() / steps, fires_most(count, labels)


def cross_entropy_loss(spikes: Tensor, labels: Tensor, scale: float = 10.0, smoothing: float = 0.0) -> Tensor:
    """mean over batch of -sum_c q_c log softmax_c(scale * n / T); n `[B, C]` counts spikes `[T, B, C]` over time.

    q is 1 - smoothing for the right class, and beside that smoothing / C for every class. The gradient is the same at
    every step of time.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> spikes = torch.zeros(10, 1, 2)  # [T, B, classes]
        >>> spikes[:8, 0, 1] = 1.0
        >>> right = bitspike.cross_entropy_loss(spikes, torch.tensor([1]))
        >>> wrong = bitspike.cross_entropy_loss(spikes, torch.tensor([0]))
        >>> round(right.item(), 4), round(wrong.item(), 4)
        (0.0003, 8.0003)
    """
    return judge_entropy(spikes, labels, scale, smoothing)[0]


def judge_entropy(
    spikes: Tensor, labels: Labels, scale: float, smoothing: float, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the cross entropy, and which samples are right, `[B]`: see `fires_most`. Labels may be mixed.

    With `weights [C]` a sample's entropy counts as often as its class's weight says.
    """
    own = own_labels(labels)
    _check_fit("cross_entropy_loss", spikes, own)
    _check_entropy(scale, smoothing)
    count = spike_count(spikes)
    return _entropy(count * (scale / len(spikes)), labels, smoothing, weights), fires_most(count, own)


def judge_scores(
    scores: Tensor, labels: Labels, scale: float, smoothing: float, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the cross entropy of logits scale * scores `[B, C]`, and which samples are right, `[B]`.

    A sample is right if its label has the largest score, the first of equals. Labels may be mixed. With `weights [C]` a
    sample's entropy counts as often as its class's weight says; the fused kernel has no weights.
    """
    own = own_labels(labels)
    _check_fit("judge_scores", scores[None], own)
    _check_entropy(scale, smoothing)
    if weights is None and scores.dtype == torch.float32 and len(scores) and fused_on_gpu(scores.device):
        from bitspike.ops.loss import triton as fused

        if scores.shape[1] <= fused.MOST_CLASSES:
            mixed_with = (labels.other, labels.share) if isinstance(labels, MixedLabels) else None
            return fused.entropy_loss(scores, own, mixed_with, scale, smoothing)
    return _entropy(scores * scale, labels, smoothing, weights), scores.detach().argmax(1) == own


def _check_entropy(scale: float, smoothing: float) -> None:
    if not 0 < scale < math.inf:
        raise ValueError(f"cross_entropy_loss: scale must be > 0, but is {scale!r}; logits are scale * spike rate")
    if not 0 <= smoothing < 1:
        raise ValueError(f"cross_entropy_loss: smoothing must be in [0, 1), but is {smoothing!r}")


def _entropy(logits: Tensor, labels: Labels, smoothing: float, weights: Tensor | None = None) -> Tensor:
    """mean over batch of -w sum_c q_c log softmax_c(logits): q are the classes' shares, smoothed; w a weight, or 1."""
    target = class_shares(labels, logits.shape[1], logits.dtype) * (1 - smoothing) + smoothing / logits.shape[1]
    entropy = -(target * F.log_softmax(logits, 1)).sum(1)
    return entropy.mean() if weights is None else (entropy * sample_weights(labels, weights)).mean()


def spike_count(spikes: Tensor) -> Tensor:
    """Return the spikes summed over time, `[B, C]`, in at least float32, which holds every count exactly."""
    return spikes.sum(0, dtype=torch.promote_types(spikes.dtype, torch.float32))


def fires_most(count: Tensor, labels: Tensor) -> Tensor:
    """Return for each sample `[B]` whether its label's neuron has the highest count `[B, C]`, the first of equals.

    If no neuron fires there is no answer, so the sample is not right: silence would be class 0 otherwise.
    """
    count = count.detach()
    return (count.argmax(1) == labels) & (count.amax(1) > 0)


def _check_fit(where: str, spikes: Tensor, labels: Tensor) -> None:
    """Raise unless spikes are `[T, B, classes]`, with a label in 0..classes-1 for each of B."""
    for name, value in (("spikes", spikes), ("labels", labels)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{where}: {name} must be a tensor, but is a {type(value).__name__}")
    if not spikes.is_floating_point():
        raise TypeError(f"{where}: spikes must be floating point, but have dtype {spikes.dtype}")
    if spikes.dim() != 3 or len(spikes) == 0:
        raise ValueError(f"{where}: spikes must be [T, B, classes] with T >= 1, but have shape {list(spikes.shape)}")
    batch, classes = spikes.shape[1:]
    if labels.shape != (batch,) or labels.is_floating_point():
        raise ValueError(
            f"{where}: labels must be whole numbers of shape [{batch}], one a sample, "
            f"but are {labels.dtype} of shape {list(labels.shape)}"
        )
    if not hidden(labels) and batch and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise ValueError(
            f"{where}: labels must be in 0..{classes - 1}, but range over {int(labels.min())}..{int(labels.max())}"
        )


def trace_errors(membrane: Tensor, target: Tensor, over_time: Literal["mean", "sum"] = "mean") -> Tensor:
    """mean or sum over time of (target - u)**2, for each of the rest: membrane and target `[T, ...]` give `[...]`."""
    errors: Tensor = (target - membrane) ** 2
    return errors.sum(0) if over_time == "sum" else errors.mean(0)


def trace_loss(membrane: Tensor, target: Tensor) -> Tensor:
    """sum over time of (target - u)**2, averaged over the rest; membrane `[T, ...]`, target `[T]` or `[T, ...]`.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> membrane = torch.tensor([[0.0], [0.5], [1.0]])  # [T, neurons]
        >>> target = torch.tensor([0.0, 1.0, 1.0])  # [T]
        >>> bitspike.trace_loss(membrane, target).item()
        0.25
    """
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
