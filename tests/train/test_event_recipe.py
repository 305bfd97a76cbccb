"""A recipe on events with delays, their rates, and changed samples: stopped, replayed, together with others, loaded."""

import json

import pytest
import torch

from bitspike.data.samples import Frames
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import differences
from bitspike.experiments.runs import train_run, train_trials
from bitspike.experiments.saved import evaluate_run, load_run
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.train import iteration, together
from bitspike.train.loop import Trainer
from bitspike.train.tricks.recalibrate import recalibrate
from helpers import runs
from helpers.graphs import JointStandIn, record_iterations, require_equal_but_for_the_graph, require_equal_trials


def experiment(folder, *settings):
    spec = read_experiment(runs.write_event_experiment(folder))
    return with_values(spec, ["train.tensorboard=false", *settings])


def train(folder, name, *settings, **setting):
    return train_run(experiment(folder, *settings), folder / name, RunOptions(**setting))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_a_run_stopped_and_resumed_is_the_run_never_stopped(tmp_path, optimizer):
    settings = (f"train.optimizer={optimizer}", "train.epochs=2")
    train(tmp_path, "whole", *settings)
    assert train(tmp_path, "parts", *settings, listener=runs.interrupting(3)) is None
    assert train(tmp_path, "parts", *settings, resume=True) is not None
    runs.require_equal(tmp_path / "parts", tmp_path / "whole")


def test_a_run_with_replays_is_the_run_without(tmp_path, monkeypatch):
    record_iterations(monkeypatch)
    train(tmp_path, "plain", graph="off")
    assert train(tmp_path, "replayed")["graph"] is True
    require_equal_but_for_the_graph(tmp_path / "replayed", tmp_path / "plain")


@pytest.mark.parametrize("way", ["turns", "joint"])
def test_trials_together_are_trials_alone(tmp_path, monkeypatch, way):
    if way == "joint":
        monkeypatch.setattr(iteration, "planned_on", lambda device: True)
        monkeypatch.setattr(together, "CudaGraph", JointStandIn)
    spec = experiment(tmp_path, "train.epochs=2")
    train_trials(spec, tmp_path / "alone", 2, RunOptions())
    if way == "joint":
        monkeypatch.setattr(iteration, "no_graph", lambda *_: None)
    train_trials(spec, tmp_path / "together", 2, RunOptions(), together=True)
    require_equal_trials(tmp_path / "together", tmp_path / "alone", trials=2)


def test_widths_and_rates_follow_their_schedules(tmp_path, monkeypatch):
    seen = []
    body = iteration.Iteration.body

    def watching(self, size):
        widths = [layer.delay.width.item() for layer in self.net.layers]
        seen.append((widths, [group["lr"] for group in self.optimizer.param_groups]))
        return body(self, size)

    monkeypatch.setattr(iteration.Iteration, "body", watching)
    train(tmp_path, "run", "train.epochs=2", "train.delay_soft=0.5")
    count = len(seen)
    for step, (widths, rates) in enumerate(seen):
        wanted = 2.0 * (0.3 / 2.0) ** (step / (0.5 * count)) if step < 0.5 * count else 0.3
        assert widths == pytest.approx([wanted] * 3, rel=1e-6)
        assert rates == pytest.approx([rates[0], rates[0] / 5, rates[0] * 50], rel=1e-9)


def test_evaluations_see_samples_as_they_are(tmp_path, monkeypatch):
    evaluating, seen = [], []
    jittered, evaluate = Frames.jittered_batch, Trainer.evaluate

    def watching(self, *arguments):
        seen.append(bool(evaluating))
        return jittered(self, *arguments)

    def listening(self, samples):
        evaluating.append(True)
        result = evaluate(self, samples)
        evaluating.clear()
        return result

    monkeypatch.setattr(Frames, "jittered_batch", watching)
    monkeypatch.setattr(Trainer, "evaluate", listening)
    train(tmp_path, "run", "train.epochs=1")
    assert seen
    assert not any(seen)


def test_the_saved_network_is_the_one_that_was_judged(tmp_path):
    summary = train(tmp_path, "run")
    judged = evaluate_run(tmp_path / "run", "valid", RunOptions())
    row = runs.rows(tmp_path / "run")[summary["best_epoch"] - 1]
    assert (judged.result.loss, judged.result.accuracy) == (row["valid_loss"], row["valid_accuracy"])
    net = load_run(tmp_path / "run")
    before = [value.clone() for name, value in net.state_dict().items() if "running" in name]
    assert len(before) == 6
    recalibrate(net, runs.training_samples(tmp_path / "run"), 20, seed=0)
    after = [value for name, value in net.state_dict().items() if "running" in name]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    delays = [layer.delay.delays for layer in net.layers]
    assert all(((d >= 0) & (d <= 4)).all() for d in delays)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["accuracy"] is not None


def test_other_epochs_are_another_experiment_where_delays_are_sharpened(tmp_path):
    constant = ("train.schedule=constant", "train.warmup=0")
    one, two = (experiment(tmp_path, *constant, f"train.epochs={epochs}") for epochs in (2, 3))
    assert differences(one, two) == ["train.epochs was 2, is 3 (net.delays ends with it)"]
    plain = [with_values(spec, ["net.delays=0", "train.rates.delays=none"]) for spec in (one, two)]
    assert differences(*plain) == []


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["net.delays=0"], "train.rates.delays: the network has no delays"),
        (["net.dense_norm=false", "train.rates.norms=none"], "train.recalibrate measures batch norm's statistics"),
        (["train.contrast=0.1"], "train.contrast belongs to images"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path, settings, says):
    with pytest.raises(ValueError, match=says):
        train(tmp_path, "run", *settings)
    assert not (tmp_path / "run").exists()
