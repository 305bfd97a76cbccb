"""`bitspike reproduce temporal` on the sets that stand in for DVS128 Gesture, with a handful of their samples."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from bitspike.cli import app
from bitspike.experiments.reproduce.tables import plan as plans
from bitspike.experiments.reproduce.tables import report as reports
from bitspike.experiments.reproduce.tables.pictures import panels
from bitspike.experiments.reproduce.tables.results import read_results
from bitspike.experiments.reproduce.temporal.table import TEMPORAL
from helpers.files import fake_camera


@pytest.fixture(scope="module")
def cameras(tmp_path_factory):
    """A data root that holds both sets, with few samples, and nothing else."""
    root = tmp_path_factory.mktemp("cameras")
    fake_camera(root, "nmnist-small")
    fake_camera(root, "dvs-sign", samples=(30, 15), classes=15, side=128, unit="t")
    return root


@pytest.fixture
def with_cameras(cameras, monkeypatch):
    monkeypatch.setenv("BITSPIKE_DATA", str(cameras))
    monkeypatch.setattr("bitspike.data.roots.LOCAL", ())
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("draw_curves", "draw_spikes"):
        monkeypatch.setattr(reports, name, lambda groups, path: path.write_bytes(b"a picture"))


def read(out, *path):
    return json.loads(out.joinpath(*path).read_text())


def camera_command(task, out, *more):
    short = ["--set", "data.steps=3", "--set", "data.bin_ms=5.0", "--set", "train.tensorboard=false"]
    command = ["reproduce", "temporal", "--device", "cpu", "--trials", "2", "--epochs", "1", *short]
    return CliRunner().invoke(app, [*command, "--task", task, "--out", str(out), *more])


def test_sets_that_stand_in_are_trained_only_when_named(with_cameras, cli, tmp_path):
    assert {cell.task for cell in plans.plan(TEMPORAL)} == {"dvs128", "shd"}
    status, _, err = cli("reproduce", "temporal", "--device", "cpu", "--out", tmp_path)
    assert status == 1
    assert "data set 'dvs128' is not here" in err
    status, _, err = cli("reproduce", "static", "--task", "nmnist-small", "--out", tmp_path)
    assert status == 2
    assert "'nmnist-small' is not one of 'mnist', 'fashion'" in err


def test_a_set_that_stands_in_has_the_tables_four_rows_and_ablations():
    for task in TEMPORAL.stand_ins:
        cells = plans.plan(TEMPORAL, tasks=[task], ablations=True, protocols=["paper", "holdout"])
        rows = ["float32", "theta1", "fixed", "annealed", "moving", "at-inf", "at-0"]
        assert [cell.name for cell in cells] == 2 * rows
        assert all(cell.spec.paper is None and cell.spec.data.name == task for cell in cells)
        assert {cell.trials for cell in cells if cell.name in rows[:4]} == {5}


@pytest.mark.parametrize(
    ("task", "classes", "what"), [("nmnist-small", 10, "a real event camera"), ("dvs-sign", 15, "simulated from video")]
)
def test_a_set_that_stands_in_is_reported_without_the_papers_figures(with_cameras, task, classes, what, tmp_path):
    result = camera_command(task, tmp_path, "--variant", "fixed", "--variant", "annealed")
    assert result.exit_code == 0, result.output
    summary, text = read(tmp_path, "summary.json"), (tmp_path / "table.md").read_text()
    assert list(summary["cells"]) == ["paper", "holdout"]
    assert list(summary["stand_ins"]) == [task]
    (remark,) = (line[2:] for line in text.splitlines() if line.startswith(f"- {task} "))
    assert remark.startswith(f"{task} stands in for dvs128")
    assert what in remark
    assert remark.endswith("not in the paper")
    assert remark in " ".join(result.stdout.split())
    for protocol in ("paper", "holdout"):
        for name in ("fixed", "annealed"):
            cell = summary["cells"][protocol][task][name]
            assert cell["paper"] is None
            assert cell["away"] is None
            assert cell["trials"] == 2
            assert len(cell["dead_neurons"]["start"]) == len(cell["activity"]["layers"]) == 3
            assert cell["activity"]["layers"][-1]["neurons"] == classes
            figures = " | ".join(f"{cell[key]:.2f}" for key in ("best", "mean", "sigma"))
            assert f"| {protocol} | {task}/{name} | - | - | - | {figures} | - | 2 | 1 |" in text
            dead = [" ".join(f"{share:.0f}" for share in cell["dead_neurons"][key]) for key in ("start", "chosen")]
            assert f"| {protocol} | {task}/{name} | - | {dead[0]} |" in text
    assert len(read(tmp_path, "curves.json")["holdout"][task]["annealed"]) == 2
    results = {(each.protocol, each.task, each.name): each for each in read_results(TEMPORAL, tmp_path)}
    groups = panels(TEMPORAL, results, {})
    assert [group.title.rpartition(", ")[2] for group in groups] == ["paper", "holdout"]
    assert all(group.descent.logarithmic and len(group.descent.theta) == 3 for group in groups)
    assert all(line.paper is None for group in groups for line in group.variants)


def test_a_set_that_stands_in_goes_on_where_it_was_stopped(with_cameras, tmp_path):
    more = ["--variant", "annealed", "--protocol", "holdout", "--json"]
    whole = json.loads(camera_command("nmnist-small", tmp_path, *more).stdout)["cells"]
    cell = tmp_path / "holdout/nmnist-small/annealed"
    kept = (cell / "trial-0/summary.json").stat().st_mtime_ns
    (cell / "summary.json").unlink()
    shutil.rmtree(cell / "trial-1")
    again = json.loads(camera_command("nmnist-small", tmp_path, *more).stdout)["cells"]
    assert (cell / "trial-0/summary.json").stat().st_mtime_ns == kept
    for key in ("accuracies", "dead", "dead_neurons", "best_epochs", "seeds"):
        assert again["holdout"]["nmnist-small"]["annealed"][key] == whole["holdout"]["nmnist-small"]["annealed"][key]
