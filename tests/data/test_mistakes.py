"""Each mistake in data is found from its threshold on, and not below it; good data gives no finding."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bitspike.data import Dataset, Images, findings, profile, sample_mistakes, time_mistakes
from bitspike.data.binning import Binning, bin_events
from bitspike.data.events import Events
from bitspike.data.finding import listed
from bitspike.data.samples import frames_from_dense

BINS = Binning(1000, 20)  # 20 ms


def recordings(seed=0, samples=40, events=200, units=10, lasting_us=20_000, labels=None, **more):
    """Samples whose events are spread over time and channels."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, lasting_us, (samples, events)), axis=1)
    t[:, 0] = 0
    labels = np.arange(samples) % 4 if labels is None else np.asarray(labels)
    columns = {"t": t.ravel(), "x": rng.integers(0, units, samples * events)} | more
    offsets = np.arange(samples + 1) * events
    return Events(columns["t"], columns["x"], None, None, offsets, labels, (units,))


def binned(binning=BINS, **more):
    return bin_events(recordings(**more), binning)


def found(train, test=None, **more):
    test = binned(seed=1) if test is None else test
    classes = int(torch.cat([train.labels, test.labels]).max()) + 1
    return findings(profile(Dataset("made", "Made", classes, train, test, **more)))


def only(train, test=None, **more):
    (finding,) = found(train, test, **more)
    assert str(finding) == f"{finding.evidence}; {finding.remedy}"
    assert "\n" not in str(finding)
    return finding.cause, finding.where, str(finding)


def test_good_data_gives_no_finding():
    assert found(binned(), binned(seed=1)) == []
    images = torch.randint(0, 256, (40, 1, 5, 5), dtype=torch.uint8)
    labels = torch.arange(20) % 4
    assert found(Images(images[:20], labels), Images(images[20:], labels)) == []


# ---- Time


def test_a_unit_of_time_that_is_too_small():
    train, test = (binned(seed=seed, lasting_us=20) for seed in (0, 1))  # microseconds taken for milliseconds
    cause, where, line = only(train, test)
    assert (cause, where) == ("time too short", "train")
    assert line == (
        "100.0% of the training events come in the first step of 20 (the median sample lasts 0.019 ms, the 20 bins of "
        "1 ms last 20 ms); check data.time_unit; if it is right, data.bin_ms = 0.00095 would fit"
    )


def test_events_in_few_of_many_steps_are_too_short_as_well():
    many = Binning(1000, 100)
    short = only(binned(many, lasting_us=5_000), binned(many, seed=1, lasting_us=5_000))
    assert short[0] == "time too short"
    assert "first 5 steps of 100" in short[2]
    longer = only(binned(many, lasting_us=12_000), binned(many, seed=1, lasting_us=12_000))
    assert longer[0] == "unused steps"
    assert "95% of the training events come in the first 12 of 100 steps; set data.steps to about 12" in longer[2]
    assert found(binned(many, lasting_us=60_000), binned(many, seed=1, lasting_us=60_000)) == []


def test_few_steps_may_hold_all_events_in_the_first():
    few = Binning(100_000, time_mistakes.LEAST_STEPS - 1)
    assert found(binned(few), binned(few, seed=1)) == []
    enough = Binning(100_000, time_mistakes.LEAST_STEPS)
    assert [each.cause for each in found(binned(enough), binned(enough, seed=1))] == ["time too short"]


def test_one_step_has_no_time():
    one = Binning(100_000, 1)
    cause, where, line = only(binned(one), binned(one, seed=1))
    assert (cause, where) == ("one step", "train")
    assert line == (
        "a sample is one time step of 100 ms, so that nothing is left of its time; lower data.bin_ms (to 0.2 for 100 "
        "steps), or raise data.steps"
    )
    dense = torch.ones(4, 1, 10)
    assert "one step" not in [each.cause for each in found(frames_from_dense(dense, torch.arange(4)))]


def test_a_unit_of_time_that_is_too_large():
    cause, where, line = only(*(binned(seed=seed, lasting_us=2_000_000) for seed in (0, 1)))
    assert (cause, where) == ("time too long", "train")
    assert line.startswith("98.")
    days = [binned(seed=seed, lasting_us=10**12, events=2000) for seed in (0, 1)]
    assert only(*days)[2].endswith("the 20 bins of 1 ms last 20 ms); check data.time_unit")  # no bin would fit
    assert line.endswith(
        "of the training events come after the last bin (the median sample lasts 1,994 ms, the 20 bins of 1 ms last "
        "20 ms); check data.time_unit; if it is right, data.bin_ms = 100 would fit"
    )


def test_samples_longer_than_the_bins():
    cause, where, line = only(binned(lasting_us=24_000), binned(seed=1, lasting_us=20_000))
    assert (cause, where) == ("long samples", "train")
    assert line.startswith("100.0% of the training samples are longer than the 20 bins of 1 ms and lose their end, 1")
    assert line.endswith("raise data.steps to 24, or data.bin_ms to 1.2")
    barely = [binned(seed=seed, lasting_us=20_100) for seed in (0, 1)]
    assert found(*barely) == []


def uneven(counts, spacing_us, binning):
    """Samples of so many events each, `spacing_us` apart."""
    counts = np.array(counts)
    t = np.concatenate([np.arange(count) for count in counts]) * spacing_us
    offsets = np.concatenate([[0], counts.cumsum()])
    return bin_events(Events(t, t * 0, None, None, offsets, np.arange(len(counts)) % 2, (1,)), binning)


@pytest.mark.parametrize(
    ("long", "binning", "remedy"),
    [
        (30, Binning(1000, 5), "raise data.steps to 30, or data.bin_ms to 5.8"),
        (300, Binning(1000, 5), "check data.time_unit; if it is right, data.bin_ms = 60 would fit"),
        (300, Binning(1000, 5, duration_us=3_000), "if it is right, raise data.duration_ms to 300"),
    ],
)
def test_one_long_sample_among_many_short_ones_says_what_it_needs(long, binning, remedy):
    train = uneven([1] * 80 + [long], 1000, binning)  # the 95th percentile of the durations is 0
    lines = [str(each) for each in found(train, train) if each.cause in ("long samples", "time too long")]
    assert len(lines) == 1
    assert lines[0].endswith(remedy)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=30),
    st.lists(st.integers(0, 40), min_size=1, max_size=3),
    st.sampled_from([0, 1, 1000, 10**9]),
    st.integers(1, 30),
    st.sampled_from([1, 1000, 10**6]),
    st.sampled_from([None, 1, 3000]),
)
def test_no_data_stops_the_search_for_mistakes(counts, tested, spacing_us, steps, bin_us, duration_us):
    binning = Binning(bin_us, steps, duration_us=duration_us)
    for each in found(*(uneven(part, spacing_us, binning) for part in (counts, tested))):
        assert "\n" not in str(each)
        assert not re.search(r"(to|=) 0[ ,;]|nan|inf\b", str(each))


def test_a_duration_that_was_asked_for_is_no_mistake():
    cut = Binning(1000, 20, duration_us=15_000)
    assert found(binned(cut), binned(cut, seed=1)) == []


def test_a_duration_that_leaves_most_events_out_is_named():
    cut = Binning(1000, 20, duration_us=9_000)
    cause, where, line = only(binned(cut), binned(cut, seed=1))
    assert (cause, where) == ("time too long", "train")
    assert line.startswith("data.duration_ms = 9 leaves out 5")
    assert line.endswith("; check data.time_unit; if it is right, raise data.duration_ms to 20")
    fitting = Binning(450, 20, duration_us=9_000)  # as bins do that were found
    assert str(found(binned(fitting), binned(fitting, seed=1))[0]) == line
    half = Binning(1000, 40, duration_us=12_000)
    cause, _, line = only(binned(half), binned(half, seed=1))
    assert cause == "unused steps"
    assert line.endswith("; set data.steps to about 12, or raise data.duration_ms, which is 12")
    other = found(binned(Binning(1000, 20, duration_us=19_000)), binned(Binning(1000, 20, duration_us=15_000), seed=1))
    assert [each.remedy.rpartition("or ")[2] for each in other] == ["raise data.duration_ms, which is 15"]


@pytest.mark.parametrize(("first", "expected"), [(1_000, False), (2_000, True)])
def test_samples_that_all_begin_late(first, expected):
    late = [binned(seed=seed, t=np.maximum(recordings(seed).t, first)) for seed in (0, 1)]
    causes = found(*late)
    assert [(each.cause, each.where) for each in causes] == [("late beginning", "train")] * expected
    if expected:
        assert str(causes[0]) == (
            "95% of the training samples have no event in the first 2 of 20 steps; set data.time_origin = "
            '"first", and bins count from a sample\'s first event'
        )


@pytest.mark.parametrize(("late", "expected"), [(19, False), (20, True)])
def test_samples_that_begin_at_any_time_of_a_long_recording(late, expected):
    t = recordings().t.reshape(40, 200)
    t[:late] = 10_000 + t[:late] // 2
    causes = [str(each) for each in found(binned(t=t.ravel()))]
    assert len(causes) == expected
    if expected:
        assert causes[0].startswith("half of the training samples have no event in the first 10 of 20 steps; set data.")


def test_steps_that_begin_late_in_a_file_of_steps_are_left_out_there():
    dense = torch.randint(0, 2, (8, 20, 10), generator=torch.Generator().manual_seed(0))
    dense[:, :5] = 0
    labels = torch.arange(4)
    assert only(*(frames_from_dense(part, labels) for part in dense.split(4)))[2].endswith(
        "no event in the first 5 of 20 steps; leave these steps out of the file"
    )


@pytest.mark.parametrize(("lasting_us", "expected"), [(900, True), (1_100, False)])
def test_samples_that_are_shorter_than_any_recording(lasting_us, expected):
    bins = Binning(-(-lasting_us // 20), 20)  # they fit, as bins do that were found from the durations
    causes = found(*(binned(bins, seed=seed, lasting_us=lasting_us) for seed in (0, 1)))
    assert [each.cause for each in causes] == ["time too short"] * expected
    if expected:
        assert str(causes[0]) == "the median training sample lasts only 0.897 ms; check data.time_unit"
    one = Binning(10, 1)
    assert [each.cause for each in found(*(binned(one, seed=seed, lasting_us=1) for seed in (0, 1)))] == [
        "time too short"
    ]


@pytest.mark.parametrize(("minutes", "expected"), [(9, False), (12, True)])
def test_samples_that_are_longer_than_any_recording(minutes, expected):
    bins = Binning(minutes * 3_000_000, 20)
    causes = found(*(binned(bins, seed=seed, lasting_us=minutes * 60_000_000) for seed in (0, 1)))
    assert [each.cause for each in causes] == ["time too long"] * expected
    if expected:
        assert str(causes[0]) == "the median training sample lasts 12 minutes; check data.time_unit"


# ---- Losses


def test_a_test_file_that_loses_what_the_training_file_does_not():
    cause, where, line = only(binned(), binned(seed=1, lasting_us=30_000))
    assert (cause, where) == ("other losses", "test")
    assert "% of the test events are in no bin, but only 0.0% of the training events (the median samples last" in line
    almost = binned(seed=1, lasting_us=20_900)
    assert almost.left_out < time_mistakes.OTHER_LOSS
    assert found(binned(), almost) == []
    causes = found(binned(), valid=binned(seed=2, lasting_us=30_000))
    assert ("other losses", "valid") in [(each.cause, each.where) for each in causes]
    both = found(binned(lasting_us=30_000), binned(seed=1, lasting_us=30_000))
    assert "other losses" not in [each.cause for each in both]


def test_a_test_file_in_another_unit_of_time():
    cause, where, line = only(binned(), binned(seed=1, lasting_us=2_000))
    assert (cause, where) == ("other durations", "test")
    assert line == (
        "the median test sample lasts 1.99 ms, the median training sample 19.9 ms; is the unit of time the same in "
        "both files?"
    )
    assert found(binned(), binned(seed=1, lasting_us=2_300)) == []
    wide = Binning(1000, 210)
    longer = found(binned(wide, lasting_us=20_000), binned(wide, seed=1, lasting_us=209_000))
    assert "other durations" in [each.cause for each in longer]


def test_events_before_time_0():
    t = recordings().t
    assert found(binned(t=np.where(np.arange(len(t)) < 79, -5, t))) == []  # below 1 % of 8,000
    cause, where, line = only(binned(t=np.where(np.arange(len(t)) < 80, -5, t)))
    assert (cause, where) == ("events before", "train")
    assert line.startswith("1.0% of the training events come before time 0; set data.time_origin")


def test_events_in_cells_that_are_not_whole():
    causes = found(*(binned(Binning(1000, 20, downsample=3), seed=seed, units=10) for seed in (0, 1)))
    assert [(each.cause, each.where) for each in causes] == [("events outside", "train")]
    assert "choose a data.downsample that divides" in str(causes[0])
    assert (
        "data.downsample = 3 (found, if you gave none) does not divide the sensor's size: give data.sensor = [12]"
        in (causes[0].remedy)
    )


def test_the_size_of_a_camera_that_has_whole_cells():
    rng = np.random.default_rng(0)
    made = [recordings(seed, units=14) for seed in (0, 1)]
    cameras = [replace(each, y=rng.integers(0, 11, len(each.t)), sensor=(11, 14)) for each in made]
    causes = found(*(bin_events(each, Binning(1000, 20, downsample=4)) for each in cameras))
    assert "give data.sensor = [12, 16]" in next(each.remedy for each in causes if each.cause == "events outside")


def test_events_beyond_the_count():
    causes = found(*(binned(Binning(1000, 20, clip=1), seed=seed) for seed in (0, 1)))
    assert [(each.cause, each.where) for each in causes] == [("events clipped", "train")]
    assert "are more than a bin may count; raise data.clip, or take shorter bins" in str(causes[0])


def test_empty_samples():
    dense = torch.zeros(4, 20, 10, dtype=torch.int64)
    dense[1:] = torch.randint(0, 2, (3, 20, 10), generator=torch.Generator().manual_seed(0))
    labels = torch.arange(4)
    assert only(frames_from_dense(dense, labels)) == (
        "empty samples",
        "train",
        "1 of 4 training samples is empty: no bin holds an event; leave them out of the file, or look at their times",
    )
    images = torch.rand(8, 1, 4, 4)
    images[:3] = 0.5
    cause, where, line = only(Images(images[4:], labels), Images(images[:4], labels))
    assert (cause, where) == ("empty samples", "test")
    assert line.startswith("3 of 4 test samples are blank: all their pixels have one value")


# ---- Channels


def test_dead_channels():
    x = recordings().x
    one = np.where(x == 0, 1, x)
    cause, where, line = only(binned(x=one))
    assert (cause, where) == ("dead channels", "train")
    assert line.startswith(
        "1 of 10 channels (10.0%) have no event in any training sample (1 of them have events in the test samples): 0"
    )
    assert line.endswith("; are all files of one sensor? A network learns nothing about them")
    both = [recordings(seed) for seed in (0, 1)]
    assert only(*(binned(x=np.where(each.x == 0, 1, each.x), t=each.t) for each in both))[2].endswith(
        "no event in any training sample: 0; is data.sensor too large, or the order of x and y wrong? A network learns "
        "nothing about them"
    )
    fewer = recordings(units=11).x
    fewer = np.where(fewer == 0, 1, fewer)  # 1 of 11: below 10 %
    assert found(binned(units=11, x=fewer), binned(seed=1, units=11)) == []


@pytest.mark.parametrize(("dead", "expected"), [(7, []), (8, ["dead channels"])])
def test_a_camera_may_have_dead_pixels_up_to_a_half(dead, expected):
    def camera(seed):
        values = torch.randint(0, 2, (8, 20, 1, 4, 4), generator=torch.Generator().manual_seed(seed))
        values.view(8, 20, 16)[:, :, :dead] = 0
        return frames_from_dense(values, torch.arange(8) % 4)

    assert [each.cause for each in found(camera(0), camera(1))] == expected


@pytest.mark.parametrize(
    ("units", "share", "expected"),
    [(6, 0.35, False), (6, 0.45, True), (100, 0.03, False), (100, 0.07, True), (800, 0.004, False), (800, 0.02, True)],
)
def test_a_channel_that_dominates(units, share, expected):
    rng = np.random.default_rng(5)
    x = np.where(rng.random(16_000) < share, 3, rng.integers(0, units, 16_000))
    train = binned(events=400, units=units, x=x)
    causes = found(train, binned(seed=1, units=units, events=400))
    assert ["dominant channel"] * expected == [each.cause for each in causes]
    if expected:
        assert str(causes[0]).startswith("channel 3 has ")
        assert f"the mean channel {1 / units:.2%}" in str(causes[0])


def test_hot_pixels_of_a_camera():
    """Two pixels of 400 that fire all the time; most of the others are silent."""
    generator = torch.Generator().manual_seed(0)
    rate = torch.where(torch.rand(1, 20, 20, generator=generator) < 0.3, 0.05, 0.0)
    values = torch.poisson(rate.expand(40, 20, 1, 20, 20), generator=generator)
    train, test = (frames_from_dense(each, torch.arange(20) % 4) for each in values.split(20))
    assert [each.cause for each in found(train, test)] == ["dead channels"]
    for place, count in (((3, 4), 10), ((7, 0), 8)):
        values[:, :, 0, place[0], place[1]] = count
    train = frames_from_dense(values[:20], torch.arange(20) % 4)
    line = next(str(each) for each in found(train, test) if each.cause == "dominant channel")
    assert line.startswith("2 of 400 channels have 73.9")
    assert (
        "% of all training events, each more than 5 times what 95 % of the channels have: (0, 3, 4), (0, 7, 0) " in line
    )
    assert "(polarity, row, column); are they broken" in line
    assert line.endswith(
        "are they broken (hot pixels)? If so leave their events out; data.clip limits what a bin counts"
    )


def test_smooth_unlike_channels_are_not_hot():
    """Channels whose rates differ a thousandfold, but without a jump, as those of a cochlea or a camera's corners."""
    rate = torch.logspace(-3, 0, 100)
    values = torch.poisson(rate.expand(20, 40, 100), generator=torch.Generator().manual_seed(0))
    train, test = (frames_from_dense(each, torch.arange(10) % 4) for each in values.split(10))
    assert [each.cause for each in found(train, test)] == []


def test_a_channel_of_a_camera_is_named_by_its_place():
    values = torch.randint(0, 2, (8, 20, 2, 3, 4), generator=torch.Generator().manual_seed(0))
    values[:, :, 1, 2, 0] = 200
    labels = torch.arange(8) % 4
    other = frames_from_dense(torch.randint(0, 2, values.shape, generator=torch.Generator().manual_seed(1)), labels)
    assert only(frames_from_dense(values, labels), other)[2].startswith("channel (1, 2, 0) has 9")


# ---- Classes


def test_missing_classes():
    train, test = np.arange(40) % 4, np.arange(40) % 2
    cause, where, line = only(binned(labels=train), binned(seed=1, labels=test), class_names=("a", "b", "c", "d"))
    assert (cause, where) == ("missing classes", "test")
    assert line == "classes c, d (of 4) have no test sample; the result says nothing about what is missing"
    cause, where, line = only(binned(labels=np.where(train == 1, 0, train)))
    assert (cause, where) == ("missing classes", "train")
    assert line.startswith("class 1 (of 4) has no training sample; a network can't learn")
    many = only(binned(labels=np.where(train == 3, 30, train)), binned(seed=1, labels=np.where(train == 3, 30, train)))
    assert many[2].startswith("classes 3, 4, 5, 6, 7, 8, 9, 10 and 19 more (of 31) have no training sample")


@pytest.mark.parametrize(("small", "expected"), [(11, []), (10, ["imbalance"])])
def test_imbalance(small, expected):
    labels = np.array([0] * 30 + [1] * small)
    causes = found(binned(samples=len(labels), labels=labels), binned(seed=1, labels=np.arange(40) % 2))
    assert [each.cause for each in causes] == expected
    if expected:
        assert str(causes[0]) == (
            "75.0% of the training samples are of class 0 (30; class 1 has 10); compare an accuracy with 75.0%, not "
            'with 50.0%; train.class_weights = "balanced" helps'
        )


def test_weights_of_classes_are_not_advised_where_they_are_set():
    train, test = binned(labels=np.array([0] * 30 + [1] * 10)), binned(seed=1, labels=np.arange(40) % 2)
    (finding,) = findings(profile(Dataset("made", "Made", 2, train, test), class_weights=True))
    assert finding.remedy == "compare an accuracy with 75.0%, not with 50.0%"


def test_one_small_class_of_many_is_no_imbalance():
    labels = np.array([*range(4)] * 12 + [4])  # the largest has 24 %, even would be 20 %
    test = binned(seed=1, samples=40, labels=np.arange(40) % 5)
    assert found(binned(samples=49, labels=labels), test) == []


def test_a_split_of_one_class():
    one, two = np.zeros(40, int), np.arange(40) % 2
    cause, where, line = only(binned(labels=two), binned(seed=1, labels=one + 1), class_names=("tap", "slide"))
    assert (cause, where) == ("one class", "test")
    assert line == (
        "all 40 test samples of Made are of one class, label slide: accuracy says nothing; look at the labels"
    )
    causes = found(binned(labels=one), binned(seed=1, labels=two))
    assert [(each.cause, each.where) for each in causes] == [("one class", "train")]
    causes = found(binned(labels=two), binned(seed=1, labels=two), valid=binned(seed=2, labels=one))
    assert [(each.cause, each.where) for each in causes] == [("missing classes", "valid")]


@pytest.mark.parametrize(
    ("name", "other", "small", "expected"),
    [
        ("jump", "jmup", 3, True),  # two letters in the wrong order
        ("jump", "jumpp", 3, True),  # one too many
        ("jump", "jmp", 3, False),  # as short as names that may well differ in one letter
        ("jumps", "jmps", 3, True),  # one is missing
        ("jump", "jumq", 3, True),
        ("jump", "jumq", 4, False),  # 37 samples are not ten times as many
        ("jump", "Jump ", 19, True),
        ("jump", "punch", 3, False),
        ("jump", "jupm!", 3, False),
        ("take 1", "take 2", 3, False),
    ],
)
def test_names_that_differ_by_a_typing_error(name, other, small, expected):
    labels = torch.tensor([0] * (40 - small) + [1] * small)
    train, test = binned(), binned(seed=1)
    parts = [replace(each, labels=labels) for each in (train, test)]
    causes = found(*parts, class_names=(name, other))
    assert ("similar names" in [each.cause for each in causes]) == expected
    if expected:
        line = f"class {other!r} has {2 * small} samples, class {name!r} {80 - 2 * small}; are they one class"
        assert str(causes[0]).startswith(line)


def test_groups_in_two_splits():
    train, valid, test = (
        replace(binned(seed=seed), groups=torch.tensor(groups).repeat(20))
        for seed, groups in enumerate(([0, 1], [2, 3], [3, 1]))
    )
    named = {"group_names": "persons", "group_labels": ("ann", "bob", "cid", "dan")}
    assert only(train, test, valid=valid, **named) == (
        "shared groups",
        "test",
        "persons bob are among the training and the test samples: the accuracy is not that of new ones; give each of "
        "them to one file alone",
    )
    assert only(valid, test, valid=train)[2].startswith("groups 3 are among the training and the test samples")
    assert only(train, replace(test, groups=valid.groups), valid=valid)[2].startswith(
        "groups 2, 3 are among the validation and the test samples"
    )
    causes = found(train, replace(test, groups=None), valid=replace(valid, groups=train.groups))
    assert [(each.cause, each.where) for each in causes] == [("shared groups", "valid")]
    assert found(train, replace(test, groups=None), valid=valid) == []


def test_repeated_samples():
    train = binned()
    test = train.select(torch.arange(10))
    assert only(train, test) == (
        "repeated samples",
        "test",
        "10 of 10 test samples are also training samples; leave them out of one of them, or accuracy says too much",
    )


def test_dark_images():
    bits = torch.randint(0, 2, (20, 1, 5, 5), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    labels = torch.arange(10) % 4
    cause, _, line = only(Images(bits[:10], labels), Images(bits[10:], labels))
    assert cause == "dark images"
    assert "multiply the images by 255" in line
    assert found(Images(bits[:10].float(), labels), Images(bits[10:].float(), labels)) == []


def test_long_lists_say_how_many_more():
    assert listed(["a", "b"]) == "a, b"
    assert listed(range(9)) == "0, 1, 2, 3, 4, 5, 6, 7 and 1 more"
    assert listed([3, 1, 2], most=3) == "3, 1, 2"
    assert listed([3, 1, 2], most=1) == "3 and 2 more"
    made = []
    assert listed(range(10**9), 2, lambda name: made.append(name) or f"<{name}>") == "<0>, <1> and 999999998 more"
    assert made == [0, 1]  # a camera has millions of channels: only those that are listed get a name


@pytest.mark.parametrize("hot", [False, True])
def test_only_channels_that_a_line_lists_get_a_name(hot, monkeypatch):
    named = []
    monkeypatch.setattr(sample_mistakes, "channel_name", lambda channel, shape: named.append(channel) or str(channel))
    values = torch.full((4, 5, 2000), 1, dtype=torch.uint8) if hot else torch.zeros(4, 5, 2000, dtype=torch.uint8)
    values[..., :50] = 90
    samples = frames_from_dense(values, torch.arange(4))
    causes = [each.cause for each in found(samples, samples)]
    assert ("dominant channel" if hot else "dead channels") in causes
    assert named == list(range(6) if hot else range(50, 58))
