"""A network as plain arrays: every part is what the modules compute with, and what is not plain is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import nn
from torch.nn.utils import parametrize

import bitspike
from bitspike.deploy.describe import describe
from bitspike.deploy.model import InputModel
from bitspike.nn import LIF, BinaryLinear, Block, SpikingNetwork
from helpers.bad_input import NAN, case, require_clear_line
from helpers.random_networks import networks, random_input, random_network


def current(layer, x):
    """The current of a layer in float64, from the arrays of its model; `x` is `[T, B, *input]`."""
    x = x.double().reshape(*x.shape[:2], *(layer.input if layer.kind == "conv" else layer.input[:1]))
    if layer.delays is not None:
        late = torch.zeros_like(x)
        for j, d in enumerate(layer.delays.tolist()):
            late[d:, :, j] = x[: max(len(x) - d, 0), :, j]
        x = late
    if layer.gains is not None:
        x = x * torch.from_numpy(layer.gains).view(-1, 1, 1)[(...,) if layer.kind == "conv" else (..., 0, 0)]
    weight = torch.from_numpy(np.where(layer.weight, 1.0, -1.0))
    if layer.kind == "dense":
        c = x @ weight.T
    else:
        c = nn.functional.conv2d(x.flatten(0, 1), weight, stride=layer.stride, padding=layer.padding)
        for pool in layer.pools:
            unfolded = c.unfold(2, pool.size, pool.stride).unfold(3, pool.size, pool.stride)
            c = unfolded.sum((-1, -2)) if pool.kind == "average" else unfolded.amax((-1, -2))
        c = (c / layer.divisor).view(*x.shape[:2], *layer.output)
    by_channel = (-1, 1, 1) if layer.kind == "conv" else (-1,)
    if layer.bias is not None:
        c = c + torch.from_numpy(layer.bias).view(by_channel)
    if layer.scale is not None:
        c = c * torch.from_numpy(layer.scale).view(by_channel) + torch.from_numpy(layer.offset).view(by_channel)
    return c


@given(networks())
def test_currents_from_the_arrays_are_those_of_the_modules(net):
    model = describe(net)
    x = random_input(net, seed=1, static=False) if net.glances == 1 else random_input(net, 1)[None]
    x, steps = (x, len(x)) if net.glances == 1 else (x, 1)
    for block, layer in zip(net.layers, model.layers, strict=True):
        arriving = x.flatten(2) if isinstance(block.synapse, BinaryLinear) else x
        delayed = arriving if block.delay is None else block.delay(arriving)
        wanted = block.pooled(block.gained(delayed))
        if block.norm is not None:
            wanted = block.norm(wanted)
        torch.testing.assert_close(current(layer, x), wanted.double(), rtol=1e-4, atol=1e-4)
        x = block(x).spikes.detach()
        assert len(x) == steps


@given(networks())
def test_neurons_have_the_numbers_of_their_modules(net):
    model = describe(net)
    assert model.readout == net.readout
    assert (model.steps, model.glances, model.input_shape) == (net.steps, net.glances, net.input_shape)
    for block, layer in zip(net.layers, model.layers, strict=True):
        lif = block.lif
        shape = layer.output if layer.kind == "conv" else layer.output[:1]
        pairs = [(layer.beta, lif.beta)] + ([] if layer.theta is None else [(layer.theta, lif.theta)])
        for got, wanted in pairs:
            assert got.dtype == np.float32
            every = np.broadcast_to(got if got.size == 1 else got.reshape(shape), shape)
            assert np.array_equal(every, wanted.detach().expand(shape).numpy())
        assert (layer.theta is None) == isinstance(lif, bitspike.nn.LeakyReadout)
        if layer.recurrent is not None:
            signs = np.where(layer.recurrent, np.float32(layer.recurrent_scale), -np.float32(layer.recurrent_scale))
            assert np.array_equal(signs, lif.recurrent_weight().detach().numpy())
        if layer.adaptation is not None:
            assert (layer.adaptation.rho, layer.adaptation.strength) == (lif.adaptation.rho, lif.adaptation.strength)


def test_random_networks_are_of_every_kind():
    """The helper that other tests rely on: no part of a model is missing from it."""
    models = [describe(random_network(seed)) for seed in range(60)]
    layers = [layer for model in models for layer in model.layers]
    for name in ("bias", "scale", "delays", "gains", "recurrent", "adaptation", "pools"):
        parts = [getattr(layer, name) for layer in layers]
        found = [part is not None and not (isinstance(part, tuple) and not part) for part in parts]
        assert 3 < sum(found) < len(found) - 3, name
    assert {pool.kind for layer in layers for pool in layer.pools} == {"average", "max"}
    assert {model.glances for model in models} == {1, 5, 9}
    assert {model.readout for model in models} == {"spikes", "membrane"}
    assert {model.layers[-1].kind for model in models} == {"dense", "conv"}
    for many in (lambda a: a.beta.size, lambda a: 0 if a.theta is None else a.theta.size):
        assert {many(layer) > 1 for layer in layers} == {True, False}
    assert any(layer.stride > 1 for layer in layers)
    assert any(layer.padding > 0 for layer in layers)
    assert any(layer.recurrent is not None and layer.recurrent_scale != 1 for layer in layers)


def test_the_state_of_now_is_described():
    net = bitspike.build("6-5-2", beta=0.5, delays=[4, 0], dropout=0.5)
    net.layers[0].lif.theta = 7.0
    net.layers[0].delay.delays.data = torch.tensor([0.4, 0.5, 1.5, 2.6, 9.0, -3.0])
    net.layers[1].synapse.weight.data[0, :3] = torch.tensor([0.0, -0.0, -1e-30])
    model = describe(net)
    assert model.layers[0].theta.tolist() == [7.0]
    assert model.layers[0].delays.tolist() == [0, 0, 2, 3, 4, 0]
    assert model.layers[0].delays.dtype == np.uint16
    assert model.layers[1].weight[0, :3].tolist() == [True, True, False]


def test_gains_are_rounded_and_within_their_range():
    net = bitspike.build("6-5-2", gains=[255, 0])
    net.layers[0].gain.gains.data = torch.tensor([0.4, 0.5, 1.5, 2.6, 900.0, -3.0])
    model = describe(net)
    assert model.layers[0].gains.tolist() == [0, 0, 2, 3, 255, 0]
    assert model.layers[0].gains.dtype == np.uint8
    assert (model.layers[0].largest_gain, model.layers[1].gains, model.layers[1].largest_gain) == (255, None, 1)
    assert model.weights == 6 * 5 + 5 * 2


def test_training_mode_changes_nothing_and_the_network_stays_as_it_was():
    net = bitspike.build("8-6-4-2", dense_norm=True, delays=3, spike_dropout=0.3, learn_beta=True)
    net.eval()
    before, evaluated = {name: part.clone() for name, part in net.state_dict().items()}, describe(net)
    net.train()
    trained = describe(net)
    assert all(module.training for module in net.modules())
    assert all(torch.equal(part, before[name]) for name, part in net.state_dict().items())
    for a, b in zip(evaluated.layers, trained.layers, strict=True):
        assert np.array_equal(a.weight, b.weight)
        assert np.array_equal(a.scale, b.scale)


def test_what_is_said_about_the_network_is_kept():
    said = {"input": InputModel("image"), "class_names": ["a", "b"], "metadata": {"accuracy": "0.9"}}
    model = describe(bitspike.build("6-5-2"), **said)
    assert (model.input, model.class_names, model.metadata) == (InputModel("image"), ("a", "b"), {"accuracy": "0.9"})
    assert (model.classes, model.weights) == (2, 6 * 5 + 5 * 2)


def dense(change=None, **options):
    """A call that describes a small network after a change."""

    def call():
        net = bitspike.build("6-5-2", **options)
        if change is not None:
            change(net)
        return describe(net)

    return call


def conv(change=None, **options):
    def call():
        net = bitspike.build("2Conv3-AP2-18Dense3", (1, 8, 8), **options)
        if change is not None:
            change(net)
        return describe(net)

    return call


def put(path, value):
    """A change that puts a module or an attribute into a network; `path` is as in `0.synapse.binary`."""

    def change(net):
        *names, last = path.split(".")
        holder = net.layers
        for name in names:
            holder = holder[int(name)] if name.isdecimal() else getattr(holder, name)
        if last.isdecimal():
            holder[int(last)] = value
        else:
            setattr(holder, last, value)

    return change


def hooked(net):
    net.layers[0].lif.register_forward_hook(lambda *_: None)


def parametrized(net):
    parametrize.register_parametrization(net.layers[0].synapse, "weight", nn.Identity())


def nan_weight(net):
    net.layers[1].synapse.weight.data[0, 0] = NAN


def own_forward(net):
    net.layers[0].synapse.forward = lambda x: x


def nan_variance(net):
    net.layers[0].norm.running_var[0] = NAN


def infinite_bias(net):
    net.layers[0].synapse.bias.data[0] = math.inf


def certain(net):
    net.layers[-1].lif.beta_logit.data.fill_(100.0)


class MyLIF(LIF):
    """Neurons that describe cannot know."""


class MyNetwork(SpikingNetwork):
    """A network that describe cannot know."""


def unlike(kind):
    def call():
        net = bitspike.build("6-5-2")
        net.__class__ = kind
        return describe(net)

    return call


def too_loud():
    net = bitspike.build("9-70000-1", gains=[0, 255])
    net.layers[1].gain.gains.data.fill_(255)
    return describe(net)


NO_DELAY = "describe: layer 1 | delays | finite"
NO_GAIN = "describe: layer 1 | gains that are not 6 finite numbers"
REFUSED = [
    case("no network", ValueError, lambda: describe(nn.Linear(2, 2)), "describe: the network | Linear | build"),
    case("subclass", ValueError, unlike(MyNetwork), "describe: the network | MyNetwork | SpikingNetwork"),
    case("float32", ValueError, dense(binary=False), "describe: layer 1 | 32 bits | one bit"),
    case("double", ValueError, dense(lambda net: net.double()), "describe: layer 1 | float64 | net.float()"),
    case("NaN weights", ValueError, dense(nan_weight), "describe: layer 2 | not finite | training"),
    case(
        "infinite weights",
        ValueError,
        dense(lambda net: net.layers[1].synapse.weight.data[0].fill_(float("inf"))),
        "describe: layer 2 | not finite | training",
    ),
    case("hooks", ValueError, dense(hooked), "describe: layer 1 | LIF | hooks"),
    case("parametrized", ValueError, dense(parametrized), "describe: layer 1 | Parametrized | BinaryLinear"),
    case("own forward", ValueError, dense(own_forward), "describe: layer 1 | forward pass of its own"),
    case("own neurons", ValueError, dense(neuron=lambda layer: MyLIF(**layer.settings)), "describe: layer 1 | MyLIF"),
    case("beside layers", ValueError, dense(lambda net: net.add_module("x", nn.Tanh())), "describe: the network | 'x'"),
    case("block", ValueError, dense(put("0", nn.Identity())), "describe: layer 1 | Identity | Block"),
    case("extra module", ValueError, dense(put("1.extra", nn.Identity())), "describe: layer 2 | 'extra'"),
    case("dropout", ValueError, dense(put("0.dropout", nn.Tanh())), "describe: layer 1 | Tanh | Dropout"),
    case("meta", ValueError, dense(lambda net: net.to("meta")), "describe: the network | meta"),
    case("batch", ValueError, dense(put("0.lif.theta", torch.ones(4, 5))), "describe: layer 1 | thresholds | [4, 5]"),
    case("bias", ValueError, dense(infinite_bias), "describe: the network | layer 1: bias | finite | inf"),
    case("beta", ValueError, dense(certain, learn_beta=True, readout="membrane"), "describe: | layer 2: beta | [0, 1)"),
    case(
        "leaky",
        ValueError,
        dense(put("0.lif", bitspike.nn.LeakyReadout())),
        "describe: layer 1 | LeakyReadout | not the last",
    ),
    case(
        "recurrent float32",
        ValueError,
        dense(put("0.lif.binary", False), recurrent=True),
        "describe: layer 1 | recurrent weights of 32 bits",
    ),
    case(
        "misfit",
        ValueError,
        dense(put("1", Block(BinaryLinear(4, 2), LIF()))),
        "describe: layer 2 | 4 inputs | 5 arrive",
    ),
    case("delays", ValueError, dense(put("0.delay", nn.Identity())), "describe: layer 1 | Identity | Delay"),
    case("NaN delay", ValueError, dense(lambda net: net.layers[0].delay.delays.data.fill_(NAN), delays=3), NO_DELAY),
    case("gains", ValueError, dense(put("0.gain", nn.Identity())), "describe: layer 1 | Identity | Gain"),
    case(
        "own rounding",
        ValueError,
        dense(lambda net: setattr(net.layers[0].gain, "rounded", lambda: None), gains=3),
        "describe: layer 1 | Gain | forward pass of its own",
    ),
    case("NaN gain", ValueError, dense(lambda net: net.layers[0].gain.gains.data.fill_(NAN), gains=3), NO_GAIN),
    case("other gains", ValueError, dense(put("0.gain", bitspike.Gain(7, 3))), NO_GAIN),
    case(
        "large sums",
        ValueError,
        too_loud,
        "describe: the network | layer 2: with gains of up to 255 its sums reach 17850000, more than 16777216",
    ),
    case(
        "names", ValueError, lambda: describe(bitspike.build("6-5-2"), class_names=["a"]), "describe: | 1 class names"
    ),
    case("batch norm", ValueError, conv(nan_variance, norm="step"), "describe: | layer 1: scale | finite | nan"),
    case(
        "no averages",
        ValueError,
        conv(put("0.norm.track_running_stats", False), norm="step"),
        "describe: layer 1 | running averages",
    ),
    case("norm's kind", ValueError, conv(put("0.norm", nn.BatchNorm2d(2))), "describe: layer 1 | BatchNorm2d"),
    case("steps", ValueError, conv(lambda net: setattr(net, "steps", 7), glances=5), "describe: | glances | 7 steps"),
    *(
        case(f"pool {i}", ValueError, conv(put("0.pools.0", pool)), f"describe: layer 1 | {says}")
        for i, (pool, says) in enumerate(
            [
                (nn.AvgPool2d(2, ceil_mode=True), "ceil_mode"),
                (nn.AvgPool2d(2, padding=1), "padding"),
                (nn.AvgPool2d((1, 2)), "sides"),
                (nn.AvgPool2d(2, divisor_override=3), "divisor"),
                (nn.MaxPool2d(2, dilation=2), "dilation"),
                (nn.LPPool2d(2, 2), "LPPool2d"),
            ]
        )
    ),
    *(
        case(
            f"{name} of a convolution", ValueError, conv(put(f"0.synapse.{name}", value)), f"describe: layer 1 | {says}"
        )
        for name, value, says in [
            ("groups", 2, "weights"),
            ("dilation", (2, 2), "dilation"),
            ("stride", (1, 2), "stride"),
            ("padding", (1, 2), "padding"),
            ("padding", "same", "padding"),
            ("padding_mode", "circular", "padding"),
        ]
    ),
]


@pytest.mark.parametrize(("call", "error", "says"), REFUSED)
def test_what_is_not_plain_is_refused(call, error, says):
    require_clear_line(call, error, says)
