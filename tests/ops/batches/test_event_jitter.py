"""Training events moved and stretched: the definition bin by bin, its laws, and Triton's twin."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data.samples import frames_from_dense
from bitspike.ops.batches.event_jitter import TIME, EventJitter, draws, jittered_counts, places_within
from bitspike.ops.batches.scatter import scatter_counts
from bitspike.ops.dropout.reference import philox
from helpers.frames import dense

KEY = torch.tensor(0x1234_5678_9ABC)
ALL = EventJitter(shift=2, stretch=0.4, time_shift=1, zoom=0.3, thin=0.7)
SETTINGS = [
    EventJitter(),
    EventJitter(shift=1),
    EventJitter(stretch=0.3),
    EventJitter(time_shift=2),
    EventJitter(zoom=0.5),
    EventJitter(thin=1.0),
    EventJitter(thin=0.3),
    ALL,
]


def arguments(frames, rows, device="cpu"):
    return frames.to(device).bins, rows.to(device)


def span(number, reach):
    """A number from -reach to reach, from a random one."""
    return (number & 0x7FFFFFFF) % (2 * reach + 1) - reach


def one_by_one(frames, rows, jitter, key, first_row=0):
    """Bin by bin, in exact fractions, from the words that philox draws."""

    def word(*counter):
        return [int(w) for w in philox(tuple(torch.tensor(c) for c in counter), key)]

    out = torch.zeros(frames.steps, len(rows), *frames.shape, dtype=torch.long)
    is_row = len(frames.shape) == 1 or frames.shape[:-1] in ((1,), (2,))  # of channels, with or without polarities
    for b, row in enumerate(rows.tolist()):
        down, right, factor, later = word(first_row + b, 0, 0, 2)
        times = 1 + Fraction(span(factor, round(jitter.stretch * 65536)), 65536)
        zoom, lost, phase, upright = (w & 0x7FFFFFFF for w in word(first_row + b, 1, 0, 2))
        zoom = 1 + Fraction(span(zoom, round(jitter.zoom * 65536)), 65536)
        lost = lost % (round(jitter.thin * 65536) + 1)
        start = int(frames.starts[row])
        for e in range(int(frames.lengths[row])):
            place, count = int(frames.index[start + e]), int(frames.count[start + e])
            *planes, x = torch.unravel_index(torch.tensor(place), (frames.steps, *frames.shape))
            t, *planes = (int(p) for p in planes)

            def within(axis, b=b, e=e):
                block = word(first_row + b, e // 8, axis, 3)[e % 8 // 2]
                return Fraction(block >> 16 if e % 2 else block & 0xFFFF, 65536)

            def zoomed(x, axis, width, zoom=zoom, within=within):
                return floor((x + within(axis) - Fraction(width, 2)) * zoom + Fraction(width, 2)) if jitter.zoom else x

            if jitter.thin:
                across = upright % 2 == 0 or is_row
                place, size = (int(x), frames.shape[-1]) if across else (planes[-1], frames.shape[-2])
                wave = (floor(Fraction(3, 4) * 65536 * place / size) + phase) % 65536
                height = min(2 * wave, 131072 - 2 * wave)
                share = Fraction(65536 - floor(Fraction(lost * height, 65536)), 65536)
                count = floor(count * share + within(3))
            x = zoomed(int(x), 1, frames.shape[-1]) + span(right, jitter.shift)
            at = [floor((t + within(0)) * times) + span(later, jitter.time_shift), *planes, x]
            if not is_row:
                at[-2] = zoomed(at[-2], 2, frames.shape[-2]) + span(down, jitter.shift)
            if all(0 <= i < n for i, n in zip(at, (frames.steps, *frames.shape), strict=True)):
                out[at[0], b, *at[1:]] += count
    return out.clamp(max=255).to(torch.uint8)


@given(
    st.sampled_from(SETTINGS),
    st.sampled_from([(5,), (1,), (2, 3, 4), (3, 4), (2, 5), (1, 5)]),
    st.integers(0, 2**62),
    st.integers(0, 5),
    st.sampled_from([0.3, 1.0]),
)
def test_it_is_the_definition_bin_by_bin(jitter, shape, seed, first_row, density):
    frames = frames_from_dense(dense(3, 6, shape, seed % 99, density), torch.arange(3))
    rows, key = torch.tensor([2, 0, 2]), torch.tensor(seed)
    found = jittered_counts(*arguments(frames, rows), jitter, key, first_row)
    assert found.view(6, 3, *shape).equal(one_by_one(frames, rows, jitter, key, first_row))


def test_events_of_a_row_keep_their_polarity():
    """A polarity is no place: events of a row that moves stay in theirs, as if each were a row of its own."""
    both = torch.cat((dense(3, 6, (1, 9), 0, 0.5), dense(3, 6, (1, 9), 1, 0.5)), 2)  # [N, T, 2, 9]
    rows, asked = torch.arange(3), EventJitter(shift=2, time_shift=1)
    found = frames_from_dense(both, rows).jittered_batch(rows, asked, KEY)[0]
    for p in range(2):
        alone = frames_from_dense(both[:, :, p], rows).jittered_batch(rows, asked, KEY)[0]
        assert found[:, :, p].equal(alone)
        assert alone.any()


def test_nothing_asked_for_changes_nothing():
    frames = frames_from_dense(dense(4, 7, (9,), 0, 0.5), torch.arange(4))
    given = arguments(frames, torch.tensor([3, 1]))
    assert not EventJitter()
    assert all(SETTINGS[1:])
    assert jittered_counts(*given, EventJitter(), KEY).equal(scatter_counts(*given))


def test_all_moves_are_about_equally_likely():
    drawn = draws(EventJitter(2, 0.25, 1), 50_000, KEY)
    for moved, reach in ((drawn.down, 2), (drawn.right, 2), (drawn.later, 1)):
        assert moved.unique().tolist() == list(range(-reach, reach + 1))
        assert (torch.bincount(moved + reach) / 50_000 - 1 / (2 * reach + 1)).abs().max() < 0.01
    factor = drawn.factor / 65536
    assert (factor.min() >= 0.75) & (factor.max() <= 1.25)
    assert abs(factor.mean() - 1) < 2e-3
    assert abs(factor.std() - 0.5 / 12**0.5) < 2e-3
    together = torch.stack((drawn.down, drawn.right, drawn.factor, drawn.later)).double()
    assert (torch.corrcoef(together) - torch.eye(4)).abs().max() < 0.02


def test_places_within_a_step_are_even():
    u = places_within(TIME, 300, 501, KEY).double() / 65536
    assert u.shape == (300, 501)
    assert (u.min() >= 0) & (u.max() < 1)
    assert abs(u.mean() - 0.5) < 3e-3
    assert abs(u.std() - 12**-0.5) < 3e-3
    assert (torch.corrcoef(u[:, :24].T) - torch.eye(24)).abs().max() < 0.35  # of bins that share a block, too
    assert len(u.unique()) > 50_000


def test_a_stretched_sample_has_no_empty_steps():
    frames = frames_from_dense(torch.ones(40, 50, 200, dtype=torch.long), torch.arange(40))
    found = jittered_counts(*arguments(frames, torch.arange(40)), EventJitter(stretch=0.4), KEY)
    factors = draws(EventJitter(stretch=0.4), 40, KEY).factor / 65536
    for b, factor in enumerate(factors.tolist()):
        a_step = found[:, b].sum(1).double()
        inside = a_step[: min(50, int(50 * factor) - 1)]
        assert abs(inside.mean() / (200 / factor) - 1) < 0.02  # slower is thinner, faster denser
        assert (inside - 200 / factor).abs().max() < 0.3 * 200 / factor
        assert not a_step[int(50 * factor) + 1 :].any()


def test_events_are_thinned_smoothly_by_up_to_the_share_asked_for():
    frames = frames_from_dense(torch.full((400, 3, 64), 100), torch.arange(400))
    jitter = EventJitter(thin=0.8)
    found = jittered_counts(*arguments(frames, torch.arange(400)), jitter, KEY).double()
    kept, lost = found.mean(0) / 100, draws(jitter, 400, KEY).lost.double() / 65536
    assert abs(lost.mean() - 0.4) < 0.03
    assert (lost.min() < 0.02) & (lost.max() > 0.78) & (lost.max() <= 0.8)
    assert abs(kept.mean() - 0.8) < 0.02  # half a wave's height, of half the share
    assert ((kept.min(1).values - (1 - lost)) > -0.02).all()
    slope = kept.diff(dim=1).abs().max(1).values
    assert (slope <= 1.5 / 64 * lost + 0.015).all()  # up and down in three quarters of a wave
    assert (kept.max(1).values >= 1 - lost * 0.5 - 0.02).all()


def test_half_an_event_stays_half_of_the_time():
    frames = frames_from_dense(torch.ones(300, 4, 50, dtype=torch.long), torch.arange(300))
    found = jittered_counts(*arguments(frames, torch.arange(300)), EventJitter(thin=1.0), KEY)
    assert found.max() == 1
    assert abs(found.double().mean() - 0.75) < 0.02


def test_the_waves_of_a_camera_run_across_it_or_down():
    frames = frames_from_dense(torch.full((200, 1, 1, 24, 32), 200), torch.arange(200))
    found = jittered_counts(*arguments(frames, torch.arange(200)), EventJitter(thin=1.0), KEY)
    found = found.view(200, 24, 32).double()
    down = draws(EventJitter(thin=1.0), 200, KEY).upright
    assert 80 < down.sum() < 120
    assert (found[down].diff(dim=2).abs() <= 1).all()
    assert (found[~down].diff(dim=1).abs() <= 1).all()


def test_a_batch_split_in_two_is_the_whole_batch():
    frames = frames_from_dense(dense(8, 6, (2, 5, 5), 3, 0.5), torch.arange(8))
    whole = jittered_counts(*arguments(frames, torch.arange(8)), ALL, KEY)
    parts = [
        jittered_counts(*arguments(frames, torch.arange(3)), ALL, KEY),
        jittered_counts(*arguments(frames, torch.arange(3, 8)), ALL, KEY, first_row=3),
    ]
    assert torch.cat(parts, 1).equal(whole)


def test_bins_that_meet_are_added_up_to_255():
    values = torch.zeros(1, 4, 1, dtype=torch.long)
    values[0, :, 0] = torch.tensor([100, 100, 100, 3])
    frames = frames_from_dense(values, torch.zeros(1))
    sums = set()
    for key in range(200):
        found = jittered_counts(*arguments(frames, torch.tensor([0])), EventJitter(stretch=0.9), torch.tensor(key))
        sums.add(int(found.max()))
    assert {200, 255} <= sums  # two, and all of them


def test_a_jittered_batch_of_frames_is_the_definition():
    frames = frames_from_dense(dense(9, 6, (2, 4, 3), 1, 0.4), torch.arange(9))
    rows = torch.tensor([8, 0, 3, 3])
    found, labels = frames.jittered_batch(rows, ALL, KEY, 5)
    wanted = jittered_counts(*arguments(frames, rows), ALL, KEY, 5)
    assert found.dtype == torch.float32
    assert found.equal(wanted.view(6, 4, 2, 4, 3).float())
    assert labels.tolist() == [8, 0, 3, 3]
    assert not found[:, 2].equal(found[:, 3])  # by its place in the batch
    empty, none = frames.jittered_batch(rows[:0], ALL, KEY)
    assert (empty.shape, len(none)) == ((6, 0, 2, 4, 3), 0)


# ---- Triton


@pytest.fixture
def small_blocks(monkeypatch):
    triton = pytest.importorskip("bitspike.ops.batches.triton")
    monkeypatch.setattr(triton, "_EVENTS", 16)
    return triton


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("jitter", SETTINGS, ids=repr)
@pytest.mark.parametrize("shape", [(21,), (2, 5, 7), (2, 11)])
def test_the_kernel_is_the_definition(small_blocks, jitter, shape):
    from helpers.kernels import DEVICE

    frames = frames_from_dense(dense(5, 9, shape, 4, 0.6), torch.arange(5))
    call = (*arguments(frames, torch.tensor([4, 0, 2, 2, 1]), DEVICE), jitter, KEY.to(DEVICE), 3)
    ours = small_blocks.jittered_counts(*call)
    assert ours.dtype == torch.uint8
    assert ours.equal(jittered_counts(*call))


@pytest.mark.usefixtures("poisoned")
def test_the_kernel_saturates_and_takes_silence(small_blocks):
    from helpers.kernels import DEVICE

    full = frames_from_dense(torch.full((2, 5, 3), 250), torch.arange(2))
    silent = frames_from_dense(torch.zeros(2, 3, 4, dtype=torch.long), torch.arange(2))
    for frames, rows in ((full, [1, 0]), (silent, [1, 0]), (silent, [])):
        rows = torch.tensor(rows, dtype=torch.long)
        call = (*arguments(frames, rows, DEVICE), EventJitter(1, 0.9, 1), KEY.to(DEVICE))
        assert small_blocks.jittered_counts(*call).equal(jittered_counts(*call))
