"""benchmarks/recipe_study.py on the CPU: variants of the recipe, entries, tables, and going on after a stop."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("recipe_study")


@pytest.fixture
def own_file(tmp_path: Path) -> str:
    rng, count = np.random.default_rng(0), 60
    labels = np.arange(count) % 2
    t = np.sort(rng.uniform(0, 1, (count, 8)), 1) * 40
    arrays = {"t": t.ravel(), "x": (labels[:, None] + 2 * rng.integers(0, 2, (count, 8))).ravel()}
    np.savez(tmp_path / "own.npz", **arrays, offsets=8 * np.arange(count + 1), labels=labels)
    (tmp_path / "own.toml").write_text(
        '[data]\nfile = "own.npz"\ntime_unit = "ms"\nsteps = 20\nbin_ms = 2\n[net]\nhidden = [8, 8]\n'
    )
    return str(tmp_path / "own.toml")


def call(script: Any, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["recipe_study.py", "--quick", "--device", "cpu", *arguments])
    script.main()


def test_quick_trains_two_variants_and_goes_on(
    study: Any, own_file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "study.json"
    call(study, monkeypatch, own_file, "--baselines", "--out", str(out))
    held = json.loads(out.read_text())
    (entry,) = held["sets"]
    assert held["options"]["seeds"] == 1
    assert held["device"] == "cpu"
    assert entry["set"] == own_file
    assert (entry["shape"], entry["classes"], entry["longest_delay"]) == ([4], 2, 5)
    assert list(entry["accuracies"]) == list(entry["training"]) == ["recipe", "recipe, float32"]
    assert entry["settings"]["recipe, float32"] == ["net.binary=false"]
    assert all(len(values) == 1 and 0 <= values[0] <= 100 for values in entry["accuracies"].values())
    assert entry["baselines"]["majority"] == pytest.approx(50, abs=20)
    shown = capsys.readouterr().out
    assert "| set | majority | logistic | recipe | recipe, float32 |" in shown
    monkeypatch.setattr(study, "study", None)  # a set that the file holds is not trained again
    call(study, monkeypatch, own_file, "--out", str(out))
    assert json.loads(out.read_text()) == held
    with pytest.raises(ValueError, match="other options"):
        call(study, monkeypatch, own_file, "--set", "train.lr=1e-3", "--out", str(out))


def test_variants_of_the_command_line(
    study: Any, own_file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "study.json"
    more = ("--variant", "all: net.delays={longest} train.lr=1e-3", "--variant", "longer: data.steps=30")
    call(study, monkeypatch, own_file, *more, "--out", str(out))
    (entry,) = json.loads(out.read_text())["sets"]
    assert list(entry["accuracies"]) == ["all"]
    assert "must not change [data]" in entry["refused"]["longer"]
    assert "longer: refused" in capsys.readouterr().err


def test_what_is_not_a_variant_or_a_set_is_refused(study: Any, tmp_path: Path) -> None:
    file = tmp_path / "variants.json"
    file.write_text('{"a": ["train.lr=1"]}')
    assert study.given_variants(["b:"], file) == {"a": ["train.lr=1"], "b": []}
    assert study.given_variants([], None) is None
    with pytest.raises(ValueError, match="--variant must be"):
        study.given_variants(["train.lr=1"], None)
    with pytest.raises(ValueError, match="no set is called nothing"):
        study.set_file(tmp_path, "nothing")


def test_judge_sets_are_sets_of_a_study(study: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sets, images = importlib.import_module("judge_sets").JUDGES, importlib.import_module("sensor_events").TwoFiles
    seeds: list[int] = []
    blank = {"images": np.zeros((2, 4, 4), np.uint8), "labels": np.arange(2)}
    monkeypatch.setitem(sets, "leaves-24", lambda seed: seeds.append(seed) or images(blank, blank))
    assert study.set_file(tmp_path, "leaves-24") == tmp_path / "leaves-24.toml"
    assert seeds == [study.JUDGE_SEED]
    with pytest.raises(ValueError, match="no channels to repeat"):
        study.set_file(tmp_path, "leaves-24-x2")


def test_a_training_without_an_epoch_has_no_result(
    study: Any, own_file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def train_the_second(trainers: Any) -> None:
        trainers[1].progress.rows.append({"test_accuracy": 0.75, "train_accuracy": 0.5})

    monkeypatch.setattr(study, "run_together", train_the_second)
    out = tmp_path / "study.json"
    call(study, monkeypatch, own_file, "--variant", "ended:", "--variant", "trained:", "--out", str(out))
    (entry,) = json.loads(out.read_text())["sets"]
    assert entry["accuracies"] == {"ended": [None], "trained": [75.0]}
    assert entry["training"] == {"ended": [None], "trained": [50.0]}
    assert entry["no_result"] == {"ended": 1}
    shown = capsys.readouterr()
    assert "ended: no result: 1 of 1 trainings" in shown.err
    assert f"| {own_file} | - | - | - | 75.0 |" in shown.out


def test_the_table_has_means_and_dashes(study: Any) -> None:
    sets = [
        {"set": "one", "accuracies": {"a": [50.0, 60.0]}, "baselines": {"majority": 10.0, "logistic": 20.0}},
        {"set": "two", "accuracies": {"a": [70.0, None], "b": [80.0]}},
    ]
    assert study.table(sets, ["a", "b"]).splitlines() == [
        "| set | majority | logistic | a | b |",
        "|---|--:|--:|--:|--:|",
        "| one | 10.0 | 20.0 | 55.0 | - |",
        "| two | - | - | 70.0 | 80.0 |",
    ]


def test_variants_start_from_the_recipe_before_the_study(study: Any) -> None:
    variants = importlib.import_module("recipe_variants")
    for name, settings in variants.variants_for((6,), 100).items():
        assert settings[:3] == variants.FIRST or name in variants.RECIPE
    assert "20 steps" in variants.variants_for((1, 28, 28), None)
    assert not any("delays" in text for texts in variants.variants_for((2, 32, 32), 30).values() for text in texts)


def test_the_report_has_the_means_of_the_results(study: Any) -> None:
    root = BENCHMARKS.parent
    sets = json.loads((root / "results" / "own-data.json").read_text(encoding="utf-8"))["studies"][1]["sets"]
    columns = ["first", "hidden", "hidden, learnt decays", "hidden, dropout 0.4", "hidden, lr 0.01, clip 0.5"]
    columns += ["hidden, float32", "float32", "no delays", "no delays, float32"]
    rows = study.table([entry for entry in sets if "hidden" in entry["accuracies"]], columns).splitlines()[2:]
    images = [entry for entry in sets if "20 steps" in entry["accuracies"]]
    rows += study.table(images, list(images[0]["accuracies"])).splitlines()[2:]
    page = (root / "docs" / "reports" / "own-data.md").read_text(encoding="utf-8")
    page = page.replace(" (16 channels)", "").replace(" (24)", "")
    assert len(rows) == 13
    assert not [row for row in rows if row not in page]
