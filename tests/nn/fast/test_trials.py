"""Several networks as one chain of kernels give the spikes and gradients of each alone, bit for bit."""

import pytest
import torch

import bitspike
from bitspike.nn.dropout import set_dropout_key
from bitspike.nn.fast import triton as fused
from bitspike.nn.fast.trials import TrialNetworks, unlike_trials
from helpers.kernels import DEVICE, rand

CASES = {
    "convolutions": ("2Conv3-AP2-3Conv3-12Dense5", (2, 10, 10), {}),
    "dense": ("20Dense40Dense5", (20,), {}),
    "hidden-bias": ("2Conv3-AP2-32Dense7-7Dense5", (1, 10, 10), {"clip": 0.2, "surrogate": "arctan"}),
}
STEPS, BATCH, SHARES = 6, 3, (0.0, 0.3, 0.6)


def networks(notation, shape, **settings):
    """Networks that differ in all that trials may differ in, and the keys of their dropout."""
    nets, keys = [], []
    for i, share in enumerate(SHARES):
        numbers = {"beta": 0.5 + 0.1 * i, "slope": 0.3 + i, "theta": 0.4 + 0.1 * i, "dropout": share}
        net = bitspike.build(notation, shape, generator=torch.Generator().manual_seed(i), **(numbers | settings))
        net.to(DEVICE).train()
        with torch.no_grad():
            for name, p in net.named_parameters():
                if "bias" in name:
                    p.add_(rand(*p.shape, seed=i) * 0.3)
        keys.append(torch.tensor(987654321987 + i, device=DEVICE))
        set_dropout_key(net, keys[-1])
        nets.append(net)
    return nets, keys


def counts(shape):
    return (rand(len(SHARES), STEPS, BATCH, *shape, seed=7) * 2.4).floor().to(torch.uint8)


@pytest.mark.parametrize("case", CASES)
def test_trials_in_one_chain_are_networks_alone(case):
    notation, shape, settings = CASES[case]
    nets, keys = networks(notation, shape, **settings)
    x, grad = counts(shape), rand(len(SHARES), BATCH, 5, seed=8)
    assert unlike_trials(nets, x[0]) is None
    together = TrialNetworks(nets, keys)
    output = together.forward(x)
    found = together.backward(output, grad)
    assert 0.02 < output.spikes.mean().item() < 0.98
    assert all(own.abs().max() > 0 for own in found)
    for i, net in enumerate(nets):
        net.layers[-1].lif.backend = "triton"  # also in the interpreter, where C would take it
        alone, hidden = fused.run(list(net.layers), x[i], None, recompute=False)
        assert torch.equal(output.spikes[i], alone.spikes)
        seen = together.observed(output, i).counts()
        assert all(torch.equal(a, b) for a, b in zip(seen, hidden.counts(), strict=False))
        alone.spikes.backward(grad[i].expand(STEPS, -1, -1))
        for p, own in zip(net.parameters(), found, strict=True):
            assert torch.equal(p.grad, own[i])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"norm": "step"}, "layer 1 has a batch norm or delays"),
        ({"learn_beta": True}, "layer 1 has other neurons than plain ones with one decay"),
        ({"binary": False}, "layer 1 has real weights"),
        ({"binary": False, "norm": "step"}, "layer 1 has real weights"),
    ],
)
def test_other_networks_are_refused_with_the_reason(settings, reason):
    notation, shape, _ = CASES["convolutions"]
    nets, _ = networks(notation, shape, **settings)
    assert unlike_trials(nets, counts(shape)[0]) == reason


def test_networks_of_other_shapes_and_images_are_refused():
    first, second = (networks(*CASES[case][:2])[0] for case in ("convolutions", "hidden-bias"))
    shape = CASES["convolutions"][1]
    x = counts(shape)[0]
    assert unlike_trials([first[0], second[0]], x) == "the networks differ in their layers"
    assert unlike_trials(first, x.float()) == "the samples are not event counts"
    first[1].eval()
    assert unlike_trials(first, x) == "a network is watched, recomputes layers, or has a cost of spikes"
