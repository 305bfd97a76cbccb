"""Whole runs with what the best presets train with: stopped, replayed, side by side or in processes, one result."""

import json

import pytest
import torch
from safetensors.torch import load_file

from bitspike.data import Dataset, Images
from bitspike.experiments.assembly import RunOptions, build_network
from bitspike.experiments.comparison import differences, identity
from bitspike.experiments.presets import preset
from bitspike.experiments.runs import train_run, train_trials
from bitspike.experiments.saved import evaluate_run
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.train import together
from bitspike.train.loop import Trainer
from bitspike.train.tricks.clips import latent_weights
from helpers import runs
from helpers.graphs import (
    JointStandIn,
    record_iterations,
    require_equal_but_for_the_graph,
    require_equal_trials,
    trial_summary,
)

LOSS = ("train.loss=cross_entropy", "train.logit_scale=8", "train.label_smoothing=0.1")
DECAY = ("train.schedule=decay", "train.warmup=0.2")
ALL = (
    *(*LOSS, *DECAY, "train.latent_clip=0.03", "train.recalibrate=20", "train.epochs=2"),
    "train.harden=0.6",  # ends within the second epoch
    "train.contrast=0.3",
)


def experiment(folder, *settings):
    spec = read_experiment(runs.write_experiment(folder))
    return with_values(spec, ["train.tensorboard=false", *ALL, *settings])


def train(folder, name, *settings, **setting):
    return train_run(experiment(folder, *settings), folder / name, RunOptions(**setting))


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    record_iterations(monkeypatch)
    monkeypatch.setattr(together, "CudaGraph", JointStandIn)
    monkeypatch.setattr(JointStandIn, "recordings", [])


ADAMW = ("train.optimizer=adamw", "train.weight_decay=0.3", "net.learn_beta=true")


@pytest.mark.parametrize("settings", [(), ADAMW], ids=["as it is", "adamw"])
@pytest.mark.parametrize("after", [3, 6])
def test_a_run_stopped_and_resumed_is_the_run_never_stopped(tmp_path, after, settings):
    train(tmp_path, "whole", *settings)
    assert train(tmp_path, "parts", *settings, listener=runs.interrupting(after)) is None
    assert train(tmp_path, "parts", *settings, resume=True) is not None
    runs.require_equal(tmp_path / "parts", tmp_path / "whole")


def test_a_weight_decay_is_another_run(tmp_path):
    adam = train(tmp_path, "adam")
    none, some = (train(tmp_path, f"{w}", *ADAMW[:1], f"train.weight_decay={w}") for w in (0, 0.5))
    assert none["accuracy"] == adam["accuracy"]  # without a decay it is Adam
    weights = [runs.checkpoint(tmp_path / name)["net"]["layers.0.synapse.weight"] for name in ("adam", "0", "0.5")]
    assert torch.equal(weights[0], weights[1])
    assert weights[2].norm() < weights[0].norm()
    assert some["epochs"] == adam["epochs"]


def test_a_run_with_replays_stopped_and_resumed_is_the_run_without(tmp_path, as_on_a_gpu):
    train(tmp_path, "plain", graph="off")
    assert train(tmp_path, "replayed", listener=runs.interrupting(7)) is None
    assert train(tmp_path, "replayed", resume=True)["graph"] is True
    require_equal_but_for_the_graph(tmp_path / "replayed", tmp_path / "plain")


def test_trials_together_are_trials_alone(tmp_path, as_on_a_gpu):
    spec = experiment(tmp_path)
    train_trials(spec, tmp_path / "alone", 2, RunOptions(graph="off"))
    train_trials(spec, tmp_path / "together", 2, RunOptions(), together=True)
    assert trial_summary(tmp_path / "together", 0)["graph"] is True
    require_equal_trials(tmp_path / "together", tmp_path / "alone", trials=2)


def test_two_processes_are_one(tmp_path):
    runs.write_experiment(tmp_path)
    sets = [part for setting in (*ALL, "train.precision=float64") for part in ("--set", setting)]
    for name, size in (("one", 1), ("two", 2)):
        argv = runs.arguments(tmp_path / "tiny.toml", tmp_path / name, *sets)
        ended = runs.wait_all(runs.start_ranks(size, argv, tmp_path))
        assert [each.code for each in ended] == [0] * size, [each.err for each in ended]
    one, two = (runs.flat(runs.checkpoint(tmp_path / name)) for name in ("one", "two"))
    for path, value in one.items():
        if isinstance(value, torch.Tensor) and "/net/" in path:
            torch.testing.assert_close(two[path], value, rtol=1e-9, atol=1e-9)
    for a, b in zip(runs.rows(tmp_path / "one"), runs.rows(tmp_path / "two"), strict=True):
        assert b["valid_loss"] == pytest.approx(a["valid_loss"], rel=1e-9)


def test_what_was_judged_is_what_is_saved(tmp_path):
    """The weights with the statistics that were computed for them; both files hold them clipped."""
    summary = train(tmp_path, "run")
    judged = evaluate_run(tmp_path / "run", "valid", RunOptions()).result
    row = runs.rows(tmp_path / "run")[summary["best_epoch"] - 1]
    assert (judged.loss, judged.accuracy) == (row["valid_loss"], row["valid_accuracy"])
    best, last = load_file(tmp_path / "run" / "best.safetensors"), runs.checkpoint(tmp_path / "run")
    weight = "layers.2.synapse.weight"
    for held in (best, last["net"]):
        assert 0.01 < held[weight].abs().max() <= 0.03 + 1e-8


def test_latent_weights_stay_within_their_clip_after_every_iteration(tmp_path, monkeypatch):
    tops, others, noted = [], [], Trainer.note_iteration

    def watching(self, observed):
        latent = latent_weights(self.net)
        tops.append(max(weight.detach().abs().max().item() for weight in latent))
        others.append(
            max(p.detach().abs().max().item() for p in self.net.parameters() if all(p is not w for w in latent))
        )
        noted(self, observed)

    monkeypatch.setattr(Trainer, "note_iteration", watching)
    train(tmp_path, "run", "train.latent_clip=0.01", "train.epochs=1", "train.harden=0")
    assert max(tops) == pytest.approx(0.01)
    assert min(others) > 0.5  # batch norm's


def test_contrast_is_for_training_alone(tmp_path):
    train(tmp_path, "with")
    train(tmp_path, "without", "train.contrast=0")
    one, two = (runs.rows(tmp_path / name) for name in ("with", "without"))
    assert [row["train_loss"] for row in one] != [row["train_loss"] for row in two]
    judged = evaluate_run(tmp_path / "with", "valid", RunOptions()).result
    assert judged.loss in [row["valid_loss"] for row in one]


def test_a_decay_ends_at_nothing(tmp_path):
    train(tmp_path, "run", "train.epochs=4")
    rates = [row["lr"] for row in runs.rows(tmp_path / "run")]
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] < 0.02 * 0.01  # of lr: the last of 24 iterations


def test_a_decay_is_not_resumed_with_other_epochs(tmp_path):
    assert train(tmp_path, "run", listener=runs.interrupting(3)) is None
    says = r"train.epochs was 2, is 3 \(train.schedule = 'decay' ends with it\); choose another --out"
    with pytest.raises(ValueError, match=says):
        train(tmp_path, "run", "train.epochs=3", resume=True)
    # as if experiment.toml had been written by hand
    path = tmp_path / "run" / "experiment.toml"
    path.write_text(path.read_text().replace("epochs = 2", "epochs = 3"))
    with pytest.raises(ValueError, match="belongs to another experiment"):
        train(tmp_path, "run", "train.epochs=3", resume=True)
    path.write_text(path.read_text().replace("epochs = 3", "epochs = 2"))
    assert train(tmp_path, "run", "train.patience=9", resume=True)["epochs"] == 2  # how long to wait is free still


def two_of_a_class():
    """The smallest data set of which a sample can be held out."""
    images = Images(torch.zeros(2, 1, 28, 28), torch.zeros(2, dtype=torch.int64))
    return Dataset("tiny", "Tiny", classes=1, train=images, test=images, edition="test")


def test_epochs_are_free_unless_they_decide(tmp_path):
    spec, data = preset("mnist/annealed"), two_of_a_class()
    for settings, free in (([], True), (["train.schedule=constant"], True), (["train.schedule=decay"], False)):
        one, two = (with_values(spec, [*settings, f"train.epochs={epochs}"]) for epochs in (30, 40))
        assert (identity(one, data) == identity(two, data)) is free
        assert (differences(one, two) == []) is free


def test_fields_at_their_defaults_leave_the_digest_alone():
    spec, data = preset("mnist/annealed"), two_of_a_class()
    said = ["train.recalibrate=0", "train.warmup=0", "train.logit_scale=10", "net.surrogate=fast_sigmoid"]
    assert identity(spec, data) == identity(with_values(spec, said), data)
    assert identity(spec, data) != identity(with_values(spec, ["train.recalibrate=1"]), data)


def test_the_loss_and_the_surrogate_are_those_of_the_experiment(tmp_path):
    trained = {}
    for name, more in (
        ("count", ["train.loss=count", "train.logit_scale=10", "train.label_smoothing=0"]),
        ("entropy", []),
        ("arctan", ["net.surrogate=arctan"]),
    ):
        train(tmp_path, name, "train.epochs=1", *more)
        trained[name] = runs.rows(tmp_path / name)[0]["train_loss"]
    assert len(set(trained.values())) == 3
    net = build_network(experiment(tmp_path, "net.surrogate=arctan"), (1, 8, 8))
    assert {layer.lif.surrogate for layer in net.layers} == {"arctan"}
    with pytest.raises(ValueError, match=r"train\.loss must be 'count' or 'cross_entropy' on own\.npz, but is 'trace'"):
        train(tmp_path, "trace", "train.loss=trace")
    assert json.loads((tmp_path / "count" / "summary.json").read_text())["ended"] == "epochs"
