"""Labels of a training batch: one class for each sample, or two with a share where samples are mixed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class MixedLabels(NamedTuple):
    """The classes of mixed samples, each `[B]`: a sample is of class `own`, but a `share` of it is of class `other`."""

    own: Tensor
    other: Tensor
    share: Tensor  # float32


Labels = Tensor | MixedLabels


def own_labels(labels: Labels) -> Tensor:
    """Return the class of each sample `[B]`; a mixed sample is right if its own class is found."""
    return labels.own if isinstance(labels, MixedLabels) else labels


def class_shares(labels: Labels, classes: int, dtype: torch.dtype) -> Tensor:
    """Return the share of each class in each sample, `[B, classes]`: 1 at the label and 0 elsewhere, or mixed.

    Mixed labels have 1 - share at their own class and share at the other, both at once if they are the same.
    """
    if not isinstance(labels, MixedLabels):
        return _indicator(labels, classes, dtype)
    share = labels.share.to(dtype)[:, None]
    return _indicator(labels.own, classes, dtype) * (1 - share) + _indicator(labels.other, classes, dtype) * share


def _indicator(labels: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Return `[B, C]`, 1 at the label and 0 elsewhere; one_hot would sort in a GPU's deterministic mode."""
    return (labels[:, None] == torch.arange(classes, device=labels.device)).to(dtype)


def balanced_weights(labels: Tensor, classes: int) -> Tensor:
    """Return the weight of each class `[classes]` float32: n / (present * n_c); 1 where a class has no sample.

    n_c of the n labels are of class c, and `present` classes have a label; so the mean weight of the samples is 1.
    """
    counts = torch.bincount(labels.cpu(), minlength=classes).double()
    present = int((counts > 0).sum())
    weights = torch.where(counts > 0, len(labels) / (present * counts.clamp(min=1)), 1.0)
    return weights.float().to(labels.device)


def sample_weights(labels: Labels, weights: Tensor) -> Tensor:
    """Return the weight of each sample `[B]`: that of its class, or the mean of its classes' by their shares."""
    if not isinstance(labels, MixedLabels):
        return weights[labels.long()]
    share = labels.share.to(weights.dtype)
    return weights[labels.own] * (1 - share) + weights[labels.other] * share
