"""Binning is what a loop over events into a dense array gives; splitting, blocks and threads change nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data import binning as module
from bitspike.data.binning import Binning, bin_events
from bitspike.data.events import Events
from bitspike.data.tally import COLUMNS, REASONS


def dense(events, binning):
    """Counts `[N, T, *shape]`, one event after another."""
    shape, d = binning.shape(events), binning.downsample
    out = np.zeros((len(events), binning.steps, *shape), dtype=np.int64)
    for sample in range(len(events)):
        for e in range(int(events.offsets[sample]), int(events.offsets[sample + 1])):
            t, x = int(events.t[e]), int(events.x[e]) // d
            place = [] if events.y is None else [int(events.y[e]) // d]
            place.append(x)
            if t >= binning.steps * binning.bin_us or t >= (binning.duration_us or t + 1):
                continue
            if any(at >= size // d for at, size in zip(place, events.sensor, strict=True)):
                continue
            channel = int(events.p[e]) if events.p is not None and binning.polarity else 0
            if len(shape) > len(place):
                place = [channel, *place]
            out[(sample, t // binning.bin_us, *place)] += 1
    return np.minimum(out, binning.clip or 255)


def as_dense(frames):
    out = np.zeros((len(frames), frames.steps * int(np.prod(frames.shape))), dtype=np.int64)
    for row, (start, length) in enumerate(zip(frames.starts.tolist(), frames.lengths.tolist(), strict=True)):
        index = frames.index[start : start + length].long().numpy()
        assert (np.diff(index) > 0).all(), "sorted, none twice"
        out[row, index] = frames.count[start : start + length].numpy()
    return out.reshape(len(frames), frames.steps, *frames.shape)


@st.composite
def event_sets(draw, line=None):
    line = draw(st.booleans()) if line is None else line
    height, width = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    lengths = draw(st.lists(st.integers(0, 25), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    total, dtype = sum(lengths), draw(st.sampled_from([np.uint8, np.int16, np.int32, np.int64, np.uint16]))
    t = rng.integers(0, draw(st.sampled_from([20, 60, 10**12])), total)
    if draw(st.booleans()):
        t = np.sort(t)
    return Events(
        t,
        rng.integers(0, width, total).astype(dtype),
        None if line else rng.integers(0, height, total).astype(dtype),
        rng.integers(0, 2, total).astype(dtype) if draw(st.booleans()) else None,
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        rng.integers(0, 9, len(lengths)),
        (width,) if line else (height, width),
    )


binnings = st.builds(
    Binning,
    bin_us=st.integers(1, 12),
    steps=st.integers(1, 9),
    polarity=st.booleans(),
    clip=st.none() | st.integers(1, 3),
    duration_us=st.none() | st.integers(1, 70),
)


@given(event_sets(), binnings, st.data())
def test_a_loop_over_events_gives_the_same(events, binning, data):
    binning = replace(binning, downsample=data.draw(st.integers(1, min(events.sensor))))
    frames = bin_events(events, binning)
    assert np.array_equal(as_dense(frames), dense(events, binning))
    assert frames.labels.tolist() == events.labels.tolist()
    assert [str(part.dtype) for part in (frames.index, frames.count, frames.lengths, frames.labels)] == [
        "torch.int32",
        "torch.uint8",
        "torch.int64",
        "torch.int64",
    ]


@given(event_sets(), binnings, st.integers(1, 30), st.integers(1, 3), st.data())
def test_blocks_threads_and_rows_change_nothing(events, binning, size, workers, data):
    whole = as_dense(bin_events(events, binning))
    start = data.draw(st.integers(0, len(events)))
    stop = data.draw(st.integers(start, len(events)))
    steps = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_EVENTS", size)

        def progress(stage, count):
            steps.append(count)
            return lambda: steps.append(-1)

        part = bin_events(events, binning, range(start, stop), workers=workers, progress=progress)
    assert np.array_equal(as_dense(part), whole[start:stop])
    assert part.labels.tolist() == events.labels[start:stop].tolist()
    assert sum(steps) == 0, "as many steps as were announced"


@given(event_sets(), binnings)
def test_few_bins_a_block_change_nothing(events, binning):
    whole = as_dense(bin_events(events, binning))
    bins = binning.steps * int(np.prod(binning.shape(events)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_BINS", bins)
        assert np.array_equal(as_dense(bin_events(events, binning)), whole)


def line(t, x, units=4, **more):
    t, x = np.asarray(t, dtype=np.int64), np.asarray(x)
    return Events(t, x, None, more.get("p"), np.array([0, len(t)]), np.array([0]), (units,))


def test_a_batch_is_the_dense_array():
    events = line([0, 1, 10, 19, 20], [0, 0, 3, 1, 2])
    frames = bin_events(events, Binning(10, 2))
    values, labels = frames.batch(torch.tensor([0]))
    assert values.tolist() == [[[2, 0, 0, 0]], [[0, 1, 0, 1]]]
    assert labels.tolist() == [0]


@pytest.mark.parametrize(
    ("sensor", "y", "p", "polarity", "shape"),
    [
        ((8, 12), True, True, True, (2, 4, 6)),
        ((8, 12), True, True, False, (1, 4, 6)),
        ((8, 12), True, False, True, (1, 4, 6)),
        ((9, 13), True, True, True, (2, 4, 6)),
        ((13,), False, False, True, (6,)),
        ((13,), False, True, True, (2, 6)),
        ((13,), False, True, False, (6,)),
    ],
)
def test_shapes(sensor, y, p, polarity, shape):
    zero = np.zeros(1, dtype=np.int64)
    events = Events(zero, zero, zero if y else None, zero if p else None, np.array([0, 1]), zero, sensor)
    assert bin_events(events, Binning(1, 1, downsample=2, polarity=polarity)).shape == shape


def test_counts_stop_at_255():
    events = line([0] * 300 + [1] * 255, [1] * 555)
    assert bin_events(events, Binning(1, 2)).count.tolist() == [255, 255]
    assert bin_events(events, Binning(1, 2, clip=1)).count.tolist() == [1, 1]


def test_no_events_at_all():
    frames = bin_events(line([], []), Binning(1, 2))
    assert frames.lengths.tolist() == [0]
    assert frames.batch(torch.tensor([0]))[0].tolist() == [[[0] * 4]] * 2


def test_as_many_bins_as_can_be_numbered():
    events = line([2**20 - 2, 2**20 - 1, 2**20 - 2], [2046, 2047, 2046], units=2047)
    events = replace(events, x=np.array([2046, 0, 2046]))
    frames = bin_events(events, Binning(1, 2**20))
    assert frames.index.tolist() == [(2**20 - 2) * 2047 + 2046, (2**20 - 1) * 2047]
    assert frames.count.tolist() == [2, 1]
    twice = replace(events, offsets=np.array([0, 1, 3]), labels=np.array([0, 1]))
    assert bin_events(twice, Binning(1, 2**20)).index.tolist() == [frames.index[0], *frames.index]
    with pytest.raises(ValueError, match=r"are 2147483648 bins, more than the 2147483647 that can be numbered"):
        bin_events(line([0], [0], units=2048), Binning(1, 2**20))


@pytest.mark.parametrize(
    ("field", "value"),
    [("bin_us", 0), ("bin_us", 1.5), ("steps", -1), ("steps", True), ("downsample", 0), ("duration_us", 0)],
)
def test_wrong_numbers_are_refused(field, value):
    with pytest.raises(ValueError, match=f"Binning: {field} must be a whole number of at least 1"):
        Binning(**({"bin_us": 1, "steps": 1} | {field: value}))


@pytest.mark.parametrize("clip", [0, 256, -1])
def test_a_clip_fits_a_byte(clip):
    with pytest.raises(ValueError, match=r"clip must be in 1\.\.255 or None"):
        Binning(1, 1, clip=clip)


def test_a_cell_is_not_larger_than_the_sensor():
    with pytest.raises(ValueError, match=r"downsample must be at most the sensor's size \[4\], but is 5; choose one"):
        bin_events(line([0], [0]), Binning(1, 1, downsample=5))


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("x", 4, r"x must be in 0\.\.3, but goes over 0\.\.4"),
        ("x", -1, "x must be in"),
        ("p", 2, r"p must be in 0\.\.1"),
    ],
)
def test_events_outside_are_refused(column, value, says):
    good = line([0, 1], [0, 3], p=np.array([0, 1]))
    bad = replace(good, **{column: np.array([0, value])})
    with pytest.raises(ValueError, match=says):
        bin_events(bad, Binning(1, 9, polarity=False))


def test_every_other_sample_is_no_range_of_samples():
    events = replace(line([0], [0]), offsets=np.array([0, 1, 1, 1]), labels=np.array([0, 1, 2]))
    with pytest.raises(ValueError, match="rows must be a range of step 1"):
        bin_events(events, Binning(1, 1), range(0, 3, 2))


@pytest.mark.parametrize("rows", [range(2), range(-1, 1), range(1, 0, -1), range(0, 3, 2)])
def test_rows_are_samples(rows):
    with pytest.raises(ValueError, match=r"rows must be a range of step 1 within 0\.\.1"):
        bin_events(line([0], [0]), Binning(1, 1), rows)


@given(event_sets(), binnings, st.integers(0, 40), st.data())
def test_the_tally_is_that_of_a_loop_over_events(events, binning, earlier, data):
    binning = replace(binning, downsample=data.draw(st.integers(1, min(events.sensor))))
    events = replace(events, t=events.t - earlier)
    expected = {name: [0] * len(events) for name in COLUMNS}
    counted = dense(replace(events, t=np.where(events.t < 0, 2**60, events.t)), binning)
    for sample in range(len(events)):
        for e in range(int(events.offsets[sample]), int(events.offsets[sample + 1])):
            t, cells = int(events.t[e]), [size // binning.downsample for size in events.sensor]
            place = [column[e] // binning.downsample for column in (events.y, events.x) if column is not None]
            expected["given"][sample] += 1
            expected["last_us"][sample] = max(expected["last_us"][sample], t)
            if t < 0:
                expected["before"][sample] += 1
            elif t >= binning.end_us:
                expected["after"][sample] += 1
            elif any(at >= size for at, size in zip(place, cells, strict=True)):
                expected["outside"][sample] += 1
            else:
                expected["clipped"][sample] += 1
        expected["clipped"][sample] -= int(counted[sample].sum())
    frames = bin_events(events, binning)
    assert {name: getattr(frames.tally, name).tolist() for name in COLUMNS} == expected
    assert np.array_equal(as_dense(frames), counted)
    lost = sum(sum(expected[reason]) for reason in REASONS)
    assert frames.left_out == pytest.approx(lost / max(sum(expected["given"]), 1))
    assert sum(frames.tally.shares().values()) == pytest.approx(frames.left_out)


def test_the_tally_is_of_the_chosen_samples():
    events = Events(
        np.array([-1, 0, 0, 25, 5, 99]), np.array([0, 0, 0, 1, 4, 1]), None, None,
        np.array([0, 3, 6]), np.array([0, 1]), (5,),
    )  # fmt: skip
    frames = bin_events(events, Binning(10, 2, downsample=2, clip=1))
    assert frames.tally.shares() == {"before": 1 / 6, "after": 2 / 6, "outside": 1 / 6, "clipped": 1 / 6}
    second = frames.select(torch.tensor([1]))
    assert second.tally.shares() == {"before": 0, "after": 2 / 3, "outside": 1 / 3, "clipped": 0}
    assert second.left_out == 1
    assert (second.tally.last_us.tolist(), second.tally.bin_us, second.tally.end_us) == ([99], 10, 20)
    assert frames.select(torch.tensor([True, False])).tally.given.tolist() == [3]
