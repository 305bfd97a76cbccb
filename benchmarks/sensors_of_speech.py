"""A sensor set of speech: twelve words of vowels and consonants through 128 channels, with many near pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sensor_events import (
    Array,
    Events,
    TwoFiles,
    background,
    generator,
    joined,
    planned,
    spread,
    two_files,
)

VOWELS = {  # three formants in Hz
    "a": (730, 1150, 2500),
    "i": (280, 2250, 2950),
    "u": (310, 870, 2250),
    "e": (530, 1850, 2480),
    "o": (560, 850, 2400),
}
NASALS = {"m": (250, 1000, 2200), "n": (260, 1500, 2500), "l": (350, 1250, 2700)}
HISSES = {"s": (5600, 0.22), "S": (3000, 0.25), "f": (4500, 0.7)}  # middle in Hz, width as a logarithm
STOPS = {"p": 900, "t": 4000, "k": 1900}
WORDS = ("sita", "tisa", "site", "moko", "komo", "moku", "fuli", "fulo", "Suli", "pato", "tapo", "pako")
CHANNELS, FRAMES, FRAME = 128, 215, 0.004  # seconds a frame
LOG_HZ = np.linspace(np.log(90), np.log(7800), CHANNELS)


@dataclass(frozen=True, slots=True)
class Speaker:
    """The differences between speakers; `accent` is a factor of each formant, by the letter's code."""

    tract: float
    pitch: float
    tempo: float
    tilt: float
    accent: Array


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is spoken, frame by frame: gains of voice, hiss and burst, and their frequencies."""

    gain: Array
    formants: Array
    hiss: Array
    hiss_width: Array
    burst: Array
    end: int


def keywords(seed: int) -> TwoFiles:
    """Words of formants, noise bands and bursts, through 128 channels; the test has other speakers."""
    rng = generator("keywords-128", seed)
    count = 30
    plan = planned(rng, count, 100, 12, 6)
    tract = np.clip(spread(rng, 0.16, count), 0.74, 1.38)
    pitch = np.where(tract > 1, 190, 115) * spread(rng, 0.15, count)
    tempo, tilt = spread(rng, 0.2, count), rng.uniform(-0.35, -0.1, count)
    accent = spread(rng, 0.1, (count, 128, 3))
    speakers = [Speaker(*each) for each in zip(tract, pitch, tempo, tilt, accent, strict=True)]
    loud = spread(rng, 0.35, len(plan))
    gains = spread(rng, 0.25, CHANNELS)
    gains[rng.choice(CHANNELS, 3, replace=False)] = 0  # dead channels
    samples, durations = [], np.zeros(len(plan))
    for number, (who, label) in enumerate(zip(plan.groups.tolist(), plan.labels.tolist(), strict=True)):
        word = _spoken(rng, WORDS[label], speakers[who])
        durations[number] = (word.end + rng.integers(2, 14)) * FRAME
        events = _heard(rng, word, speakers[who], loud[number], gains)
        samples.append({"sample": np.full(len(events["t"]), number), **events})
    rate = np.zeros(CHANNELS)
    rate[rng.choice(CHANNELS, 2, replace=False)] = 40  # hot channels
    noise = background(rng, np.tile(rate, (len(plan), 1)), durations)
    return two_files(plan, joined(*samples, noise), "us", 1e6)


def _spoken(rng: np.random.Generator, letters: str, speaker: Speaker) -> Word:
    """Draw how a speaker says a word once."""
    gain, formants = np.zeros((3, FRAMES)), np.zeros((3, FRAMES))
    hiss, hiss_width, burst = np.full(FRAMES, 4000.0), np.full(FRAMES, 0.3), np.full(FRAMES, 2000.0)
    begin = int(rng.integers(2, 26))
    marks: list[float] = []
    values: list[Array] = []
    for letter in letters:
        slow = speaker.tempo * np.exp(0.28 * rng.standard_normal())
        if letter in VOWELS or letter in NASALS:
            vowel = letter in VOWELS
            length = int((34 if vowel else 18) * slow) + 3
            value = np.array((VOWELS if vowel else NASALS)[letter]) * speaker.tract
            value = value * speaker.accent[ord(letter)] * spread(rng, 0.05, 3)
            marks += [begin + 0.3 * length, begin + 0.75 * length]
            values += [value, value * spread(rng, 0.02, 3)]
            gain[0, begin : begin + length] = 1.0 if vowel else 0.4
        elif letter in HISSES:
            length = int(24 * slow) + 3
            middle, width = HISSES[letter]
            hiss[begin : begin + length] = middle * speaker.tract**0.7 * np.exp(0.05 * rng.standard_normal())
            hiss_width[begin : begin + length] = width
            gain[1, begin : begin + length] = 0.4 if letter == "f" else 0.75
        else:
            length = int(15 * slow) + 3
            frames = slice(begin + int(0.6 * length), begin + length)
            burst[frames] = STOPS[letter] * speaker.tract**0.5
            gain[2, frames] = np.exp(-np.arange(len(gain[2, frames])) / 4)
        begin += length
        if begin >= FRAMES - 4:
            break
    for number, value in enumerate(np.array(values).T):  # formants glide from mark to mark
        formants[number] = np.interp(np.arange(FRAMES), marks, value)
    gain = np.stack([np.convolve(each, [0.2, 0.6, 0.2], "same") for each in gain])
    return Word(gain, formants, hiss, hiss_width, burst, min(begin, FRAMES - 1))


def _heard(rng: np.random.Generator, word: Word, speaker: Speaker, loud: float, gains: Array) -> Events:
    """Draw the events of a spoken word; low channels follow the voice's cycles."""
    frames = min(word.end + 4, FRAMES)
    voice_gain, hiss_gain, burst_gain = (each[:frames, None] for each in word.gain)

    def band(hz: Array, width: float | Array) -> Array:
        away = (LOG_HZ[None] - np.log(hz[:frames, None])) / width
        return np.asarray(np.exp(-0.5 * away**2))

    energy = np.zeros((frames, CHANNELS))
    for formant, strength in zip(word.formants, (1.0, 0.7, 0.4), strict=True):
        energy += strength * voice_gain * band(formant, 0.09)
    pitch = speaker.pitch * (1.12 - 0.25 * np.arange(frames) / max(word.end, 1))
    pitch = pitch * np.exp(0.05 * rng.standard_normal())
    energy += 0.5 * voice_gain * band(pitch, 0.08)
    energy *= np.exp(speaker.tilt * (LOG_HZ[None] - np.log(500)) * (voice_gain > 0.1))
    energy += hiss_gain * band(word.hiss, word.hiss_width[:frames, None])
    energy += 0.9 * burst_gain * band(word.burst, 0.5)
    rate = 0.5 * np.log1p(4 * loud * energy) * gains  # events a frame, compressed
    rate = np.where(rate > 0.06, rate, 0) + 0.012
    count = (rate + rng.random(rate.shape)).astype(np.int8) * (rng.random(rate.shape) < 0.55)
    frame, channel = np.nonzero(count)
    time = (frame + rng.random(len(frame))) * FRAME
    cycle = 1 / pitch[frame]
    follows = (word.gain[0, frame] > 0.3) & (channel < 70)
    time = np.where(follows, (np.floor(time / cycle) + 0.15 * rng.random(len(time))) * cycle, time)
    return {"t": np.abs(time), "x": channel}
