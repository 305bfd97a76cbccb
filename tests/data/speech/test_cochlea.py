"""Spikes of sounds: reproducible, of the right units, independent of loudness and sample rate."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data import Sound, encode_speech
from bitspike.data.speech.cochlea import prepared, quick_length, window
from helpers.wav import word


def tone(hertz, rate=48000, seconds=0.15):
    return Sound(np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate), rate)


def test_the_seed_draws_the_spikes():
    spoken = Sound(word(0.2), 16000)
    one, again, other = (encode_speech(spoken, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.t, again.t)
    assert np.array_equal(one.unit, again.unit)
    assert not np.array_equal(one.t, other.t)
    assert len(other) == pytest.approx(len(one), rel=0.1)
    assert (np.diff(one.t) >= 0).all()
    assert 0 <= one.t[0] <= one.t[-1] <= 203_000


@pytest.mark.parametrize(("hertz", "unit"), [(6000, 165), (1500, 340), (440, 515), (200, 610)])
def test_a_tone_is_heard_where_the_membrane_resonates(hertz, unit):
    spikes = encode_speech(tone(hertz))
    counts = np.convolve(np.bincount(spikes.unit, minlength=700), np.ones(9), "same")
    assert counts.argmax() == pytest.approx(unit, abs=20)


def test_loudness_and_rate_do_not_matter():
    spoken = Sound(word(0.2, rate=48000), 48000)
    spikes = encode_speech(spoken)
    louder = encode_speech(Sound(8 * spoken.samples, 48000))
    assert np.array_equal(spikes.t, louder.t)
    slower = encode_speech(Sound(word(0.2, rate=12000), 12000))
    assert len(slower) == pytest.approx(len(spikes), rel=0.05)
    one, two = (np.histogram(each.unit, 14, (0, 700))[0] for each in (spikes, slower))
    assert np.corrcoef(one, two)[0, 1] > 0.99


def test_the_window_is_hanns():
    for n in (4, 5, 100, 101):
        ours = window(n).numpy()
        assert len(ours) == n
        np.testing.assert_allclose(ours[: n // 2], np.hanning(2 * (n // 2))[: n // 2], atol=1e-15)
        assert np.array_equal(ours, ours[::-1])
    assert window(101)[50] == 1


def test_a_sound_is_prepared():
    ready = prepared(torch.from_numpy(word(0.1)), 16000)
    assert len(ready) == quick_length(4800)
    loud = prepared(torch.from_numpy(8 * word(0.1)), 16000)
    torch.testing.assert_close(ready, loud, rtol=1e-12, atol=1e-15)
    flat = prepared(torch.tensor([1.0, -1.0] * 2400, dtype=torch.float64), 48000)[:4800]
    torch.testing.assert_close(flat.abs(), 0.3 * window(4800), rtol=1e-12, atol=0)


@given(st.integers(480, 3_000_000))
def test_a_quick_length_is_a_little_longer(samples):
    quick = quick_length(samples)
    assert samples <= quick <= 1.05 * samples + 4
    steps = quick // 2 + 1
    for prime in (2, 3, 5, 7):
        while steps % prime == 0:
            steps //= prime
    assert steps == 1


def test_blocks_of_units_give_the_same_spikes(monkeypatch):
    spoken = Sound(word(0.05), 16000)
    whole = encode_speech(spoken)
    monkeypatch.setattr("bitspike.data.speech.cochlea.BLOCK", 100_000)
    told = []
    parts = encode_speech(spoken, progress=lambda stage, total: told.append((stage, total)) or (lambda: None))
    assert np.array_equal(whole.t, parts.t)
    assert np.array_equal(whole.unit, parts.unit)
    assert told[0][1] > 1
