"""benchmarks/preset_variants.py on drawn events: who is held out, figures of a variant, and going on after a stop."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bitspike.experiments.schema import read_experiment
from helpers import runs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("preset_variants")
    monkeypatch.setattr(module, "preset", lambda name: read_experiment(runs.write_event_experiment(tmp_path)))
    return module


def call(script: Any, monkeypatch: pytest.MonkeyPatch, folder: Path, variants: dict[str, list[str]]) -> dict[str, Any]:
    (folder / "variants.json").write_text(json.dumps(variants))
    files = ["--variants", str(folder / "variants.json"), "--out", str(folder / "out.json")]
    arguments = ["test", *files, "--device", "cpu", "--seeds", "2", "--set", "train.epochs=1"]
    monkeypatch.setattr(sys, "argv", ["preset_variants.py", *arguments])
    script.main()
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())["found"]
    return found


def test_every_training_speaker_is_held_out_once(script: Any) -> None:
    assert sorted(speaker for pair in script.FOLDS.values() for speaker in pair) == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    assert "data.validation_groups=[3, 10]" in script.judged_by("B", "shd")
    assert "train.protocol=holdout" in script.judged_by("B", "shd")
    assert "train.protocol=paper" in script.judged_by("test", "shd")


def test_folds_of_a_set_without_speakers_hold_out_fifths(script: Any) -> None:
    settings = [script.judged_by(fold, "nmnist-small") for fold in "ABCDE"]
    assert all("data.validation_share=0.2" in each and "train.protocol=holdout" in each for each in settings)
    assert [f"data.split_seed={n}" in each for n, each in enumerate(settings)] == [True] * 5


def test_an_entry_for_each_variant(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = call(script, monkeypatch, tmp_path, {"as it is": []})
    entry = found["as it is"]["test"]
    assert entry["seeds"] == [0, 1]
    assert all(0 <= value <= 100 for key in ("accuracy", "training") for value in entry[key])
    assert all(len(layers) == 2 for layers in entry["spikes"])  # of three: the readout has none
    capsys.readouterr()
    again = call(script, monkeypatch, tmp_path, {"as it is": [], "faster": ["train.lr=0.01"]})
    assert again["as it is"] == found["as it is"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("test, faster: ")  # the first variant is not trained again
    assert lines[1] == "| variant | test | mean | training |"


@pytest.mark.parametrize(
    ("settings", "said"), [(["data.train_limit=9"], "must not change"), (["net.delays=0"], "has no delays")]
)
def test_a_variant_that_cannot_be_trained(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: list[str], said: str
) -> None:
    with pytest.raises(SystemExit, match=f"preset_variants: wrong: .*{said}"):
        call(script, monkeypatch, tmp_path, {"wrong": settings})
