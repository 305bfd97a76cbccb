"""The cost of hidden spikes in fused networks: gradients are those of the modules with the cost written out."""

import pytest
import torch

from bitspike.nn.sharding import Shard, set_shard

pytest.importorskip("triton")
from bitspike.ops.chain.triton_scan import Neurons, Scanned, scan_backward
from bitspike.ops.product.geometry import Grid
from helpers import chains
from helpers.chains import BEST
from helpers.kernels import CLOSE, DEVICE, off, rand

pytestmark = pytest.mark.usefixtures("poisoned")

COST = 0.125
DENSE = "9-34-20-5"
CONV = "4Conv3-AP2-8Conv3-AP2-32Dense10"
CONVOLVED = {"theta": [0.5, 0.7, 1.5], "slope": 0.3, "beta": 0.8}
CASES = {
    "delays, norms, membrane": (DENSE, (9,), "counts", BEST),
    "delays, norms, real sequence": (DENSE, (9,), "sequence", {**BEST, "spike_dropout": 0.0}),
    "learnt decays, biases, dropout": (
        DENSE,
        (9,),
        "counts",
        {"beta": 0.8, "learn_beta": True, "theta": [3.0, 2.0, 2.0], "slope": 0.3, "dropout": 0.2},
    ),
    "static, dropout on spikes": (DENSE, (9,), "image", {"spike_dropout": 0.5, "slope": 0.3, "steps": 9}),
    "convolution, image": (CONV, (1, 14, 14), "image", {**CONVOLVED, "norm": "step", "steps": 6, "dropout": 0.3}),
    "convolution, counts": (CONV, (2, 14, 14), "counts", {**CONVOLVED, "theta": [1.0, 2.0, 3.0], "norm": "step"}),
    "convolution, glances": (
        CONV,
        (1, 14, 14),
        "image",
        {**CONVOLVED, "theta": [0.5, 0.7, 1.0], "norm": "shared", "steps": 20, "glances": 5},
    ),
}


def network(case):
    notation, shape, _, settings = CASES[case]
    return chains.network(notation, shape, **settings)


def fused(case, monkeypatch):
    net = network(case)
    monkeypatch.setattr(net, "_fused", lambda x: net.unfused(x) is None)
    monkeypatch.setattr(net, "run", None)  # the modules' path
    return net


def plain(case):
    return chains.plainly(network(case))


def batch(case, size=3):
    _, shape, kind, _ = CASES[case]
    return chains.batch(kind, shape, size)


def loss(net, output):
    scores = net.output_scores(output)
    return (scores * (rand(*scores.shape, seed=6) - 0.5)).sum()


def gradients(net, total):
    """The gradients by name."""
    found = torch.autograd.grad(total, list(net.parameters()), allow_unused=True)
    return {name: g for (name, _), g in zip(net.named_parameters(), found, strict=True) if g is not None}


def differing(found, wanted):
    """How far gradients are apart, of those that are too far; those of delays and decays add up larger numbers."""
    assert found.keys() == wanted.keys()
    return {
        name: off(found[name], wanted[name])
        for name in wanted
        if off(found[name], wanted[name]) > (3 if "delays" in name or "beta" in name else 2) * CLOSE
    }


def written_out(case, x, cost=COST):
    """The gradients of the modules, with the cost as a part of the loss."""
    net = plain(case)
    *hidden, output = net.run(x)
    samples = output.spikes.shape[1]
    return gradients(net, loss(net, output) + cost * sum(layer.spikes.sum() for layer in hidden) / samples)


SLOW = ("delays, norms, real sequence", "convolution, glances")


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow if c in SLOW else ()) for c in CASES])
def test_gradients_are_those_of_the_mean_number_of_hidden_spikes(case, monkeypatch):
    net, x = fused(case, monkeypatch), batch(case)
    assert net.unfused(x) is None
    net.spike_cost = COST
    found = gradients(net, loss(net, net(x)))
    assert not differing(found, written_out(case, x))
    assert differing(found, written_out(case, x, 1.25 * COST))


@pytest.mark.parametrize(
    "case", [pytest.param("delays, norms, membrane", marks=pytest.mark.slow), "static, dropout on spikes"]
)
def test_a_backward_pass_that_computes_again_adds_the_same(case, monkeypatch):
    net, x = fused(case, monkeypatch), batch(case)
    net.spike_cost, net.recompute = COST, True
    assert not differing(gradients(net, loss(net, net(x))), written_out(case, x))


def test_observed_networks_pay_too(monkeypatch):
    case = "static, dropout on spikes"
    net, x = fused(case, monkeypatch), batch(case)
    net.spike_cost = COST
    assert not differing(gradients(net, loss(net, net.observe(x).output)), written_out(case, x))


def test_a_process_pays_for_its_share_of_the_whole_batch(monkeypatch):
    case = "static, dropout on spikes"
    net, x = fused(case, monkeypatch), batch(case, 1)
    net.spike_cost = COST
    for layer in net.layers:
        layer.spike_dropout = None  # processes that share it are not fused
    set_shard(net, Shard(0, 1, 2, lambda tensor: tensor))
    assert net.unfused(x) is None
    shared = gradients(net, loss(net, net(x)))
    set_shard(net, None)
    net.spike_cost = COST / 2
    whole = gradients(net, loss(net, net(x)))
    assert all(torch.equal(shared[name], whole[name]) for name in whole)


def test_padding_between_neurons_costs_nothing():
    """Neurons lie in words of 32; what is beyond the last has a surrogate like all others, but no spikes."""
    number = torch.ones((), device=DEVICE)
    neurons = Neurons(Grid(20, stride=32, dense=True), 0.5 * number, number, number, 1.0, "arctan")
    ones = torch.ones(5, 2, 32, device=DEVICE)
    scanned = Scanned(torch.zeros(10, 1, dtype=torch.int32, device=DEVICE), surrogate=ones)
    found = scan_backward(torch.zeros_like(ones), scanned, neurons, spike_cost=0.25).current
    assert not found[..., 20:].any()
    assert torch.equal(found[-1, :, :20], torch.full((2, 20), 0.25, device=DEVICE))
    assert torch.equal(found[-2, :, :20], torch.full((2, 20), 0.375, device=DEVICE))
