"""benchmarks/shd_sparsity.py on drawn events: one row a cost, which says accuracies and hidden spikes."""

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
def sparsity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script = importlib.import_module("shd_sparsity")
    monkeypatch.setattr(script, "preset", lambda name: read_experiment(runs.write_event_experiment(tmp_path)))
    return script


def call(script: Any, monkeypatch: pytest.MonkeyPatch, folder: Path, *more: str) -> dict[str, Any]:
    out = folder / "sparsity.json"
    arguments = ["--device", "cpu", "--out", str(out), "--runs", str(folder / "runs"), *more]
    monkeypatch.setattr(sys, "argv", ["shd_sparsity.py", *arguments])
    script.main()
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_a_row_for_each_cost(
    sparsity: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("--costs", "0", "3e-06", "--seeds", "1", "--epochs", "1", "--limit", "12")
    report = call(sparsity, monkeypatch, tmp_path, *small)
    assert [row["cost"] for row in report["rows"]] == [0.0, 3e-6]
    for row in report["rows"]:
        folder = tmp_path / "runs" / f"cost-{row['cost']:g}"
        assert read_experiment(folder / "trial-0" / "experiment.toml").train.spike_cost == row["cost"]
        trial = json.loads((folder / "trial-0" / "summary.json").read_text())
        assert row["accuracies"] == [trial["accuracy"]]
        assert row["spikes"] == list(trial["spikes"].values())[:-1]
        assert row["hidden_spikes"] == sum(row["spikes"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == sparsity.HEAD
    assert lines[3].startswith("| 3e-06 | 1 | ")
    assert len({line.count("|") for line in lines}) == 1


def test_means_are_over_trials_and_leave_the_readout_out(sparsity: Any) -> None:
    trials = [{"dead": {"a": 0.5, "b": 0.25, "c": 1.0}}, {"dead": {"a": 0.0, "b": 0.75, "c": 1.0}}]
    assert sparsity.by_layer(trials, "dead") == [0.25, 0.5]


def test_a_network_that_no_epoch_judged_has_no_spikes(sparsity: Any) -> None:
    assert sparsity.by_layer([{"spikes": None}, {"spikes": {"a": 1.0, "b": 2.0}}], "spikes") is None
    row = {"cost": 1.0, "seeds": [0], "mean": None, "sigma": None, "hidden_spikes": None, "spikes": None, "dead": None}
    assert sparsity.shown(row) == "| 1 | 1 | - | - | - | - | - |"


@pytest.mark.parametrize("wrong", [("--costs", "-1"), ("--costs", "nan"), ("--seeds", "0")])
def test_wrong_arguments(sparsity: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: tuple[str]) -> None:
    with pytest.raises(SystemExit):
        call(sparsity, monkeypatch, tmp_path, *wrong)
    assert not (tmp_path / "runs").exists()
