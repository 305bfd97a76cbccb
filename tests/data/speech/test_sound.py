"""Trimming of silence, and other sample rates."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data import Sound
from bitspike.data.speech.resampling import resample
from helpers.wav import word


def test_silence_is_cut_and_margins_are_left():
    spoken = 0.5 * np.sin(np.arange(8000) / 3)
    long = Sound(np.concatenate([np.zeros(16000), spoken, np.zeros(32000)]), 16000)
    cut = long.trimmed()
    assert cut.seconds == pytest.approx(0.5 + 0.06 + 0.15, abs=0.011)
    tight = Sound(spoken, 16000).trimmed()  # has no silence: it is added
    assert tight.seconds == pytest.approx(0.5 + 0.06 + 0.15, abs=0.011)
    assert np.flatnonzero(cut.samples)[0] == pytest.approx(0.06 * 16000, abs=90)
    assert np.array_equal(tight.samples[960:8960], spoken)


@pytest.mark.parametrize("samples", [[], [0.1, float("nan")], [float("inf")]])
def test_what_is_no_sound_is_not_trimmed(samples):
    with pytest.raises(ValueError, match="samples must be numbers, one at least"):
        Sound(np.array(samples), 8000).trimmed()


@given(st.sampled_from([8000, 11025, 16000, 22050, 22051, 44100, 48000, 96000]), st.sampled_from([8000, 16000, 48000]))
def test_a_tone_stays_the_same_tone(rate, new_rate):
    def tone(rate):
        t = torch.arange(rate // 4, dtype=torch.float64) / rate
        return torch.sin(2 * torch.pi * 440 * t) * torch.sin(4 * torch.pi * t) ** 2

    ours, expected = resample(tone(rate), rate, new_rate), tone(new_rate)
    assert len(ours) == round(rate // 4 * new_rate / rate)
    n = min(len(ours), len(expected))
    torch.testing.assert_close(ours[:n], expected[:n], rtol=0, atol=2e-3)
    torch.testing.assert_close(ours[99:-99], expected[99 : len(ours) - 99], rtol=0, atol=2e-4)


def test_a_tone_above_the_limit_is_gone_and_the_same_rate_changes_nothing():
    t = torch.arange(48000, dtype=torch.float64) / 48000
    high = torch.sin(2 * torch.pi * 9000 * t) * torch.sin(torch.pi * t) ** 2
    assert resample(high, 48000, 16000).abs().max() < 1e-4
    assert resample(high, 48000, 48000) is high
    spoken = torch.from_numpy(word())
    torch.testing.assert_close(resample(resample(spoken, 16000, 48000), 48000, 16000), spoken, rtol=0, atol=1e-4)
