"""The figures of a network that classifies, from its scores: all that `bitspike evaluate` tells of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from bitspike.analysis.metrics import (
    NO_ANSWER,
    Calibration,
    ClassFigures,
    balanced_accuracy,
    calibration,
    class_figures,
    confusion_matrix,
    macro_f1,
)


@dataclass(frozen=True, slots=True, eq=False)
class Classification:
    """The answers of a network by class, with the figures that follow from them.

    `confusion [classes, classes + 1]` is that of `confusion_matrix`. `calibration` is None where the scores are not
    logits, and so say nothing of a confidence. `file_labels` has the label of each class in the user's own files; it is
    empty where that is not known.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.classification import classify
        >>> scores, labels = torch.tensor([[2.0, 1.0], [0.0, 3.0], [0.0, 0.0]]), torch.tensor([0, 1, 1])
        >>> found = classify(scores, labels, ["cat", "dog"], silence=True)
        >>> found.confusion.tolist(), found.balanced_accuracy
        ([[1, 0, 0], [0, 1, 1]], 0.75)
    """

    names: tuple[str, ...]
    confusion: Tensor
    figures: list[ClassFigures]
    calibration: Calibration | None
    file_labels: tuple[str, ...] = ()

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes."""
        return macro_f1(self.figures)

    @property
    def balanced_accuracy(self) -> float:
        """The mean recall of the classes."""
        return balanced_accuracy(self.figures)

    def as_json(self) -> dict[str, Any]:
        """Return plain values; the column of samples without an answer is apart."""
        return {
            "classes": [
                {"label": label, **self._file_label(label), "name": name, **asdict(figures)}
                for label, (name, figures) in enumerate(zip(self.names, self.figures, strict=True))
            ],
            "confusion": self.confusion[:, :-1].tolist(),
            "no_answer": self.confusion[:, -1].tolist(),
            "macro_f1": self.macro_f1,
            "balanced_accuracy": self.balanced_accuracy,
            "calibration": None if self.calibration is None else asdict(self.calibration),
        }

    def _file_label(self, label: int) -> dict[str, str | None]:
        """Return a class's label in the user's files, under its name; None for an output that is of no class."""
        if not self.file_labels:
            return {}
        return {"file_label": self.file_labels[label] if label < len(self.file_labels) else None}


def classify(
    scores: Tensor,
    labels: Tensor,
    names: Sequence[str],
    *,
    silence: bool = False,
    scale: float | None = None,
    file_labels: Sequence[str] = (),
) -> Classification:
    """Return the figures of scores `[N, outputs]` for `labels [N]`; the answer is the largest score, first of equals.

    With `silence`, a sample whose scores are all 0 has no answer, as no output neuron fired. `scale` times a score is
    the logit that the loss sees; without it there is no calibration. Outputs beyond `names` have their number as name,
    or "output" and their number where the classes have `file_labels`, which are numbers, too.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.classification import classify
        >>> found = classify(torch.eye(3)[[0, 1, 1]], torch.tensor([0, 1, 2]), ["a", "b", "c"], scale=10.0)
        >>> round(found.macro_f1, 4), round(found.calibration.error, 4)
        (0.5556, 0.3332)
    """
    scores = scores.detach().cpu()
    answers = scores.argmax(1)
    if silence:
        answers = torch.where(scores.amax(1) > 0, answers, NO_ANSWER)
    outputs = max(scores.shape[1], len(names))
    more = (f"output {number}" if file_labels else str(number) for number in range(len(names), outputs))
    confusion = confusion_matrix(labels.cpu(), answers, outputs)
    own = torch.where(answers == NO_ANSWER, NO_ANSWER, labels.cpu())  # without an answer it is not right
    sure = None if scale is None else calibration(scores.double() * scale, own)
    return Classification((*names, *more), confusion, class_figures(confusion), sure, tuple(file_labels))
