"""Samples and splits: what is gathered equals the dense definition; nothing is in two splits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data import Dataset, Images, profile
from bitspike.data.binning import Binning, bin_events
from bitspike.data.coding import coding_task
from bitspike.data.events import Events
from bitspike.data.samples import frames_from_dense
from bitspike.data.splits import drawn_groups, group_rows, held_out, limited, limited_by_class, split_rows
from bitspike.data.thinning import thinned
from helpers.frames import dense


@given(
    st.integers(1, 5), st.integers(1, 6), st.sampled_from([(3,), (2, 2, 3), (1, 1, 1)]), st.integers(0, 99), st.data()
)
def test_a_batch_of_frames_is_the_dense_tensor_time_first(samples, steps, shape, seed, data):
    values = dense(samples, steps, shape, seed, density=data.draw(st.sampled_from([0.0, 0.3, 1.0])))
    frames = frames_from_dense(values, torch.arange(samples))
    rows = torch.tensor(data.draw(st.lists(st.integers(0, samples - 1), min_size=1, max_size=7)))
    x, labels = frames.batch(rows)
    assert x.dtype == torch.float32
    assert torch.equal(x, values[rows].transpose(0, 1).float())
    gathered = frames._gathered(rows)  # the GPU's way
    assert gathered.dtype == torch.uint8
    assert torch.equal(gathered.view_as(x), x.to(torch.uint8))
    assert torch.equal(labels, rows)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.data())
def test_selected_samples_are_the_samples(rows, data):
    values = dense(6, 3, (4,))
    images = Images(torch.arange(6, dtype=torch.uint8).view(6, 1, 1, 1), torch.arange(6))
    for samples in (frames_from_dense(values, torch.arange(6)), images):
        chosen = samples.select(torch.tensor(rows))
        assert len(chosen) == len(rows)
        assert chosen.shape == samples.shape
        at = torch.tensor(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=4)))
        for got, wanted in zip(chosen.batch(at), samples.batch(torch.tensor(rows)[at]), strict=True):
            assert torch.equal(got, wanted)


def test_images_are_bytes_until_they_are_gathered():
    images = Images(torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8), torch.tensor([3]))
    x, labels = images.batch(torch.tensor([0, 0]))
    assert x.dtype == torch.float32
    assert torch.equal(x, torch.tensor([0.0, 0.2, 1.0]).expand(2, 1, 1, 3))
    assert labels.tolist() == [3, 3]


def test_images_given_as_numbers_stay_as_they_are():
    images = Images(torch.tensor([[[[0.25]]]]), torch.tensor([0]))
    assert images.batch(torch.tensor([0]))[0].item() == 0.25


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.floats(0.01, 0.9), st.integers(0, 9))
def test_a_split_parts_every_class_alike(labels, share, seed):
    labels = torch.tensor(labels)
    kept, held = held_out(labels, share, seed)
    assert sorted(kept.tolist() + held.tolist()) == list(range(len(labels)))
    for label in labels.unique():
        count, out = int((labels == label).sum()), int((labels[held] == label).sum())
        assert out == (0 if count == 1 else min(max(round(share * count), 1), count - 1))
    again = held_out(labels, share, seed)
    assert torch.equal(again[0], kept)
    assert torch.equal(again[1], held)


def test_a_split_depends_on_its_seed():
    labels = torch.zeros(100, dtype=torch.long)
    assert not torch.equal(held_out(labels, 0.1, 0)[1], held_out(labels, 0.1, 1)[1])


def test_nothing_is_held_out_of_a_share_of_zero():
    assert len(held_out(torch.zeros(10, dtype=torch.long), 0.0, 0)[1]) == 0


# ---- Groups


def test_groups_follow_their_samples():
    groups, labels = torch.tensor([4, 4, 0, 9]), torch.arange(4)
    images = Images(torch.zeros(4, 1, 2, 2), labels, groups)
    for samples in (images, frames_from_dense(dense(4, 3, (2,)), labels, groups)):
        assert samples.select(torch.tensor([3, 0])).groups.tolist() == [9, 4]
        assert samples.select(torch.tensor([True, False, True, False])).groups.tolist() == [4, 0]
        assert samples[1:3].groups.tolist() == [4, 0]
        assert samples.to("cpu").groups.tolist() == groups.tolist()
    assert thinned(images, 0.5, 0, "train").groups.tolist() == groups.tolist()
    assert Images(torch.zeros(4, 1, 2, 2), labels).select(torch.tensor([1])).groups is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=60),
    st.floats(0.01, 0.9),
    st.integers(0, 9),
)
def test_a_group_is_never_divided(rows, share, seed):
    labels, groups = (torch.tensor(column) for column in zip(*rows, strict=True))
    samples = Images(torch.zeros(len(rows), 1, 1, 1), labels, groups)
    kept, held = split_rows(samples, share, seed)
    assert sorted(kept.tolist() + held.tolist()) == list(range(len(rows)))
    assert not set(groups[kept].tolist()) & set(groups[held].tolist())
    assert len(kept) > 0
    assert (len(held) > 0) == (len(groups.unique()) > 1)
    assert torch.equal(split_rows(samples, share, seed)[1], held)


@given(st.lists(st.integers(5, 40), min_size=2, max_size=12), st.floats(0.05, 0.6), st.integers(0, 9))
def test_about_the_share_is_held_out_with_every_class_on_both_sides(sizes, share, seed):
    groups = torch.repeat_interleave(torch.arange(len(sizes)) * 3, torch.tensor(sizes))
    labels = torch.cat([torch.arange(size) % 5 for size in sizes])
    kept, held = group_rows(groups, drawn_groups(labels, groups, share, seed))
    assert labels[kept].unique().tolist() == labels[held].unique().tolist() == list(range(5))
    # one group more or less would be as far off, or further
    assert abs(len(held) - share * len(groups)) <= max(sizes)


def test_a_class_of_one_group_stays_in_training():
    labels = torch.tensor([0, 1, 0, 1, 0, 1, 2])
    groups = torch.tensor([0, 0, 1, 1, 2, 2, 2])
    for seed in range(9):
        assert 2 not in drawn_groups(labels, groups, 0.4, seed)


def test_a_group_is_added_for_a_class_that_is_missing():
    labels = torch.tensor([0] * 10 + [1] * 10 + [0] * 10 + [1] * 10)
    groups = torch.arange(4).repeat_interleave(10)
    for seed in range(9):  # a quarter is one group, which has one class
        assert sorted(labels[drawn_groups(labels, groups, 0.25, seed)[i] * 10].item() for i in range(2)) == [0, 1]


def test_where_every_group_has_a_class_of_its_own_the_smallest_is_held_out():
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
    assert drawn_groups(labels, labels + 5, 0.3, 0) == [6]


def test_groups_depend_on_the_seed_and_not_on_the_order_of_samples():
    labels, groups = torch.arange(100) % 2, torch.arange(100) // 10
    assert len({tuple(drawn_groups(labels, groups, 0.1, seed)) for seed in range(20)}) > 3
    mixed = torch.randperm(100)
    assert drawn_groups(labels[mixed], groups[mixed], 0.3, 4) == drawn_groups(labels, groups, 0.3, 4)


@pytest.mark.parametrize("limit", [None, 10, 99])
def test_no_limit_keeps_all(limit):
    assert torch.equal(limited(10, limit, 0), torch.arange(10))


def test_a_limit_draws_without_repeating():
    rows = limited(1000, 50, 3)
    assert len(rows.unique()) == 50
    assert torch.equal(rows, rows.sort().values)
    assert not torch.equal(rows, torch.arange(50))
    assert torch.equal(rows, limited(1000, 50, 3))


def test_the_coding_task_is_one_sample_drawn_by_the_seed():
    first, again, other = coding_task(0), coding_task(0), coding_task(1)
    x, label = first.train.batch(torch.tensor([0]))
    assert x.shape == (100, 1, 100)
    assert label.item() == 75
    assert set(x.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(x, again.test.batch(torch.tensor([0]))[0])
    assert not torch.equal(x, other.train.batch(torch.tensor([0]))[0])


def test_a_set_without_class_names_has_numbers_for_names():
    samples = frames_from_dense(torch.zeros(3, 4, 2), torch.tensor([0, 1, 2]))
    assert Dataset("a", "A", 3, samples, samples).class_names == ("0", "1", "2")
    assert Dataset("a", "A", 3, samples, samples).valid is None
    named = Dataset("a", "A", 3, samples, samples, class_names=("x", "y", "z"), valid=samples)
    assert named.class_names == ("x", "y", "z")
    assert named.valid is samples
    with pytest.raises(ValueError, match="class_names must be 3, one a class, but are 2"):
        Dataset("a", "A", 3, samples, samples, class_names=("x", "y"))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 70), st.integers(0, 5))
def test_a_limit_by_class_takes_the_share_of_each_class(labels, limit, seed):
    labels = torch.tensor(labels)
    rows = limited_by_class(labels, limit, seed)
    assert len(rows) == min(limit, len(labels))
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert torch.equal(rows, limited_by_class(labels, limit, seed))
    before, after = labels.bincount(minlength=5), labels[rows].bincount(minlength=5)
    share = before * len(rows) / len(labels)
    if len(rows) >= int((before > 0).sum()):
        assert bool((after[before > 0] >= 1).all())
    if bool((share[before > 0] >= 1).all()):
        assert bool(((after - share).abs() < 1).all())


def test_a_limit_by_class_by_hand_and_by_its_seed():
    labels = torch.tensor([0] * 70 + [1] * 25 + [2] * 5)
    # 14 samples: 9.8, 3.5 and 0.7; rounded down 9, 3 and at least 1; the last goes to the largest remainder, 0.8
    assert labels[limited_by_class(labels, 14, 0)].bincount().tolist() == [10, 3, 1]
    # 4 samples: 2.8, 1 and 0.2: the rare class has one
    assert labels[limited_by_class(labels, 4, 0)].bincount().tolist() == [2, 1, 1]
    assert not torch.equal(limited_by_class(labels, 14, 0), limited_by_class(labels, 14, 1))


def test_the_figures_of_a_split_are_those_of_its_own_samples():
    counts = torch.zeros(3, 4, 5, dtype=torch.long)
    counts[0, 0, 0], counts[1, 1, 1:3], counts[2, 2, 2] = 7, 2, 1
    frames = frames_from_dense(counts, torch.arange(3))
    found = frames.select(torch.tensor([2, 1])).figures()
    assert (found["events_per_sample"], found["largest_count"], found["bytes"]) == (2.5, 2, 15)
    assert frames.select(torch.tensor([], dtype=torch.long)).figures()["largest_count"] == 0


def test_samples_are_shown_in_one_short_line():
    values = dense(40, 300, (50,), density=1.0)
    frames = frames_from_dense(values, torch.arange(40) % 3)
    assert repr(frames) == "Frames(40 samples of (50,) in 300 steps, labels 0 to 2)"
    assert repr(frames[:0]) == "Frames(0 samples of (50,) in 300 steps, no labels)"
    events = Events(np.arange(60_000), np.zeros(60_000, int), None, None, np.array([0, 60_000]), np.array([3]), (700,))
    assert repr(events) == "Events(1 samples with 60,000 events of a sensor (700,))"
    binned = bin_events(events, Binning(2500, 20))
    assert repr(binned) == "Frames(1 samples of (700,) in 20 steps of 2.5 ms, labels 3 to 3)"
    assert repr(binned.tally) == (
        "Tally(1 samples with 60,000 events, 91.50% of them in no bin; bins of 2500 us until 50000 us)"
    )
    images = Images(torch.zeros(9, 1, 28, 28, dtype=torch.uint8), torch.arange(9))
    assert repr(images) == "Images(9 samples of (1, 28, 28), uint8, labels 0 to 8)"
    shown = profile(Dataset("made", "Made", 3, frames, frames)).splits["train"]
    assert len(repr(shown.events)) < 600
