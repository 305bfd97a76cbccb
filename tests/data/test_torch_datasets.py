"""Data sets of PyTorch's kind become samples: events as tonic gives them, and dense frames."""

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, Subset

import bitspike
from bitspike.data import dataset_from_torch, findings, from_torch, profile
from bitspike.data.binning import Binning, bin_events
from bitspike.data.events import Events
from bitspike.data.splits import split_labels

TONIC = np.dtype([("x", np.int16), ("y", np.int16), ("t", np.int64), ("p", bool)])


class FakeTonic(Dataset):
    """Recordings of a camera, in tonic's form: a structured array in any order of fields, and a class."""

    sensor_size = (6, 5, 2)  # width, height, polarities

    def __init__(self, samples=8, dtype=TONIC, order=None, shift=0):
        rng = np.random.default_rng(0)
        self.columns, self.samples = [], []
        for row in range(samples):
            count = int(rng.integers(0, 40)) if row else 0
            t = np.sort(rng.integers(0, 9_000, count)) + shift
            t[:1] = shift
            columns = {"t": t, "x": rng.integers(0, 6, count), "y": rng.integers(0, 5, count)}
            columns["p"] = rng.integers(0, 2, count)
            events = np.zeros(count, dtype=dtype)
            for name in dtype.names:
                events[name] = columns[name]
            self.columns.append(columns)
            self.samples.append((events[rng.permutation(count)] if order == "mixed" else events, row % 3))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, row):
        return self.samples[row]


def expected(dataset, binning, names=("t", "x", "y", "p"), sensor=(5, 6)):
    lengths = [len(each["t"]) for each in dataset.columns]
    columns = {name: np.concatenate([each[name] for each in dataset.columns]) for name in names}
    labels = np.array([label for _, label in dataset.samples])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    t = columns["t"] - np.repeat([each["t"][0] if len(each["t"]) else 0 for each in dataset.columns], lengths)
    events = Events(t, columns["x"], columns.get("y"), columns.get("p"), offsets, labels, sensor)
    return bin_events(events, binning)


def same(one, other):
    rows = torch.arange(len(one))
    return torch.equal(one.batch(rows)[0], other.batch(rows)[0]) and torch.equal(one.labels, other.labels)


@pytest.mark.parametrize("shift", [0, 7_000])
@pytest.mark.parametrize("order", [None, "mixed"])
@pytest.mark.parametrize("fields", [("x", "y", "t", "p"), ("t", "p", "y", "x")])
def test_events_as_tonic_gives_them(fields, order, shift):
    dtype = np.dtype([(name, TONIC[name]) for name in fields])
    dataset = FakeTonic(dtype=dtype, order=order, shift=shift)
    samples = from_torch(dataset, bin_ms=1, steps=8)
    assert (samples.steps, samples.shape) == (8, (2, 5, 6))
    assert same(samples, expected(dataset, Binning(1000, 8)))
    assert samples.tally.shares() == expected(dataset, Binning(1000, 8)).tally.shares()
    assert samples.left_out > 0


def test_bins_are_found_from_the_durations():
    dataset = FakeTonic()
    found = from_torch(dataset)
    assert found.tally.bin_us * found.steps >= 8_000
    assert found.left_out < 0.05
    assert from_torch(dataset, steps=30).steps == 30
    assert from_torch(dataset, bin_ms=2).tally.bin_us == 2000


def test_bins_that_are_found_end_with_the_duration():
    found = from_torch(FakeTonic(), duration_ms=3)
    assert found.tally.bin_us * (found.steps - 1) < 3_000 <= found.tally.bin_us * found.steps


def test_a_data_set_has_one_width_of_bins():
    """Each split alone finds bins of its own, and a network would see time run at another speed in the test."""
    kind = [("t", "i8"), ("x", "i2")]
    train, longer = (
        [(np.array([(t, t % 3) for t in range(0, end, end // 50)], dtype=kind), 0)] * 3 for end in (1_000, 9_000)
    )
    found = from_torch(train, sensor=(3,))
    other = from_torch(longer, sensor=(3,))
    says = "training samples have time bins of {} ms, but {} samples of {} ms; .* bin_ms={}, steps={}"
    widths = [f"{each.tally.bin_us / 1000:g}" for each in (found, other)]
    for name, splits in (("test", {"test": other}), ("validation", {"test": found, "valid": other})):
        with pytest.raises(ValueError, match=says.format(widths[0], name, widths[1], widths[0], found.steps)):
            bitspike.data.Dataset("mine", "Mine", 1, found, **splits)
    alike = from_torch(longer, sensor=(3,), bin_ms=found.tally.bin_us / 1000, steps=found.steps)
    assert bitspike.data.Dataset("mine", "Mine", 1, found, alike).test.steps == found.steps
    more = from_torch(longer, sensor=(3,), bin_ms=found.tally.bin_us / 1000)
    assert bitspike.data.Dataset("mine", "Mine", 1, found, more).test.steps > found.steps  # as data.test_steps may say


def test_options_are_those_of_data():
    dataset = FakeTonic()
    options = {"downsample": 2, "polarity": False, "clip": 1}
    given = from_torch(dataset, bin_ms=2, steps=3, duration_ms=5, **options)
    assert same(given, expected(dataset, Binning(2000, 3, duration_us=5000, **options)))


def test_time_may_begin_at_zero():
    events = np.array([(1, 2, 5_000, 1)], dtype=TONIC)
    first = from_torch([(events, 0)], bin_ms=1, steps=8, sensor=(5, 6))
    zero = from_torch([(events, 0)], bin_ms=1, steps=8, sensor=(5, 6), time_origin="zero")
    assert (first[0][0].nonzero()[0, 0], zero[0][0].nonzero()[0, 0]) == (0, 5)


@pytest.mark.parametrize(("unit", "scale"), [("s", 1e-6), ("ms", 1e-3), ("us", 1)])
def test_units_of_time(unit, scale):
    dtype = np.dtype([("t", np.float64), ("x", np.int16)])
    events = np.array([(0, 0), (2_500 * scale, 1), (7_000 * scale, 2)], dtype=dtype)
    samples = from_torch([(events, 0)], bin_ms=1, steps=8, time_unit=unit)
    assert samples[0][0].nonzero().tolist() == [[0, 0], [2, 1], [7, 2]]


@pytest.mark.parametrize(("unit", "dtype", "times"), [("ms", "u2", [0, 66, 999]), ("s", "i4", [0, 2148, 4300])])
def test_times_of_few_bits_do_not_wrap(unit, dtype, times):
    events = np.array([(t, 0) for t in times], dtype=[("t", dtype), ("x", "i2")])
    samples = from_torch([(events, 0)], bin_ms=1 if unit == "ms" else 1000, steps=5000, time_unit=unit)
    assert samples[0][0].nonzero()[:, 0].tolist() == times


@pytest.mark.parametrize(("dtype", "time"), [("f8", np.nan), ("i8", 2**60)])
def test_times_beyond_all_clocks_are_refused(dtype, time):
    events = np.array([(0, 0), (time, 0)], dtype=[("t", dtype), ("x", "i2")])
    with pytest.raises(ValueError, match="from_torch: sample 0: t must be numbers"):
        from_torch([(events, 0)], bin_ms=1, steps=5)


def test_a_row_of_units_has_no_second_polarity():
    dtype = np.dtype([("t", np.int64), ("x", np.int16), ("p", np.int8)])
    dataset = FakeTonic(dtype=dtype)
    dataset.sensor_size = (6, 1, 1)  # as tonic's SHD
    samples = from_torch(dataset, bin_ms=1, steps=8)
    assert samples.shape == (6,)
    assert same(samples, expected(dataset, Binning(1000, 8), ("t", "x"), (6,)))
    camera = FakeTonic()
    camera.sensor_size = (6, 1, 2)  # y is always 0
    assert from_torch(camera, bin_ms=1, steps=8).shape == (2, 6)


def test_a_part_of_a_data_set_knows_its_sensor():
    dataset = FakeTonic()
    part = from_torch(Subset(dataset, [3, 1]), bin_ms=1, steps=8, groups=[7, 9])
    whole = from_torch(dataset, bin_ms=1, steps=8)
    assert same(part, whole.select(torch.tensor([3, 1])))
    assert part.groups.tolist() == [7, 9]


def test_the_sensor_is_found_from_the_events():
    events = np.array([(3, 2, 0, 0), (1, 4, 10, 1)], dtype=TONIC)
    assert from_torch([(events, 0)], bin_ms=1, steps=2).shape == (2, 5, 4)
    signed = np.array([(0, 0, -1), (5, 1, 1)], dtype=[("t", "i8"), ("x", "i8"), ("p", "i1")])
    assert from_torch([(signed, 0)], bin_ms=1, steps=2)[0][0].nonzero().tolist() == [[0, 0, 0], [0, 1, 1]]


@pytest.mark.parametrize("kind", [np.array, torch.tensor, lambda x: torch.tensor(x).float()])
def test_frames_are_filled_up_with_silence(kind):
    short, long = [[0, 2, 0], [1, 0, 255]], [[1, 0, 0], [0, 0, 0], [0, 3, 0]]
    pairs = [(kind(short), torch.tensor(1)), (kind(long), np.int64(0)), (kind([[0, 0, 0]]), 2)]
    samples = from_torch(pairs)
    assert (samples.steps, samples.shape, samples.labels.tolist()) == (3, (3,), [1, 0, 2])
    assert samples[0][0].tolist() == [*short, [0, 0, 0]]
    assert samples[1][0].tolist() == long
    assert samples[2][0].sum() == 0
    cut = from_torch(pairs, steps=2)
    assert (cut.steps, cut[1][0].tolist()) == (2, long[:2])
    assert from_torch(pairs, steps=5)[0][0].tolist() == [*short, *[[0, 0, 0]] * 3]


def test_reading_is_told():
    stages = []

    def progress(stage, steps):
        stages.append((stage, steps))
        return lambda: stages.append(1)

    from_torch([([[1]], 0)] * 3, progress=progress)
    assert stages == [("reading samples", 3), 1, 1, 1]


class Stream(IterableDataset):
    def __iter__(self):
        yield torch.ones(2, 2), 0


EVENTS = np.zeros(2, TONIC)


@pytest.mark.parametrize(
    ("dataset", "options", "says"),
    [
        (Stream(), {}, r"must have a length and samples by number, but Stream has none; give list\(dataset\)"),
        ([], {}, "the data set has no samples"),
        ([torch.ones(2, 2)], {}, r"sample 0 must be \(events or frames, label\), but is Tensor"),
        ([(torch.ones(2, 2), 0, 1)], {}, "but is 3 values"),
        ([(torch.ones(2, 2), "dog")], {}, "label of sample 0 must be a whole number from 0 on, but is 'dog'"),
        ([(torch.ones(2, 2), -1)], {}, "must be a whole number from 0 on, but is -1"),
        ([(torch.ones(2, 2), torch.ones(3))], {}, "must be a whole number from 0 on"),
        ([(torch.ones(2, 2), 0)], {"groups": [1, 2]}, r"groups must be one number or text a sample, 1, but are \[2\]"),
        ([(torch.ones(2, 2), 0)], {"bin_ms": 1}, "bin_ms is for events, but these samples are frames"),
        ([(torch.ones(2, 2), 0)], {"downsample": 2}, "downsample is for events"),
        ([(torch.ones(2), 0)], {}, r"sample 0 must be frames \[T, ...\] or structured events, but is \[2\]"),
        ([(torch.rand(2, 2), 0)], {}, "but sample 0 has fractions; images are"),
        ([(torch.full((2, 2), 256), 0)], {}, r"0 to 255, but sample 0 goes over 256\.\.256"),
        ([(torch.ones(2, 2), 0), (torch.ones(2, 3), 0)], {}, r"one shape beside time, but have \[\(2,\), \(3,\)\]"),
        ([(EVENTS[:0], 0)], {"steps": 5}, "no sample has an event, so that no time bins can be found"),
        (
            [(EVENTS, 0)],
            {"bin_ms": 1, "steps": 5, "sensor": (4,)},
            r"\[height, width\], at least \[1, 1\], but is \[4\]",
        ),
        ([(EVENTS, 0), (EVENTS[["x", "t"]], 0)], {"bin_ms": 1, "steps": 5}, "but sample 1 is .* with x, t"),
        ([(EVENTS, 0), (torch.ones(2, 2), 0)], {"bin_ms": 1, "steps": 5}, "but sample 1 is Tensor"),
    ],
)
def test_what_cannot_be_samples_is_refused_in_words(dataset, options, says):
    with pytest.raises((ValueError, TypeError), match=says):
        from_torch(dataset, **options)


@pytest.mark.parametrize(
    ("place", "options", "says"),
    [
        (1, {"time_unit": "sec"}, "from_torch: time_unit must be 's' or 'ms' or 'us', but is 'sec'"),
        (1, {"time_origin": "Zero"}, "from_torch: time_origin must be 'first' or 'zero', but is 'Zero'"),
        (1.5, {}, r"from_torch: sample 1: x must be whole numbers, but some are fractions \(the first is 1.5\)"),
        (np.nan, {}, "from_torch: sample 1: x must be numbers, but 1 of 2 are NaN or infinite"),
        (np.inf, {}, "from_torch: sample 1: x must be numbers, but 1 of 2 are NaN or infinite"),
        (-3, {}, r"from_torch: sample 1: x must be whole numbers in 0\.\.2147483647, .* over -3.0..0.0; count from 0"),
        (1e30, {}, r"from_torch: sample 1: x must be whole numbers in 0\.\.2147483647"),
        (4, {}, r"from_torch: sensor must be .* \[4\]: the largest x is 4 \(event 2 of all, in sample 1\)"),
    ],
)
def test_events_are_checked_as_those_of_a_file(place, options, says):
    events = np.array([(5.0, place), (0.0, 0.0)], dtype=[("t", "f8"), ("x", "f8")])
    good = np.zeros_like(events)
    with pytest.raises(ValueError, match=says):
        from_torch([(good, 0), (events, 0)], bin_ms=1, steps=5, sensor=(4,), polarity=False, **options)


def test_a_few_far_events_are_refused_as_in_a_file():
    events = np.zeros(1000, dtype=TONIC)
    events["x"], events["y"] = np.arange(1000) % 40, np.arange(1000) % 30
    far = events.copy()
    far["x"][7] = 30_000
    with pytest.raises(ValueError, match="from_torch") as caught:
        from_torch([(events, 0), (far, 1)], bin_ms=1, steps=5)
    assert str(caught.value) == (
        "from_torch: the largest x is 30000 (event 1007 of all, in sample 1), but all except 1 of 2,000 events have "
        "x <= 39; leave the far events out, or give sensor = [30, 30001] if they are right"
    )
    assert from_torch([(events, 0), (far, 1)], bin_ms=1, steps=5, sensor=(30, 30_001)).shape == (2, 30, 30_001)


def test_samples_without_events_need_bins():
    nothing = [(np.zeros(0, TONIC), 0)] * 2
    for options in ({}, {"bin_ms": 1}, {"steps": 5}):
        with pytest.raises(ValueError, match=r"from_torch: no sample has an event, .*; give bin_ms and steps$"):
            from_torch(nothing, **options)
    assert int(from_torch(nothing, bin_ms=1, steps=5).lengths.sum()) == 0


@pytest.mark.parametrize("options", [{}, {"steps": 5}, {"bin_ms": 1}])
def test_bins_are_found_where_all_events_come_before_time_0(options):
    events = np.array([(-5_000, 0), (-4_000, 1)], dtype=[("t", "i8"), ("x", "i2")])
    assert from_torch([(events, 0)], time_origin="zero", **options).left_out == 1


@pytest.mark.parametrize("dtype", [">u2", np.uint16, np.uint32, np.uint64, np.float16, bool])
def test_frames_of_every_type_of_number(dtype):
    frames = np.array([[0, 1, 0], [1, 0, 1]], dtype=dtype)
    samples = from_torch([(frames, 0), (frames[::-1], 1)])
    assert samples[0][0].tolist() == [[0, 1, 0], [1, 0, 1]]
    assert samples[1][0].tolist() == [[1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize(
    ("sample", "says"),
    [
        (torch.eye(3).to_sparse(), r"but is sparse; give it as \.to_dense\(\)"),
        (torch.eye(3) + 1j, "but is complex64"),
        ("abc", "but is str"),
        ([[1, 2], [3]], "but is list whose rows differ in length or are no numbers"),
        (np.array([["a"]]), "but is an array of <U1"),
        (None, "but is NoneType"),
    ],
)
def test_a_sample_that_is_no_array_of_numbers_is_named(sample, says):
    whole = r"from_torch: sample 1 must be frames \[T, \.\.\.\], an array of whole numbers, " + says
    with pytest.raises(ValueError, match=whole):
        from_torch([(torch.eye(3), 0), (sample, 0)])


def test_frames_and_events_do_not_mix():
    with pytest.raises(ValueError, match="all samples must be frames as sample 0 is, but sample 1 is events"):
        from_torch([(torch.eye(3), 0), (EVENTS, 0)])


def test_a_label_has_at_most_63_bits():
    assert from_torch([(torch.eye(3), 2**62)]).labels.tolist() == [2**62]
    with pytest.raises(ValueError, match="label of sample 0 must be a whole number from 0 on, but is 1000"):
        from_torch([(torch.eye(3), 10**30)])


def test_groups_may_be_text():
    found = from_torch(FakeTonic(4), bin_ms=1, steps=9, groups=["b", "a", "b", "c"])
    assert found.groups.tolist() == [1, 0, 1, 2]


# ---- Whole datasets


def row_of_units(end_us, samples=12, units=4):
    """Recordings of a row of units that last until `end_us`."""
    kind = [("t", "i8"), ("x", "i2")]
    return [
        (np.array([(t, (t + row) % units) for t in np.linspace(0, end_us, 40).astype(int)], dtype=kind), row % 2)
        for row in range(samples)
    ]


def test_all_splits_have_the_bins_of_training():
    data = dataset_from_torch(row_of_units(9_000), row_of_units(90_000, 6), valid=row_of_units(4_000, 4), sensor=(4,))
    assert data.train.tally.bin_us == data.test.tally.bin_us == data.valid.tally.bin_us
    assert data.train.steps == data.test.steps == data.valid.steps
    assert [len(part) for part in (data.train, data.test, data.valid)] == [12, 6, 4]
    alone = from_torch(row_of_units(90_000, 6), sensor=(4,))
    assert alone.tally.bin_us != data.test.tally.bin_us
    frames = dataset_from_torch([(np.ones((3, 2)), 0)] * 2, [(np.ones((5, 2)), 1)])
    assert (frames.train.steps, frames.test.steps, frames.classes) == (3, 3, 2)


def test_a_share_is_held_out_for_the_test():
    data = dataset_from_torch(row_of_units(9_000, 20), name="mine", sensor=(4,))
    assert (data.name, data.classes, data.class_names) == ("mine", 2, ("0", "1"))
    assert data.train.labels.bincount().tolist() == [8, 8]
    assert data.test.labels.bincount().tolist() == [2, 2]
    other = dataset_from_torch(row_of_units(9_000, 20), sensor=(4,), test_share=0.5, split_seed=1)
    assert len(other.test) == 10


HELD_OUT = [{}, {"test_share": 0.4, "split_seed": 3}, {"groups": [f"person {row // 6}" for row in range(30)]}]


def with_other_test_samples(pairs, others, **held_out):
    """Return the pairs, but those of `others` where a row is held out for the test, and these rows."""
    labels = torch.tensor([label for _, label in pairs])
    groups = held_out.pop("groups", None)
    people = None if groups is None else torch.tensor([sorted(set(groups)).index(each) for each in groups])
    _, held = split_labels(labels, people, held_out.get("test_share", 0.2), held_out.get("split_seed", 0))
    return [others[row] if row in held else pairs[row] for row in range(len(pairs))], held


@pytest.mark.parametrize("first_label", [0, 7])  # labels that are numbered anew are drawn alike
@pytest.mark.parametrize("held_out", HELD_OUT)
def test_bins_are_not_found_from_samples_that_are_held_out(held_out, first_label):
    pairs, others = (
        [(events, label + first_label) for events, label in row_of_units(end, 30)] for end in (100_000, 1_000_000)
    )
    mixed, held = with_other_test_samples(pairs, others, **held_out)
    alike, data = (dataset_from_torch(each, sensor=(4,), **held_out) for each in (pairs, mixed))
    assert (data.train.tally.bin_us, data.train.steps) == (1_000, 101)
    assert same(data.train, alike.train)
    whole = from_torch(mixed, sensor=(4,), bin_ms=1, steps=101)  # events after the last bin are left out
    assert len(data.test) == len(held)
    assert torch.equal(data.test.batch(torch.arange(len(held)))[0], whole.batch(held)[0])
    assert data.train.left_out == 0
    assert data.test.left_out > 0.8
    (told,) = [each for each in findings(profile(data)) if each.cause == "other losses"]
    assert told.evidence.startswith("90.0% of the test events are in no bin, but only 0.0% of the training events")


@pytest.mark.parametrize("held_out", HELD_OUT)
def test_samples_of_one_length_get_the_bins_of_all(held_out):
    pairs = row_of_units(90_000, 30)
    data, every = dataset_from_torch(pairs, sensor=(4,), **held_out), from_torch(pairs, sensor=(4,))
    _, held = with_other_test_samples(pairs, pairs, **held_out)
    kept = torch.tensor([row for row in range(30) if row not in held])
    assert (data.train.tally.bin_us, data.train.steps) == (every.tally.bin_us, every.steps)
    assert same(data.train, every.select(kept))
    assert same(data.test, every.select(held))


@pytest.mark.parametrize("given", [{"steps": 50}, {"bin_ms": 2}])
def test_half_given_bins_are_not_completed_from_held_out_samples(given):
    pairs, others = row_of_units(99_999, 30), row_of_units(999_999, 30)
    data = dataset_from_torch(with_other_test_samples(pairs, others)[0], sensor=(4,), **given)
    assert (data.train.tally.bin_us, data.train.steps) == (2_000, 50)


def test_the_sensor_is_found_from_held_out_samples_too():
    """A channel may be silent in training alone; as in files of one's own, the sensor has it."""
    pairs, others = row_of_units(9_000, 20), row_of_units(9_000, 20, units=6)
    data = dataset_from_torch(with_other_test_samples(pairs, others)[0])
    assert data.train.shape == data.test.shape == (6,)


def test_frames_have_the_steps_of_the_longest_training_sample():
    pairs, others = ([(np.ones((steps, 2)), row % 2) for row in range(20)] for steps in (3, 5))
    mixed, held = with_other_test_samples(pairs, others)
    data = dataset_from_torch(mixed)
    assert (data.train.steps, data.test.steps) == (3, 3)
    assert data.test.batch(torch.arange(len(held)))[0].tolist() == np.ones((3, 4, 2)).tolist()
    assert dataset_from_torch(mixed, steps=5).test.steps == 5
    longer = [each if row in held else others[row] for row, each in enumerate(pairs)]
    assert dataset_from_torch(longer).test.steps == 5


def test_training_samples_without_events_need_bins():
    nothing = [(np.zeros(0, [("t", "i8"), ("x", "i2")]), row % 2) for row in range(20)]
    mixed, _ = with_other_test_samples(nothing, row_of_units(9_000, 20))
    with pytest.raises(ValueError, match=r"^from_torch: no training sample has an event, .*; give bin_ms and steps$"):
        dataset_from_torch(mixed)
    assert dataset_from_torch(mixed, bin_ms=1, steps=9).train.steps == 9


def test_groups_stay_together():
    people = [f"person {row // 5}" for row in range(20)]
    data = dataset_from_torch(row_of_units(9_000, 20), sensor=(4,), groups=people)
    assert (data.group_names, data.group_labels) == ("groups", tuple(f"person {row}" for row in range(4)))
    held = set(data.test.groups.tolist())
    assert len(held) == 1
    assert not held & set(data.train.groups.tolist())


def test_the_names_are_those_of_the_data_set():
    class Named(FakeTonic):
        classes = ("left", "right", "up", "down")  # no sample has the last one

    named = dataset_from_torch(Subset(Named(), [1, 2, 3, 4, 5, 6]))
    assert (named.name, named.classes, named.class_names) == ("Named", 4, Named.classes)
    given = dataset_from_torch(Named(), class_names=["a", "b", "c"])
    assert given.class_names == ("a", "b", "c")
    Named.classes = ("left",)  # not the names of these labels
    assert dataset_from_torch(Named()).class_names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("labels", "names", "wanted", "numbers", "file_labels"),
    [
        ([0, 1, 2], None, ("0", "1", "2"), [0, 1, 2], ()),
        ([1, 2, 3], None, ("1", "2", "3"), [0, 1, 2], ("1", "2", "3")),
        ([2, 9, 4], None, ("2", "4", "9"), [0, 2, 1], ("2", "4", "9")),
        ([1, 2, 3], ["a", "b", "c"], ("a", "b", "c"), [0, 1, 2], ("1", "2", "3")),
        ([0, 2, 2], ["a", "b", "c"], ("a", "b", "c"), [0, 2, 2], ()),
        ([0, 2, 2], ["a", "b"], ("a", "b"), [0, 1, 1], ("0", "2")),
    ],
)
def test_labels_may_start_at_one_and_have_gaps(labels, names, wanted, numbers, file_labels):
    pairs = [(np.ones((2, 3)), label) for label in labels]
    data = dataset_from_torch(pairs, pairs[:1], valid=pairs[1:], class_names=names)
    assert (data.class_names, data.file_labels, data.classes) == (wanted, file_labels, len(wanted))
    assert data.train.labels.tolist() == numbers
    assert (data.test.labels.tolist(), data.valid.labels.tolist()) == (numbers[:1], numbers[1:])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"test": row_of_units(9_000, units=3)},
            r"training samples have the shape \(4,\), but test samples \(3,\); give",
        ),
        ({"class_names": ["a"]}, "class_names must be 2, one for each label, but are 1"),
        ({"groups": [1] * 12}, "12 samples have no group to hold out for the test; give test, or more samples"),
        ({"bin_width": 3}, "bin_width"),
    ],
)
def test_a_wrong_dataset_is_one_line(arguments, says):
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        dataset_from_torch(row_of_units(9_000), **arguments)
    assert "\n" not in str(caught.value)


def test_a_unit_that_is_too_small_is_told_as_of_a_file():
    events = np.zeros(120, [("t", "f8"), ("x", "i2")])
    events["t"] = np.linspace(0, 0.4, 120)  # seconds
    pairs = [(events, row % 2) for row in range(4)]
    with pytest.raises(
        ValueError, match=r"^from_torch: 120 different times in t are only 1 in .*: time_unit is too small"
    ):
        from_torch(pairs)
    assert from_torch(pairs, time_unit="s").steps == 101


def test_events_without_names_of_columns_are_told():
    with pytest.raises(ValueError, match=r"goes over 0\.\.900; events are structured arrays with the fields t and x"):
        from_torch([(np.array([[0, 3], [900, 1]]), 0)])
