"""`bitspike train` as a user meets it: what it prints and writes, and which samples it looks at."""

import json
import tomllib

import numpy as np
import pytest
import torch

import bitspike
from bitspike.data import Images
from bitspike.experiments import runs, summaries
from bitspike.experiments.presets import preset
from bitspike.experiments.reproduce.coding.cases import CASES
from bitspike.experiments.reproduce.coding.network import SeedBatch
from bitspike.experiments.reproduce.coding.training import train_case
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.files import locked
from bitspike.train import loop
from bitspike.train.run_folder import RunFolder
from helpers.files import fake_mnist
from helpers.own_images import NO_BOARD, TEST, TRAIN, VALID, metrics, settings, summary_of


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
        "curves.png",
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


def test_patience_counts_from_the_last_better_accuracy(here, cli, monkeypatch):
    choosing_by(monkeypatch, [0.5, 0.75, 0.75, 0.25, 0.5], [1, 2, 1, 1, 1])  # a lower loss alone is not better
    assert cli("train", "mine.toml", "--epochs", 9, *settings("train.patience=3"), *NO_BOARD)[0] == 0
    summary = summary_of("runs/mine")
    assert (summary["ended"], summary["epochs"], summary["best_epoch"]) == ("patience", 5, 3)


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
