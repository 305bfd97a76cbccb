"""Baselines beside which an accuracy is read: the most frequent class, and logistic regression on simple features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bitspike.analysis.count_features import camera_grids, count_features
from bitspike.data.samples import Samples
from bitspike.data.splits import drawn_groups, group_rows, held_out

# Strengths of the penalty that are tried, the strongest first: each fit begins where the one before ended.
PENALTIES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.001)
_HELD_OUT = 0.2
_USUAL = 0.1  # where there are too few samples to hold some out
_ITERATIONS = 100
_FLAT = 1e-4  # largest slope of the loss at the end of a fit


@dataclass(frozen=True, slots=True)
class Baselines:
    """The accuracies of two classifiers that know nothing of spikes, on the samples of one split.

    `majority` always answers with the class that most training samples have. `logistic` is logistic regression;
    `features` says on what, and `penalty` is the strength of its L2 penalty.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.baselines import baselines
        >>> from bitspike.data import Images
        >>> images = torch.zeros(20, 1, 2, 2)
        >>> images[10:, 0, 0] = 1.0  # class 1 has a bright row
        >>> samples = Images(images, torch.arange(20) // 10)
        >>> found = baselines(samples, samples)
        >>> found.majority, found.logistic
        (0.5, 1.0)
    """

    majority: float
    logistic: float
    features: str
    penalty: float


def fit_count(train: Samples) -> int:
    """Return how many fits `baselines` makes: one for each penalty and grid of squares, and the last.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.baselines import fit_count
        >>> from bitspike.data import Images
        >>> fit_count(Images(torch.zeros(4, 1, 2, 2), torch.arange(4) // 2))
        8
    """
    return len(camera_grids(train)) * len(PENALTIES) + 1


def baselines(train: Samples, test: Samples, *, on_fit: Callable[[], object] = lambda: None) -> Baselines:
    """Return the baselines of `test` after learning from `train`; `on_fit` is called after each of `fit_count` fits.

    The events of a camera are counted in squares of pixels: on a grid of up to 8 x 8 squares, or of 4 x 4. The grid is
    chosen like the penalty, by the accuracy on a fifth of the training samples.

    Examples:
        >>> import bitspike
        >>> from bitspike.analysis.baselines import baselines
        >>> from bitspike.data.samples import frames_from_dense
        >>> import torch
        >>> values = torch.zeros(20, 30, 2)
        >>> values[:10, :15, 0], values[10:, 15:, 0] = 1, 1  # early or late
        >>> samples = frames_from_dense(values, torch.arange(20) // 10)
        >>> baselines(samples, samples).logistic
        1.0
    """
    _require_samples(train.labels, test.labels)
    tried: list[tuple[_Choice, int | None, Tensor, str]] = []
    for squares in camera_grids(train):
        inputs, words = count_features(train, squares=squares)
        choice = _choose(_standardized(inputs, inputs), train.labels, train.groups, PENALTIES, on_fit)
        tried.append((choice, squares, inputs, words))
    choice, squares, inputs, words = max(tried, key=lambda each: each[0].score)
    tests, _ = count_features(test, train.steps, squares=squares)
    found = _last_fit(inputs, train.labels, tests, test.labels, choice)
    on_fit()
    return Baselines(majority(train.labels, test.labels), found.accuracy, words, found.penalty)


def majority(train_labels: Tensor, test_labels: Tensor) -> float:
    """Return the share of the test samples that have the most frequent training label, the smallest of equals.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.baselines import majority
        >>> majority(torch.tensor([0, 2, 2, 1]), torch.tensor([0, 2, 1, 2]))
        0.5
    """
    label = torch.bincount(train_labels.cpu()).argmax()
    return (test_labels.cpu() == label).double().mean().item()


@dataclass(frozen=True, slots=True, eq=False)
class Logistic:
    """A logistic regression: its accuracy on the test samples, its answers `[N]`, and the penalty that was chosen.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.baselines import logistic
        >>> x, labels = torch.arange(10.0)[:, None], torch.arange(10) // 5
        >>> logistic(x, labels, x, labels).answers.tolist()
        [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    """

    accuracy: float
    answers: Tensor
    penalty: float


def logistic(
    features: Tensor,
    labels: Tensor,
    test_features: Tensor,
    test_labels: Tensor,
    *,
    groups: Tensor | None = None,
    penalties: tuple[float, ...] = PENALTIES,
    on_fit: Callable[[], object] = lambda: None,
) -> Logistic:
    """Fit logistic regression on `features [N, F]` and `labels [N]`; judge it on the test samples.

    Features are standardized: each has mean 0 and standard deviation 1 over the training samples. The penalty is the
    one with the highest accuracy on a fifth of the training samples (of each class, or whole groups), and of equals the
    one with the lowest loss there. The final fit uses all training samples. The same samples give the same result.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.baselines import logistic
        >>> x, labels = torch.arange(10.0)[:, None], torch.arange(10) // 5
        >>> logistic(x, labels, x, labels).accuracy
        1.0
    """
    _require_samples(labels, test_labels)
    choice = _choose(_standardized(features, features), labels, groups, penalties, on_fit)
    found = _last_fit(features, labels, test_features, test_labels, choice)
    on_fit()
    return found


class _Choice(NamedTuple):
    """A penalty, the weights of its fit, and how good it was: accuracy and minus the loss on the samples held out."""

    score: tuple[float, float]
    penalty: float
    weights: Tensor


def _require_samples(labels: Tensor, test_labels: Tensor) -> None:
    if not len(labels) or not len(test_labels):
        raise ValueError("logistic: needs training and test samples, but one of the two has none")


def _last_fit(
    features: Tensor, labels: Tensor, test_features: Tensor, test_labels: Tensor, choice: _Choice
) -> Logistic:
    """Fit with the chosen penalty on all training samples, and answer the test samples."""
    weights = fit(_standardized(features, features), labels, choice.penalty, choice.weights)
    answers = scores(_standardized(test_features, features), weights).argmax(1)
    return Logistic((answers == test_labels).double().mean().item(), answers, choice.penalty)


def _standardized(values: Tensor, of: Tensor) -> Tensor:
    """(values - mean) / deviation of the samples `of`, in float64; a feature that never changes has deviation 1."""
    known = of.double()
    spread = known.std(0, correction=0)
    return (values.double() - known.mean(0)) / torch.where(spread > 0, spread, 1.0)


def _choose(
    x: Tensor,
    labels: Tensor,
    groups: Tensor | None,
    penalties: tuple[float, ...],
    on_fit: Callable[[], object],
) -> _Choice:
    """Return the best penalty on a fifth of the samples; the usual one where none can be held out."""
    kept, held = _inner_split(labels, groups)
    weights = torch.zeros(x.shape[1] + 1, int(labels.max()) + 1, dtype=torch.float64, device=x.device)
    if len(held) and len(penalties) > 1:
        return _choose_penalty(x, labels, kept, held, weights, penalties, on_fit)
    return _Choice((0.0, 0.0), penalties[0] if len(penalties) == 1 else _USUAL, weights)


def _inner_split(labels: Tensor, groups: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the rows to fit on and the rows to choose the penalty by; of one group alone, samples are taken."""
    if groups is not None and (chosen := drawn_groups(labels, groups, _HELD_OUT, seed=0)):
        return group_rows(groups, chosen)
    return held_out(labels, _HELD_OUT, seed=0)


def _choose_penalty(
    x: Tensor,
    labels: Tensor,
    kept: Tensor,
    held: Tensor,
    weights: Tensor,
    penalties: tuple[float, ...],
    on_fit: Callable[[], object],
) -> _Choice:
    """Return the best penalty on the rows `held`, with the weights of its fit on the rows `kept`."""
    kept, held = kept.to(x.device), held.to(x.device)
    found: list[_Choice] = []
    inside, of_inside, outside, of_outside = x[kept], labels[kept], x[held], labels[held]
    for penalty in penalties:
        weights = fit(inside, of_inside, penalty, weights)
        given = scores(outside, weights)
        loss = torch.nn.functional.cross_entropy(given, of_outside).item()
        right = (given.argmax(1) == of_outside).double().mean().item()
        found.append(_Choice((right, -loss), penalty, weights))
        on_fit()
    return max(found, key=lambda each: each.score)


def scores(x: Tensor, weights: Tensor) -> Tensor:
    """scores = x @ weights[:-1] + weights[-1], `[N, classes]`."""
    return torch.addmm(weights[-1], x, weights[:-1])


def fit(x: Tensor, labels: Tensor, penalty: float, weights: Tensor, *, flat: float = _FLAT) -> Tensor:
    """Minimize mean cross entropy + penalty / 2 * sum of squared weights by L-BFGS on all samples, from `weights`.

    The last row of weights is the bias, which has no penalty.
    """
    weights = weights.clone().requires_grad_()
    rows = torch.arange(len(labels), device=x.device)
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=_ITERATIONS,
        tolerance_grad=flat,
        tolerance_change=1e-5 * flat,
        line_search_fn="strong_wolfe",
    )

    @torch.no_grad()
    def loss_and_gradient() -> float:
        logs = torch.log_softmax(scores(x, weights), 1)
        free = weights[:-1]
        loss = penalty / 2 * free.square().sum() - logs[rows, labels].mean()
        error = logs.exp_()
        error[rows, labels] -= 1
        error /= len(rows)
        weights.grad = torch.cat((torch.addmm(free, x.T, error, beta=penalty), error.sum(0, keepdim=True)))
        return loss.item()

    optimizer.step(loss_and_gradient)
    return weights.detach()
