"""Counts in ten time bins and pixels, against plain sums over dense arrays."""

import pytest
import torch

from bitspike.analysis.count_features import MOST_FEATURES, camera_grids, count_features, pooling
from bitspike.data.samples import Images, frames_from_dense


def random_frames(samples=7, steps=23, shape=(2, 5, 4), seed=0):
    values = torch.poisson(torch.full((samples, steps, *shape), 0.3), generator=torch.Generator().manual_seed(seed))
    return values, frames_from_dense(values, torch.zeros(samples, dtype=torch.int64))


def counted(values, bins):
    """Events of each time bin and place, one step at a time."""
    out = torch.zeros(len(values), bins, *values.shape[2:])
    for t in range(values.shape[1]):
        out[:, t * bins // values.shape[1]] += values[:, t]
    return out


@pytest.mark.parametrize("steps", [10, 23, 100])
def test_counts_in_ten_time_bins(steps):
    values, samples = random_frames(steps=steps)
    features, words = count_features(samples)
    assert torch.equal(features, counted(values, 10).flatten(1))
    assert words == "counts in 10 time bins, 400 numbers a sample"


def test_fewer_steps_than_bins_have_a_bin_each():
    values, samples = random_frames(steps=4)
    features, words = count_features(samples)
    assert torch.equal(features, values.flatten(1))
    assert words.startswith("counts in 4 time bins")


@pytest.mark.parametrize("steps", [5, 12, 23, 40])
def test_bins_of_other_steps_are_the_same_times(steps):
    values, samples = random_frames(steps=23)
    same = torch.zeros(7, steps, 2, 5, 4)
    same[:, :23] = values[:, :steps]  # later events are in no bin, and a time without samples is silent
    assert torch.equal(count_features(samples, steps)[0], counted(same, min(10, steps)).flatten(1))


def test_chosen_samples_keep_their_order_and_silence():
    _, samples = random_frames(samples=600)
    rows = torch.tensor([599, 3, 3, 0, 300])
    assert torch.equal(count_features(samples.select(rows))[0], count_features(samples)[0][rows])
    silent = frames_from_dense(torch.zeros(2, 5, 3), torch.zeros(2))
    assert torch.equal(count_features(silent)[0], torch.zeros(2, 15))


def test_a_camera_is_pooled():
    values, samples = random_frames(samples=3, steps=10, shape=(2, 34, 34))
    features, words = count_features(samples)
    padded = torch.nn.functional.pad(values, (0, 2, 0, 2))  # 34 is no multiple of 3
    pooled = padded.view(3, 10, 2, 12, 3, 12, 3).sum((4, 6))
    assert torch.equal(features, pooled.flatten(1))
    assert words == "counts in 10 time bins (3 x 3 pixels as one), 2,880 numbers a sample"


def test_a_camera_on_a_grid_of_squares():
    values, samples = random_frames(samples=3, steps=10, shape=(2, 34, 20))
    features, words = count_features(samples, squares=8)
    padded = torch.nn.functional.pad(values, (0, 0, 0, 1))  # 7 x 4 squares of 5 x 5 pixels
    assert torch.equal(features, padded.view(3, 10, 2, 7, 5, 4, 5).sum((4, 6)).flatten(1))
    assert words == "counts in 10 time bins (5 x 5 pixels as one), 560 numbers a sample"


@pytest.mark.parametrize(
    ("shape", "grids"),
    [((2, 34, 34), (8, 4)), ((1, 6, 3), (6, 4)), ((1, 2, 2), (2,)), ((2, 1, 9), (None,)), ((2, 9), (None,))],
)
def test_only_cameras_are_divided_into_squares(shape, grids):
    assert camera_grids(random_frames(samples=1, steps=2, shape=shape)[1]) == grids
    assert camera_grids(Images(torch.zeros(1, 1, 28, 28), torch.zeros(1))) == (None,)


def test_channels_in_a_row_are_joined():
    values, samples = random_frames(samples=3, steps=10, shape=(700,))
    features, words = count_features(samples)
    assert torch.equal(features, values.view(3, 10, 350, 2).sum(3).flatten(1))
    assert words == "counts in 10 time bins (2 channels in a row as one), 3,500 numbers a sample"


def test_pixels_of_images():
    values = torch.randint(0, 256, (5, 1, 28, 28), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    labels = torch.zeros(5, dtype=torch.int64)
    features, words = count_features(Images(values, labels))
    assert torch.equal(features, values.flatten(1).float() / 255)
    assert words == "pixels, 784 numbers a sample"
    assert torch.equal(count_features(Images(values / 255, labels))[0], features)
    large = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    features, words = count_features(Images(large, labels[:2]))
    pooled = large.view(2, 3, 32, 2, 32, 2).sum((3, 5)).flatten(1)
    assert torch.allclose(features, pooled, atol=1e-6)
    assert words == "pixels (2 x 2 pixels as one), 3,072 numbers a sample"


@pytest.mark.parametrize("shape", [(6,), (5000,), (100_000,), (2, 128, 128), (2, 640, 480), (1, 1, 9000), (3, 40, 30)])
def test_the_smallest_pooling_that_is_enough(shape):
    place, cells, _ = pooling(shape, MOST_FEATURES // 10)
    assert cells <= MOST_FEATURES // 10
    assert place.unique().tolist() == list(range(cells))
    assert len(place) == torch.Size(shape).numel()
