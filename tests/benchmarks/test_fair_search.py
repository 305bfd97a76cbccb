"""benchmarks/fair_search.py: what it runs, at once and until its time is over, and its report."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("fair_search")


@pytest.fixture
def commands(script: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of bitspike that the script would run."""
    found: list[list[str]] = []
    monkeypatch.setattr(script, "bitspike", lambda *words, out=None, ends=None: found.append(list(words)))
    return found


def settings_of(script: Any, folder: Path, variants: list[str], best: int = 2) -> list[Any]:
    named = [(variant, rank) for variant in variants for rank in range(best)]
    return [script.Setting(variant, rank, 7, 0.8, folder / f"{variant}-{rank}") for variant, rank in named]


def test_every_variant_is_searched_alike(script: Any, commands: list[list[str]], tmp_path: Path) -> None:
    script.main(["fashion", "--out", str(tmp_path), "--stage", "search", "--trials", "9", "--epochs", "2"])
    assert [words[2] for words in commands] == [f"fashion/{name}" for name in ("theta1", "fixed", *["annealed"] * 2)]
    for words in commands:
        assert words[words.index("--trials") + 1] == "9"
        assert "train.half_period=844" in words
    assert ["net.surrogate_center=current" in words for words in commands] == [False, False, False, True]


def test_the_best_settings_of_all_are_trained_first(
    script: Any, commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "best_settings", lambda given: settings_of(script, tmp_path, given.only))
    script.main(["shd", "--out", str(tmp_path), "--stage", "long", "--only", "fixed", "moving", "--seeds", "3"])
    trained = [Path(words[1]).stem for words in commands if words[0] == "train"]
    assert trained == ["fixed-0", "moving-0", "fixed-1", "moving-1"]
    assert all(words[words.index("--trials") + 1] == "3" for words in commands if words[0] == "train")


def test_processes_run_at_once(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(4, timeout=20)
    monkeypatch.setattr(script, "bitspike", lambda *words, ends: meeting.wait())
    script.main(["fashion", "--out", str(tmp_path), "--stage", "search", "--processes", "4"])


def test_a_command_is_asked_to_stop_when_time_is_over(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def slow(command: list[str]) -> subprocess.Popen[bytes]:
        started.append(popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return started[-1]

    popen = subprocess.Popen
    monkeypatch.setattr(script.subprocess, "Popen", slow)
    script.main(["fashion", "--out", str(tmp_path), "--stage", "search", "--minutes", "0.005"])
    assert len(started) == 1  # the other variants had no time at all
    assert started[0].returncode < 0
    assert "the 0.005 minutes are over; the same command goes on" in capsys.readouterr().err


def test_a_command_that_fails_ends_it(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    popen = subprocess.Popen
    monkeypatch.setattr(script.subprocess, "Popen", lambda command: popen([sys.executable, "-c", "exit(3)"]))
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        script.main(["fashion", "--out", str(tmp_path), "--stage", "search"])


def test_validation_samples_choose_the_setting_whose_test_counts(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    accuracies = {"fixed-0": (0.80, 0.90), "fixed-1": (0.85, 0.70)}  # validation, test
    settings = settings_of(script, tmp_path, ["fixed"])
    for setting in settings:
        setting.file.touch()
        valid, test = accuracies[setting.folder.name]
        for trial in range(2):
            folder = setting.folder / f"trial-{trial}"
            folder.mkdir(parents=True)
            summary = {"valid_accuracy": valid, "accuracy": test + trial / 100, "best_epoch": 4}
            (folder / "summary.json").write_text(json.dumps(summary))
    monkeypatch.setattr(script, "best_settings", lambda given: settings)
    monkeypatch.setattr(script, "as_values", lambda spec: {"net": {}, "train": {}})
    monkeypatch.setattr(script, "read_experiment", lambda path, settings: None)
    monkeypatch.setattr(script, "open_study", lambda folder: None)
    monkeypatch.setattr(script, "overview", lambda study: type("O", (), {"standing": type("S", (), {"complete": 9})}))
    script.main(["fashion", "--out", str(tmp_path), "--stage", "report"])
    assert "| fixed theta | 80.0 | 85.00 | 0.00 | 70.50 | 0.71 |" in capsys.readouterr().out
    found = json.loads((tmp_path / "fair-search.json").read_text())
    assert found["variants"]["fixed"]["chosen"] == 1
