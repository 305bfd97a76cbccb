"""Trials trained as one chain of kernels are trials alone: weights, optimizers, thresholds and sums, bit for bit."""

import json

import pytest
import torch

from bitspike import Relax, build
from bitspike.bench.cases import CASES
from bitspike.bench.ours import samples_of
from bitspike.bench.problem import prepare
from bitspike.bench.seeds import _trainer
from bitspike.data import frames as frames_module
from bitspike.data.samples import Images, frames_from_dense
from bitspike.nn.network import SpikingNetwork
from bitspike.ops.lif import op as lif_op
from bitspike.ops.lif import triton as lif_triton
from bitspike.train import health, iteration, losses, trial_batch
from bitspike.train.config import TrainConfig
from bitspike.train.loop import Trainer
from bitspike.train.run_folder import RunFolder
from bitspike.train.tasks import CountTask, CrossEntropyTask
from bitspike.train.together import Joint, Lane, run_together
from bitspike.train.trial_batch import unlike

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
SHAPE, STEPS, CLASSES, SAMPLES = (12,), 4, 3, 6
NETWORK = "12Dense8-8Dense3"
# What trials of a search differ in.
TRIALS = [
    ({"beta": 0.5, "slope": 0.3, "dropout": 0.0}, {"lr": 1e-2, "grad_clip": 0.5}),
    ({"beta": 0.8, "slope": 2.0, "dropout": 0.4}, {"lr": 3e-3, "weight_clip": 0.1}),
    (
        {"beta": 0.9, "slope": 5.0, "dropout": 0.7},
        {"lr": 5e-2, "optimizer": "sgd", "momentum": 0.9, "latent_clip": 0.1},
    ),
]


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """Without a GPU, let the interpreter do what kernels do there."""
    if GPU:
        return
    for module in (frames_module, health, iteration, losses, trial_batch):
        monkeypatch.setattr(module, "fused_on_gpu", lambda device: True)
    monkeypatch.setattr(iteration, "planned_on", lambda device: True)
    monkeypatch.setattr(frames_module.Frames, "_copied", frames_module.Frames._gathered)
    monkeypatch.setattr(SpikingNetwork, "_fused", lambda net, x: x.dtype == torch.uint8 and net.training)
    monkeypatch.setattr(lif_op, "_backend", lambda name, scan: lif_triton.run)


@pytest.fixture
def samples():
    drawn = torch.Generator().manual_seed(1)
    values = (torch.rand(SAMPLES, STEPS, *SHAPE, generator=drawn) * 2.2).floor().to(torch.uint8)
    return frames_from_dense(values, torch.arange(SAMPLES) % CLASSES).to(DEVICE)


def trainer(samples, folder, seed, net=None, train=None, *, task=CountTask(), notation=NETWORK, **more):  # noqa: B008
    settings = {
        "epochs": 2 if GPU else 1,
        "batch": 4,
        "lr": 1e-2,
        "tensorboard": False,
        "watch_every": 3,
        "half_period": 9,
        **(train or {}),
    }
    network = build(
        notation, SHAPE, generator=torch.Generator().manual_seed(seed), **({"theta": 1.0, "norm": None} | (net or {}))
    )
    schedules = [Relax(0.8, 2.0 + seed, 0.1)] * len(network.layers)
    config = TrainConfig(**settings)
    return Trainer(network, schedules, task, samples, samples, config, RunFolder(folder), seed=seed, **more)


def trainers(samples, folder):
    made = []
    for seed, (net, train) in enumerate(TRIALS):
        (folder / str(seed)).mkdir(parents=True)
        made.append(trainer(samples, folder / str(seed), seed, net, train))
    return made


def state(trainer):
    moments = [value for held in trainer.optimizer.state.values() for value in held.values()]
    kept = [value for value in moments if isinstance(value, torch.Tensor)]
    return [*trainer.net.state_dict().values(), *kept, trainer.bad.first]


def rows(trainer):
    lines = [json.loads(line) for line in trainer.folder.metrics.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "timing"} for line in lines]


def require_equal(together, alone):
    for one, other in zip(together, alone, strict=True):
        assert rows(one) == rows(other)
        assert all(torch.equal(a, b) for a, b in zip(state(one), state(other), strict=True))


def test_trials_in_one_chain_are_trials_alone(samples, tmp_path, monkeypatch):
    bodies = []
    whole = trial_batch.TrialBatch.body

    def noted(batch, size, side_by_side):
        bodies.append(size)
        return whole(batch, size, side_by_side)

    monkeypatch.setattr(trial_batch.TrialBatch, "body", noted)
    alone, together = trainers(samples, tmp_path / "alone"), trainers(samples, tmp_path / "together")
    for each in alone:
        each.run()
    assert run_together(together) == ["epochs"] * 3
    assert set(bodies) == {4, 2}  # the last batch of an epoch is smaller
    require_equal(together, alone)
    assert all(row["spikes"][0] > 0 for each in alone for row in rows(each))


def test_a_gradient_that_is_not_finite_stays_in_its_trial(samples, tmp_path):
    alone, together = trainers(samples, tmp_path / "alone"), trainers(samples, tmp_path / "together")
    for group in (alone, together):
        with torch.no_grad():
            group[1].net.layers[-1].synapse.bias.fill_(float("nan"))
    endings = [each.run() for each in alone]
    assert endings[1] == "nan"
    assert run_together(together) == endings
    for i in (0, 2):
        require_equal(together[i : i + 1], alone[i : i + 1])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"train": {"batch": 5}}, "the trials differ in their batch, their loss or what changes with the iteration"),
        (
            {"task": CountTask(1.0, 0.2)},
            "the trials differ in their batch, their loss or what changes with the iteration",
        ),
        ({"task": CrossEntropyTask()}, "a trial has another loss than that of counts"),
        ({"train": {"shift": 1}}, "a trick of training has no trial dimension"),
        ({"net": {"dense_norm": True}}, "layer 1 has a batch norm or delays"),
        ({"notation": "12Dense9-9Dense3"}, "the networks differ in their layers"),
    ],
)
def test_trials_that_differ_in_more_than_numbers_have_a_stream_each(samples, tmp_path, changes, reason):
    group = [trainer(samples, tmp_path / "0", 0), trainer(samples, tmp_path / "1", 1, **changes)]
    for each in group:
        each.begin_epoch()
    found = unlike(group)
    assert found is None if reason is None else found is not None and found.startswith(reason)
    assert unlike(group[:1]) == "there is one trial"


def test_images_and_large_networks_have_a_stream_each(samples, tmp_path, monkeypatch):
    images = Images(torch.zeros(8, 1, 3, 4, dtype=torch.uint8, device=DEVICE), torch.arange(8, device=DEVICE) % 3)
    group = [trainer(images, tmp_path / str(seed), seed) for seed in range(2)]
    assert unlike(group) == "the trials do not share samples of event counts"
    group = [trainer(samples, tmp_path / str(seed), seed) for seed in range(2)]
    for each in group:
        each.begin_epoch()
    monkeypatch.setattr(trial_batch, "MOST_NEURON_STEPS", 100)
    assert unlike(group) == "a batch has 176 neuron-steps, which fill the GPU"


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["dvs128", "shd"])
def test_whole_networks_in_one_graph_are_networks_alone(name, monkeypatch):
    monkeypatch.setattr(trial_batch, "MOST_NEURON_STEPS", 2**40)
    problem = prepare(CASES[name], DEVICE)
    samples = samples_of(problem)

    alone, together = ([_trainer(problem, samples, seed) for seed in range(3)] for _ in range(2))
    for each in (*alone, *together):
        each.begin_epoch()
    joint = Joint(Lane.for_trainer(each) for each in together)
    assert joint.apart is None
    for _ in range(12):
        joint.step()
    for each in alone:
        each.step(12)
    assert together[0].graph is True
    for one, other in zip(together, alone, strict=True):
        assert torch.equal(one.sums, other.sums)
        assert all(torch.equal(a, b) for a, b in zip(state(one), state(other), strict=True))
