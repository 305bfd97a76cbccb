"""Networks for tests of fused chains: what they are made of, what they are compared with, and their inputs."""

import torch

import bitspike
from bitspike.nn import DecayRange
from bitspike.nn.dropout import set_dropout_key
from bitspike.nn.fast import triton as fused
from bitspike.nn.fast.refusal import refused_network
from helpers.kernels import DEVICE, rand

# All that the best presets for sequences use.
BEST = {
    "delays": 5,
    "gains": 15,
    "spike_dropout": 0.4,
    "dense_norm": True,
    "beta": [DecayRange(0.6, 0.97), DecayRange(0.6, 0.97), 0.95],
    "surrogate": "arctan",
    "slope": 1.5,
    "readout": "membrane",
}


def network(notation, shape, **settings):
    """A network with norms, biases and gains that are not at their start; the key of its dropout is set."""
    net = bitspike.build(notation, shape, generator=torch.Generator().manual_seed(3), **settings).to(DEVICE)
    with torch.no_grad():
        for name, p in net.named_parameters():
            if "norm" in name or "bias" in name:
                p.add_(rand(*p.shape, seed=4) * 0.3)
            if "gains" in name:
                p.copy_(rand(*p.shape, seed=8) * 7)  # 0 to 7
    set_dropout_key(net, torch.tensor(987654321987, device=DEVICE))
    return net


def plainly(net):
    """The same network, whose neurons and delays run by their definitions."""
    for layer in net.layers:
        layer.lif.backend = "reference"
        if layer.delay is not None:
            layer.delay.backend = "reference"
    return net


def batch(kind, shape, size=3, *, steps=7, seed=5):
    """Samples: an "image", "counts" of events or a "sequence" of real numbers."""
    if kind == "image":
        return rand(size, *shape, seed=seed) * 2 - 0.5
    x = rand(steps, size, *shape, seed=seed)
    return (x * 2.3).floor().to(torch.uint8) if kind == "counts" else x * 2 - 0.7


def outputs(net, x, *, recompute=False):
    """Return the outputs of the fused chain for `x`."""
    assert refused_network(list(net.layers), x) is None
    return fused.run(list(net.layers), x, net._steps(x, None), recompute=recompute)
