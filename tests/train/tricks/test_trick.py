"""A trick is one class: a toy that uses every hook trains, is replayed and resumed, and needs no change elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from typing import get_args

import pytest
import torch
from safetensors.torch import load_file

from bitspike.data import Images
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import differences
from bitspike.experiments.presets import preset
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.train import tricks
from bitspike.train.config import TrainConfig
from bitspike.train.learning_rates import RATES
from bitspike.train.tasks import LOSSES
from bitspike.train.tricks.trick import Trick
from helpers import runs
from helpers.graphs import record_iterations, require_equal_but_for_the_graph

judged = []  # the first weights of every network that a toy saw before an evaluation


class Toy(Trick):
    """Evaluations use averaged weights; images fade in; the last layer's gradients are halved."""

    name = "toy"
    lasts_all_epochs = True

    def __init__(self, setup):
        super().__init__(setup)
        self.weights = list(setup.net.parameters())
        self.sums = [torch.zeros_like(weight) for weight in self.weights]
        self.light = torch.zeros((), dtype=torch.float32)

    @classmethod
    def asked_by(cls, config):
        return "a toy"

    @classmethod
    def refusal(cls, config, net, samples, title):
        return None if isinstance(samples, Images) else f"a toy is for images, but {title} holds none"

    def tensors(self):
        return [self.light]

    def values(self, step):
        return [min(1.0, (step + 1) / self.setup.iterations)]

    def batch(self, fetch, rows, *, first_row, key):
        x, labels = fetch(rows)
        return x * self.light, labels

    def on_gradients(self, norms):
        self.weights[-1].grad.mul_(0.5)

    def after_update(self):
        with torch.no_grad():
            torch._foreach_add_(self.sums, self.weights)

    @contextmanager
    def as_judged(self, step):
        with torch.no_grad():
            kept = [weight.clone() for weight in self.weights]
            torch._foreach_copy_(self.weights, [total / max(step, 1) for total in self.sums])
        yield
        with torch.no_grad():
            torch._foreach_copy_(self.weights, kept)

    def before_evaluation(self):
        judged.append(self.weights[0].detach().clone())

    def state(self):
        return {f"sum{i}": total for i, total in enumerate(self.sums)}


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(tricks, "TRICKS", (*tricks.TRICKS, Toy))


def experiment(folder, *settings):
    spec = read_experiment(runs.write_experiment(folder))
    return with_values(spec, ["train.tensorboard=false", "train.epochs=2", "train.contrast=0.2", *settings])


def train(folder, name, *settings, **setting):
    return train_run(experiment(folder, *settings), folder / name, RunOptions(**setting))


def test_every_hook_counts(tmp_path, monkeypatch):
    train(tmp_path, "plain", "train.choose=last")
    plain = runs.checkpoint(tmp_path / "plain")
    assert "tricks" not in plain  # as checkpoints always were
    monkeypatch.setattr(tricks, "TRICKS", (*tricks.TRICKS, Toy))
    train(tmp_path, "toy", "train.choose=last")
    state = runs.checkpoint(tmp_path / "toy")
    assert set(state) == {*plain, "tricks"}
    assert runs.rows(tmp_path / "toy")[0]["train_loss"] != runs.rows(tmp_path / "plain")[0]["train_loss"]
    steps, sums = state["progress"]["step"], state["tricks"]["toy"]
    names = [name for name in state["net"] if name.endswith("synapse.weight")]
    best = load_file(tmp_path / "toy" / "best.safetensors")  # as it was judged: averaged
    torch.testing.assert_close(best[names[0]], sums["sum0"] / steps)
    assert torch.equal(judged[-1], best[names[0]])
    assert not torch.equal(best[names[0]], state["net"][names[0]])


@pytest.mark.parametrize("after", [3, 8])
def test_a_run_with_it_stopped_and_resumed_is_the_run_never_stopped(tmp_path, toy, after):
    train(tmp_path, "whole")
    assert train(tmp_path, "parts", listener=runs.interrupting(after)) is None
    assert train(tmp_path, "parts", resume=True) is not None
    runs.require_equal(tmp_path / "parts", tmp_path / "whole")


def test_it_is_replayed_from_a_graph(tmp_path, toy, monkeypatch):
    record_iterations(monkeypatch)
    train(tmp_path, "plain", graph="off")
    assert train(tmp_path, "replayed")["graph"] is True
    require_equal_but_for_the_graph(tmp_path / "replayed", tmp_path / "plain")


def test_epochs_count_where_it_lasts_for_all_of_them(tmp_path, toy):
    one, two = (experiment(tmp_path, f"train.epochs={epochs}") for epochs in (2, 3))
    assert differences(one, two) == ["train.epochs was 2, is 3 (a toy ends with it)"]


def test_it_says_what_it_does_not_fit(tmp_path, toy):
    spec = preset("coding/annealed")
    with pytest.raises(ValueError, match="a toy is for images, but Temporal coding holds none"):
        train_run(spec, tmp_path / "run", RunOptions())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["missing", "none of its tensors", "another shape", "not a table"])
def test_a_checkpoint_whose_state_does_not_fit_is_one_line(tmp_path, toy, kind):
    assert train(tmp_path, "run", listener=runs.interrupting(2)) is None
    state = runs.checkpoint(tmp_path / "run")
    sums = state["tricks"]["toy"]
    if kind == "missing":
        del state["tricks"]
    else:
        wrong = {"none of its tensors": {}, "another shape": sums | {"sum0": torch.zeros(1)}, "not a table": 3}
        state["tricks"] = {"toy": wrong[kind]}
    torch.save(state, tmp_path / "run" / "last.ckpt")
    with pytest.raises(ValueError, match=r"last\.ckpt does not fit this experiment: .") as error:
        train(tmp_path, "run", resume=True)
    assert "\n" not in str(error.value)


# ---- The tables


def test_every_trick_has_a_name_and_fields_of_its_own():
    names = [trick.name for trick in tricks.TRICKS]
    fields = [field for trick in tricks.TRICKS for field in trick.fields]
    assert len(set(names)) == len(names)
    assert len(set(fields)) == len(fields)
    assert set(fields) <= set(TrainConfig.model_fields)
    assert tricks.tricks_for(TrainConfig(lr=1.0)) == []


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["net.binary=false", "train.latent_clip=1"], "train.latent_clip bounds latent weights"),
        (["net.norm=none", "train.recalibrate=9"], "train.recalibrate measures .*net.norm is 'none'"),
    ],
)
def test_tricks_that_do_not_fit_the_network_are_refused(tmp_path, settings, says):
    with pytest.raises(ValueError, match=says):
        train(tmp_path, "run", *settings)
    assert not (tmp_path / "run").exists()


def test_recalibrating_a_network_without_a_convolution_is_refused(tmp_path):
    settings = ["net.notation=64Dense3", "net.theta=1", "net.dropout=0", "net.norm=step", "train.recalibrate=9"]
    with pytest.raises(ValueError, match="or no layer is a convolution"):
        train(tmp_path, "run", *settings)


def test_the_tables_hold_what_the_settings_name():
    fields = TrainConfig.model_fields
    assert set(get_args(fields["loss"].annotation)) == set(LOSSES)
    assert set(get_args(fields["schedule"].annotation)) == set(RATES)
