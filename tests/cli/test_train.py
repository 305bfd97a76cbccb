"""`bitspike train`, `evaluate`, `preset` and `data` as a user meets them: what they print, write, refuse."""

import io
import json
import os
import statistics
import tomllib
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

import bitspike
from bitspike.cli import app
from bitspike.cli import train as commands
from bitspike.cli.forecast import Forecast
from bitspike.data import Images
from bitspike.data.datasets import open_dataset
from bitspike.data.samples import Dataset
from bitspike.experiments import runs, summaries
from bitspike.experiments.presets import preset
from bitspike.experiments.reproduce.coding.cases import CASES
from bitspike.experiments.reproduce.coding.network import SeedBatch
from bitspike.experiments.reproduce.coding.training import train_case
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.files import locked
from bitspike.train import loop
from bitspike.train.run_folder import RunFolder
from helpers.files import event_arrays, fake_mnist, write_npz

TOML = """
title = "Three rows"
[data]
file = "train.npz"
test_file = "test.npz"
[net]
notation = "16-12-3"
beta = 0.9
slope = 1.0
theta = { start = 2.0, stop = 4.0, rate = 0.1 }
steps = 6
[train]
epochs = 3
batch = 8
lr = 2e-2
half_period = 100
"""
TRAIN, VALID, TEST = 36, 6, 15  # samples: all differ, so that a part is known by its size


def write_images(path, samples, seed):
    """Bright rows that say the class, on noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(samples) % 3
    images = rng.integers(0, 90, (samples, 4, 4))
    images[np.arange(samples), labels] += 120
    write_npz(path, images=images.astype(np.uint8), labels=labels)


def write_experiment(folder):
    write_images(folder / "train.npz", TRAIN + VALID, 0)
    write_images(folder / "test.npz", TEST, 1)
    (folder / "mine.toml").write_text(TOML.replace("[net]", "validation_share = 0.14\n[net]"))
    return folder / "mine.toml"


def settings(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


NO_BOARD = settings("train.tensorboard=false")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder with a finished run, and what the command printed."""
    folder = tmp_path_factory.mktemp("done")
    toml = write_experiment(folder)
    result = CliRunner().invoke(app, ["train", str(toml), "--out", str(folder / "run"), "--json"])
    assert result.exit_code == 0, result.output
    return folder / "run", result


@pytest.fixture
def here(workplace):
    """A folder with an experiment in it."""
    write_experiment(workplace)
    return workplace


def metrics(run):
    return [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]


def summary_of(run):
    return json.loads((Path(run) / "summary.json").read_text())


# ---- What train prints and leaves


def test_json_is_alone_on_stdout_and_is_the_summary(done):
    run, result = done
    assert json.loads(result.stdout) == summary_of(run)
    assert "epoch   1" in result.stderr


def test_the_run_folder(done):
    run, _ = done
    names = {path.name for path in run.iterdir()}
    events = {name for name in names if name.startswith("events.out.tfevents")}
    assert len(events) == 1
    assert names - events - {".lock"} == {
        "experiment.toml",
        "metrics.jsonl",
        "summary.json",
        "best.safetensors",
        "last.ckpt",
    }


def test_experiment_toml_is_complete_and_says_how_to_run_it_again(done):
    run, _ = done
    text = (run / "experiment.toml").read_text()
    assert text.startswith(f"# bitspike {bitspike.__version__}; run again with: bitspike train experiment.toml\n")
    spec = read_experiment(run / "experiment.toml")
    assert spec == read_experiment(run.parent / "mine.toml")
    table = tomllib.loads(text)
    for name, config in (("net", spec.net), ("train", spec.train), ("data", spec.data)):
        given = {field for field in type(config).model_fields if getattr(config, field) is not None}
        assert set(table[name]) == given


def test_a_row_of_metrics_an_epoch(done):
    run, _ = done
    rows = metrics(run)
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    iterations = -(-TRAIN // 8)
    assert [row["step"] for row in rows] == [iterations, 2 * iterations, 3 * iterations]
    for row in rows:
        assert set(row) == {
            *("epoch", "step", "lr", "train_loss", "train_accuracy", "valid_loss", "valid_accuracy"),
            *("theta", "dead", "spikes", "timing"),
        }
        assert 0 <= row["valid_accuracy"] <= 1
        assert len(row["theta"]) == len(row["dead"]) == len(row["spikes"]) == 2
        assert row["theta"] == pytest.approx([4 - 2 * 0.9 ** row["step"]] * 2, rel=1e-6)
        assert row["lr"] == pytest.approx(1e-2 * (1 + np.cos(np.pi * (row["step"] - 1) / 100)))


def test_the_summary(done):
    run, _ = done
    summary, rows = summary_of(run), metrics(run)
    assert summary["experiment"] == "mine"
    assert summary["protocol"] == "holdout"
    assert summary["accuracy_of"] == "test set, best epoch by validation accuracy"
    assert summary["seed"] == 0
    assert summary["samples"] == {"train": TRAIN, "valid": VALID, "test": TEST}
    assert summary["parameters"] == 16 * 12 + 12 + 12 * 3 + 3
    assert (summary["epochs"], summary["steps"], summary["ended"]) == (3, rows[-1]["step"], "epochs")
    assert summary["valid_accuracy"] == max(row["valid_accuracy"] for row in rows)
    assert rows[summary["best_epoch"] - 1]["valid_accuracy"] == summary["valid_accuracy"]
    assert summary["versions"]["bitspike"] == bitspike.__version__
    assert summary["versions"]["torch"] == torch.__version__
    assert set(summary["versions"]) >= {"python", "machine"}
    timed = sum(row["timing"]["train_seconds"] + row["timing"]["evaluate_seconds"] for row in rows)
    assert summary["seconds"] == pytest.approx(timed, abs=0.01)
    assert summary["peak_memory_mb"] > 10
    assert (summary["device"], summary["processes"], summary["warnings"]) == ("cpu", 1, [])
    assert summary["theta"] == {f"layers.{i}.lif": rows[summary["best_epoch"] - 1]["theta"][i] for i in (0, 1)}
    assert summary["paper"] is None


@pytest.mark.filterwarnings("default")
def test_tensorboard_can_read_the_events(done):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run, _ = done
    board = EventAccumulator(str(run)).Reload()
    rows = metrics(run)
    for tag, key in (("train/loss", "train_loss"), ("valid/accuracy", "valid_accuracy"), ("lr", "lr")):
        points = board.Scalars(tag)
        assert [point.step for point in points] == [row["step"] for row in rows]
        assert [point.value for point in points] == pytest.approx([row[key] for row in rows], rel=1e-6)
    for key in ("theta", "dead", "spikes"):
        for layer in (0, 1):
            points = board.Scalars(f"{key}/layers.{layer}.lif")
            assert [point.value for point in points] == pytest.approx([row[key][layer] for row in rows], rel=1e-6)


def test_tensorboard_can_be_left_out(here, cli):
    assert cli("train", "mine.toml", *NO_BOARD, "--epochs", 1)[0] == 0
    assert not list((here / "runs" / "mine").glob("events*"))


def test_what_a_person_sees(here, cli):
    status, out, err = cli("train", "mine.toml", *NO_BOARD)
    assert status == 0
    assert "mine: 16-12-3, 243 parameters, 1-bit weights, seed 0 -> runs/mine" in err
    assert f"{TRAIN + VALID} samples for training and validation, {TEST} for testing; protocol holdout" in err
    lines = [line for line in err.splitlines() if line.startswith("epoch")]
    assert [line.split()[1] for line in lines] == ["1", "2", "3"]
    for word in ("train", "valid", "loss", "theta", "dead", "spikes", " s, data"):
        assert word in lines[0]
    accuracy = summary_of("runs/mine")["accuracy"]
    assert f"{100 * accuracy:.2f}" in out
    assert "test accuracy" in out
    assert out.rstrip().endswith("everything is in runs/mine")
    assert "\x1b" not in out + err


def test_presets_tell_the_papers_accuracy(here, cli, tmp_path):
    fake_mnist(tmp_path / "root")
    few = settings("data.train_limit=20", "data.test_limit=4", "net.steps=2")
    status, out, _ = cli("train", "mnist/theta1", "--epochs", 1, *few, *NO_BOARD)
    assert status == 0
    assert "paper  best 98.46  mean 98.44  sigma 0.02" in out
    assert (
        "not the preset: data.test_limit was None, is 4; data.train_limit was None, is 20; net.steps was 100, is 2"
        in out
    )
    assert summary_of("runs/mnist-theta1")["paper"] == {"best": 98.46, "mean": 98.44, "sigma": 0.02}


def test_two_runs_do_not_share_a_folder(here, cli):
    with locked(RunFolder(here / "runs/mine").lock):
        status, _, err = cli("train", "mine.toml", *NO_BOARD)
    assert status == 1
    assert "runs/mine is in use by another process" in err
    assert cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)[0] == 0


def test_out_seed_and_epochs(here, cli):
    assert cli("train", "mine.toml", "--out", "a/b", "--seed", 7, "--epochs", 1, *NO_BOARD)[0] == 0
    summary = summary_of("a/b")
    assert (summary["seed"], summary["epochs"]) == (7, 1)
    spec = read_experiment(here / "a" / "b" / "experiment.toml")
    assert (spec.seed, spec.train.epochs) == (7, 1)
    assert summary["command"].startswith("bitspike train mine.toml --out a/b --seed 7")


def test_a_graph_can_be_switched_off_and_is_accounted_for(here, cli):
    assert cli("train", "mine.toml", "--graph", "off", "--out", "off", "--epochs", 1, *NO_BOARD)[0] == 0
    assert summary_of("off")["graph"] == "switched off"
    status, _, err = cli("train", "mine.toml", "--device", "cpu", "--out", "auto", "--epochs", 1, *NO_BOARD)
    assert status == 0
    assert summary_of("auto")["graph"] == "CUDA graphs need a GPU"
    assert "CUDA" not in err  # nobody expects one on a CPU
    assert (here / "off" / "best.safetensors").read_bytes() == (here / "auto" / "best.safetensors").read_bytes()
    assert cli("train", "mine.toml", "--out", "off", "--resume", "--epochs", 2, *NO_BOARD)[0] == 0


def test_the_bar_moves_ten_times_a_second_at_most(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(commands.time, "monotonic", lambda: now[0])
    shown = Progress(console=Console(file=io.StringIO()), auto_refresh=False)
    told = commands._Told(shown, preset("mnist/annealed"))
    watched = {"accuracy": 0.5, "loss": 1.0, "theta": [2.0], "dead": [0.25], "spikes": [7.0]}
    told.epoch_begins(1, 500, 30)
    told.iteration(watched)
    seen = []
    for k in range(250):
        now[0] += 0.001
        told.iteration({**watched, "loss": 2.0} if k == 20 else None)
        seen.append((shown.tasks[0].completed, "loss 2" in shown.tasks[0].fields["figures"]))
    assert sorted(set(seen)) == [(31, False), (131, True), (231, True)]
    told.epoch_begins(2, 500, 0)
    now[0] += 1
    told.iteration(None)
    assert (shown.tasks[0].completed, shown.tasks[0].fields["figures"]) == (1, "")


def test_an_epoch_from_a_graph_has_no_share_of_data():
    timing = {"train_seconds": 1.25, "evaluate_seconds": 0.5, "data_share": 0.125}
    assert commands._seconds(timing) == "1.2 + 0.5 s, data 12.5%"
    assert commands._seconds({**timing, "data_share": None}) == "1.2 + 0.5 s"


def test_coding_needs_no_data(here, cli):
    status, out, _ = cli("train", "coding/annealed", "--epochs", 2)
    assert status == 0
    assert "coding/annealed on Temporal coding" in out
    summary = summary_of("runs/coding-annealed")
    assert (summary["steps"], summary["protocol"], summary["parameters"]) == (20, "paper", 102_001)
    assert cli("evaluate", "runs/coding-annealed")[0] == 0
    assert (
        "--steps is for static inputs, but samples of Temporal coding have their own time"
        in cli("evaluate", "runs/coding-annealed", "--steps", 5)[2]
    )


def test_brackets_in_a_folders_name_are_shown(here, cli):
    _, out, _ = cli("train", "mine.toml", "--out", "runs/[a]x", "--epochs", 1, *NO_BOARD)
    assert "everything is in runs/[a]x" in out


# ---- How long it takes


def forecast(device="cpu", epochs=100, train=1000, test=100, runs=1, protocol="paper"):
    changes = [f"train.epochs={epochs}", f"train.protocol={protocol}"]
    spec = with_values(preset("mnist/annealed"), changes)
    part = [Images(torch.zeros(n, 1), torch.zeros(n, dtype=torch.int64)) for n in (train, test)]
    return Forecast(spec, Dataset("mnist", "MNIST", 10, *part), device, runs)


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("bitspike.cli.forecast.time.monotonic", lambda: now[0])
    return now


def lines_of(ahead, clock, iterations, seconds, looked=lambda k: False):
    said = [ahead.begins(1, iterations, 0)]
    for k in range(iterations):
        clock[0] += seconds(k)
        said.append(ahead.iteration(looked(k)))
    return [line for line in said if line]


def test_a_long_training_on_a_cpu_says_how_long_and_names_a_shorter_way(clock):
    said = lines_of(forecast(), clock, 400, lambda k: 30.0 if k == 0 else 2.0)
    assert said == [
        "100 epochs of 400 iterations",
        "about 23 hours to go, 14 minutes an epoch on this CPU; a GPU takes far less; "
        "for a first look: bitspike train mnist/quick, or --epochs 1 (14 minutes)",
    ]


def test_a_short_training_says_how_long_only(clock):
    said = lines_of(forecast(epochs=3), clock, 400, lambda k: 0.01)
    assert said == ["3 epochs of 400 iterations", "about 12 s to go, 4 s an epoch"]


def test_trials_in_turn_are_all_counted(clock):
    said = lines_of(forecast(epochs=3, runs=5), clock, 400, lambda k: 0.1)
    assert said == ["3 epochs of 400 iterations, 5 runs", "about 10 minutes to go, 41 s an epoch"]


def test_on_a_gpu_only_the_times_between_looks_count(clock):
    """Launches take no time; the first look waits for compilers."""
    looked = lambda k: k == 0 or (k + 1) % 20 == 0  # noqa: E731
    said = lines_of(forecast("cuda"), clock, 400, lambda k: 60 if k == 0 else 0.2 if looked(k) else 0.0, looked)
    assert said == ["100 epochs of 400 iterations", "about 7 minutes to go, 4 s an epoch"]


def test_a_resumed_run_counts_what_is_left(clock):
    ahead = forecast(epochs=10)
    assert ahead.begins(9, 100, 50) == "10 epochs of 100 iterations, from epoch 9 on"
    clock[0] += 1
    said = []
    for _ in range(30):
        clock[0] += 1.0
        said.append(ahead.iteration(False))
    assert [line for line in said if line] == ["about 2 minutes to go, 103 s an epoch"]


def test_epochs_of_few_iterations_are_timed_whole(clock):
    ahead = forecast(epochs=50)
    said = []
    for epoch in (1, 2, 3):
        said.append(ahead.begins(epoch, 3, 0))
        said += [ahead.iteration(False) for _ in range(3)]
        said.append(ahead.epoch_ends(0.5))
    assert [line for line in said if line] == ["50 epochs of 3 iterations", "about 24 s to go, 500 ms an epoch"]


def test_epochs_and_time_are_told_without_a_terminal(here, cli):
    status, out, err = cli("train", "mine.toml", "--epochs", 4, "--json", *NO_BOARD)
    assert status == 0
    assert json.loads(out) == summary_of("runs/mine")
    lines = err.splitlines()
    assert lines[2] == "4 epochs of 5 iterations"
    (said,) = [line for line in lines if line.startswith("about ")]
    assert lines[lines.index(said) - 1].startswith("epoch   2")


def test_resuming_nothing_is_told(here, cli):
    assert "nothing to resume" not in cli("train", "mine.toml", "--out", "plain", "--epochs", 1, *NO_BOARD)[2]
    _, _, err = cli("train", "mine.toml", "--resume", "--epochs", 1, *NO_BOARD)
    assert err.startswith("nothing to resume in runs/mine: a new run starts\n")
    assert "nothing to resume" not in cli("train", "mine.toml", "--resume", "--epochs", 2, *NO_BOARD)[2]
    assert "nothing to resume" not in cli("train", "mine.toml", "--resume", "--epochs", 2, *NO_BOARD)[2]  # complete
    err = cli("train", "mine.toml", "--resume", "--trials", 2, "--out", "two", "--epochs", 1, *NO_BOARD)[2]
    assert err.count("nothing to resume in two: a new run starts\n") == 1
    err = cli("train", "mine.toml", "--resume", "--trials", 3, "--out", "two", "--epochs", 1, *NO_BOARD)[2]
    assert "nothing to resume" not in err


# ---- Protocols


@pytest.fixture
def looks(monkeypatch):
    """The sizes of the sets that were evaluated, by whom, in order; and of those that batches were drawn from."""
    seen, drawn = [], []
    for module in (loop, summaries):
        real = module.evaluate

        def spy(net, samples, *arguments, _real=real, _who=module.__name__, **options):
            seen.append((_who.rpartition(".")[2], len(samples)))
            return _real(net, samples, *arguments, **options)

        monkeypatch.setattr(module, "evaluate", spy)
    batch = Images.batch
    monkeypatch.setattr(Images, "batch", lambda self, rows: (drawn.append(len(self)), batch(self, rows))[1])
    return seen, drawn


def test_holdout_looks_at_the_test_set_once_after_training(here, cli, looks):
    seen, drawn = looks
    assert cli("train", "mine.toml", *NO_BOARD)[0] == 0
    assert seen == [("loop", VALID)] * 3 + [("summaries", TEST)]
    assert drawn.count(TEST) == 1
    assert drawn[-1] == TEST


def test_paper_chooses_on_the_test_set_and_trains_on_all(here, cli, looks):
    seen, drawn = looks
    assert cli("train", "mine.toml", *settings("train.protocol=paper"), *NO_BOARD)[0] == 0
    assert seen == [("loop", TEST)] * 3 + [("summaries", TEST)]
    assert set(drawn) == {TRAIN + VALID, TEST}
    rows, summary = metrics("runs/mine"), summary_of("runs/mine")
    assert summary["accuracy"] == max(row["test_accuracy"] for row in rows) == summary["test_accuracy"]
    assert summary["accuracy_of"] == "test set, best epoch by test accuracy"
    assert "valid_accuracy" not in rows[0]


def choosing_by(monkeypatch, accuracies, losses):
    """Let the epochs' evaluations come to these figures."""
    figures = iter(zip(accuracies, losses, strict=True))
    real = loop.evaluate

    def told(*arguments, **options):
        accuracy, loss = next(figures)
        result = real(*arguments, **options)
        return type(result)(loss, accuracy, result.dead, result.spikes, result.samples, result.correct_by_label)

    monkeypatch.setattr(loop, "evaluate", told)


def test_the_best_epoch_is_the_most_accurate_then_the_least_lossy(here, cli, monkeypatch):
    choosing_by(monkeypatch, [0.5, 0.75, 0.75, 0.75, 0.25], [1, 4, 3, 3, 1])
    assert cli("train", "mine.toml", "--epochs", 5, *NO_BOARD)[0] == 0
    summary = summary_of("runs/mine")
    assert (summary["best_epoch"], summary["valid_accuracy"]) == (3, 0.75)
    theta = float(bitspike.load_run("runs/mine").layers[0].lif.theta)
    assert theta == pytest.approx(metrics("runs/mine")[2]["theta"][0])


def test_the_last_epoch_counts_where_that_is_asked_for(here, cli, monkeypatch):
    choosing_by(monkeypatch, [0.5, 0.75, 0.25], [1, 1, 2])
    status, out, _ = cli("train", "mine.toml", "--epochs", 3, *settings("train.choose=last"), *NO_BOARD)
    assert status == 0
    summary = summary_of("runs/mine")
    assert (summary["best_epoch"], summary["valid_accuracy"]) == (3, 0.25)
    assert summary["accuracy_of"] == "test set, last epoch"
    assert "(seed 0, last epoch: 3 of 3; " in out
    theta = float(bitspike.load_run("runs/mine").layers[0].lif.theta)
    assert theta == pytest.approx(metrics("runs/mine")[2]["theta"][0])


def test_a_network_that_diverged_is_not_the_last(here, cli, monkeypatch):
    poisoned(monkeypatch, after=7)  # of 5 iterations an epoch
    cli("train", "mine.toml", "--epochs", 4, *settings("train.choose=last"), *NO_BOARD)
    summary = summary_of("runs/mine")
    assert (summary["ended"], summary["epochs"], summary["best_epoch"]) == ("nan", 2, 1)


def test_patience_counts_from_the_last_better_accuracy(here, cli, monkeypatch):
    choosing_by(monkeypatch, [0.5, 0.75, 0.75, 0.25, 0.5], [1, 2, 1, 1, 1])  # a lower loss alone is not better
    assert cli("train", "mine.toml", "--epochs", 9, *settings("train.patience=3"), *NO_BOARD)[0] == 0
    summary = summary_of("runs/mine")
    assert (summary["ended"], summary["epochs"], summary["best_epoch"]) == ("patience", 5, 3)


# ---- Trials


def test_trials_have_seeds_of_their_own_and_are_summed_up(here, cli):
    status, out, _ = cli("train", "mine.toml", "--trials", 3, "--seed", 4, "--out", "three", "--json", *NO_BOARD)
    assert status == 0
    together = json.loads(out)
    each = [summary_of(f"three/trial-{trial}") for trial in range(3)]
    accuracies = [summary["accuracy"] for summary in each]
    assert together == summary_of("three")
    assert together["seeds"] == [summary["seed"] for summary in each] == [4, 5, 6]
    assert together["accuracies"] == accuracies
    assert together["best"] == max(accuracies)
    assert together["mean"] == pytest.approx(sum(accuracies) / 3)
    assert together["sigma"] == pytest.approx(statistics.stdev(accuracies))
    losses = {metrics(f"three/trial-{trial}")[0]["train_loss"] for trial in range(3)}
    assert len(losses) == 3


def test_a_trial_is_the_run_of_its_seed(here, cli):
    cli("train", "mine.toml", "--trials", 2, "--out", "two", *NO_BOARD)
    cli("train", "mine.toml", "--seed", 1, "--out", "one", *NO_BOARD)
    untimed = [
        [{k: v for k, v in row.items() if k != "timing"} for row in metrics(run)] for run in ("two/trial-1", "one")
    ]
    assert untimed[0] == untimed[1]


def test_trials_are_shown_as_best_mean_and_sigma(here, cli):
    _, out, _ = cli("train", "mine.toml", "--trials", 2, "--epochs", 1, *NO_BOARD)
    summary = summary_of("runs/mine")
    figures = [f"{word} {100 * summary[word]:.2f}" for word in ("best", "mean", "sigma")]
    assert "  ".join(figures) in out
    assert "(seeds 0, 1;" in out


def test_one_trial_has_no_sigma(here, cli):
    _, out, _ = cli("train", "mine.toml", "--trials", 1, "--epochs", 1, "--json", *NO_BOARD)
    assert json.loads(out)["sigma"] is None


def test_of_trials_the_one_chosen_on_validation_is_evaluated(here, cli):
    cli("train", "mine.toml", "--trials", 3, "--epochs", 1, "--out", "three", *NO_BOARD)
    _, out, _ = cli("evaluate", "three", "--json")
    best = max(range(3), key=lambda trial: metrics(f"three/trial-{trial}")[0]["valid_accuracy"])
    assert json.loads(out)["run"] == f"three/trial-{best}"
    assert json.loads(out)["accuracy"] == summary_of(f"three/trial-{best}")["accuracy"]


def test_trials_do_not_go_into_the_folder_of_a_run(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    before = summary_of("runs/mine")
    assert cli("train", "mine.toml", "--epochs", 1, "--trials", 2, *NO_BOARD)[0] == 1
    assert summary_of("runs/mine") == before


# ---- The trained network


def test_load_run_gives_the_network_of_the_summary(done):
    run, _ = done
    summary = summary_of(run)
    net = bitspike.load_run(run)
    assert not net.training
    assert [float(layer.lif.theta) for layer in net.layers] == pytest.approx(list(summary["theta"].values()))
    images, labels = open_dataset(read_experiment(run / "experiment.toml").data).test.batch(torch.arange(TEST))
    predicted = net(images).spikes.sum(0).argmax(1)
    assert (predicted == labels).double().mean().item() == pytest.approx(summary["accuracy"])
    assert net(images).spikes.shape == (6, TEST, 3)


def test_final_thresholds_are_kept_where_they_were_evaluated(here, cli):
    assert cli("train", "mine.toml", *settings("train.evaluate_theta=final"), *NO_BOARD)[0] == 0
    assert [float(layer.lif.theta) for layer in bitspike.load_run("runs/mine").layers] == [4.0, 4.0]
    assert metrics("runs/mine")[0]["theta"][0] < 4
    assert json.loads(cli("evaluate", "runs/mine", "--json")[1])["accuracy"] == summary_of("runs/mine")["accuracy"]


@pytest.mark.parametrize(("split", "samples"), [("test", TEST), ("valid", VALID), ("train", TRAIN)])
def test_evaluate_on_each_split(done, cli, split, samples):
    run, _ = done
    status, out, _ = cli("evaluate", run, "--split", split, "--json")
    assert status == 0
    result, summary = json.loads(out), summary_of(run)
    assert (result["split"], result["samples"]) == (split, samples)
    assert sum(count for _, count in result["correct_by_label"].values()) == samples
    right = sum(right for right, _ in result["correct_by_label"].values())
    assert result["accuracy"] == pytest.approx(right / samples)
    if split == "test":
        assert (result["accuracy"], result["loss"]) == (summary["accuracy"], summary["test_loss"])
    if split == "valid":
        best = metrics(run)[summary["best_epoch"] - 1]
        assert (result["accuracy"], result["loss"]) == (best["valid_accuracy"], best["valid_loss"])
        assert (result["dead"], result["spikes"]) == (best["dead"], best["spikes"])


def test_evaluate_in_words(done, cli):
    run, _ = done
    status, out, _ = cli("evaluate", run)
    assert status == 0
    assert f"accuracy  {summary_of(run)['accuracy']:.2%} of {TEST}" in out
    assert "layers.1.lif" in out
    assert "by class  0: " in out


def test_evaluate_for_longer_and_shorter(done, cli):
    run, _ = done
    spikes = {}
    for steps in (1, 6, 60):
        result = json.loads(cli("evaluate", run, "--steps", steps, "--json")[1])
        assert result["steps"] == steps
        spikes[steps] = sum(result["spikes"])
    assert spikes[1] < spikes[6] < spikes[60]
    assert spikes[6] == sum(json.loads(cli("evaluate", run, "--json")[1])["spikes"])


def test_evaluate_writes_no_empty_line_into_a_log(done, cli):
    assert cli("evaluate", done[0], "--json")[2] == ""


def test_a_run_of_the_paper_protocol_has_no_valid_split(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *settings("train.protocol=paper"), *NO_BOARD)
    status, _, err = cli("evaluate", "runs/mine", "--split", "valid")
    assert status == 1
    assert "protocol 'paper', which has no 'valid' split; use test or train" in err


def test_a_run_without_weights(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    (here / "runs" / "mine" / "best.safetensors").unlink()
    status, _, err = cli("evaluate", "runs/mine")
    assert status == 1
    assert "best.safetensors does not exist; has the run finished its first epoch?" in err
    with pytest.raises(FileNotFoundError, match=r"best\.safetensors does not exist"):
        bitspike.load_run("runs/mine")


def test_weights_of_another_network(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    cli("train", "mine.toml", "--epochs", 1, "--out", "other", *settings("net.notation=16-9-3"), *NO_BOARD)
    (here / "other" / "best.safetensors").replace(here / "runs" / "mine" / "best.safetensors")
    status, _, err = cli("evaluate", "runs/mine")
    assert status == 1
    assert "best.safetensors holds another network: layers." in err


@pytest.mark.parametrize("folder", [".", "nowhere", "mine.toml"])
def test_a_folder_that_is_no_run(folder, here, cli):
    status, out, err = cli("evaluate", folder)
    assert (status, out) == (1, "")
    assert err.strip() == f"bitspike: {folder} holds no run: there is no experiment.toml in it, nor in trial-*"


# ---- Runs that come to nothing


def test_a_silent_layer_is_reported_once_with_what_to_try(here, cli):
    status, _, err = cli("train", "mine.toml", *settings("net.theta=[1.0, 1e6]"), *NO_BOARD)
    assert status == 0
    said = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert len(said) == 1
    assert "layers.1.lif is silent: none of its neurons fired from iteration" in said[0]
    assert "try a lower theta for this layer, or anneal up to it" in said[0]
    summary = summary_of("runs/mine")
    assert (summary["epochs"], summary["ended"]) == (3, "epochs")
    assert summary["warnings"] == [said[0].removeprefix("warning: ")]
    assert summary["dead"]["layers.1.lif"] == 1
    assert summary["dead"]["layers.0.lif"] < 1


def test_an_annealed_layer_that_is_silent_is_told_about_its_schedule_once(here, cli):
    theta = "net.theta=[1.0, {start = 1e5, stop = 1e6, rate = 0.1}]"
    _, _, err = cli("train", "mine.toml", *settings(theta), *NO_BOARD)
    said = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert len(said) == 1
    assert "it is annealed from 1e+05 to 1e+06: try a lower stop or a smaller rate for this layer" in said[0]


def test_many_silent_layers_are_one_line(here, cli):
    deep = settings("net.notation=16-" + "3-" * 40 + "3", "net.theta=1e6")
    status, out, err = cli("train", "mine.toml", *deep, "--epochs", 1, *NO_BOARD)
    assert status == 0
    (said,) = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert said.startswith(
        "warning: 41 layers are silent: layers.0.lif, layers.1.lif and 39 more; the first: layers.0.lif is silent: none"
    )
    assert out.count("silent: ") == 2  # the line once, with the first layer's own words in it
    assert summary_of("runs/mine")["warnings"] == [said.removeprefix("warning: ")]


def test_a_silent_network_is_right_about_nothing(here, cli):
    """Else it would be right about every sample of class 0."""
    status, out, _ = cli("train", "mine.toml", *settings("net.theta=1e6"), "--epochs", 1, *NO_BOARD)
    assert status == 0
    summary = summary_of("runs/mine")
    assert (summary["accuracy"], summary["unanswered"], metrics("runs/mine")[0]["train_accuracy"]) == (0, 1, 0)
    assert "no output neuron fires for 100.00% of the samples; they count as wrong" in out
    _, out, _ = cli("evaluate", "runs/mine")
    assert "accuracy  0.00% of 15" in out
    assert "no answer 100.00%: no output neuron fired, which counts as wrong" in out
    assert json.loads(cli("evaluate", "runs/mine", "--json")[1])["unanswered"] == 1
    arguments = ("--epochs", 1, "--trials", 2, "--out", "two", *NO_BOARD)
    _, out, _ = cli("train", "mine.toml", *settings("net.theta=1e6"), *arguments)
    assert "no output neuron fires for 100.00% of the samples" in out


def test_one_class_is_told(here, cli):
    arrays = dict(np.load("train.npz"))
    write_npz(here / "train.npz", images=arrays["images"], labels=np.zeros(TRAIN + VALID, np.int64))
    status, _, err = cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    assert status == 0
    (said,) = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert said == (
        "warning: all 36 training samples of train.npz are of one class, label 0: accuracy says nothing; "
        "look at the file's labels"
    )
    assert summary_of("runs/mine")["warnings"] == [said.removeprefix("warning: ")]
    assert "warning" not in cli("train", "mine.toml", "--epochs", 2, "--resume", *NO_BOARD)[2]  # it was told


def test_one_class_for_testing_is_told(here, cli):
    arrays = dict(np.load("test.npz"))
    write_npz(here / "test.npz", images=arrays["images"], labels=np.full(TEST, 2))
    assert (
        "all 15 test samples of train.npz are of one class, label 2"
        in cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)[2]
    )


def test_a_silent_layer_can_stop_the_run(here, cli):
    _, out, _ = cli("train", "mine.toml", *settings("net.theta=1e6", "train.on_dead=stop"), *NO_BOARD)
    summary = summary_of("runs/mine")
    assert (summary["epochs"], summary["ended"]) == (1, "dead")
    assert "stopped: layers.1.lif is silent" in out


def test_currents_that_are_not_finite_name_the_layer_and_leave_a_summary(here, cli, monkeypatch):
    built = runs.build_network

    def build(spec, shape):
        net = built(spec, shape)
        torch.nn.init.constant_(net.layers[1].synapse.weight, torch.inf)
        return net

    monkeypatch.setattr(runs, "build_network", build)
    status, out, err = cli("train", "mine.toml", *settings("net.binary=false"), *NO_BOARD)
    assert status == 3
    assert "stopped: layers.1.lif: lif: current must be finite" in out
    assert "warning: layers.1.lif" in err
    summary = summary_of("runs/mine")
    assert (summary["ended"], summary["accuracy"], summary["epochs"]) == ("nan", None, 0)


def poisoned(monkeypatch, after=0):
    """Networks whose second layer gets infinite gradients after so many iterations, as one that diverges on a GPU,
    where lif does not check."""
    built, iterations = runs.build_network, count()

    def build(spec, shape):
        net = built(spec, shape)
        net.layers[1].synapse.bias.register_hook(lambda grad: grad + (torch.inf if next(iterations) >= after else 0))
        return net

    monkeypatch.setattr(runs, "build_network", build)
    monkeypatch.setattr("bitspike.ops.checks.explain_not_finite", lambda *arguments: None)


def test_a_gradient_that_is_not_finite_stops_the_run_and_is_named(here, cli, monkeypatch):
    poisoned(monkeypatch)
    _, out, err = cli("train", "mine.toml", *NO_BOARD)
    summary = summary_of("runs/mine")
    assert (summary["ended"], summary["epochs"]) == ("nan", 1)
    named = "the gradient of layers.1.synapse.bias is not finite since iteration 0 (lr 0.02 there); try a smaller"
    assert any(named in warning for warning in summary["warnings"])
    assert f"warning: {named}" in err
    assert f"stopped: {named}" in out


def test_a_run_told_to_go_on_does(here, cli, monkeypatch):
    poisoned(monkeypatch)
    assert cli("train", "mine.toml", *settings("train.on_nan=warn"), *NO_BOARD)[0] == 0
    assert summary_of("runs/mine")["ended"] == "epochs"


@pytest.mark.parametrize("end", ["nan", "dead"])
def test_a_run_that_was_stopped_has_a_status(end, here, cli, monkeypatch):
    if end == "nan":
        poisoned(monkeypatch)
    more = settings("net.theta=1e6", "train.on_dead=stop") if end == "dead" else []
    assert cli("train", "mine.toml", *more, *NO_BOARD)[0] != 0


def test_a_learning_rate_beyond_float32_is_refused_in_a_line(here, cli):
    assert cli("train", "mine.toml", *settings("train.lr=1e39", "net.binary=false"), *NO_BOARD)[0] == 1


# ---- Refusals


def test_holdout_without_validation_samples_is_refused(here, cli):
    status, _, err = cli("train", "mine.toml", *settings("data.validation_share=0"), *NO_BOARD)
    assert status == 1
    assert "judges epochs by these samples; give it a share, or set train.protocol to 'paper'" in err
    assert not (here / "runs" / "mine").exists()


def test_a_folder_with_a_run_is_not_written_over(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    before = (here / "runs" / "mine" / "summary.json").read_bytes()
    status, out, err = cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    assert (status, out) == (1, "")
    assert err == "bitspike: runs/mine holds a run already; add --resume to go on with it, or choose another --out\n"
    assert (here / "runs" / "mine" / "summary.json").read_bytes() == before


@pytest.mark.parametrize("out", ["taken", "taken/run"])
@pytest.mark.parametrize("more", [(), ("--resume",), ("--trials", 2)])
def test_an_out_that_is_a_file_is_told_before_anything_is_read(out, more, here, cli, monkeypatch):
    (here / "taken").write_text("mine")
    monkeypatch.setattr(runs, "open_dataset", lambda *_, **__: pytest.fail("read"))
    status, _, err = cli("train", "mine.toml", "--out", out, *more)
    assert status == 1
    assert err.endswith("taken is a file, but a folder is needed; choose another --out\n")
    assert (here / "taken").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_read(here, cli, monkeypatch):
    (here / "closed").mkdir(mode=0o555)
    monkeypatch.setattr(runs, "open_dataset", lambda *_, **__: pytest.fail("read"))
    if os.geteuid() == 0:  # who may write anywhere
        monkeypatch.setattr("bitspike.files.os.access", lambda path, mode: Path(path).name != "closed")
    status, _, err = cli("train", "mine.toml", "--out", "closed/run")
    assert status == 1
    assert err == f"bitspike: {here / 'closed'} cannot be written into; choose another --out, or make it writable\n"


def test_a_run_in_a_folder_that_cannot_be_written_is_read(here, cli):
    cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)
    run = here / "runs" / "mine"
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    for path in (*run.iterdir(), run):
        path.chmod(0o555 if path == run else 0o444)
    try:
        assert cli("evaluate", "runs/mine")[0] == 0
        assert cli("train", "mine.toml", "--epochs", 1, "--resume", *NO_BOARD)[0] == 0
        assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    finally:
        run.chmod(0o755)


def test_a_folder_with_other_things_is_not_written_into(here, cli):
    status, _, err = cli("train", "mine.toml", "--out", ".")
    assert status == 1
    assert err == "bitspike: . is not empty and holds no run; choose another --out\n"
    assert not (here / "experiment.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "mnist/anealed"], "no preset is named 'mnist/anealed'; did you mean 'mnist/annealed'?"),
        (
            ["train", "gone.toml"],
            "gone.toml does not exist; bitspike preset list shows the experiments that are built in",
        ),
        (["train", "mine.toml", "--set", "train.ephocs=3"], "did you mean 'train.epochs'?"),
        (["train", "mine.toml", "--set", "train.epochs"], "write key=value, such as train.epochs=5"),
        (["train", "mnist/annealed"], "data set 'mnist' is not here; run: bitspike data fetch mnist"),
        (["preset", "show", "mnist"], "no preset is named 'mnist'"),
        (["data", "info", "mnits"], "unknown data set 'mnits': did you mean 'mnist'?"),
        (["data", "info", "coding", "--set", "bin_mss=3"], "no field is named 'bin_mss'; did you mean 'bin_ms'?"),
        (["data", "verify", "shd"], "data set 'shd' is not here"),
    ],
)
def test_mistakes_end_in_one_line_and_a_status(arguments, says, here, cli):
    status, out, err = cli(*arguments)
    assert (status, out) == (1, "")
    assert len(err.strip().splitlines()) == 1
    assert err.strip().startswith("bitspike: ")
    assert says in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["train"],
        ["train", "mine.toml", "--epochs", "0"],
        ["train", "mine.toml", "--trials", "0"],
        ["train", "mine.toml", "--seed", "-1"],
        ["train", "mine.toml", "--device", "tpu"],
        ["train", "mine.toml", "--epoch", "3"],
        ["evaluate", "runs/mine", "--split", "all"],
        ["trian"],
    ],
)
def test_wrong_usage_is_status_2(arguments, here, cli):
    assert cli(*arguments)[0] == 2
    assert not (here / "runs").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("command", [["train", "mine.toml"], ["evaluate", "run"]])
def test_a_gpu_that_is_not_there(command, here, cli):
    status, _, err = cli(*command, "--device", "cuda")
    assert status == 1
    assert "--device cuda: PyTorch sees no GPU here; use --device cpu" in err
    assert not (here / "runs").exists()


def test_debugging_shows_where_an_error_comes_from(here, cli, monkeypatch):
    monkeypatch.setenv("BITSPIKE_DEBUG", "1")
    with pytest.raises(ValueError, match="no preset is named"):
        cli("train", "nothing")


def test_binned_events_are_kept_in_the_data_root(here, cli, tmp_path):
    write_npz(here / "train.npz", **event_arrays(12))
    (here / "mine.toml").write_text(
        TOML.replace('test_file = "test.npz"', "bin_ms = 2\nsteps = 5").replace("16-", "72-")
    )
    assert cli("train", "mine.toml", "--epochs", 1, *NO_BOARD)[0] == 0
    assert len(list((tmp_path / "root" / "cache").glob("*.safetensors"))) == 1


def test_preset_show_checks_a_file(here, cli):
    assert cli("preset", "show", "mine.toml")[0] == 0
    (here / "mine.toml").write_text(TOML.replace("beta", "betta"))
    status, _, err = cli("preset", "show", "mine.toml")
    assert status == 1
    assert "mine.toml: " in err
    assert "no field is named 'net.betta'; did you mean 'net.beta'?" in err


# ---- The trainer against the coding task's own loop


@pytest.mark.parametrize(
    ("variant", "case"), [("float32", "float32"), ("theta1", "theta1"), ("fixed", "theta50"), ("annealed", "annealed")]
)
def test_the_coding_presets_train_as_the_reproduction_does(variant, case, tmp_path, monkeypatch):
    seed, iterations = 3, 20
    history = train_case(CASES[case], [seed], iterations)
    batch = SeedBatch(CASES[case], [seed])
    outputs = []
    step = loop.Trainer.step

    def listening(self, count):
        step(self, count)
        outputs.append((self.observed.counts()[0], self.observed.output))

    @torch.no_grad()
    def same_weights(spec, data, net, out):
        assert torch.equal(data.train.batch(torch.tensor([0]))[0], batch.inputs)
        for layer, number in zip(net.layers, "12", strict=True):
            layer.synapse.weight.copy_(getattr(batch, f"weight{number}")[0])
            layer.synapse.bias.copy_(getattr(batch, f"bias{number}")[0])

    monkeypatch.setattr(loop.Trainer, "step", listening)
    changes = [f"seed={seed}", f"train.epochs={iterations}", "data.repeat=1", "train.tensorboard=false"]
    spec = with_values(preset(f"coding/{variant}"), changes)
    runs.train_run(spec, tmp_path / "run", runs.RunOptions(started=same_weights))
    rows = metrics(tmp_path / "run")
    assert len(outputs) == iterations
    for k, (hidden, output) in enumerate(outputs):
        assert torch.equal(output.spikes[:, 0, 0], history.spikes[k, :, 0])
        assert torch.allclose(output.membrane[:, 0, 0], history.membrane[k, :, 0], rtol=1e-5, atol=1e-5)
        assert (hidden.amax(0) == 0).float().mean().item() == pytest.approx(history.dead[k, 0].item())
        assert rows[k]["train_loss"] == pytest.approx(history.loss[k, 0].item(), rel=1e-5)
    # an epoch's evaluation sees what the next iteration trains on
    for k in range(iterations - 1):
        assert rows[k]["test_loss"] == pytest.approx(history.loss[k + 1, 0].item(), rel=1e-5)
        assert rows[k]["theta"][1] == pytest.approx(history.theta[k + 1].item(), rel=1e-6)
