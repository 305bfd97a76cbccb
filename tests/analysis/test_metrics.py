"""Figures of a classification against numbers made by hand, and against scikit-learn where it is installed."""

import numpy as np
import pytest
import torch

from bitspike.analysis.metrics import (
    balanced_accuracy,
    calibration,
    class_figures,
    confusion_matrix,
    macro_f1,
)

# Samples of classes 0 (4), 1 (3), 2 (1); class 3 is never seen, but answered once; one sample has no answer.
LABELS = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2])
ANSWERS = torch.tensor([0, 0, 1, 3, 1, 1, -1, 0])
MATRIX = [[2, 1, 0, 1, 0], [0, 2, 0, 0, 1], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]


def test_rows_are_labels_and_columns_answers():
    assert confusion_matrix(LABELS, ANSWERS, 4).tolist() == MATRIX


def test_figures_by_hand():
    figures = class_figures(torch.tensor(MATRIX))
    assert [each.precision for each in figures] == [2 / 3, 2 / 3, None, 0.0]
    assert [each.recall for each in figures] == [2 / 4, 2 / 3, 0.0, None]
    assert [each.f1 for each in figures] == [4 / 7, 4 / 6, 0.0, 0.0]
    assert [each.support for each in figures] == [4, 3, 1, 0]
    assert macro_f1(figures) == pytest.approx((4 / 7 + 4 / 6) / 4)
    assert balanced_accuracy(figures) == pytest.approx((2 / 4 + 2 / 3) / 3)


def test_f1_is_the_harmonic_mean_of_precision_and_recall():
    for each in class_figures(torch.tensor([[5, 2, 1], [3, 7, 0]])):
        assert each.f1 == pytest.approx(2 / (1 / each.precision + 1 / each.recall))


def test_a_class_without_samples_and_answers_does_not_count():
    few, more = (class_figures(confusion_matrix(LABELS, ANSWERS.clamp(max=2), n)) for n in (3, 9))
    assert more[8].f1 is None
    assert (macro_f1(few), balanced_accuracy(few)) == (macro_f1(more), balanced_accuracy(more))


def test_calibration_by_hand():
    shares = torch.tensor([[0.55, 0.45], [0.58, 0.42], [0.2, 0.8], [0.19, 0.81], [0.95, 0.05]])
    found = calibration(shares.double().log() + 3, torch.tensor([0, 1, 1, 1, 1]))  # a constant changes no softmax
    bins = {each.low: (each.samples, each.accuracy) for each in found.bins if each.samples}
    # 0.8 is the end of its bin
    assert bins == {0.5: (2, 0.5), 0.7: (1, 1.0), 0.8: (1, 1.0), 0.9: (1, 0.0)}
    assert found.bins[5].confidence == pytest.approx(0.565)
    assert found.error == pytest.approx((2 * abs(0.5 - 0.565) + (1 - 0.8) + (1 - 0.81) + 0.95) / 5)
    assert found.confidence == pytest.approx((0.55 + 0.58 + 0.8 + 0.81 + 0.95) / 5)


def test_calibration_at_the_ends():
    sure = calibration(torch.tensor([[1000.0, 0.0]]), torch.tensor([0]))
    assert (sure.error, sure.bins[9].samples) == (0.0, 1)
    silent = calibration(torch.zeros(3, 20), torch.tensor([0, 5, 6]))  # 1/20 each
    assert silent.bins[0].samples == 3
    assert silent.error == pytest.approx(1 / 3 - 0.05)


def test_calibration_of_other_bins():
    logits = torch.tensor([[0.6, 0.4], [0.9, 0.1]]).log()
    assert calibration(logits, torch.tensor([1, 0]), bins=1).error == pytest.approx(abs(0.5 - 0.75))
    assert calibration(logits, torch.tensor([1, 0]), bins=5).error == pytest.approx((0.6 + 0.1) / 2)


@pytest.mark.parametrize(
    ("labels", "answers", "message"),
    [
        ([0, 4], [0, 0], "labels must be from 0 to 3, but go from 0 to 4"),
        ([0, 1], [0, -2], "answers must be from -1 to 3, but go from -2 to 0"),
        ([0, 1], [0], r"answers must be \[2\], one for each label, but are \[1\]"),
    ],
)
def test_numbers_that_are_no_classes(labels, answers, message):
    with pytest.raises(ValueError, match=message):
        confusion_matrix(torch.tensor(labels), torch.tensor(answers), 4)


def test_all_figures_are_those_of_scikit_learn():
    oracle = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    drawn = np.random.default_rng(0)
    labels, answers = drawn.integers(0, 6, 200), drawn.integers(0, 7, 200)  # class 6 has answers, and no samples
    matrix = confusion_matrix(torch.from_numpy(labels), torch.from_numpy(answers), 7)
    assert matrix[:, :7].tolist() == oracle.confusion_matrix(labels, answers).tolist()
    figures = class_figures(matrix)
    precision, recall, f1, support = oracle.precision_recall_fscore_support(labels, answers, zero_division=0)
    assert [each.precision or 0.0 for each in figures] == pytest.approx(precision.tolist())
    assert [each.recall or 0.0 for each in figures] == pytest.approx(recall.tolist())
    assert [each.f1 for each in figures] == pytest.approx(f1.tolist())
    assert [each.support for each in figures] == support.tolist()
    assert macro_f1(figures) == pytest.approx(oracle.f1_score(labels, answers, average="macro", zero_division=0))
    known = answers < 6  # it warns of answers without samples
    figures = class_figures(confusion_matrix(*map(torch.from_numpy, (labels[known], answers[known])), 7))
    assert balanced_accuracy(figures) == pytest.approx(oracle.balanced_accuracy_score(labels[known], answers[known]))
