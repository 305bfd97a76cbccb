"""A profile is what a loop over the dense samples counts, for every split."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data import Dataset, Images, event_profile, profile
from bitspike.data.binning import Binning, bin_events
from bitspike.data.duplicates import LEAST_BINS, count_repeated, sample_digests
from bitspike.data.event_profile import camera_words, channel_name
from bitspike.data.events import Events
from bitspike.data.profiles import Spread
from bitspike.data.samples import frames_from_dense


def some_frames(seed=0, samples=7, steps=6, shape=(2, 3)):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, 4, (samples, steps, *shape), generator=generator) - 1
    return values.clamp(min=0), torch.arange(samples) % 3


def of(samples, classes=3, **more):
    return profile(Dataset("made", "Made", classes, samples, samples, **more)).splits["train"]


@given(st.integers(0, 99), st.integers(1, 9), st.integers(1, 7), st.integers(1, 40))
def test_events_are_those_of_the_dense_samples(seed, samples, steps, block):
    values, labels = some_frames(seed, samples, steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_profile, "BLOCK_BINS", block)
        shown = of(frames_from_dense(values, labels)).events
    flat = values.flatten(2).double()
    assert torch.allclose(shown.by_step, flat.sum((0, 2)) / samples)
    assert torch.allclose(shown.by_channel, values.double().sum((0, 1)) / samples)
    assert shown.per_sample == Spread.of(flat.sum((1, 2)))
    assert shown.steps_used == Spread.of((flat.sum(2) > 0).sum(1))
    first = [int(each.nonzero()[0]) for each in flat.sum(2) if each.any()]
    assert shown.begins == Spread.of(torch.tensor(first or [0]))
    assert shown.empty == int((flat.sum((1, 2)) == 0).sum())
    assert shown.largest_count == int(values.max())
    assert shown.silent_channels == float((values.sum((0, 1)) == 0).double().mean())
    come, total = 0.0, float(flat.sum())
    for step in range(steps):  # the first step by which 95 % have come
        come += float(flat[:, step].sum())
        if total and come >= 0.95 * total - 1e-9:
            assert shown.over_at == step + 1
            break
    else:
        assert shown.over_at == 0


def test_a_selection_is_profiled_by_itself():
    values, labels = some_frames()
    rows = torch.tensor([5, 0, 3])
    chosen, dense = (
        of(frames_from_dense(values, labels).select(rows)),
        of(frames_from_dense(values[rows], labels[rows])),
    )
    assert torch.equal(chosen.events.by_channel, dense.events.by_channel)
    assert chosen.by_class == dense.by_class == (2, 0, 1)
    assert chosen.majority == (0, 2 / 3)


def test_losses_durations_and_bins_come_from_the_tally():
    t = np.array([0, 9_000, 0, 5_000, 25_000, 39_000])
    events = Events(t, np.zeros(6, np.int64), None, None, np.array([0, 2, 6, 6]), np.array([0, 1, 0]), (2,))
    shown = of(bin_events(events, Binning(10_000, 2)), classes=2).events
    assert shown.lost == {"before": 0, "after": 2 / 6, "outside": 0, "clipped": 0}
    assert shown.left_out == 2 / 6
    assert shown.longer == pytest.approx(1 / 3)
    assert (shown.duration_ms.low, shown.duration_ms.high) == (9, 39)  # the empty sample has no duration
    assert (shown.bin_ms, shown.cut_ms, shown.empty) == (10, None, 1)
    assert shown.busiest == (0, 1.0)
    cut = of(bin_events(events, Binning(10_000, 2, duration_us=15_000)), classes=2).events
    assert cut.cut_ms == 15


def test_frames_without_a_tally_say_so():
    shown = of(frames_from_dense(*some_frames())).events
    assert (shown.lost, shown.longer, shown.duration_ms, shown.bin_ms) == (None, None, None, None)
    assert shown.left_out == 0


def test_images():
    values = torch.zeros(4, 1, 3, 3, dtype=torch.uint8)
    values[1:3, 0, 1] = 200
    shown = of(Images(values, torch.tensor([0, 1, 1, 2]), torch.tensor([5, 5, 2, 2])))
    assert shown.events is None
    assert (shown.images.dtype, shown.images.low, shown.images.high, shown.images.empty) == ("uint8", 0, 200, 2)
    assert shown.images.mean == pytest.approx(6 * 200 / 36)
    assert (shown.groups, shown.by_class, shown.empty) == ((2, 5), (1, 2, 1), 2)


def test_every_split_is_shown():
    a, b, c = (frames_from_dense(*some_frames(seed, samples)) for seed, samples in ((0, 7), (1, 4), (2, 3)))
    data = Dataset("made", "Made", 3, a, c, valid=b, class_names=("x", "y", "z"), group_names="people")
    shown = profile(data)
    assert {name: split.samples for name, split in shown.splits.items()} == {"train": 7, "valid": 4, "test": 3}
    assert (shown.title, shown.shape, shown.class_names, shown.group_names) == (
        "Made", (2, 3), ("x", "y", "z"), "people",
    )  # fmt: skip
    given = profile(data, {"train": a.select(torch.arange(2)), "test": c})
    assert {name: split.samples for name, split in given.splits.items()} == {"train": 2, "test": 3}


@pytest.mark.parametrize("images", [True, False])
def test_test_samples_that_are_training_samples_are_counted(images):
    values, labels = some_frames(samples=6, shape=(1, 5, 5))
    samples = Images(values[:, 0].to(torch.uint8), labels) if images else frames_from_dense(values, labels)
    train, test = samples.select(torch.tensor([0, 1, 2])), samples.select(torch.tensor([2, 3, 1, 4]))
    assert profile(Dataset("made", "Made", 3, train, test)).splits["test"].repeated == 2


def test_samples_with_little_in_them_are_not_compared():
    few = torch.zeros(2, 4, 9, dtype=torch.int64)
    few[:, 0, : LEAST_BINS - 1] = 1
    samples = frames_from_dense(few, torch.tensor([0, 1]))
    assert sample_digests(samples) == [None, None]
    assert count_repeated(sample_digests(samples), sample_digests(samples)) == 0
    few[:, 1, 0] = 1
    assert None not in sample_digests(frames_from_dense(few, torch.tensor([0, 1])))


def test_a_spread_is_of_values_that_occur():
    assert Spread.of(torch.arange(101)) == Spread(50, 5, 95)
    assert Spread.of(torch.tensor([7])) == Spread(7, 7, 7)


def hot_and_silent(rates):
    """The hot and the silent channels of a sample with these numbers of events in a row of channels."""
    events = event_profile.event_profile(frames_from_dense(torch.tensor(rates)[None, None], torch.tensor([0])))
    return events.hot, events.silent


def test_hot_channels_have_five_times_the_95th_percentile():
    others = [2] * 20
    assert hot_and_silent([*others, 10]) == ([], [])
    assert hot_and_silent([*others, 11, 0, 0]) == ([20], [21, 22])
    assert hot_and_silent([11, *others, *others, 30]) == ([41, 0], [])  # the busiest first
    assert hot_and_silent([2] * 18 + [100]) == ([], [])  # of 19 channels the 95th percentile is among the largest
    assert hot_and_silent([0] * 400 + [2] * 19 + [100]) == ([419], list(range(400)))  # silent ones do not count


@pytest.mark.parametrize(
    ("channel", "shape", "name"), [(7, (9,), "7"), (7, (2, 4), "(1, 3)"), (29, (2, 3, 6), "(1, 1, 5)")]
)
def test_names_of_channels(channel, shape, name):
    assert channel_name(channel, shape) == name


def test_the_numbers_of_a_cameras_channel_are_explained():
    assert camera_words((2, 8, 8), 1) == " (polarity, row, column)"
    assert camera_words((2, 8, 8), 4) == " (polarity, row, column, in squares of 4 pixels)"
    assert camera_words((2, 1, 8), 4) == camera_words((700,), 1) == ""
