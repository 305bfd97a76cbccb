"""Baselines against cases with a known answer, and against scikit-learn where it is installed."""

import pytest
import torch

from bitspike.analysis.baselines import PENALTIES, baselines, fit, fit_count, logistic, majority, scores
from bitspike.data.samples import Images, frames_from_dense


def clouds(samples, distance, seed, *, features=5, classes=3):
    """Normal clouds around the corners of a simplex; at 8 deviations apart no line between them errs."""
    drawn = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % classes
    x = torch.randn(samples, features, generator=drawn)
    x[torch.arange(samples), labels] += distance
    return x, labels


def test_majority_is_that_of_the_training_samples():
    assert majority(torch.tensor([1, 1, 0]), torch.tensor([0, 0, 0, 1])) == 0.25
    assert majority(torch.tensor([1, 0]), torch.tensor([0, 0, 1])) == pytest.approx(2 / 3), "the first of equals"
    assert majority(torch.tensor([3, 3]), torch.tensor([0, 1])) == 0.0


def test_separable_samples_are_all_right():
    x, labels = clouds(300, 8.0, 0)
    tests, of_tests = clouds(90, 8.0, 1)
    assert logistic(x, labels, tests, of_tests).accuracy == 1.0


def test_the_scale_of_a_feature_does_not_matter():
    x, labels = clouds(150, 1.0, 0)
    tests, of_tests = clouds(90, 1.0, 1)
    scaled = torch.tensor([1e-3, 1.0, 50.0, 1e4, 7.0])
    one = logistic(x, labels, tests, of_tests)
    two = logistic(x * scaled + 5, labels, tests * scaled + 5, of_tests)
    assert 0.4 < one.accuracy < 1
    assert one.penalty == two.penalty
    assert (one.answers == two.answers).double().mean() > 0.98  # float32 features


def test_the_slope_is_zero_at_the_end_of_a_fit():
    x, labels = clouds(60, 1.0, 0)
    x = x.double()
    penalty = 0.05
    weights = fit(x, labels, penalty, torch.zeros(6, 3, dtype=torch.float64), flat=1e-9).requires_grad_()
    loss = torch.nn.functional.cross_entropy(scores(x, weights), labels) + penalty / 2 * weights[:-1].square().sum()
    (slope,) = torch.autograd.grad(loss, weights)
    assert slope.abs().max() < 1e-7
    assert weights.abs().max() > 0.1


def test_a_fit_in_closed_form():
    # one feature, -1 or +1, that is right in 3 of 4: without penalty the odds are 3 to 1
    x = torch.tensor([[-1.0], [-1], [-1], [-1], [1], [1], [1], [1]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 1, 0])
    given = scores(x, fit(x, labels, 0.0, torch.zeros(2, 2, dtype=torch.float64), flat=1e-10))
    assert given.softmax(1)[0].tolist() == pytest.approx([0.75, 0.25], abs=1e-6)
    # the bias has no penalty: a feature that says nothing leaves the shares of the classes
    flat = fit(torch.zeros_like(x), torch.tensor([0] * 6 + [1] * 2), 5.0, torch.zeros(2, 2, dtype=torch.float64))
    assert scores(torch.zeros_like(x), flat).softmax(1)[0].tolist() == pytest.approx([0.75, 0.25], abs=1e-4)


def test_noise_gets_a_stronger_penalty_than_a_clear_signal():
    noise = logistic(*clouds(60, 0.0, 0, features=200), *clouds(30, 0.0, 1, features=200))
    clear = logistic(*clouds(600, 1.5, 0), *clouds(30, 1.5, 1))
    assert noise.penalty > clear.penalty


def test_the_penalty_is_chosen_on_whole_groups():
    # the group is written in a feature, and each group has one class: on known groups no penalty is best
    drawn = torch.Generator().manual_seed(0)
    groups = torch.arange(200) // 5
    labels = groups % 2
    x = torch.randn(200, 40, generator=drawn)
    x[torch.arange(200), groups] += 8
    x = torch.cat((x, 0.7 * labels[:, None] + torch.randn(200, 1, generator=drawn)), 1)
    of_samples = logistic(x, labels, x, labels)
    of_groups = logistic(x, labels, x, labels, groups=groups)
    assert of_groups.penalty > of_samples.penalty
    assert logistic(x, labels, x, labels, groups=torch.zeros_like(groups)).penalty == of_samples.penalty, "one group"


def test_two_calls_give_the_same():
    x, labels = clouds(100, 1.0, 0)
    one, two = (logistic(x, labels, x, labels) for _ in range(2))
    assert (one.accuracy, one.penalty) == (two.accuracy, two.penalty)
    assert torch.equal(one.answers, two.answers)


def test_features_that_never_change_and_labels_that_are_missing():
    x, labels = clouds(60, 8.0, 0)
    x[:, 4] = 7.0
    found = logistic(x, labels * 2, x, labels * 2)  # no class 1 and 3
    assert found.accuracy == 1.0
    assert logistic(x, labels, x, torch.full_like(labels, 9)).accuracy == 0.0, "a class that only the test has"


def test_one_sample_a_class_is_too_few_to_choose():
    x, labels = torch.eye(3), torch.arange(3)
    assert logistic(x, labels, x, labels).accuracy == 1.0
    with pytest.raises(ValueError, match="needs training and test samples, but one of the two has none"):
        logistic(x, labels, x[:0], labels[:0])


def test_baselines_of_events_and_of_images():
    drawn = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 2
    values = torch.poisson(torch.full((60, 30, 6), 0.2), generator=drawn)
    values[labels == 1, 20:, 3] += 3
    ticks = []
    samples = frames_from_dense(values, labels)
    found = baselines(
        samples.select(torch.arange(40)), samples.select(torch.arange(40, 60)), on_fit=lambda: ticks.append(1)
    )
    assert (found.majority, found.logistic, len(ticks)) == (0.5, 1.0, len(PENALTIES) + 1)
    assert found.features == "counts in 10 time bins, 60 numbers a sample"
    assert found.penalty in PENALTIES
    images = (values.sum(1).view(60, 1, 2, 3) * 5).to(torch.uint8)
    assert baselines(Images(images, labels), Images(images, labels)).logistic == 1.0


def one_event_each(rows, columns):
    """Samples of a camera of 16 x 16 pixels, two classes: one event, in one of the pixels that each class has."""
    drawn = torch.Generator().manual_seed(0)
    labels = torch.arange(40) % 2
    values = torch.zeros(40, 4, 2, 16, 16)
    for at, label in enumerate(labels.tolist()):
        t, p = (int(torch.randint(high, (1,), generator=drawn)) for high in (4, 2))
        y, x = (int(torch.randint(low, high, (1,), generator=drawn)) for low, high in (rows[label], columns[label]))
        values[at, t, p, y, x] = 1
    return frames_from_dense(values, labels)


@pytest.mark.parametrize(
    ("rows", "columns", "features"),
    [
        (((0, 2), (0, 2)), ((0, 2), (2, 4)), "(2 x 2 pixels as one), 512"),  # both classes in one square of 4 x 4
        (((0, 4), (0, 4)), ((0, 4), (4, 8)), "(4 x 4 pixels as one), 128"),  # a square each: few samples are enough
    ],
)
def test_the_squares_of_a_camera_are_chosen_like_the_penalty(rows, columns, features):
    samples = one_event_each(rows, columns)
    ticks = []
    found = baselines(samples, samples, on_fit=lambda: ticks.append(1))
    assert found.features == f"counts in 4 time bins {features} numbers a sample"
    assert len(ticks) == fit_count(samples) == 2 * len(PENALTIES) + 1


@pytest.mark.parametrize(("trained", "tested"), [(5, 20), (20, 5), (20, 40), (40, 20)])
def test_a_feature_is_the_same_time_in_samples_of_other_lengths(trained, tested):
    labels = torch.arange(40) % 2

    def early_or_later(steps):
        values = torch.zeros(40, steps, 2)
        values[labels == 0, 1, 0], values[labels == 1, 4, 0] = 1, 1
        return frames_from_dense(values, labels)

    assert baselines(early_or_later(trained), early_or_later(tested)).logistic == 1.0


def test_the_fit_is_that_of_scikit_learn():
    linear = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    x, labels = clouds(120, 1.0, 0)
    x = ((x - x.mean(0)) / x.std(0, correction=0)).double()
    for penalty in (1.0, 0.01):
        oracle = linear.LogisticRegression(C=1 / (len(x) * penalty), tol=1e-10, max_iter=10_000)
        oracle.fit(x.numpy(), labels.numpy())
        found = scores(x, fit(x, labels, penalty, torch.zeros(6, 3, dtype=torch.float64), flat=1e-9)).softmax(1)
        assert torch.allclose(found, torch.from_numpy(oracle.predict_proba(x.numpy())), atol=1e-5)
