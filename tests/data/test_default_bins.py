"""Time bins found from the events: short and long samples, sparse and dense, quick and slow clocks, in every unit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data.config import DataConfig
from bitspike.data.datasets import open_dataset, with_bins
from bitspike.data.default_bins import default_bins
from bitspike.data.events import Events
from helpers.files import event_arrays, write_npz

ROW, CAMERA = (8,), (8, 8)


def samples(ends, count=400, *, sensor=ROW, tick=1, seed=0):
    """Events at random times of samples that end at `ends` microseconds, `count` each."""
    rng = np.random.default_rng(seed)
    times = [np.sort(np.append(rng.integers(0, end + 1, count - 1), end)) // tick * tick for end in ends]
    t = np.concatenate(times).astype(np.int64)
    y = t % 8 if len(sensor) == 2 else None
    return Events(t, t % 8, y, None, np.arange(len(times) + 1) * count, np.zeros(len(times), np.int64), sensor)


@pytest.mark.parametrize(
    ("end", "bin_us", "steps"),
    [
        (999_999, 10_000, 100),
        (812_000, 8_000, 102),
        (1_000, 10, 101),
        (99, 1, 100),
        (30, 1, 31),  # no bin is shorter than a microsecond
        (60_000_000, 600_000, 101),
        (3_600_000_000, 40_000_000, 91),  # an hour
        (1_370_000, 15_000, 92),
    ],
)
def test_about_a_hundred_bins_of_a_round_width_for_a_row_of_channels(end, bin_us, steps):
    found = default_bins(samples([end] * 20))
    assert (found.bin_us, found.steps) == (bin_us, steps)


def test_a_camera_gets_fewer():
    found = default_bins(samples([999_999] * 20, sensor=CAMERA))
    assert (found.bin_us, found.steps) == (30_000, 34)


@pytest.mark.parametrize(("count", "steps"), [(2, 20), (4, 20), (10, 40), (20, 80), (25, 100), (1000, 100)])
def test_few_events_get_few_bins(count, steps):
    assert default_bins(samples([1_000_000 - 1] * 20, count)).steps == pytest.approx(steps, rel=0.25)


def test_the_rare_long_sample_does_not_widen_the_bins():
    ends = [100_000] * 97 + [400_000] * 3
    assert default_bins(samples(ends)).steps * default_bins(samples(ends)).bin_us < 400_000
    found = default_bins(samples([100_000] * 90 + [400_000] * 10))
    assert found.steps * found.bin_us > 400_000


def test_at_most_one_event_of_a_hundred_is_lost_though_the_samples_are_few():
    """Three long samples of a hundred hold a third of the events."""
    short, long = samples([100_000] * 97, 20), samples([400_000] * 3, 400)
    t = np.concatenate((short.t, long.t))
    offsets = np.concatenate((short.offsets, long.offsets[1:] + short.offsets[-1]))
    both = Events(t, t % 8, None, None, offsets, np.zeros(100, np.int64), ROW)
    found = default_bins(both)
    assert (t >= found.steps * found.bin_us).mean() <= 0.01


@pytest.mark.parametrize(("tick", "bin_us"), [(1, 300), (1_000, 1_000), (4_000, 4_000), (250, 250), (20, 300)])
def test_a_slow_clock_gets_bins_of_whole_ticks(tick, bin_us):
    assert default_bins(samples([31_000] * 20, tick=tick)).bin_us == bin_us


def test_one_of_both_given_the_other_follows():
    events = samples([1_000_000] * 20)
    assert default_bins(events, bin_us=7_000).steps == 143
    assert default_bins(events, steps=30).bin_us == 34_000
    assert default_bins(events, steps=30).steps == 30


@given(st.integers(1, 10**9), st.integers(1, 60), st.integers(1, 40), st.sampled_from([ROW, CAMERA]), st.booleans())
def test_the_bins_hold_the_last_event_and_are_not_many(end, count, number, sensor, fixed):
    """Equal samples: nothing is lost, whatever the length, the number of events and the unit."""
    events = samples([end] * number, count, sensor=sensor)
    found = default_bins(events, steps=37 if fixed else None)
    assert found.steps * found.bin_us > events.t.max()
    assert found.steps == 37 if fixed else found.steps <= 130
    assert default_bins(events, bin_us=found.bin_us).steps <= found.steps


def test_no_event_at_all_is_refused_in_words():
    nothing = np.zeros(0, np.int64)
    with pytest.raises(ValueError, match=r"no sample has an event.*data\.bin_ms and data\.steps"):
        default_bins(Events(nothing, nothing, None, None, np.zeros(4, np.int64), np.zeros(3, np.int64), ROW))


@pytest.mark.parametrize(("unit", "scale"), [("us", 1), ("ms", 1e3), ("s", 1e6)])
def test_a_file_is_binned_alike_in_every_unit(unit, scale, tmp_path, monkeypatch):
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / "data"))
    events = samples([812_000] * 12)
    arrays = {"t": events.t / scale, "x": events.x, "offsets": events.offsets, "labels": np.arange(12) % 3}
    config = DataConfig(file=write_npz(tmp_path / "own.npz", **arrays), time_unit=unit)
    found, source = with_bins(config)
    assert (found.bin_ms, found.steps) == (8.0, 102)
    assert source.startswith("found: 95 % of the samples end within 812 ms")
    assert open_dataset(config).train.steps == 102
    assert with_bins(found) == (found, "")


def test_bins_that_are_given_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / "data"))
    file = write_npz(tmp_path / "own.npz", **event_arrays(12))
    assert with_bins(DataConfig(file=file, bin_ms=2.0))[0].bin_ms == 2.0
    assert with_bins(DataConfig(file=file, steps=7))[0].steps == 7
    assert with_bins(DataConfig(name="shd")) == (DataConfig(name="shd"), "")
    with pytest.raises(FileNotFoundError, match=r"none\.npz does not exist"):
        with_bins(DataConfig(file=tmp_path / "none.npz"))


def test_the_bins_of_several_files_hold_all_of_them(tmp_path, monkeypatch):
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / "data"))
    for name, end in (("a", 400_000), ("b", 812_000)):
        events = samples([end] * 12)
        arrays = {"t_us": events.t, "x": events.x, "offsets": events.offsets, "labels": np.arange(12) % 3}
        write_npz(tmp_path / f"{name}.npz", **arrays)
    assert with_bins(DataConfig(file=tmp_path / "?.npz"))[0].bin_ms == 8.0
    assert open_dataset(DataConfig(file=(tmp_path / "a.npz", tmp_path / "b.npz"))).train.steps == 102


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_samples_held_out_for_the_test_do_not_decide_the_bins(groups, seed, tmp_path, monkeypatch):
    """The test samples are made four times as long: the bins are those of the training samples alone."""
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / "data"))
    labels = np.arange(20) % 2 + 1
    more = {"groups": np.array([f"person {row // 4}" for row in range(20)])} if groups else {}

    def config(ends, name):
        events = samples(ends)
        arrays = {"t_us": events.t, "x": events.x, "offsets": events.offsets, "labels": labels, **more}
        return DataConfig(file=write_npz(tmp_path / name, **arrays), split_seed=seed, time_origin="zero")

    found, _ = with_bins(config([200_000] * 20, "equal.npz"))
    data = open_dataset(config(200_000 + np.arange(20), "marked.npz").model_copy(update={"bin_ms": 300.0, "steps": 1}))
    held = set((data.test.tally.last_us - 200_000).tolist())  # the rows, as the split draws them
    assert 0 < len(held) < 10
    longer = config([800_000 if row in held else 200_000 for row in range(20)], "longer.npz")
    assert (with_bins(longer)[0].bin_ms, with_bins(longer)[0].steps) == (found.bin_ms, found.steps)
    assert open_dataset(longer).test.tally.left_out > 0.5


@pytest.mark.parametrize(("duration", "bin_us", "steps"), [(200_000, 2_000, 100), (200_001, 2_000, 101), (1, 1, 1)])
def test_events_after_the_duration_do_not_decide_the_bins(duration, bin_us, steps):
    found = default_bins(samples([999_999] * 20), duration_us=duration)
    assert (found.bin_us, found.steps) == (bin_us, steps)


def test_bins_end_with_the_duration_where_one_of_both_is_given():
    events = samples([999_999] * 20)
    assert default_bins(events, bin_us=10_000, duration_us=200_000).steps == 20
    assert default_bins(events, steps=40, duration_us=200_000).bin_us == 5_000
    cut, whole = default_bins(events, duration_us=200_000), default_bins(events, duration_us=10**9)
    assert cut.source.endswith("; duration_ms ends them at 200 ms")
    assert whole == default_bins(events)


def test_the_bins_of_a_file_end_with_its_duration(tmp_path, monkeypatch):
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / "data"))
    events = samples([812_000] * 12)
    arrays = {"t_us": events.t, "x": events.x, "offsets": events.offsets, "labels": np.arange(12) % 3}
    config = DataConfig(file=write_npz(tmp_path / "own.npz", **arrays), duration_ms=200.0)
    assert (with_bins(config)[0].bin_ms, with_bins(config)[0].steps) == (2.0, 100)
