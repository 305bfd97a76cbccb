"""benchmarks/threshold_study.py on the CPU: drawn sets, thresholds in units of the drive, rows and tables."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import threshold_sets
    import threshold_study
    import threshold_tables

    yield threshold_study, threshold_sets, threshold_tables
    for name in ("threshold_study", "threshold_sets", "threshold_tables"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("kind", ["norm", "recurrent"])
def test_a_group_is_trained_and_kept(study, tmp_path, monkeypatch, kind):
    scripts, _, tables = study
    monkeypatch.setattr(scripts, "LEVELS", (0.25, 1.0))
    size = scripts.Size(seeds=2, train=40, test=20, passes=1, epochs=1, batch=20, hidden=8)
    done = scripts.train_group("6 channels, short, dense", kind, size, "cpu", tmp_path)
    assert [(row["level"], row["method"]) for row in done["rows"]] == [
        (0.25, "fixed"), (0.25, "annealed"), (1.0, "fixed"), (1.0, "annealed"),
    ]  # fmt: skip
    for row in done["rows"]:
        assert row["theta"] == pytest.approx([row["level"] * drive for drive in row["drive"]], rel=1e-5)
        assert len(row["accuracy"]) == len(row["dead"]) == 2
    assert json.loads(json.dumps(done)) == done
    assert "6 channels, short, dense | annealed" in tables.tables(done["rows"])


def test_losses_are_points_behind_the_best_level(study):
    _, _, tables = study
    rows = [
        {"set": name, "net": "plain", "method": "fixed", "level": level, "accuracy": accuracy}
        for name, level, accuracy in (("a", 1.0, [80, 90]), ("a", 2.0, [60, 80]), ("b", 1.0, [50]), ("b", 2.0, [70]))
    ]
    assert tables.losses(rows) == {("fixed", 1.0): [0, 20], ("fixed", 2.0): [15, 0]}


def test_classes_of_a_drawn_set_are_the_same_for_training_and_test(study):
    _, sets, _ = study
    made = sets.DRAWN["32 channels, medium"]
    (one, own), (other, others) = (sets.draw(made, 200, seed) for seed in (1, 2))
    assert one.shape == (200, made.steps, made.channels)
    means = [[spikes[labels == k].mean((0, 1)) for k in (0, 1)] for spikes, labels in ((one, own), (other, others))]
    same, different = (np.abs(means[0][0] - means[1][k]).mean() for k in (0, 1))
    assert same < different
