"""Random small networks of every kind that `build` makes, with weights, statistics and thresholds of their own.

`random_network(seed)` and `random_input(net, seed, batch, steps)` depend on nothing but their arguments; `networks()`
is a hypothesis strategy over seeds. Sizes are small and odd, so that words of 8, 32 and 64 bits have a rest.
"""

import math
import random

import torch
from hypothesis import strategies as st
from torch import nn

import bitspike
from bitspike.nn import DecayRange, SpikingNetwork
from bitspike.nn.neurons import LeakyReadout, RecurrentLIF
from bitspike.nn.norm import SharedBatchNorm1d, SharedBatchNorm2d, StepBatchNorm2d

NORMS = (StepBatchNorm2d, SharedBatchNorm2d, SharedBatchNorm1d)
SIZES = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 70)


def networks():
    """Return a strategy of random networks; a failing one is `random_network` of the seed that hypothesis prints."""
    return st.integers(0, 2**32 - 1).map(random_network)


def random_network(seed: int) -> SpikingNetwork:
    """Return a network that `seed` alone decides, in evaluation mode."""
    chance = random.Random(seed)
    notation, shape, layers = _images(chance) if chance.random() < 0.5 else _rows(chance)
    options = _options(chance, shape, layers)
    gains = random.Random(f"gains {seed}")  # apart from the rest, which stays what it was before there were gains
    options["gains"] = [gains.choice([0, 1, 3, 15, 255]) for _ in range(layers)] if gains.random() < 0.5 else 0
    net = bitspike.build(notation, shape, generator=torch.Generator().manual_seed(seed), **options)
    _fill(net, chance, torch.Generator().manual_seed(seed + 1))
    return net.eval()


def random_input(
    net: SpikingNetwork, seed: int, batch: int = 2, steps: int = 7, *, static: bool | None = None
) -> torch.Tensor:
    """Return pixels `[B, ...]`, or a sequence `[T, B, ...]` of spikes, counts or pixels; `static` chooses.

    By default a network with glances gets pixels, one with delays a sequence, and others what the seed says. A static
    input is shown for `net.steps`.
    """
    generator = torch.Generator().manual_seed(seed)
    draw = int(torch.randint(0, 6, (), generator=generator))
    if static is None:
        static = net.glances > 1 or (draw < 3 and all(layer.delay is None for layer in net.layers))
    shape = (batch, *net.input_shape) if static else (steps, batch, *net.input_shape)
    if static or draw == 5:
        return torch.randint(0, 256, shape, generator=generator) / 255
    if draw % 2:
        return (torch.rand(shape, generator=generator) < 0.4).float()
    return torch.poisson(torch.full(shape, 0.7), generator=generator)


def _rows(chance):
    """Return the notation, input shape and number of layers of a dense network."""
    sizes = [chance.choice(SIZES) for _ in range(chance.randint(2, 4))]
    shape = (sizes[0],)
    if chance.random() < 0.3:
        shape = chance.choice([(1, 4, 5), (3, 3, 3), (2, 5)])
        sizes[0] = math.prod(shape)
    return "-".join(map(str, sizes)), shape, len(sizes) - 1


def _images(chance):
    """Return the notation, input shape and number of layers of a network that begins with convolutions."""
    shape = channels, rows, columns = chance.randint(1, 3), chance.randint(6, 12), chance.randint(6, 12)
    tokens, layers = [], 0
    for _ in range(chance.randint(1, 2)):
        kernel = chance.randint(1, min(rows, columns, 5))
        padding = chance.choice([0, 0, chance.randint(0, kernel - 1)])
        stride = chance.choice([1, 1, 1, 2, 3])
        channels = chance.randint(1, 9)
        rows, columns = ((n + 2 * padding - kernel) // stride + 1 for n in (rows, columns))
        tokens.append(f"{channels}Conv{kernel}p{padding}s{stride}")
        for _ in range(chance.choice([0, 1, 1, 2])):
            size = chance.randint(1, min(rows, columns, 3))
            step = chance.choice([size, size, chance.randint(1, 3)])
            rows, columns = ((n - size) // step + 1 for n in (rows, columns))
            tokens.append(f"{chance.choice(['AP', 'MP'])}{size}s{step}")
        layers += 1
    if chance.random() < 0.85:  # else the last layer is a convolution
        sizes = [channels * rows * columns, *(chance.choice(SIZES) for _ in range(chance.randint(1, 2)))]
        tokens.append("Dense".join(map(str, sizes)))
        layers += len(sizes) - 1
    return "-".join(tokens), shape, layers


def _options(chance, shape, layers):
    """Return settings of `build` that fit together."""
    glances = chance.choice([1, 1, 1, 5, 9]) if len(shape) == 3 else 1
    learn_beta = chance.random() < 0.3
    neuron = chance.choice(["lif", "lif", "recurrent", "adaptive"])
    betas = [chance.choice([0.5, round(chance.uniform(0.05, 0.99), 3), DecayRange(0.4, 0.98)]) for _ in range(layers)]
    return {
        "beta": betas,
        "norm": chance.choice([None, "step", "shared"]),
        "dense_norm": chance.random() < 0.4,
        "dropout": chance.choice([0.0, 0.2]) if layers > 1 else 0.0,
        "delays": [chance.choice([0, 1, 4, 9]) for _ in range(layers)] if glances == 1 and chance.random() < 0.3 else 0,
        "learn_beta": learn_beta,
        "neuron": neuron,
        "adaptation": bitspike.Adaptation(round(chance.uniform(0, 1), 3), round(chance.uniform(0, 3), 3))
        if neuron == "adaptive" or chance.random() < 0.15
        else None,
        "readout": chance.choice(["spikes", "spikes", "membrane"]),
        "glances": glances,
        "steps": glances * chance.randint(1, 3) if glances > 1 else chance.randint(1, 9),
    }


@torch.no_grad()
def _fill(net, chance, generator):
    """Give a network the numbers of a trained one: biases, batch norm of both signs, thresholds that some reach."""

    def normal(*shape):
        return torch.randn(shape, generator=generator)

    shape = net.input_shape
    for layer in net.layers:
        synapse, lif, norm = layer.synapse, layer.lif, layer.norm
        inputs = synapse.weight[0].numel()
        if isinstance(synapse, nn.Conv2d) and chance.random() < 0.25:
            synapse.bias = nn.Parameter(normal(synapse.out_channels))
        shape = _neurons(layer, shape)
        size = math.sqrt(inputs) / 2 * (1 if layer.gain is None else max(layer.gain.largest / 3, 0.5))
        if isinstance(norm, NORMS):
            norm.running_mean.copy_(normal(norm.num_features) * size)
            norm.running_var.copy_((normal(norm.num_features) * size).square() + 0.1)
            norm.weight.copy_(normal(norm.num_features))
            norm.bias.copy_(normal(norm.num_features) / 2)
            size = 1.0
        if layer.gain is not None:
            _fill_gains(layer.gain)
        if layer.delay is not None:
            layer.delay.delays.copy_(torch.rand(len(layer.delay.delays), generator=generator) * layer.delay.longest)
        if isinstance(lif, LeakyReadout):
            continue
        if isinstance(lif, RecurrentLIF) and chance.random() < 0.5:
            lif.recurrent_scale = chance.choice([0.5, 0.37])
        theta = size * chance.uniform(0.1, 1.2)
        each = chance.choice([(), (), (), shape, (shape[0], *[1] * (len(shape) - 1))])
        if each:
            lif.theta = (theta * (torch.rand(each, generator=generator) + 0.5)).clamp(min=1e-3)
        else:
            lif.theta = max(theta, 1e-3)


def _fill_gains(gain):
    """Give each sender a gain from 0 to the largest, both ends included."""
    generator = torch.Generator().manual_seed(gain.largest)
    gain.gains.copy_((torch.rand(len(gain.gains), generator=generator) * 1.2 - 0.1) * gain.largest)


def _neurons(layer, shape):
    """Return the shape of one sample's neurons, for inputs of `shape`."""
    if not isinstance(layer.synapse, nn.Conv2d):
        return (layer.synapse.out_features,)
    current = layer.synapse(torch.zeros(1, *shape))
    for pool in layer.pools:
        current = pool(current)
    return tuple(current.shape[1:])
