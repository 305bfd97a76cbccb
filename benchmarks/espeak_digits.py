"""Digits that espeak-ng speaks, in English and German: are their spikes like SHD's, and does a network know them?

    python benchmarks/espeak_digits.py --shd          # are there as many spikes, and where, as in SHD's training set?
    python benchmarks/espeak_digits.py --run RUN      # accuracy by language, voice and speed
    python benchmarks/espeak_digits.py --run RUN --noise 30 20 10     # and in a room, so many dB below the speech
    python benchmarks/espeak_digits.py --run RUN --shd --json FILE

Needs espeak-ng (`apt-get install espeak-ng`); `--shd` needs the data set. The synthetic voices are in no training set.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import wave
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bitspike
from bitspike.data.events import Events
from bitspike.data.speech.spike_files import ENGLISH, GERMAN
from bitspike.data.speech.wav import read_wav
from bitspike.experiments.speech import Heard, SpeechNetwork, hear

SPOKEN = {"en": ENGLISH, "de": tuple(word.replace("ue", "ü") for word in GERMAN)}
VOICES = ("m1", "m3", "m7", "f2", "f4")
SPEEDS = (110, 130, 150)  # words a minute
UNIT_BINS, TIME_BINS = 35, 30  # of 20 units and of 40 ms
BEFORE_S, AFTER_S = 0.6, 0.5  # in a room: what is recorded before and after a word


@dataclass(frozen=True)
class Utterance:
    """One digit, as it was spoken."""

    label: int
    language: str
    voice: str
    speed: int
    path: Path


def speak(word: str, path: Path, *, language: str, voice: str, speed: int) -> Path:
    """Write a word as a WAV file."""
    if shutil.which("espeak-ng") is None:
        raise FileNotFoundError("espeak-ng is not installed; run: apt-get install espeak-ng")
    command = ["espeak-ng", "-v", f"{language}+{voice}", "-s", str(speed), "-w", str(path), word]
    subprocess.run(command, check=True)
    return path


def speak_digits(folder: Path, voices: Sequence[str], speeds: Sequence[int]) -> list[Utterance]:
    """Speak all digits in both languages, with every voice at every speed."""
    spoken = []
    for first, (language, words) in zip((0, 10), SPOKEN.items(), strict=True):
        for voice in voices:
            for speed in speeds:
                for digit, word in enumerate(words):
                    path = folder / f"{language}-{voice}-{speed}-{digit}.wav"
                    speak(word, path, language=language, voice=voice, speed=speed)
                    spoken.append(Utterance(first + digit, language, voice, speed, path))
    return spoken


def in_a_room(path: Path, folder: Path, decibels: float, rng: np.random.Generator) -> Path:
    """Write a recording again, with pauses around the word and pink noise, so many decibels below the speech."""
    sound = read_wav(path)
    loud = sound.samples[np.abs(sound.samples) > 0.02 * np.abs(sound.samples).max()]
    x = np.pad(sound.samples, (round(BEFORE_S * sound.rate), round(AFTER_S * sound.rate)))
    falling = np.sqrt(np.maximum(np.arange(len(x) // 2 + 1), 1))
    noise = np.fft.irfft(np.fft.rfft(rng.standard_normal(len(x))) / falling, len(x))
    x += noise * np.sqrt((loud**2).mean() / (noise**2).mean()) * 10 ** (-decibels / 20)
    with wave.open(str(folder / path.name), "wb") as file:
        file.setparams((1, 2, sound.rate, 0, "NONE", ""))
        file.writeframes((0.7 * 32767 / np.abs(x).max() * x).astype("<i2").tobytes())
    return folder / path.name


def accuracy(spoken: Iterable[Utterance], answers: Iterable[int | None]) -> dict[str, Any]:
    """Return the share of right answers: of all, and by language, voice, speed and digit."""
    pairs = list(zip(spoken, answers, strict=True))

    def share(right: Sequence[bool]) -> float:
        return round(100 * sum(right) / len(right), 1)

    def by(field: str) -> dict[str, float]:
        right: dict[str, list[bool]] = {}
        for each, answer in pairs:
            right.setdefault(str(getattr(each, field)), []).append(answer == each.label)
        return {value: share(found) for value, found in right.items()}

    digits = [answer is not None and answer % 10 == each.label % 10 for each, answer in pairs]
    return {
        "recordings": len(pairs),
        "all": share([answer == each.label for each, answer in pairs]),
        "the digit in either language": share(digits),
        **{field: by(field) for field in ("language", "voice", "speed", "label")},
    }


def spread(events: Events) -> dict[int, dict[str, Any]]:
    """Return, by label: the spikes of a sample and its last one's time, and how spikes spread over units and time."""
    found = {}
    for label in np.unique(events.labels).tolist():
        rows = np.flatnonzero(events.labels == label)
        units, times, counts, ends = np.zeros(UNIT_BINS), np.zeros(TIME_BINS), [], []
        for row in rows:
            here = slice(events.offsets[row], events.offsets[row + 1])
            t, x = events.t[here], events.x[here]
            counts.append(len(t))
            ends.append(t[-1] / 1000)
            units += np.histogram(x, UNIT_BINS, (0, 700))[0]
            times += np.histogram(t / 1000, TIME_BINS, (0, 1200))[0]
        found[label] = {"spikes": np.mean(counts), "ms": np.mean(ends), "units": units, "times": times}
    return found


def like_shd(ours: Events) -> dict[str, Any]:
    """Compare the spikes with those of SHD's training set, digit by digit."""
    from bitspike.data.locate import locate
    from bitspike.data.shd import read_shd, read_shd_compact

    found = locate("shd")
    train, _ = found.train_and_test()  # the test set chooses nothing
    mine, theirs = spread(ours), spread((read_shd_compact if train.suffix == ".xz" else read_shd)(train))
    rows = {}
    for label, own in mine.items():
        other = theirs[label]
        rows[(*ENGLISH, *GERMAN)[label]] = {
            "spikes": [round(own["spikes"]), round(other["spikes"])],
            "ms": [round(own["ms"]), round(other["ms"])],
            **{
                f"{axis}_correlation": round(float(np.corrcoef(own[axis], other[axis])[0, 1]), 3)
                for axis in ("units", "times")
            },
        }
    mean = {
        key: np.mean([row[key] for row in rows.values()], axis=0).round(3).tolist() for key in next(iter(rows.values()))
    }
    return {"edition": found.edition, "espeak-ng, then SHD": {"mean": mean, **rows}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, help="a run's folder, as for bitspike predict")
    parser.add_argument("--shd", action="store_true", help="compare the spikes with SHD's")
    parser.add_argument("--noise", nargs="+", type=float, default=[], metavar="DB", help="with pauses and pink noise")
    parser.add_argument("--voices", nargs="+", default=VOICES)
    parser.add_argument("--speeds", nargs="+", type=int, default=SPEEDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spoken = speak_digits(Path(folder), args.voices, args.speeds)
        heard: Heard = hear([each.path for each in spoken], seed=args.seed)
        rng, noisy = np.random.default_rng(args.seed), dict[str, Heard]()
        for decibels in args.noise:
            room = Path(folder) / f"{decibels:g}"
            room.mkdir()
            noisy[f"{decibels:g} dB"] = hear(
                [in_a_room(each.path, room, decibels, rng) for each in spoken], seed=args.seed
            )
    report: dict[str, Any] = {
        "command": shlex.join(["python", *sys.argv]),
        "bitspike": bitspike.__version__,
        "espeak-ng": subprocess.run(["espeak-ng", "--version"], capture_output=True, text=True).stdout.strip(),
    }
    if args.run is not None:
        network = SpeechNetwork(args.run)
        found = network.predict(heard)
        report["accuracy"] = accuracy(spoken, [each.label for each in found])
        report["with pauses and pink noise"] = {
            level: accuracy(spoken, [each.label for each in network.predict(recorded)])["all"]
            for level, recorded in noisy.items()
        }
        report["answers"] = {each.path.name: told.answer for each, told in zip(spoken, found, strict=True)}
    if args.shd:
        heard.events.labels[:] = [each.label for each in spoken]
        report["like_shd"] = like_shd(heard.events)
    print(json.dumps({key: value for key, value in report.items() if key != "answers"}, indent=1))
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
