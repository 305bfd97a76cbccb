"""`bitspike reproduce static` on a handful of images: what is trained, what is reported."""

import json
import shutil
import statistics
from contextlib import contextmanager

import pytest
import torch
from typer.testing import CliRunner

from bitspike.cli import app, reproduce_table
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.reproduce.static.table import STATIC
from bitspike.experiments.reproduce.tables import activity as activities
from bitspike.experiments.reproduce.tables import plan as plans
from bitspike.experiments.reproduce.tables import report as reports
from bitspike.experiments.reproduce.tables import training
from bitspike.experiments.reproduce.tables.pictures import panels
from bitspike.experiments.reproduce.tables.results import read_results
from bitspike.experiments.reproduce.tables.training import require_same_experiments, train_cells, train_table
from bitspike.train.progress import Listener
from helpers.files import fake_mnist

TINY = [
    "net.notation=2Conv5-AP4-3Conv3-AP4-3Dense10",
    "net.steps=6",
    "train.batch=10",
    "train.tensorboard=false",
]
SET = [word for pair in TINY for word in ("--set", pair)]
COMMAND = ["reproduce", "static", "--device", "cpu", "--task", "mnist", "--trials", "2", "--epochs", "2", *SET]


# ---- A small reproduction


def leave_undrawn(patch):
    for name in ("draw_curves", "draw_spikes"):
        patch.setattr(reports, name, lambda groups, path: path.write_bytes(b"a picture"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder in which two cells and all ablations were made, and what the command printed."""
    folder = tmp_path_factory.mktemp("static")
    fake_mnist(folder / "root")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BITSPIKE_DATA", str(folder / "root"))
        patch.setenv("COLUMNS", "100")
        leave_undrawn(patch)
        variants = ["--variant", "theta1", "--variant", "annealed"]
        more = [*variants, "--ablations", "--ablation-trials", "1", "--out", str(folder / "out")]
        result = CliRunner().invoke(app, [*COMMAND, *more])
    assert result.exit_code == 0, result.output
    return folder, result


@pytest.fixture
def there(made, monkeypatch):
    """The data that `made` used, and its folder, for tests that leave both as they are."""
    folder, _ = made
    monkeypatch.setenv("BITSPIKE_DATA", str(folder / "root"))
    return folder / "out"


@pytest.fixture
def undrawn(monkeypatch):
    """Reports without pictures, which take seconds."""
    leave_undrawn(monkeypatch)


def read(out, *path):
    return json.loads(out.joinpath(*path).read_text())


def test_cells_lie_by_protocol_task_and_name(there):
    names = {path.name for path in (there / "paper" / "mnist").iterdir()}
    assert names == {"theta1", "annealed", *STATIC.ablations} - {"loss-not-over-T", "adam"}
    assert (there / "paper/mnist/annealed/trial-1/best.safetensors").is_file()
    assert not (there / "paper/mnist/moving/trial-1").exists()


def test_the_summary_is_what_the_trials_say(there):
    summary = read(there, "summary.json")
    cell = summary["cells"]["paper"]["mnist"]["theta1"]
    trials = [read(there, f"paper/mnist/theta1/trial-{i}/summary.json") for i in range(2)]
    accuracies = [100 * trial["accuracy"] for trial in trials]
    assert cell["accuracies"] == accuracies
    assert cell["mean"] == statistics.mean(accuracies)
    assert cell["sigma"] == statistics.stdev(accuracies)
    assert cell["best"] == max(accuracies)
    assert cell["epochs"] == [2, 2]
    assert cell["best_epochs"] == [trial["best_epoch"] for trial in trials]
    assert cell["endings"] == ["epochs", "epochs"]
    assert cell["seeds"] == [0, 1]
    assert cell["paper"] == {"best": 98.46, "mean": 98.44, "sigma": 0.02}
    assert cell["away"]["sigmas"] == pytest.approx((cell["mean"] - 98.44) / 0.02)
    for key in ("dead", "spikes"):
        assert cell[key]["layers.0.lif"] == statistics.mean(trial[key]["layers.0.lif"] for trial in trials)
    assert cell["seconds"] == round(sum(trial["seconds"] for trial in trials), 1)
    assert any("net.steps" in line for line in cell["unlike_preset"])
    assert cell["commands"] == [summary["reported_by"]["command"]]
    assert cell["versions"] == [trials[0]["versions"]]
    assert summary["reported_by"]["versions"]["torch"] == torch.__version__
    assert "paper's" in summary["sigmas_are"]


def test_an_ablation_is_compared_with_the_base_by_seed(there):
    found = read(there, "summary.json")["ablations"]["paper"]["mnist"]
    assert list(found) == [name for name in STATIC.ablations if name not in ("loss-not-over-T", "adam")]
    assert found["at-inf"]["settings"] == ["net.theta=[15.983, 30.395, 4.1616]"]
    assert found["moving"]["seeds"] == [0]
    assert found["moving"]["epochs"] == [2]
    assert found["moving"]["chosen_on"] == "test"
    assert found["moving"]["sentence"] == STATIC.ablations["moving"].sentence


def test_the_markdown_table_has_the_papers_figures_beside_ours(there):
    text = (there / "table.md").read_text()
    cell = read(there, "summary.json")["cells"]["paper"]["mnist"]["annealed"]
    row = next(line for line in text.splitlines() if "mnist/annealed |" in line)
    ours = " | ".join(f"{cell[key]:.2f}" for key in ("best", "mean", "sigma"))
    assert (
        f"| paper | mnist/annealed | 99.12 | 99.07 | 0.04 | {ours} | **{cell['away']['sigmas']:+.1f}** | 2 | 2 |" in row
    )
    assert "`net.norm=shared`" in text
    (unlike,) = (line for line in text.splitlines() if line.startswith("- Not the preset: net.notation was"))
    assert unlike.endswith("(paper mnist/theta1, paper mnist/annealed)")


def test_the_terminal_says_what_is_not_the_preset(made, there):
    _, result = made
    shown = " ".join(result.stdout.split())
    remarks = [line[2:] for line in (there / "table.md").read_text().splitlines() if line.startswith("- ")]
    assert any(remark.startswith("Not the preset: net.notation was") for remark in remarks)
    assert all(remark in shown for remark in remarks)


def test_the_terminals_tables_fit_100_columns(made, there):
    _, result = made
    shown = result.stdout.splitlines()
    assert max(map(len, shown[:-4])) <= 100
    assert any(line.startswith("annealed") and "99.07 0.04" in line and " !" in line for line in shown)
    assert [line.split()[0] for line in shown[-4:]] == ["numbers", "table", "curves", "spikes"]
    assert all(str(there) in line for line in shown[-4:])


def again(out, *more):
    return CliRunner().invoke(app, [*COMMAND, "--out", str(out), *more])


def times(out):
    files = [path for path in out.rglob("trial-*/*") if path.is_file()]
    assert files
    return {path: path.stat().st_mtime_ns for path in files}


def test_once_more_trains_and_measures_nothing_and_draws(there, monkeypatch):
    before = times(there)
    monkeypatch.setattr(activities, "measure_activity", lambda *a, **k: pytest.fail("measured again"))
    result = again(there, "--variant", "annealed", "--json")
    assert result.exit_code == 0, result.output
    assert times(there) == before
    assert result.stderr == ""
    summary = json.loads(result.stdout)
    assert summary == read(there, "summary.json")
    assert set(summary["cells"]["paper"]["mnist"]) >= {"theta1", "annealed", "pooled"}  # asked for before
    image = pytest.importorskip("PIL.Image")
    for trial in read(there, "curves.json")["paper"]["mnist"]["annealed"]:
        assert len(trial["train_loss"]) == len(trial["test_accuracy"]) > 0
    for name, columns in (("curves.png", 3), ("spikes.png", 3)):
        with image.open(there / name) as png:
            assert png.width > 400 * columns
            assert png.height > 300


def test_runs_of_more_epochs_count_as_they_are(there, undrawn):
    before = times(there)
    result = again(there, "--variant", "annealed", "--epochs", "1", "--json")
    assert json.loads(result.stdout)["cells"]["paper"]["mnist"]["annealed"]["epochs"] == [2, 2]
    assert times(there) == before


def test_another_experiment_in_a_cells_folder_is_said_before_anything_trains(there, cli):
    more = ["--variant", "float32", "--variant", "annealed", "--set", "net.beta=0.5"]
    status, _, err = cli(*COMMAND, "--out", there, *more)
    assert status == 1
    assert err.count("\n") == 1
    assert "annealed/trial-0 holds another experiment: net.beta was 0.99, is 0.5" in err
    assert not (there / "paper/mnist/float32").exists()


def test_a_third_trial_has_its_own_seed_in_the_check(there):
    require_same_experiments(plans.plan(STATIC, tasks=["mnist"], variants=["annealed"], trials=3, settings=TINY), there)
    with pytest.raises(ValueError, match="seed was 0, is 7"):
        require_same_experiments(
            plans.plan(STATIC, tasks=["mnist"], variants=["annealed"], settings=[*TINY, "seed=7"]), there
        )


# ---- Interrupted, and side by side


def one_cell(protocol="paper"):
    return plans.plan(
        STATIC,
        protocols=[protocol],
        tasks=["mnist"],
        variants=["annealed"],
        trials=2,
        settings=[*TINY, "train.epochs=2"],
    )


def told(after=10**9):
    """Interrupted after so many looks."""
    looks = []

    def interrupted():
        looks.append(None)
        return len(looks) > after

    @contextmanager
    def told(cell):
        yield RunOptions(listener=Listener(interrupted=interrupted))

    return told


def rows(trial):
    lines = (json.loads(line) for line in (trial / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in row.items() if key != "timing"} for row in lines]


@pytest.mark.parametrize("after", [2, 13])
def test_an_interrupted_reproduction_goes_on_to_the_same_numbers(after, there, tmp_path):
    reported = []
    assert not train_cells(one_cell(), tmp_path, told(after), lambda setting: reported.append(1))
    assert reported == []
    assert (tmp_path / "paper/mnist/annealed/trial-0/last.ckpt").is_file()
    assert not (tmp_path / "paper/mnist/annealed/trial-1/summary.json").exists()
    assert train_cells(one_cell(), tmp_path, told(), lambda setting: reported.append(1))
    assert train_cells(one_cell(), tmp_path, told(), lambda setting: reported.append(1))
    assert reported == [1]  # the last time nothing was trained
    for trial in ("trial-0", "trial-1"):
        folder = tmp_path / "paper/mnist/annealed" / trial
        assert rows(folder) == rows(there / "paper/mnist/annealed" / trial)
        best = folder / "best.safetensors"
        assert best.read_bytes() == (there / "paper/mnist/annealed" / trial / "best.safetensors").read_bytes()


def test_the_command_says_how_to_go_on(there, tmp_path, monkeypatch):
    @contextmanager
    def interrupts():
        yield [True]

    monkeypatch.setattr(reproduce_table, "catching_interrupts", interrupts)
    result = again(tmp_path, "--variant", "annealed")
    assert result.exit_code == 130
    assert f"interrupted; saved in {tmp_path}, the same command goes on" in result.stderr
    assert result.stdout == ""


def test_an_interrupt_between_cells_begins_no_other(there, tmp_path):
    cells = plans.plan(
        STATIC, tasks=["mnist"], variants=["theta1", "annealed"], trials=2, settings=[*TINY, "train.epochs=2"]
    )
    for cell in cells[:1]:
        cell.folder(tmp_path).parent.mkdir(parents=True)
        cell.folder(tmp_path).symlink_to(there / "paper/mnist/theta1")
    assert not train_cells(cells, tmp_path, told(0))
    assert not cells[1].folder(tmp_path).exists()


def test_on_a_gpu_trials_are_trained_side_by_side(tmp_path, monkeypatch):
    asked = []

    def trials(spec, out, trials, options, *, together):
        asked.append((options.device.type, options.resume, together))
        return {}

    monkeypatch.setattr(training, "train_trials", trials)
    for device in ("cpu", "cuda"):

        @contextmanager
        def told(cell, device=device):
            yield RunOptions(device=torch.device(device))

        assert train_cells(one_cell(), tmp_path, told)
    assert asked == [("cpu", True, False), ("cuda", True, True)]


def test_several_processes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="one process"):
        train_table(STATIC, one_cell(), tmp_path, told())


def test_holdout_is_reported_beside_paper(there, tmp_path, undrawn):
    assert train_cells(one_cell("holdout"), tmp_path, told())
    (tmp_path / "paper").symlink_to(there / "paper")
    results = {(each.protocol, each.name): each for each in read_results(STATIC, tmp_path)}
    held = results["holdout", "annealed"]
    assert held.trials[0].chosen_on == "valid"
    assert held.accuracies() == [100 * trial.summary["accuracy"] for trial in held.trials]
    assert held.trials[0].accuracies() == [100 * row["valid_accuracy"] for row in held.trials[0].rows]
    summary = reports.write_report(STATIC, tmp_path, RunOptions())
    assert list(summary["cells"]) == ["paper", "holdout"]
    assert "| holdout | mnist/annealed |" in (tmp_path / "table.md").read_text()


def test_our_best_is_reported_as_a_row_without_a_figure_of_the_paper(there, tmp_path, undrawn):
    out = tmp_path / "out"
    more = ["--variant", "best", "--protocol", "holdout", "--trials", "1", "--set", "train.recalibrate=8", "--json"]
    result = again(out, *more)
    assert result.exit_code == 0, result.output
    cells = read(out, "summary.json")["cells"]["holdout"]["mnist"]
    assert list(cells) == ["best"]
    cell = cells["best"]
    assert cell["paper"] is None
    assert cell["activity"] is not None
    assert "| holdout | mnist/best | - | - | - |" in (out / "table.md").read_text()
    (group,) = panels(STATIC, {("holdout", "mnist", "best"): read_results(STATIC, out)[0]}, {})
    assert [line.name for line in group.variants] == ["best"]
    assert group.ablations == []


def test_a_report_alone_trains_nothing_whatever_is_asked_for(there, monkeypatch, undrawn):
    before = times(there)
    monkeypatch.setattr(training, "train_trials", lambda *a, **k: pytest.fail("trained"))
    result = again(there, "--report", "--trials", "9", "--epochs", "77", "--json")
    assert result.exit_code == 0, result.output
    assert times(there) == before
    assert json.loads(result.stdout) == read(there, "summary.json")


def test_a_report_alone_needs_something_to_report(tmp_path, cli):
    status, _, err = cli(*COMMAND, "--report", "--out", tmp_path)
    assert status == 1
    assert err == f"bitspike: reproduce static: {tmp_path} holds no complete trial to report on\n"


def test_a_folder_without_complete_trials_has_no_report(tmp_path):
    with pytest.raises(ValueError, match="no complete trial"):
        reports.write_report(STATIC, tmp_path, RunOptions())


# ---- Spikes of the best network


def test_histograms_agree_with_mean_spikes(there):
    kept = read(there, "paper/mnist/theta1/activity.json")
    assert kept["steps"] == 6
    for layer in kept["layers"]:
        width = 6 / len(layer["histogram"])
        lowest = width * sum(i * count for i, count in enumerate(layer["histogram"])) / layer["neurons"]
        assert lowest - 1e-9 <= layer["spikes"] <= lowest + width + 1e-9
    assert max(layer["spikes"] for layer in kept["layers"]) > 0.5


def test_activity_is_measured_again_for_other_weights_or_a_damaged_file(there, tmp_path, monkeypatch):
    cell = tmp_path / "paper/mnist/annealed"
    shutil.copytree(there / "paper/mnist/annealed", cell)
    measured = []
    measure = activities.measure_activity
    monkeypatch.setattr(activities, "measure_activity", lambda *a, **k: measured.append(1) or measure(*a, **k))

    def once_more():
        (found,) = read_results(STATIC, tmp_path)
        return activities.activity_of(found, RunOptions())

    first = once_more()
    assert measured == []
    assert first.samples == 10
    assert first.steps == 6
    (cell / "activity.json").write_text('{"trial": 3')
    assert once_more() == first
    assert measured == [1]
    (found,) = read_results(STATIC, tmp_path)
    best = found.best_trial().folder
    other = next(trial.folder for trial in found.trials if trial.folder != best)
    shutil.copy(other / "best.safetensors", best / "best.safetensors")
    assert once_more().weights != first.weights
    assert measured == [1, 1]


# ---- What lies in the folder already


def test_an_ablation_that_differs_in_more_says_so(there, tmp_path, undrawn):
    out = shutil.copytree(there, tmp_path / "out")
    path = out / "paper/mnist/moving/trial-0/experiment.toml"
    path.write_text(path.read_text().replace("lr = 0.00997", "lr = 0.5"))
    found = reports.write_report(STATIC, out, RunOptions())["ablations"]["paper"]["mnist"]
    assert found["moving"]["also"] == ["train.lr was 0.00997, is 0.5"]
    assert found["pooled"]["also"] == []
    assert "**and also** train.lr was 0.00997, is 0.5" in (out / "table.md").read_text()


@pytest.mark.parametrize(
    ("text", "message"), [("{", "is not valid JSON"), ('{"ended": "epochs", "epochs": 2}', "lacks 'experiment'")]
)
def test_a_damaged_summary_is_told_before_anything_trains(text, message, there, tmp_path, monkeypatch):
    out = shutil.copytree(there, tmp_path / "out")
    (out / "paper/mnist/moving/trial-0/summary.json").write_text(text)
    monkeypatch.setattr(reproduce_table, "show_training", lambda *a: pytest.fail("trained"))
    result = again(out, "--variant", "fixed")
    assert message in str(result.exception or result.output)


def test_trials_of_other_lengths_are_told(there, tmp_path, undrawn):
    out = shutil.copytree(there, tmp_path / "out")
    path = out / "paper/mnist/annealed/trial-1/summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "epochs": 9, "unlike_preset": ["something"]}))
    summary = reports.write_report(STATIC, out, RunOptions())
    assert "something" in summary["cells"]["paper"]["mnist"]["annealed"]["unlike_preset"]
    assert "- paper mnist/annealed: trials of 2-9 epochs are averaged" in (out / "table.md").read_text()
