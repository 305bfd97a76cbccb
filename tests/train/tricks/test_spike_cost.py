"""A cost of hidden spikes: its gradient is that of the mean number of hidden spikes, and it makes networks quieter."""

from functools import partial

import pytest
import torch

from bitspike import build
from bitspike.data.samples import Images, frames_from_dense
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.runs import train_run
from bitspike.experiments.schema import read_experiment, with_values
from bitspike.nn.sharding import Shard, set_shard
from bitspike.train.config import TrainConfig
from bitspike.train.tricks.spike_cost import SpikeCost
from bitspike.train.tricks.trick import Setup
from helpers import runs

FRAMES = frames_from_dense(torch.randint(0, 3, (6, 7, 9), generator=torch.Generator().manual_seed(0)), torch.arange(6))
IMAGES = Images(torch.rand(6, 1, 5, 5, generator=torch.Generator().manual_seed(0)), torch.arange(6))
NETWORKS = {
    "events": (FRAMES, partial(build, "9-8-7-3", theta=0.5)),
    "glances": (IMAGES, partial(build, "2Conv3-18Dense3", (1, 5, 5), theta=0.2, steps=10, glances=5)),
}


def gradients(net, loss):
    return torch.autograd.grad(loss, list(net.parameters()), allow_unused=True)


@pytest.mark.parametrize("kind", NETWORKS)
def test_its_gradient_is_that_of_the_mean_number_of_hidden_spikes(kind):
    samples, make = NETWORKS[kind]
    net = make(generator=torch.Generator().manual_seed(1)).double()
    x = samples.batch(torch.arange(6))[0].double()
    *hidden, output = net.run(x)
    spikes = sum(layer.spikes.sum() for layer in hidden) / 6
    assert spikes > 1
    wanted = gradients(net, output.spikes.square().sum() + 0.125 * spikes)
    trick = SpikeCost(Setup(net, samples, TrainConfig(lr=1.0, spike_cost=0.125), 0, 1))
    trick.batch(samples.batch, torch.arange(6), first_row=0, key=torch.tensor(0))
    found = gradients(net, net(x).spikes.square().sum())
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    trick.on_gradients(torch.zeros(1))
    plain = gradients(net, net(x).spikes.square().sum())
    assert any(not torch.allclose(a, b) for a, b in zip(plain, wanted, strict=True))
    assert net.spike_cost == 0.0
    assert not any(layer._forward_hooks for layer in net.layers)


def test_a_process_pays_for_its_share_of_the_whole_batch():
    net = build("9-8-3", theta=0.5).double()
    trick = SpikeCost(Setup(net, FRAMES, TrainConfig(lr=1.0, spike_cost=1.0), 0, 1, processes=2))
    x = FRAMES.batch(torch.arange(2))[0].double()
    *hidden, output = net.run(x)
    wanted = gradients(net, output.spikes.sum() + hidden[0].spikes.sum() / 6)
    trick.batch(FRAMES.batch, torch.arange(2), first_row=0, key=torch.tensor(0))
    set_shard(net, Shard(0, 2, 6, lambda tensor: tensor))
    for ours, theirs in zip(gradients(net, net(x).spikes.sum()), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_networks_with_it_are_fused():
    pytest.importorskip("triton")
    from helpers.kernels import DEVICE

    net = build("9-8-3", theta=0.5).to(DEVICE)
    trick = SpikeCost(Setup(net, FRAMES, TrainConfig(lr=1.0, spike_cost=0.125), 0, 1))
    x, _ = trick.batch(FRAMES.batch, torch.arange(6), first_row=0, key=torch.tensor(0))
    assert net.spike_cost == 0.125
    assert net.unfused(x.to(DEVICE, torch.uint8)) is None


def test_a_network_without_hidden_layers_is_refused():
    config = TrainConfig(lr=1.0, spike_cost=0.125)
    assert SpikeCost.refusal(config, build("9-8-3"), FRAMES, "events") is None
    refusal = SpikeCost.refusal(config, build("9Dense3"), FRAMES, "events")
    assert refusal == "train.spike_cost is for hidden spikes, but the network has no hidden layer; leave it out"


def test_a_network_that_pays_fires_less(tmp_path):
    spec = read_experiment(runs.write_event_experiment(tmp_path))
    spikes = []
    for cost in (0.0, 0.05):
        settings = ["train.tensorboard=false", "train.epochs=6", "train.rates.norms=0.03", f"train.spike_cost={cost}"]
        train_run(with_values(spec, settings), tmp_path / f"{cost}", RunOptions())
        spikes.append(sum(runs.rows(tmp_path / f"{cost}")[-1]["spikes"]))
    assert spikes[1] < 0.7 * spikes[0]
