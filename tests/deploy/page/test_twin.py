"""The JavaScript twin gives PyTorch's spikes, membranes and scores, bit for bit."""

from dataclasses import replace

import pytest
import torch

import bitspike
from bitspike.deploy.describe import describe
from helpers import node
from helpers.random_networks import random_network
from helpers.twin import ENGINE, differing, fingerprints, numpy_case, random_cases

pytestmark = pytest.mark.skipif(node.PROGRAM is None, reason=node.WHY_NOT)

SEEDS = range(32)


@pytest.fixture(scope="module")
def cases():
    return [
        *random_cases(SEEDS, by="numpy"),
        real_values("8-33", (8,)),
        real_values("3Conv3", (2, 6, 7)),
        feedback(),
        at_the_threshold(),
    ]


def real_values(notation, shape):
    """A layer on numbers whose sums depend on their order: where the large ones cancel, little is left."""
    generator = torch.Generator().manual_seed(3)
    net = bitspike.build(notation, shape, beta=0.0, theta=0.7, generator=generator)
    x = torch.tensor([2.0**60, 1.0, 0.3])[torch.randint(0, 3, (30, 1, *shape), generator=generator)]
    return numpy_case(describe(net), x)


def feedback():
    """A last layer with recurrence that fires a lot, and a scale whose products must be rounded."""
    generator = torch.Generator().manual_seed(4)
    model = describe(bitspike.build("20-65", beta=0.9, theta=0.7, generator=generator))
    signs = (torch.rand(65, 65, generator=generator) < 0.5).numpy()
    layer = replace(model.layers[0], recurrent=signs, recurrent_scale=1 / 3)
    x = (torch.rand(9, 1, 20, generator=generator) < 0.4).float()
    return numpy_case(replace(model, layers=(layer,)), x)


def at_the_threshold():
    """A neuron whose membrane is exactly its threshold: it fires."""
    net = bitspike.build("1-1", beta=0.5, theta=1.0)
    with torch.no_grad():
        net.layers[0].synapse.weight.fill_(1.0)
        net.layers[0].synapse.bias.zero_()
    case = numpy_case(describe(net), torch.ones(3, 1, 1))
    assert case.spikes[0].ravel().tolist() == [1, 0, 1]
    return case


def test_random_networks_give_pytorchs_bits():
    assert differing(random_cases(SEEDS, by="torch")) == []


def test_random_networks_give_the_definitions_bits(cases):
    assert differing(cases) == []


@pytest.mark.slow
def test_many_more_random_networks_give_the_definitions_bits():
    assert differing(random_cases(range(1000, 1400), by="numpy")) == []


def test_the_random_networks_have_every_part():
    nets = [random_network(seed) for seed in SEEDS]
    blocks = [block for net in nets for block in net.layers]
    neurons = {type(block.lif).__name__ for block in blocks}
    assert {"RecurrentLIF", "LeakyReadout", "LIF"} <= neurons
    assert {type(pool).__name__ for block in blocks for pool in block.pools} == {"AvgPool2d", "MaxPool2d"}
    assert {net.glances for net in nets} == {1, 5, 9}
    assert any(block.delay is not None for block in blocks)
    assert any(block.gain is not None for block in blocks)
    assert any(block.lif.adaptation is not None for block in blocks if hasattr(block.lif, "adaptation"))


# Each is one term of the definition, changed. A test that does not see the change does not test the term.
CHANGED = {
    "a sum in float32": ("sums[s] += weights[w] * value", "sums[s] = fl(sums[s] + weights[w] * value)"),
    "inputs in another order": ("let i = 0; i < x.length; i++", "let i = x.length - 1; i >= 0; i--"),
    "no padding": ("(row + padding - ky)", "(row - ky)"),
    "no stride": ("const y = (row + padding - ky) / stride", "const y = row + padding - ky"),
    "a pool without its stride": ("(y * stride + dy)", "(y * size + dy)"),
    "max pool as average": ('kind === "max" ? Math.max(value, s)', 'kind === "none" ? 0'),
    "no division": ("/ divisor", "/ 1"),
    "division unrounded": (
        "let c = fl(sums[place * channels + k] / divisor)",
        "let c = sums[place * channels + k] / divisor",
    ),
    "no bias": ("if (this.bias) c =", "if (this.bias)"),
    "scale and offset at once": (
        "fl(fl(c * this.scale[k]) + this.offset[k])",
        "fl(c * this.scale[k] + this.offset[k])",
    ),
    "decay and current at once": ("let drive = fl(fl(beta[i] * u[i]) + c[i])", "let drive = fl(beta[i] * u[i] + c[i])"),
    "a leaky readout at once": ("u[i] = fl(fl(beta[i] * u[i]) + c[i]);", "u[i] = fl(beta[i] * u[i] + c[i]);"),
    "recurrence unrounded": ("fl(model.recurrentScale * feedback[i])", "model.recurrentScale * feedback[i]"),
    "recurrence the other way": ("sums[i] += recurrent[w]", "sums[j] += recurrent[w]"),
    "no reset": ("fl(drive - fl(threshold[i] * z[i]))", "drive"),
    "adaptation in another order": ("fl(fl(rho * a[i]) + fl(rest * z[i]))", "fl(rho * a[i] + rest * z[i])"),
    "a threshold that stays": ("threshold[i] = fl(theta[i] + fl(strength * a[i]))", "threshold[i] = theta[i]"),
    "a threshold at once": ("fl(theta[i] + fl(strength * a[i]))", "fl(theta[i] + strength * a[i])"),
    "a spike above the threshold only": ("u[i] >= threshold[i]", "u[i] > threshold[i]"),
    "a delay too short": ("this.t - this.delays[j]", "this.t - this.delays[j] + 1"),
    "no gain": ("if (this.gains) x = this._gained(x);", ""),
    "a gain unrounded": ("Float32Array.from(x, (value, j) => fl(value", "Float64Array.from(x, (value, j) => (value"),
    "the gain of another input": ("gains[Math.floor(j / size)]", "gains[j % gains.length]"),
    "another order of glances": ("[[0, 0], [-1, 0], [0, -1]", "[[0, 0], [0, -1], [-1, 0]"),
    "no rest between glances": ("for (const layer of layers) layer.rest();", ""),
    "scores in float32": ("sum += values[t * classes + k]", "sum = fl(sum + values[t * classes + k])"),
    "scores without beta": ("fl(fl(sum / steps) * fl(1 - decay))", "fl(sum / steps)"),
    "scores at once": ("fl(fl(sum / steps) * fl(1 - decay))", "fl((sum / steps) * (1 - decay))"),
}


@pytest.fixture(scope="module")
def checksums(cases):
    """The checksum of the code as it is, and of the code with each term changed."""
    code = node.source(*ENGINE)
    codes = {None: code} | {name: code.replace(old, new, 1) for name, (old, new) in CHANGED.items()}
    return dict(zip(codes, fingerprints(cases, list(codes.values())), strict=True))


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_term_is_seen(checksums, name):
    assert CHANGED[name][0] in node.source(*ENGINE)
    assert checksums[name] != checksums[None]
