"""Runs that come to nothing: silent layers, numbers that are not finite, one class only."""

import json
from itertools import count

import numpy as np
import pytest
import torch

from bitspike.experiments import runs
from helpers.files import write_npz
from helpers.own_images import NO_BOARD, TEST, TRAIN, VALID, metrics, settings, summary_of


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
        "look at the labels"
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


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (0, "in the first iteration; train.lr and train.grad_clip cannot help before the first update: try a larger"),
        (1, "since iteration 1 (lr 0.02 there); try a smaller"),
    ],
)
def test_a_gradient_that_is_not_finite_stops_the_run_and_is_named(after, says, here, cli, monkeypatch):
    poisoned(monkeypatch, after)
    _, out, err = cli("train", "mine.toml", *NO_BOARD)
    summary = summary_of("runs/mine")
    assert (summary["ended"], summary["epochs"]) == ("nan", 1)
    named = f"the gradient of layers.1.synapse.bias is not finite {says}"
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


def test_a_network_that_diverged_is_not_the_last(here, cli, monkeypatch):
    poisoned(monkeypatch, after=7)  # of 5 iterations an epoch
    cli("train", "mine.toml", "--epochs", 4, *settings("train.choose=last"), *NO_BOARD)
    summary = summary_of("runs/mine")
    assert (summary["ended"], summary["epochs"], summary["best_epoch"]) == ("nan", 2, 1)
