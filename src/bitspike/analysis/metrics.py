"""Figures of a classification: confusion matrix, precision, recall, F1, balanced accuracy, calibration. Arrays in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

NO_ANSWER = -1


def confusion_matrix(labels: Tensor, answers: Tensor, classes: int) -> Tensor:
    """matrix[i, j] counts the samples of class i that were answered with j, `[classes, classes + 1]` int64.

    The last column counts samples without an answer, which `answers` marks with -1.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.metrics import confusion_matrix
        >>> labels, answers = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, -1])
        >>> confusion_matrix(labels, answers, classes=2).tolist()
        [[1, 1, 0], [0, 1, 1]]
    """
    for name, values, low in (("labels", labels, 0), ("answers", answers, NO_ANSWER)):
        if values.dim() != 1 or len(values) != len(labels):
            raise ValueError(
                f"confusion_matrix: {name} must be [{len(labels)}], one for each label, but are {list(values.shape)}"
            )
        if len(values) and not (low <= int(values.min()) and int(values.max()) < classes):
            raise ValueError(
                f"confusion_matrix: {name} must be from {low} to {classes - 1}, but go from {int(values.min())} to "
                f"{int(values.max())}; are there {classes} classes?"
            )
    column = torch.where(answers == NO_ANSWER, classes, answers).long().cpu()
    counts = torch.bincount(labels.long().cpu() * (classes + 1) + column, minlength=classes * (classes + 1))
    return counts.view(classes, classes + 1)


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """The figures of one class; None where nothing was counted that the figure could be a share of.

    `precision` is the share of its answers that are right, `recall` the share of its samples that are answered right,
    `f1` is 2 * right / (answers + samples), and `support` the number of its samples.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.metrics import class_figures
        >>> figures = class_figures(torch.tensor([[3, 1, 0], [0, 2, 2]]))[1]
        >>> figures.support, figures.recall
        (4, 0.5)
    """

    precision: float | None
    recall: float | None
    f1: float | None
    support: int


def class_figures(confusion: Tensor) -> list[ClassFigures]:
    """Return precision, recall, F1 and support of each class from a confusion matrix.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.metrics import class_figures
        >>> [figures.precision for figures in class_figures(torch.tensor([[3, 1, 0], [0, 3, 1]]))]
        [1.0, 0.75]
    """
    classes = len(confusion)
    right = confusion[:, :classes].diagonal().tolist()
    answered = confusion[:, :classes].sum(0).tolist()
    support = confusion.sum(1).tolist()
    return [
        ClassFigures(_share(r, a), _share(r, s), _share(2 * r, a + s), s)
        for r, a, s in zip(right, answered, support, strict=True)
    ]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def macro_f1(figures: list[ClassFigures]) -> float:
    """Return the mean F1 of the classes that have samples or answers; each class counts the same.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.metrics import class_figures, macro_f1
        >>> round(macro_f1(class_figures(torch.tensor([[3, 1, 0], [0, 4, 0]]))), 4)
        0.873
    """
    return _mean([each.f1 for each in figures])


def balanced_accuracy(figures: list[ClassFigures]) -> float:
    """Return the mean recall of the classes that have samples; a rare class counts as much as a frequent one.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.metrics import balanced_accuracy, class_figures
        >>> balanced_accuracy(class_figures(torch.tensor([[90, 0, 0], [5, 5, 0]])))
        0.75
    """
    return _mean([each.recall for each in figures])


def _mean(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


@dataclass(frozen=True, slots=True)
class ConfidenceBin:
    """The samples whose confidence is above `low` and at most `high`: their mean confidence and their accuracy."""

    low: float
    high: float
    samples: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """The expected calibration error, and the bins that it is computed from.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.metrics import calibration
        >>> found = calibration(torch.tensor([[4.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1]))
        >>> len(found.bins), found.bins[-1].samples, found.bins[-1].accuracy
        (10, 4, 0.75)
    """

    error: float
    confidence: float
    bins: list[ConfidenceBin]


def calibration(logits: Tensor, labels: Tensor, bins: int = 10) -> Calibration:
    """error = sum over bins of n_b / N * |accuracy_b - confidence_b|, from logits `[N, C]`.

    The confidence of a sample is its largest softmax. Bins have the same width; a confidence on a border is in the bin
    below it. The error is 0 for a network that is right in 70 % of the samples for which it says 70 %.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.metrics import calibration
        >>> logits = torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.9, 0.1]]).log()
        >>> round(calibration(logits, torch.tensor([0, 1, 0])).error, 4)  # (2 * |1/2 - 0.6| + |1 - 0.9|) / 3
        0.1
    """
    confidence, answers = torch.softmax(logits.double().cpu(), 1).max(1)
    right = (answers == labels.cpu()).double()
    place = (confidence * bins).ceil().long().clamp(1, bins) - 1
    counts, sure, hits = (
        torch.zeros(bins, dtype=torch.float64).index_add_(0, place, values)
        for values in (torch.ones_like(confidence), confidence, right)
    )
    error = ((hits - sure).abs().sum() / max(len(confidence), 1)).item()
    rows: list[Any] = torch.stack((counts, sure, hits), 1).tolist()
    found = [
        ConfidenceBin(i / bins, (i + 1) / bins, int(n), s / n if n else None, h / n if n else None)
        for i, (n, s, h) in enumerate(rows)
    ]
    return Calibration(error, confidence.mean().item() if len(confidence) else 0.0, found)
