"""The first layer on its way from real weights to one bit."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import BinaryConv2d, BinaryLinear, binarize, build
from bitspike.data import Images
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import differences
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.nn.fast import definition
from bitspike.ops import soften
from bitspike.train.config import TrainConfig
from bitspike.train.loop import Listener, Trainer
from bitspike.train.tricks.harden import RISE, SPREAD, STRIDES, Harden
from bitspike.train.tricks.trick import Setup
from helpers import runs

INFINITE = torch.tensor(math.inf, dtype=torch.float64)


def weights(seed=0, *shape):
    return torch.randn(shape or (3, 4), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---- The function


@given(st.integers(0, 99), st.floats(0.1, 50))
def test_soft_weights_are_a_scaled_tanh(seed, hardness):
    w = weights(seed)
    soft = soften(w, torch.tensor(hardness, dtype=torch.float64))
    expected = (hardness * w).tanh()
    torch.testing.assert_close(soft, expected / (expected**2).mean() ** 0.5)
    assert soft.square().mean().item() == pytest.approx(1)
    assert torch.equal(soft.sign(), w.sign())


@pytest.mark.parametrize("hardness", [0.3, 2.0, 20.0])
def test_the_gradient_is_the_true_one(hardness):
    w = weights(1).requires_grad_()
    assert torch.autograd.gradcheck(lambda w: soften(w, torch.tensor(hardness, dtype=torch.float64)), w)


def test_at_infinity_weights_are_signs_and_learn_nothing():
    w = torch.tensor([-2.0, -1e-30, 0.0, 1e-30, 3.0], dtype=torch.float64, requires_grad=True)
    hard = soften(w, INFINITE)
    assert torch.equal(hard, binarize(w))
    hard.backward(torch.ones(5, dtype=torch.float64))
    assert torch.equal(w.grad, torch.zeros(5, dtype=torch.float64))


def test_very_soft_weights_keep_their_proportions_and_hard_ones_come_to_signs():
    w = weights(2)
    soft, hard = (soften(w, torch.tensor(h, dtype=torch.float64)) for h in (1e-6, 1e4))
    torch.testing.assert_close(soft, w / w.square().mean().sqrt())
    torch.testing.assert_close(hard, binarize(w))


def test_a_weight_that_diverged_is_told():
    w = torch.tensor([1.0, torch.nan], dtype=torch.float64)
    assert soften(w, INFINITE).isnan().any()
    assert soften(w, torch.tensor(1.0, dtype=torch.float64)).isnan().any()


# ---- Synapses


@pytest.mark.parametrize("synapse", [BinaryLinear(5, 3), BinaryConv2d(2, 3, 3)])
def test_weights_are_soft_while_gradients_are_recorded_and_signs_else(synapse):
    x = torch.rand(4, 5) if isinstance(synapse, BinaryLinear) else torch.rand(4, 2, 5, 5)
    hard = synapse(x)
    synapse.hardness = torch.tensor(2.0)
    soft = synapse(x)
    assert not torch.allclose(soft, hard)
    twin = type(synapse)(*((5, 3) if isinstance(synapse, BinaryLinear) else (2, 3, 3)), binary=False)
    twin.load_state_dict({**synapse.state_dict(), "weight": soften(synapse.weight, synapse.hardness)})
    torch.testing.assert_close(soft, twin(x))
    with torch.no_grad():
        assert torch.equal(synapse(x), hard)
    assert "hardness" not in synapse.state_dict()


def test_soft_layers_on_spikes_run_their_modules():
    nets = [build("2Conv3-3Conv3-AP2-12Dense4", (1, 8, 8), theta=0.5, backend=b) for b in ("auto", "reference")]
    nets[1].load_state_dict(nets[0].state_dict())
    x = torch.rand(6, 5, 1, 8, 8)
    for net in nets:
        for layer in net.layers[1:]:
            layer.synapse.hardness = torch.tensor(3.0)
        net(x).spikes.sum().backward()
    for (name, p), q in zip(nets[0].named_parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5, msg=name)


# ---- The schedule


def hardened(net):
    samples = Images(torch.zeros(1, 1, 6, 6), torch.zeros(1, dtype=torch.int64))
    return Harden(Setup(net, samples, TrainConfig(lr=0.01, harden=0.5), seed=0, iterations=40))


def test_hardness_rises_by_factors_and_ends():
    net = build("2Conv3-AP2-8Dense3", (1, 6, 6), theta=1.0)
    signs = [layer.synapse.signs() for layer in net.layers]
    second = net.layers[1].synapse.weight.detach().clone()
    harden = hardened(net)
    first = net.layers[0].synapse.weight
    size = first.square().mean().sqrt().item()
    assert size == pytest.approx(STRIDES * 0.01)
    assert all(torch.equal(layer.synapse.signs(), sign) for layer, sign in zip(net.layers, signs, strict=True))
    assert torch.equal(net.layers[1].synapse.weight, second)
    assert net.layers[1].synapse.hardness is None
    [start] = harden.values(0)
    assert start * size == pytest.approx(SPREAD)
    assert harden.values(10) == pytest.approx([start * RISE**0.5])
    assert harden.values(19) == pytest.approx([start * RISE**0.95])
    assert [harden.values(step) for step in (20, 21, 40)] == [[math.inf]] * 3


def test_a_first_layer_of_real_weights_is_refused():
    with pytest.raises(ValueError, match="first layer's weights must be binary"):
        hardened(build("2Conv3-AP2-8Dense3", (1, 6, 6), theta=1.0, binary=False))


# ---- Runs


def experiment(folder, *settings):
    spec = read_experiment(runs.write_experiment(folder))
    return with_values(spec, ["train.tensorboard=false", "train.epochs=2", "train.harden=0.6", *settings])


def test_every_iteration_has_its_hardness_and_evaluations_have_signs(tmp_path, monkeypatch):
    seen, judged, noted = [], [], Trainer.note_iteration
    current, evaluated = definition.evaluated_current, []

    def watching(self, observed):
        harden = next(trick for trick in self.work.tricks if isinstance(trick, Harden))
        seen.append((self.progress.step, harden.hardness.item(), harden))
        noted(self, observed)

    def evaluated_current(block, x, **options):
        found, hardness = current(block, x, **options), block.synapse.hardness
        if hardness is not None and isinstance(block.synapse, BinaryConv2d):
            judged.append(torch.is_grad_enabled())
            if not torch.is_grad_enabled():
                block.synapse.hardness = None
                evaluated.append(torch.equal(found, current(block, x, **options)))
                block.synapse.hardness = hardness
        return found

    monkeypatch.setattr(Trainer, "note_iteration", watching)
    monkeypatch.setattr(definition, "evaluated_current", evaluated_current)
    train_run(experiment(tmp_path), tmp_path / "run", RunOptions())
    assert len(seen) == 12
    for step, after, harden in seen:  # written for the next iteration
        assert after == pytest.approx(harden.values(step + 1)[0])
    assert [math.isinf(after) for _, after, _ in seen] == [False] * 7 + [True] * 5
    assert set(judged) == {True, False}
    assert evaluated
    assert all(evaluated)


def test_a_hard_layer_comes_to_rest_and_the_others_go_on(tmp_path, monkeypatch):
    grads, noted = [], Trainer.note_iteration

    def watching(self, observed):
        grads.append([layer.synapse.weight.grad.abs().max().item() for layer in self.net.layers])
        noted(self, observed)

    monkeypatch.setattr(Trainer, "note_iteration", watching)
    train_run(experiment(tmp_path), tmp_path / "run", RunOptions())
    assert all(first > 0 for first, *_ in grads[:8])
    assert all(first == 0 for first, *_ in grads[8:])
    assert all(max(rest) > 0 for _, *rest in grads)


def test_epochs_decide_the_hardness_and_are_not_free(tmp_path):
    spec = experiment(tmp_path, "train.schedule=constant")
    stop = Listener(interrupted=lambda: True)
    assert train_run(spec, tmp_path / "run", RunOptions(listener=stop)) is None
    longer = with_values(spec, ["train.epochs=3"])
    assert differences(spec, longer) == ["train.epochs was 2, is 3 (train.harden ends with it)"]
    with pytest.raises(ValueError, match=r"train\.epochs was 2, is 3 \(train\.harden ends with it\)"):
        train_run(longer, tmp_path / "run", RunOptions(resume=True))


@pytest.mark.parametrize("setting", ["train.harden=1.1", "train.harden=-0.1"])
def test_a_share_is_asked_for(tmp_path, setting):
    with pytest.raises(ValueError, match=r"train\.harden: must be (less|greater) than or equal to"):
        experiment(tmp_path, setting)


def test_a_network_without_binary_weights_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"train\.harden is for a first layer of binary weights on images"):
        train_run(experiment(tmp_path, "net.binary=false"), tmp_path / "run", RunOptions())
    assert not (tmp_path / "run").exists()
