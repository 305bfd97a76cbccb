"""benchmarks/espeak_digits.py: espeak-ng speaks all digits, and what it speaks becomes spikes like those of speech."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitspike.data import encode_speech, read_wav
from bitspike.data.speech.spike_files import as_events

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SPEAKS = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed: apt-get install it")


@pytest.fixture
def digits(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("espeak_digits")


@SPEAKS
@pytest.mark.parametrize(("voice", "speed"), [("m3", 130), ("f2", 160)])
def test_every_digit_in_english_and_german(digits: Any, tmp_path: Path, voice: str, speed: int) -> None:
    spoken = digits.speak_digits(tmp_path, [voice], [speed])
    assert [each.label for each in spoken] == list(range(20))
    chosen = spoken[::3]  # encoding all takes longer than it tells
    spikes = [encode_speech(read_wav(each.path).trimmed()) for each in chosen]
    assert all(len(read_wav(each.path).samples) > 0 for each in spoken)
    assert all(1500 < len(each) < 15_000 for each in spikes)
    # Speech has most of its spikes in the lower half of the frequencies, as SHD has.
    units = np.concatenate([each.unit for each in spikes])
    assert 0.8 < (units > 350).mean() < 0.98
    found = digits.spread(as_events(spikes, [each.label for each in chosen]))
    assert all(300 < row["ms"] < 1200 for row in found.values())


def test_accuracy_by_kind(digits: Any) -> None:
    def said(label: int, language: str, voice: str) -> Any:
        return digits.Utterance(label, language, voice, 130, Path())

    spoken = [said(0, "en", "m1"), said(1, "en", "f2"), said(10, "de", "m1"), said(11, "de", "f2")]
    found = digits.accuracy(spoken, [0, 11, 10, None])
    assert (found["recordings"], found["all"], found["the digit in either language"]) == (4, 50.0, 75.0)
    assert found["language"] == {"en": 50.0, "de": 50.0}
    assert found["voice"] == {"m1": 100.0, "f2": 0.0}
    assert found["label"] == {"0": 100.0, "1": 0.0, "10": 100.0, "11": 0.0}


def test_without_espeak_it_says_what_to_install(digits: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(digits.shutil, "which", lambda name: None)
    with pytest.raises(FileNotFoundError, match="apt-get install espeak-ng"):
        digits.speak("one", tmp_path / "a.wav", language="en", voice="m1", speed=130)
