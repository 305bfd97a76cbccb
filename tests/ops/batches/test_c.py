"""Training events that are moved, stretched and thinned in C: the definition's counts, bit for bit."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data.samples import frames_from_dense
from bitspike.ops.batches import c
from bitspike.ops.batches.event_jitter import EventJitter, jittered_counts
from bitspike.ops.native import library
from helpers.frames import dense

pytestmark = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")
ALL = EventJitter(shift=2, stretch=0.4, time_shift=1, zoom=0.3, thin=0.7)
SHARES = [0.0, 1e-9, 0.3, 0.9]


def call(frames, rows, jitter, key=0x1234_5678_9ABC, first_row=0):
    return frames.bins, torch.tensor(rows, dtype=torch.long), jitter, torch.tensor(key), first_row


@given(
    st.builds(
        EventJitter, st.integers(0, 4), st.sampled_from(SHARES), st.integers(0, 3), st.sampled_from(SHARES),
        st.sampled_from([*SHARES, 1.0]),
    ),
    st.sampled_from([(5,), (1,), (140,), (3, 4), (1, 1, 1), (1, 5), (2, 17, 9)]),
    st.integers(1, 11),
    st.lists(st.integers(0, 3), max_size=6),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**31),
)  # fmt: skip
def test_it_is_the_definition(jitter, shape, steps, rows, key, first_row):
    frames = frames_from_dense(dense(4, steps, shape, key % 99, 0.6), torch.arange(4))
    given = call(frames, rows, jitter, key, first_row)
    assert c.jittered_counts(*given).equal(jittered_counts(*given))


@pytest.mark.parametrize("shape", [(700,), (2, 16, 16)])
@pytest.mark.parametrize("threads", [1, 2])
def test_samples_of_several_chunks(shape, threads):
    frames = frames_from_dense(dense(5, 40, shape, 3, 0.4), torch.arange(5))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        given = call(frames, [4, 0, 0, 3], ALL, first_row=7)
        assert c.jittered_counts(*given).equal(jittered_counts(*given))
    finally:
        torch.set_num_threads(before)


def test_a_sensor_so_wide_that_its_wave_needs_64_bits():
    index = torch.tensor([0, 50_000, 99_999, 100_000, 199_999], dtype=torch.int32)
    values = torch.zeros(1, 200_000, dtype=torch.uint8)
    values[0, index] = 200
    frames = frames_from_dense(values.view(1, 2, 100_000), torch.zeros(1))
    for key in range(20):
        given = call(frames, [0], EventJitter(zoom=0.2, thin=1.0), key)
        assert c.jittered_counts(*given).equal(jittered_counts(*given))


def test_sums_end_at_255_and_silence_stays():
    full = frames_from_dense(torch.full((2, 5, 3), 250), torch.arange(2))
    silent = frames_from_dense(torch.zeros(2, 3, 4, dtype=torch.long), torch.arange(2))
    for frames, rows in ((full, [1, 0]), (silent, [1, 0]), (silent, [])):
        given = call(frames, rows, EventJitter(1, 0.9, 1))
        assert c.jittered_counts(*given).equal(jittered_counts(*given))
    assert c.jittered_counts(*call(full, [0], EventJitter(1, 0.9, 1))).max() == 255


def test_a_batch_of_frames_is_made_in_c_and_elsewhere_with_the_same_numbers(monkeypatch):
    calls = []
    monkeypatch.setattr(c, "jittered_counts", lambda *given: calls.append(given) or jittered_counts(*given))
    frames = frames_from_dense(dense(9, 6, (2, 4, 3), 1, 0.4), torch.arange(9))
    rows, key = torch.tensor([8, 0, 3]), torch.tensor(5)
    ours, _ = frames.jittered_batch(rows, ALL, key)
    assert len(calls) == 1
    for name, value in (("BITSPIKE_BACKEND", "reference"), ("BITSPIKE_BACKEND", "torch")):
        monkeypatch.setenv(name, value)
        assert not c.usable(frames.bins)
        assert frames.jittered_batch(rows, ALL, key)[0].equal(ours)
        monkeypatch.delenv(name)
    monkeypatch.setattr(library, "library", lambda: None)
    assert frames.jittered_batch(rows, ALL, key)[0].equal(ours)
    assert len(calls) == 1


@pytest.mark.parametrize(("name", "value"), [("starts", -1), ("starts", 999), ("lengths", 999)])
def test_samples_outside_of_the_stored_bins_are_refused(name, value):
    frames = frames_from_dense(dense(4, 6, (5,), 1, 0.6), torch.arange(4))
    getattr(frames, name)[2] = value
    frames = replace(frames, longest=10_000)  # so that no length is cut to the longest sample's
    with pytest.raises(IndexError, match="samples must lie within the"):
        c.jittered_counts(*call(frames, [1, 2], ALL))
    c.jittered_counts(*call(frames, [1, 3], ALL))  # the others are made


def test_bins_of_other_kinds_are_left_to_the_definition():
    frames = frames_from_dense(dense(4, 6, (5,), 1, 0.6), torch.arange(4))
    assert c.usable(frames.bins)
    assert not c.usable(replace(frames.bins, index=frames.index.long()))
    assert not c.usable(replace(frames.bins, count=frames.count.int()))
    assert not c.usable(replace(frames.bins, index=frames.index.to("meta")))
    for shape in ((2, 5), (2, 1, 5)):  # rows of channels with polarities
        assert not c.usable(frames_from_dense(dense(4, 6, shape, 1, 0.6), torch.arange(4)).bins)
