"""`bitspike reproduce temporal` on a handful of recordings: its cells, dead neurons over time, and no DVS128."""

import json
import shutil

import pytest
import torch
from typer.testing import CliRunner

from bitspike.analysis.static_figures import draw_curves
from bitspike.cli import app, reproduce
from bitspike.data.datasets import open_dataset
from bitspike.experiments.assembly import RunOptions, build_network
from bitspike.experiments.presets import preset
from bitspike.experiments.reproduce.static.table import STATIC
from bitspike.experiments.reproduce.tables import plan as plans
from bitspike.experiments.reproduce.tables import report as reports
from bitspike.experiments.reproduce.tables import starts
from bitspike.experiments.reproduce.tables.activity import activity_of
from bitspike.experiments.reproduce.tables.available import available_tasks
from bitspike.experiments.reproduce.tables.pictures import panels, settles_within
from bitspike.experiments.reproduce.tables.results import read_results
from bitspike.experiments.reproduce.temporal.table import TEMPORAL
from bitspike.experiments.schema import with_values
from bitspike.schedules import Constant, Relax
from helpers.files import fake_shd, gesture_files, gesture_recording, write_folder

TINY = ["net.notation=700Dense30Dense20", "data.bin_ms=50.0", "data.steps=20", "train.tensorboard=false"]
SET = [word for pair in TINY for word in ("--set", pair)]
COMMAND = ["reproduce", "temporal", "--device", "cpu", "--trials", "2", "--epochs", "2", *SET]
ROWS = ["--variant", "fixed", "--variant", "annealed"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder in which two rows and two ablations were made under both protocols, and what the command printed."""
    folder = tmp_path_factory.mktemp("temporal")
    fake_shd(folder / "root", spikes=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BITSPIKE_DATA", str(folder / "root"))
        patch.setattr("bitspike.data.roots.LOCAL", ())
        patch.setenv("COLUMNS", "100")
        leave_undrawn(patch)
        more = [*ROWS, "--ablation", "moving", "--ablation", "cut", "--ablation-trials", "1"]
        result = CliRunner().invoke(app, [*COMMAND, *more, "--out", str(folder / "out")])
    assert result.exit_code == 0, result.output
    return folder, result


def leave_undrawn(patch):
    for name in ("draw_curves", "draw_spikes"):
        patch.setattr(reports, name, lambda groups, path: path.write_bytes(b"a picture"))


@pytest.fixture
def there(made, monkeypatch):
    folder, _ = made
    monkeypatch.setenv("BITSPIKE_DATA", str(folder / "root"))
    monkeypatch.setattr("bitspike.data.roots.LOCAL", ())
    leave_undrawn(monkeypatch)
    return folder / "out"


def read(out, *path):
    return json.loads(out.joinpath(*path).read_text())


# ---- The plan


def test_the_table_is_the_papers_four_rows_with_both_surrogates_and_the_loaders_cut():
    cells = plans.plan(TEMPORAL, tasks=["shd"], ablations=True)
    assert [cell.name for cell in cells] == [
        "float32",
        "theta1",
        "fixed",
        "annealed",
        "moving",
        "cut",
        "at-inf",
        "at-0",
    ]
    specs = {cell.name: cell.spec for cell in cells}
    assert specs["moving"].net.surrogate_center == "current"
    assert specs["annealed"].net.surrogate_center == "initial"
    assert specs["cut"].data.duration_ms == specs["annealed"].data.steps == 333
    assert specs["at-inf"].net.theta == [45.271, 51.12]
    assert all(cell.spec.paper is not None for cell in cells)


def test_the_cut_is_of_the_loader_of_shd_only():
    names = [cell.name for cell in plans.plan(TEMPORAL, tasks=["dvs128"], ablations=True)]
    assert names == ["float32", "theta1", "fixed", "annealed", "moving", "at-inf", "at-0"]


def test_both_protocols_are_trained(there):
    for protocol in ("paper", "holdout"):
        names = {path.name for path in (there / protocol / "shd").iterdir()}
        assert names == {"fixed", "annealed", "moving", "cut"}
    assert (there / "holdout/shd/annealed/trial-1/best.safetensors").is_file()
    assert not (there / "holdout/shd/moving/trial-1").exists()


def test_holdout_holds_out_a_speaker(there):
    held = read(there, "holdout/shd/fixed/trial-0/summary.json")["held_out"]
    assert list(held) == ["speakers"]
    assert read(there, "paper/shd/fixed/trial-0/summary.json")["held_out"] is None
    text, (speaker,) = (there / "table.md").read_text(), held["speakers"]
    assert f"- holdout shd: held out are speakers {speaker} (fixed, annealed, moving, cut)\n" in text
    assert "- paper shd: held out" not in text


def test_figures_of_other_files_than_the_published_say_so_first(there):
    text = (there / "table.md").read_text()
    assert text.split("\n\n")[1].startswith(
        "All figures of `shd` are on Spiking Heidelberg Digits (local copy, checksum"
    )


# ---- A set that is not here


def test_dvs128_is_said_to_be_missing_and_nothing_fails(made, there):
    _, result = made
    assert read(there, "summary.json")["not_available"] == ["dvs128"]
    text = (there / "table.md").read_text()
    assert "| - | dvs128 | not available here | - |" in text
    remark = (
        "dvs128: not available here (`bitspike data fetch dvs128 --from DIR` brings it, "
        "`--task dvs128` trains its rows)"
    )
    assert f"- {remark}" in text
    assert remark in " ".join(result.stdout.split())
    columns = {line.count("|") for line in text.split("\n\n")[2].splitlines()}
    assert len(columns) == 1


def test_dvs128_is_trained_once_its_files_are_here(there, tmp_path, monkeypatch):
    spans = [(label, 1000 * label, 1000 * label + 900) for label in range(1, 12)]
    names = {"user01_led": "train", "user02_led": "train", "user24_led": "test"}
    trials = {name: (split, spans, gesture_recording(spans, seed=i)) for i, (name, split) in enumerate(names.items())}
    write_folder(tmp_path / "downloads", gesture_files(trials))
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / "root"))
    fetched = CliRunner().invoke(app, ["data", "fetch", "dvs128", "--from", str(tmp_path / "downloads")])
    assert fetched.exit_code == 0, fetched.output
    assert available_tasks(TEMPORAL) == ("dvs128",)
    settings = ["--set", "data.steps=8", "--set", "data.test_steps=8", "--set", "train.tensorboard=false"]
    command = ["reproduce", "temporal", "--device", "cpu", "--trials", "1", "--epochs", "1", *settings]
    more = ["--variant", "annealed", "--protocol", "holdout", "--out", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(app, [*command, *more])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["cells"]["holdout"]["dvs128"]["annealed"]["paper"]["mean"] == 91.32
    assert summary["not_available"] == ["shd"]
    dead = summary["cells"]["holdout"]["dvs128"]["annealed"]["dead_neurons"]
    assert dead["paper"] is None  # it gives none
    assert len(dead["start"]) == len(dead["first_epoch"]) == len(dead["chosen"]) == 3


def test_without_any_data_the_error_says_how_to_get_some(workplace, cli):
    status, _, err = cli("reproduce", "temporal", "--device", "cpu", "--out", workplace / "out")
    assert status == 1
    assert "data set 'dvs128' is not here" in err
    assert "bitspike data fetch dvs128" in err


def test_a_set_that_is_asked_for_must_be_here(there, cli):
    status, _, err = cli(*COMMAND, "--task", "dvs128", "--out", there.parent / "other")
    assert status == 1
    assert "data set 'dvs128' is not here" in err


def test_the_static_table_leaves_out_nothing():
    assert available_tasks(STATIC) == ("mnist", "fashion")


# ---- Dead neurons


def test_dead_neurons_are_those_of_start_first_epoch_and_chosen_epoch(there):
    cell = read(there, "summary.json")["cells"]["paper"]["shd"]["fixed"]
    found, trials = cell["dead_neurons"], [there / f"paper/shd/fixed/trial-{i}" for i in range(2)]
    assert found["paper"] == [55.0, 90.0]
    rows = [json.loads((trial / "metrics.jsonl").read_text().splitlines()[0]) for trial in trials]
    assert found["first_epoch"] == pytest.approx([50 * sum(row["dead"][i] for row in rows) for i in range(2)])
    assert found["chosen"] == pytest.approx([100 * share for share in cell["dead"].values()])
    kept = read(there, "paper/shd/fixed/start.json")
    assert found["start"] == pytest.approx([50 * sum(each["dead"][i] for each in kept) for i in range(2)])
    assert len(kept) == 2


def test_the_start_is_the_network_that_the_run_begins_with(there):
    """Recorded one sample after the other, with the thresholds of iteration 0."""
    spec = with_values(preset("shd/annealed"), [*TINY, "train.protocol=paper", "train.epochs=2", "seed=1"])
    data = open_dataset(spec.data)
    net = build_network(spec, data.shape)
    for layer, theta in zip(net.layers, spec.net.theta, strict=True):
        layer.lif.theta.fill_(theta.start)
    with torch.no_grad(), net.record() as seen:
        net.eval()(data.test.batch(torch.arange(len(data.test)))[0])
    expected = [1 - (seen[name].spikes.sum((0, 1)) > 0).double().mean().item() for name in net.neuron_names()]
    kept = read(there, "paper/shd/annealed/start.json")[1]
    assert kept["dead"] == pytest.approx(expected)
    assert any(0 < share < 1 for share in expected)
    spikes = [seen[name].spikes.sum().item() / len(data.test) for name in net.neuron_names()]
    assert kept["spikes"] == pytest.approx(spikes)


def test_the_start_is_measured_once_for_each_trial(there, monkeypatch):
    asked = []
    measure = starts.measure_start
    monkeypatch.setattr(starts, "measure_start", lambda spec, *a: asked.append(spec.seed) or measure(spec, *a))
    (result,) = (each for each in read_results(TEMPORAL, there) if (each.protocol, each.name) == ("paper", "fixed"))
    first = starts.starts_of(result, RunOptions())
    assert asked == []
    kept = result.folder / "start.json"
    text = kept.read_text()
    kept.write_text(json.dumps([each for each in json.loads(text) if each["settings"] == first[0].settings]))
    assert starts.starts_of(result, RunOptions()) == first
    assert asked == [1]
    kept.write_text("[{")
    assert starts.starts_of(result, RunOptions()) == first
    assert asked == [1, 0, 1]
    assert kept.read_text() == text


def test_the_table_of_dead_neurons_has_the_papers_beside_ours(made, there):
    text = (there / "table.md").read_text()
    assert "| protocol | cell | paper | start | first epoch | chosen epoch |" in text
    for name, paper in (("fixed", "55 90"), ("annealed", "20 20")):
        found = read(there, "summary.json")["cells"]["holdout"]["shd"][name]["dead_neurons"]
        ours = [" ".join(f"{share:.0f}" for share in found[key]) for key in ("start", "first_epoch", "chosen")]
        assert f"| holdout | shd/{name} | {paper} | {' | '.join(ours)} |" in text
    assert "| paper | shd/moving | 20" not in text
    assert "shd, paper: dead neurons, % by layer" in made[1].stdout


# ---- Figures and reports


def relaxed(theta, step):
    return pytest.approx(theta.stop - (theta.stop - theta.start) * (1 - theta.rate) ** step)


@pytest.mark.parametrize(("rate", "settles"), [(0.0001, False), (0.0136, False), (0.0141, True)])
def test_a_threshold_settles_early_if_three_quarters_of_its_way_lie_in_the_first_epoch(rate, settles):
    """They lie there if (1 - rate)**100 is less than a quarter, or rate more than 0.0138: 1,000 iterations are far."""
    assert settles_within(Relax(10.0, 20.0, rate), 100, 1000) is settles
    assert not settles_within(Constant(3.0), 100, 1000)


def test_curves_have_the_thresholds_and_dead_neurons_of_every_layer(there):
    kept = read(there, "curves.json")["holdout"]["shd"]["annealed"][1]
    lines = (there / "holdout/shd/annealed/trial-1/metrics.jsonl").read_text().splitlines()
    for layer in range(2):
        rows = [json.loads(line) for line in lines]
        assert kept["theta"][layer] == pytest.approx([row["theta"][layer] for row in rows], abs=1e-4)
        assert kept["dead"][layer] == pytest.approx([100 * row["dead"][layer] for row in rows], abs=1e-2)


def test_losses_of_the_fixed_row_are_drawn_beside_the_annealed(there, tmp_path):
    results = {(each.protocol, each.task, each.name): each for each in read_results(TEMPORAL, there)}
    groups = panels(TEMPORAL, results, {})
    assert [group.title.rpartition(", ")[2] for group in groups] == ["paper", "holdout"]
    (beside,) = groups[0].descent.beside
    assert beside.name == "fixed"
    rows = [json.loads(line) for line in (there / "paper/shd/fixed/trial-0/metrics.jsonl").read_text().splitlines()]
    assert beside.losses[0] == [row["train_loss"] for row in rows]
    assert beside.steps[0] == [row["step"] for row in rows]
    first, second = preset("shd/annealed").net.theta
    steps, drawn = groups[0].descent.theta_steps, groups[0].descent.theta
    assert steps[0] == 0
    assert steps[-1] == rows[-1]["step"]
    ends = [(theta[0], theta[-1]) for theta in drawn]
    assert ends == [(each.start, relaxed(each, steps[-1])) for each in (first, second)]
    assert not groups[0].descent.logarithmic
    image = pytest.importorskip("PIL.Image")
    with image.open(draw_curves(groups, tmp_path / "curves.png")) as png:
        assert png.width > 1200


def test_a_report_needs_no_weights_once_activity_is_kept(there):
    """Weights of many networks are too large to carry from the machine that trained them."""
    (result,) = (each for each in read_results(TEMPORAL, there) if (each.protocol, each.name) == ("paper", "annealed"))
    before = activity_of(result, RunOptions())
    weights = [trial.folder / "best.safetensors" for trial in result.trials]
    for path in weights:
        path.rename(path.with_suffix(".away"))
    try:
        assert activity_of(result, RunOptions()) == before
        weights[1].with_suffix(".away").rename(weights[1])  # of another trial than what is kept, perhaps
        assert activity_of(result, RunOptions()) is not None
    finally:
        for path in weights:
            if path.with_suffix(".away").exists():
                path.with_suffix(".away").rename(path)


def test_once_more_trains_nothing(there):
    files = {path: path.stat().st_mtime_ns for path in there.rglob("trial-*/*") if path.is_file()}
    result = CliRunner().invoke(app, [*COMMAND, *ROWS, "--out", str(there), "--json"])
    assert result.exit_code == 0, result.output
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert json.loads(result.stdout) == read(there, "summary.json")


def test_cells_brought_back_without_weights_and_checkpoints_are_complete(there, tmp_path):
    """A cell that was cut off begins anew; all others are reported as they are."""
    out = shutil.copytree(there, tmp_path / "out", ignore=shutil.ignore_patterns("*.safetensors", "last.ckpt"))
    command = [*COMMAND, *ROWS, "--out", str(out), "--json"]
    whole = json.loads(CliRunner().invoke(app, command).stdout)
    assert whole["cells"] == read(there, "summary.json")["cells"]
    cut_off = out / "holdout/shd/annealed"
    for path in (cut_off / "trial-1/summary.json", cut_off / "summary.json"):
        path.unlink()
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    again = json.loads(result.stdout)["cells"]["holdout"]["shd"]["annealed"]
    assert again["accuracies"] == whole["cells"]["holdout"]["shd"]["annealed"]["accuracies"]
    assert (cut_off / "trial-1/best.safetensors").is_file()
    assert not (cut_off / "trial-0/best.safetensors").exists()


def test_parts_of_a_table_are_merged_by_copying_their_folders(there, tmp_path):
    """Each part was made with `--variant V --out DIR_V`, and has a report of its own."""
    for name in ("fixed", "annealed"):
        for protocol in ("paper", "holdout"):
            shutil.copytree(
                there / protocol / "shd" / name,
                tmp_path / name / protocol / "shd" / name,
                ignore=shutil.ignore_patterns("*.safetensors", "last.ckpt"),
            )
        reports.write_report(TEMPORAL, tmp_path / name, RunOptions())
        shutil.copytree(tmp_path / name, tmp_path / "merged", dirs_exist_ok=True)
    result = CliRunner().invoke(app, ["reproduce", "temporal", "--report", "--out", str(tmp_path / "merged"), "--json"])
    assert result.exit_code == 0, result.output
    whole = read(there, "summary.json")["cells"]
    for protocol, tasks in json.loads(result.stdout)["cells"].items():
        assert tasks["shd"] == {name: whole[protocol]["shd"][name] for name in ("fixed", "annealed")}
    text = (tmp_path / "merged/table.md").read_text()
    assert [line in text for line in (there / "table.md").read_text().splitlines() if "shd/fixed |" in line] == [
        True
    ] * 4


def test_all_runs_every_result_with_its_folder(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(reproduce, "coding", lambda **given: asked.append(("coding", given)))
    for name in reproduce._commands:
        monkeypatch.setitem(reproduce._commands, name, lambda name=name, **given: asked.append((name, given)))
    result = CliRunner().invoke(app, ["reproduce", "all", "--out", str(tmp_path), "--epochs", "3", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert [name for name, _ in asked] == ["coding", "static", "temporal"]
    assert asked[0][1] == {"out": tmp_path / "coding"}
    assert asked[2][1] == {"out": tmp_path / "temporal", "trials": 5, "epochs": 3, "device": "cpu"}
