"""The ends of a word are found in silence, in the noise of a room and beside clicks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitspike.data import Sound
from bitspike.data.speech.endpoints import endpoints

RATE = 16000
MARGINS = 0.06 + 0.15


def word(seconds=0.5, rate=RATE):
    """A voice of 150 Hz and its overtones, that swells and fades."""
    t = np.arange(round(seconds * rate)) / rate
    voice = sum(np.sin(2 * np.pi * 150 * k * t) / k for k in range(1, 12))
    return voice * (0.4 + 0.6 * np.sin(np.pi * t / seconds) ** 2)


def in_silence(speech, before=0.7, after=0.6, rate=RATE):
    return np.concatenate([np.zeros(round(before * rate)), speech, np.zeros(round(after * rate))])


def noise(kind, count, seed=0):
    """Noise of power 1; its spectrum falls by 0, 3 or 6 dB an octave, or it is the hum of the mains."""
    rng = np.random.default_rng(seed)
    if kind == "hum":
        found = np.sin(2 * np.pi * 50 * np.arange(count) / RATE)
    else:
        frequency = np.maximum(np.fft.rfftfreq(count), 1 / count)
        fall = {"white": 0, "pink": 0.5, "brown": 1}[kind]
        found = np.fft.irfft(np.fft.rfft(rng.standard_normal(count)) / frequency**fall, count)
    return found / np.sqrt((found**2).mean())


def noisy(recording, kind, decibels, seed=0):
    speech = recording[recording != 0]
    return recording + np.sqrt((speech**2).mean()) * 10 ** (-decibels / 20) * noise(kind, len(recording), seed)


@pytest.mark.parametrize("decibels", [20, 30, 40, 60])
@pytest.mark.parametrize("kind", ["white", "pink", "brown", "hum"])
def test_the_noise_of_a_room_is_cut_as_silence_is(kind, decibels):
    for seed in range(5):
        cut = Sound(noisy(in_silence(word()), kind, decibels, seed), RATE).trimmed()
        assert cut.seconds == pytest.approx(0.5 + MARGINS, abs=0.03)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.3, 3), st.floats(0.3, 3), st.floats(0.25, 0.9), st.sampled_from([8000, 22050, 22051, 48000]))
def test_ends_are_found_wherever_the_word_is(before, after, seconds, rate):
    recording = in_silence(word(seconds, rate), before, after, rate)
    recording += 0.02 * np.random.default_rng(0).standard_normal(len(recording))
    first, last = endpoints(recording, rate)
    assert first / rate == pytest.approx(before, abs=0.03)
    assert (len(recording) - last) / rate == pytest.approx(after, abs=0.03)


@pytest.mark.parametrize("loudness", [0.3, 1, 10, 100])
@pytest.mark.parametrize("at", [0.05, 1.7])
def test_a_click_before_or_after_the_word_is_no_part_of_it(at, loudness):
    recording = in_silence(word())
    expected = endpoints(recording, RATE)
    start = round(at * RATE)
    recording[start : start + 80] = loudness
    recording[start + 1300 : start + 1340] = -loudness  # the key comes up again
    assert endpoints(recording, RATE) == pytest.approx(expected, abs=0.012 * RATE)


def test_a_click_in_a_noisy_room_leaves_the_word():
    recording = noisy(in_silence(word()), "pink", 25)
    expected = endpoints(recording, RATE)
    recording[1000:1080] += 20
    assert endpoints(recording, RATE) == pytest.approx(expected, abs=0.012 * RATE)


def test_the_last_sound_of_a_word_behind_its_gap_stays():
    speech = np.concatenate([word(0.3), np.zeros(round(0.12 * RATE)), 0.3 * word(0.02)])  # as in "eight"
    first, last = endpoints(in_silence(speech), RATE)
    assert (last - first) / RATE == pytest.approx(0.44, abs=0.02)


def tone(power, seconds=0.15):
    """A sound of this power, where that of a full sine is 1."""
    return np.sqrt(power) * np.sin(2 * np.pi * 500 * np.arange(round(seconds * RATE)) / RATE)


@pytest.mark.parametrize(("power", "kept"), [(1 / 300, 0.15), (1 / 4000, 0)])
def test_the_quiet_end_of_a_word_stays_down_to_a_thousandth(power, kept):
    first, last = endpoints(in_silence(np.concatenate([tone(1, 0.4), tone(power)])), RATE)
    assert (last - first) / RATE == pytest.approx(0.4 + kept, abs=0.03)


@pytest.mark.parametrize(("times", "kept"), [(10, 0.15), (1, 0)])
def test_the_weak_end_of_a_word_stays_where_it_is_above_the_noise(times, kept):
    room = 2e-3  # times the power of the word
    speech = in_silence(np.concatenate([tone(1, 0.4), tone(times * room)]))
    first, last = endpoints(speech + np.sqrt(room / 2) * noise("white", len(speech)), RATE)
    assert (last - first) / RATE == pytest.approx(0.4 + kept, abs=0.03)


@pytest.mark.parametrize(("seconds", "kept"), [(0.09, 0.59), (0.02, 0)])
def test_a_short_word_is_no_click(seconds, kept):
    first, last = endpoints(in_silence(np.concatenate([tone(1, 0.4), tone(0, 0.5), tone(1, seconds)])), RATE)
    assert (last - first) / RATE == pytest.approx(0.4 + kept, abs=0.03)


def test_all_words_of_a_sentence_stay():
    speech = np.concatenate([word(0.3), np.zeros(RATE), 0.1 * word(0.2), np.zeros(RATE), word(0.4)])
    first, last = endpoints(noisy(in_silence(speech), "white", 30), RATE)
    assert (last - first) / RATE == pytest.approx(2.9, abs=0.03)


def test_where_nothing_but_a_click_is_heard_it_is_the_sound():
    recording = np.zeros(RATE)
    recording[4000:4080] = 1
    first, last = endpoints(recording, RATE)
    assert 3760 <= first <= 4000  # at most 15 ms earlier
    assert 4080 <= last <= 4320


@pytest.mark.parametrize("rate", [1000, 8000, 22051, 768_000])
@pytest.mark.parametrize("samples", ["tone", "constant", "zeros", "two"])
def test_a_recording_without_silence_stays_whole(samples, rate):
    count = {"two": 2}.get(samples, rate // 50)
    recording = {
        "tone": np.sin(np.arange(count)),
        "constant": np.ones(count),
        "zeros": np.zeros(count),
        "two": np.array([1.0, -1.0]),
    }[samples]
    assert endpoints(recording, rate) == (0, count)
