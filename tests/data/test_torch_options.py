"""Options of `from_torch` and `dataset_from_torch` are checked; each error is one line that names the option."""

import numpy as np
import pytest
import torch

from bitspike.data import dataset_from_torch, from_torch
from bitspike.data.torch_options import in_microseconds, numbered_groups, whole_number

KIND = [("t", "i8"), ("x", "i2")]
EVENTS = [(np.array([(0, 3), (2500, row % 4)], dtype=KIND), row % 2) for row in range(20)]
FRAMES = [(np.eye(4, dtype=int), row % 2) for row in range(20)]


def refused(call, *arguments, **options):
    with pytest.raises(ValueError, match="from_torch: ") as caught:
        call(*arguments, **options)
    line = str(caught.value)
    assert "\n" not in line
    return line.partition("from_torch: ")[2]


@pytest.mark.parametrize("samples", [EVENTS, FRAMES])
@pytest.mark.parametrize("steps", [0, -1, 2.5, True, np.bool_(True), "5", float("nan")])
def test_steps_are_a_whole_number(samples, steps):
    assert refused(from_torch, samples, steps=steps) == (
        f"steps must be a whole number of at least 1, but is {steps!r}"
    )


def test_a_whole_number_of_any_type_will_do():
    assert from_torch(FRAMES, steps=np.int64(3)).steps == from_torch(FRAMES, steps=torch.tensor(3)).steps == 3
    assert whole_number("here", "it", 5, 1, 5) == 5
    with pytest.raises(ValueError, match=r"here: it must be a whole number in 1\.\.5, but is 6"):
        whole_number("here", "it", 6, 1, 5)


@pytest.mark.parametrize("name", ["bin_ms", "duration_ms"])
@pytest.mark.parametrize("value", [0, -1, 1e-5, float("nan"), float("inf"), "5", True, (5,)])
def test_times_are_at_least_a_microsecond(name, value):
    assert refused(from_torch, EVENTS, **{name: value}) == (
        f"{name} must be a number of milliseconds, at least 0.001, but is {value!r}"
    )


def test_times_become_microseconds():
    assert [in_microseconds("it", each) for each in (None, 0.001, 2, np.float32(0.5))] == [None, 1, 2000, 500]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sensor": 4}, "sensor must be (height, width) or (units,), but is 4"),
        ({"sensor": ()}, "sensor must be (height, width) or (units,), but is ()"),
        ({"sensor": (1, 2, 3)}, "sensor must be (height, width) or (units,), but is (1, 2, 3)"),
        ({"sensor": (4.0,)}, "each number in sensor must be a whole number of at least 1, but is 4.0"),
        ({"sensor": (-4,)}, "each number in sensor must be a whole number of at least 1, but is -4"),
        ({"downsample": 0}, "downsample must be a whole number of at least 1, but is 0"),
        ({"clip": 256}, "clip must be a whole number in 1..255, but is 256"),
        ({"clip": "1"}, "clip must be a whole number in 1..255, but is '1'"),
        ({"polarity": "no"}, "polarity must be True or False, but is 'no'"),
    ],
)
def test_other_options_of_events(options, says):
    assert refused(from_torch, EVENTS, **options) == says


@pytest.mark.parametrize(
    "option",
    [
        {"bin_ms": 1},
        {"duration_ms": 1},
        {"sensor": (4,)},
        {"polarity": False},
        {"clip": 1},
        {"downsample": 2},
        {"time_unit": "ms"},
        {"time_origin": "zero"},
    ],
)
def test_options_of_events_mean_nothing_for_frames(option):
    (name,) = option
    assert refused(from_torch, FRAMES, **option) == (
        f"{name} is for events, but these samples are frames; leave it out"
    )
    assert "whole number of at least 1" in refused(from_torch, FRAMES, downsample=0)


# ---- Groups


@pytest.mark.parametrize(
    ("groups", "numbers", "names"),
    [
        ([3, 1, 3], [3, 1, 3], ()),
        (range(3), [0, 1, 2], ()),
        (np.array([3, 1, 3], np.uint8), [3, 1, 3], ()),
        (torch.tensor([3, 1, 3]), [3, 1, 3], ()),
        (np.array([3, 1, 3], object), [3, 1, 3], ()),
        (["b", "a", "b"], [1, 0, 1], ("a", "b")),
        (np.array(["b", "a", "b"]), [1, 0, 1], ("a", "b")),
        (np.array([b"b", b"a", b"b"]), [1, 0, 1], ("a", "b")),
        (np.array(["b", "a", "b"], object), [1, 0, 1], ("a", "b")),
    ],
)
def test_groups_are_whole_numbers_or_text(groups, numbers, names):
    found, found_names = numbered_groups(groups, 3)
    assert (found.tolist(), found.dtype, found_names) == (numbers, torch.int64, names)


@pytest.mark.parametrize(
    ("groups", "held"),
    [
        ([0.5, 1.5], "0.5, 1.5, 0.5, ..."),
        (np.array([0.5, 1.5] * 10), "0.5, 1.5, 0.5, ..."),
        (torch.tensor([0.5, 1.5] * 10), "0.5, 1.5, 0.5, ..."),
        ([float("nan"), 1.0], "nan, 1.0, nan, ..."),
        (["a", 1], "'a', 1, 'a', ..."),
        ([None, None], "None, None, None, ..."),
        ([2**70, 1], f"{2**70}, 1, {2**70}, ..."),
    ],
)
def test_other_groups_are_refused(groups, held):
    many = groups * 10 if isinstance(groups, list) else groups
    assert refused(from_torch, FRAMES, groups=many) == (
        f"groups must be whole numbers or text, one kind for all samples, but are {held}"
    )


@pytest.mark.parametrize(("groups", "shape"), [([], [0]), ([[1]] * 20, [20, 1]), ((row for row in range(20)), [])])
def test_every_sample_needs_a_group(groups, shape):
    assert refused(dataset_from_torch, FRAMES, groups=groups) == (
        f"groups must be one number or text a sample, 20, but are {shape}"
    )


# ---- Options of a dataset


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"test": FRAMES, "test_share": 0.2}, "test_share has no meaning beside test; leave one of them out"),
        ({"test": FRAMES, "split_seed": 0}, "split_seed has no meaning beside test; leave one of them out"),
        ({"test_share": 0}, "test_share must be a number between 0 and 1, but is 0"),
        ({"test_share": 1.0}, "test_share must be a number between 0 and 1, but is 1.0"),
        ({"test_share": float("nan")}, "test_share must be a number between 0 and 1, but is nan"),
        ({"test_share": "a"}, "test_share must be a number between 0 and 1, but is 'a'"),
        ({"split_seed": "a"}, "split_seed must be a whole number in 0..4294967295, but is 'a'"),
        ({"split_seed": -1}, "split_seed must be a whole number in 0..4294967295, but is -1"),
        ({"class_names": "ab"}, "class_names must be a list of texts, but are 'ab'"),
        ({"class_names": [1, 2]}, "class_names must be a list of texts, but are [1, 2]"),
        ({"class_names": ["a", ""]}, "class_names must be a list of texts, but are ['a', '']"),
        ({"class_names": ["a", "a"]}, "class_names must be different, but 'a' is there twice"),
        ({"name": ""}, "name must be a text that is not empty, but is ''"),
        ({"name": 3}, "name must be a text that is not empty, but is 3"),
    ],
)
def test_options_of_a_dataset(options, says):
    assert refused(dataset_from_torch, FRAMES, **options) == says


def test_a_fifth_is_held_out_unless_another_share_is_given():
    chosen = dataset_from_torch(FRAMES, test_share=0.2, split_seed=0)
    assert len(chosen.test) == len(dataset_from_torch(FRAMES).test) == 4
    assert len(dataset_from_torch(FRAMES, test_share=0.5).test) == 10
