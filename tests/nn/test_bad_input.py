"""Bad layers, notations and networks: one line each that says where, what is required, what came, and what to do."""

import pytest
import torch

from bitspike import (
    LIF,
    AdaptiveLIF,
    BinaryConv2d,
    BinaryLinear,
    Delay,
    LIFState,
    RecurrentLIF,
    build,
    initialize,
)
from bitspike.nn import DecayRange, SharedBatchNorm1d, StepBatchNorm2d
from helpers.bad_input import INF, NAN, case, images, network, require_clear_line

CURRENT = torch.ones(4, 2, 3)  # T, B, N


def state(membrane, spikes):
    return LIFState(torch.zeros(membrane), torch.zeros(spikes))


LAYERS = [
    case("layer theta 0", ValueError, lambda: LIF(theta=0.0), "LIF: theta | > 0 | is 0.0"),
    case("layer theta inf", ValueError, lambda: AdaptiveLIF(theta=INF), "AdaptiveLIF: theta | finite | is inf"),
    case("layer slope 0", ValueError, lambda: LIF(slope=0.0), "LIF: slope | > 0 | is 0.0"),
    case("layer beta 1.5", ValueError, lambda: LIF(1.5), "LIF: beta | [0, 1] | is 1.5 | kept per step"),
    case("layer beta nan", ValueError, lambda: LIF(NAN), "LIF: beta | [0, 1] | is nan | kept per step"),
    case("learnt beta 1", ValueError, lambda: LIF(1.0, learn_beta=True), "LIF: a learnt beta | (0, 1) | is 1.0"),
    case("center", ValueError, lambda: LIF(surrogate_center="now"), "LIF: surrogate_center | initial | current | now"),
    case("0 neurons", ValueError, lambda: RecurrentLIF(0), "RecurrentLIF: neurons | >= 1 | is 0"),
    case("2.5 neurons", ValueError, lambda: RecurrentLIF(2.5), "RecurrentLIF: neurons | whole | is 2.5"),
    case("layer backend", ValueError, lambda: LIF(backend="gpu"), "LIF: backend | auto | 'gpu' | net.to("),
    case("layer integer input", TypeError, lambda: LIF()(CURRENT.long()), "lif: current | int64 | float()"),
    case("recurrent layer width", ValueError, lambda: RecurrentLIF(4)(CURRENT), "lif: recurrent | 3 neurons | [4, 4]"),
    case("rho of a layer", ValueError, lambda: AdaptiveLIF(rho=2.0), "Adaptation: rho | [0, 1] | is 2.0"),
    case(
        "betas of another number", ValueError, lambda: LIF(torch.tensor([0.5, 0.5]), neurons=3),
        "LIF: beta | [2] | 3",
    ),
    case("layer of 2.5 neurons", ValueError, lambda: LIF(neurons=2.5), "LIF: neurons | >= 1 | 2.5"),
    case("layer of 0 neurons", ValueError, lambda: LIF(neurons=0), "LIF: neurons | >= 1 | is 0"),
    case(
        "layer of -1 neurons", ValueError, lambda: LIF(neurons=-1),
        "LIF: neurons | >= 1 | is -1",
    ),
    case("beta a string", TypeError, lambda: LIF("a"), "LIF: beta | 'a'"),
    case(
        "layer theta per neuron", ValueError, lambda: LIF(theta=torch.ones(3)),
        "LIF: theta | one number",
    ),
    case(
        "momentum None", ValueError, lambda: StepBatchNorm2d(2, momentum=None)(torch.ones(2, 2, 2, 2)),
        "StepBatchNorm2d: mom | None",
    ),
    case(
        "norm of 3 dimensions", ValueError, lambda: StepBatchNorm2d(2)(torch.rand(3, 4, 2)),
        "StepBatchNorm2d: | [3, 4, 2]",
    ),
    case(
        "norm of 3 dimensions, evaluating", ValueError, lambda: StepBatchNorm2d(2).eval()(torch.rand(3, 4, 2)),
        "StepBatchNorm2d: | [3, 4, 2]",
    ),
    case(
        "norm of other channels", ValueError, lambda: StepBatchNorm2d(2)(torch.rand(3, 4, 3, 2, 2)),
        "StepBatchNorm2d: | 2 | [3, 4, 3, 2, 2]",
    ),
    case(
        "dense norm of other neurons", ValueError, lambda: SharedBatchNorm1d(2)(torch.rand(3, 4, 3)),
        "SharedBatchNorm1d: | [B, 2] or [T, B, 2] | [3, 4, 3]",
    ),
    case(
        "conv of 3 dimensions", ValueError, lambda: BinaryConv2d(1, 1, 3)(torch.ones(1, 5, 5)),
        "BinaryConv2d: | [1, 5, 5]",
    ),
    case(
        "conv of other channels", ValueError, lambda: BinaryConv2d(1, 1, 3)(torch.ones(1, 2, 5, 5)),
        "BinaryConv2d: | [1, 2, 5, 5]",
    ),
    case(
        "linear of another width", ValueError, lambda: BinaryLinear(3, 2)(torch.ones(1, 2)),
        "BinaryLinear: | 3 | [1, 2]",
    ),
]  # fmt: skip


NOTATION = [
    case(
        "unknown token", ValueError, lambda: build("16Konv5", (1, 8, 8)),
        "build: token '16Konv5' | not understood | Conv | Dense",
    ),
    case("empty", ValueError, lambda: build("", (1, 8, 8)), "build: token '' | not understood | use"),
    case("empty token", ValueError, lambda: build("2Conv3--18Dense3", (1, 8, 8)), "build: token '' | not understood"),
    case("lower case", ValueError, lambda: build("2conv3", (1, 8, 8)), "build: token '2conv3' | {filters}Conv{kernel}"),
    case("one size", ValueError, lambda: build("100", (100,)), "build: token '100' | not understood | 100-1000-1"),
    case(
        "dense that does not fit", ValueError, lambda: build("16Conv5-AP2-64Conv5-AP2-1000Dense10", (1, 28, 28)),
        "build: token '1000Dense10' | 1000 inputs | 1024 arrive | 64x4x4 | write 1024Dense10",
    ),
    case(
        "the paper's misprint", ValueError, lambda: build("16Conv5-AP2-32Conv5-AP2-8800Dense11", (2, 32, 32)),
        "build: token '8800Dense11' | 800 arrive | write 800Dense11",
    ),
    case(
        "dense after dense", ValueError, lambda: build("10Dense5-6Dense2"),
        "build: token '6Dense2' | 6 inputs | 5 arrive | write 5Dense2",
    ),
    case(
        "several dense", ValueError, lambda: build("9Dense5Dense2", (10,)),
        "build: token '9Dense5Dense2' | write 10Dense5Dense2",
    ),
    case(
        "kernel too large", ValueError, lambda: build("2Conv9", (1, 8, 8)),
        "build: token '2Conv9' | kernel of 9 | 8x8 | at most 8",
    ),
    case(
        "pool too large", ValueError, lambda: build("2Conv5-AP5", (1, 8, 8)),
        "build: token 'AP5' | pool of 5 | 4x4 | at most 4",
    ),
    case("pool first", ValueError, lambda: build("AP2-2Conv3", (1, 8, 8)), "build: token 'AP2' | must follow a Conv"),
    case("pool after dense", ValueError, lambda: build("4Dense2-AP2"), "build: token 'AP2' | must follow a Conv"),
    case(
        "conv after dense", ValueError, lambda: build("4Dense2-3Conv1"),
        "build: token '3Conv1' | cannot follow a Dense",
    ),
    case(
        "conv on a row", ValueError, lambda: build("3Conv1", (4,)),
        "build: token '3Conv1' | (4,) | input_shape=(channels, height, width)",
    ),
    case("no filters", ValueError, lambda: build("0Conv3", (1, 8, 8)), "build: token '0Conv3' | >= 1"),
    case("no outputs", ValueError, lambda: build("4Dense0"), "build: token '4Dense0' | >= 1"),
    case("pool of 0", ValueError, lambda: build("2Conv3-MP0", (1, 8, 8)), "build: token 'MP0' | >= 1"),
    case("no input shape", ValueError, lambda: build("2Conv3"), "build: '2Conv3' | input_shape=(channels, height"),
    case("shape of 0", ValueError, lambda: build("2Conv3", (1, 0, 8)), "build: input_shape | >= 1 | (1, 0, 8)"),
    case("empty shape", ValueError, lambda: build("4-2", ()), "build: input_shape | >= 1 | is ()"),
    case("float shape", ValueError, lambda: build("4-2", (4.0,)), "build: input_shape | whole | (4.0,)"),
    case(
        "shape a number", TypeError, lambda: build("784-10", 784),
        "build: input_shape | 784",
    ),
    case(
        "notation None", TypeError, lambda: build(None, (4,)),
        "build: notation | None",
    ),
]  # fmt: skip


NETWORKS = [
    case("betas", ValueError, lambda: network(beta=[0.5]), "build: beta | neuron layer, 2 | 1 were given"),
    case("thetas", ValueError, lambda: network(theta=[1.0] * 3), "build: theta | neuron layer, 2 | 3 were given"),
    case("slopes", ValueError, lambda: network(slope=[]), "build: slope | neuron layer, 2 | 0 were given"),
    case("dropouts", ValueError, lambda: images(dropout=[0.1, 0.2]), "build: dropout | Dense layer, 1 | 2 were given"),
    case("delays", ValueError, lambda: network(delays=-2), "build: delays | whole number >= 0 | is -2 | 0 means none"),
    case("huge delays", ValueError, lambda: network(delays=10**6), "build: delays | at most 65535 | is 1000000"),
    case("a huge delay", ValueError, lambda: Delay(3, 65536), "Delay: longest | at most 65535 steps | is 65536"),
    case("delay of a list", TypeError, lambda: Delay(3, 2)([0.0]), "Delay: input must be a torch.Tensor | a list"),
    case("delays, glances", ValueError, lambda: images(delays=2, glances=5), "build: delays | sequences | glances=5"),
    case("static", ValueError, lambda: images(delays=2)(torch.rand(2, 1, 8, 8)), "SpikingNetwork: delays | static"),
    case("dense norm", TypeError, lambda: network(dense_norm="no"), "build: dense_norm | True or False | 'no'"),
    case("readout", ValueError, lambda: network(readout="u"), "build: readout | 'spikes' or 'membrane' | 'u'"),
    case("dropped spikes", ValueError, lambda: network(spike_dropout=1.0), "build: spike_dropout | [0, 1) | is 1.0"),
    case("no spikes", ValueError, lambda: build("4-2", spike_dropout=0.1), "build: spike_dropout | '4-2' has none"),
    case("decays", ValueError, lambda: DecayRange(0.9, 0.5), "DecayRange: | 0 <= low <= high <= 1 | 0.9 and 0.5"),
    case(
        "beta as TOML has it", TypeError, lambda: network(beta=[{"low": 0.6, "high": 0.97}, 0.95]),
        "build: a beta | number or a range | bitspike.nn.DecayRange(low, high)",
    ),
    case("beta of one layer", ValueError, lambda: network(beta=[0.5, 2.0]), "LIF: beta | [0, 1] | is 2.0"),
    case("theta of one layer", ValueError, lambda: network(theta=[0.0, 1.0]), "LIF: theta | > 0 | is 0.0"),
    case("dropout 1", ValueError, lambda: network(dropout=1.0), "build: dropout | [0, 1) | is 1.0 | share"),
    case("dropout -0.1", ValueError, lambda: network(dropout=-0.1), "build: dropout | [0, 1) | is -0.1 | share"),
    case("dropout nan", ValueError, lambda: network(dropout=NAN), "build: dropout | [0, 1) | is nan | share"),
    case(
        "dropout without dense", ValueError, lambda: build("2Conv3", (1, 8, 8), dropout=2.0),
        "build: dropout | 2.0",
    ),
    case("norm", ValueError, lambda: images(norm="batch"), "build: norm | 'step', 'shared' or None | 'batch'"),
    case("network of 0 steps", ValueError, lambda: build("4-2", steps=0), "build: steps | >= 1 | is 0"),
    case("init", ValueError, lambda: network(init="xavier"), "initialize: init | 'torch' or 'released' | 'xavier'"),
    case("initialize", ValueError, lambda: initialize(network(), "zero"), "initialize: init | 'released' | 'zero'"),
    case(
        "input of another width", ValueError, lambda: network()(torch.rand(2, 7)),
        "SpikingNetwork: input | [B, 6] (static) | [T, B, 6] | shape [2, 7]",
    ),
    case("input without a batch", ValueError, lambda: network()(torch.rand(6)), "SpikingNetwork: input | shape [6]"),
    case(
        "input of 4 dimensions", ValueError, lambda: network()(torch.rand(2, 2, 2, 6)),
        "SpikingNetwork: input | [2, 2, 2, 6]",
    ),
    case(
        "flat images", ValueError, lambda: images()(torch.rand(2, 64)),
        "SpikingNetwork: input | [B, 1, 8, 8] | [2, 64]",
    ),
    case(
        "bytes", TypeError, lambda: images()(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)),
        "SpikingNetwork: input | floating point | uint8 | x.float() | 255",
    ),
    case(
        "2.5 steps", ValueError, lambda: network(dropout=0.5)(torch.rand(2, 6), steps=2.5),
        "SpikingNetwork: steps | whole | is 2.5",
    ),
    case(
        "static input, 0 steps", ValueError, lambda: network()(torch.rand(2, 6), steps=0),
        "SpikingNetwork: steps | >= 1 | is 0",
    ),
    case(
        "steps of a sequence", ValueError, lambda: network()(torch.rand(5, 2, 6), steps=4),
        "SpikingNetwork: | sequence of 5 | steps=4 | leave it out",
    ),
    case(
        "empty sequence", ValueError, lambda: network()(torch.rand(0, 2, 6)),
        "lif: current | at least one | [0, 2, 5]",
    ),
    case(
        "empty sequence into a norm", ValueError, lambda: images(norm="step")(torch.rand(0, 2, 1, 8, 8)),
        "| at least one",
    ),
    case(
        "nan input", ValueError, lambda: network()(torch.full((2, 6), NAN)),
        "layers.0.lif: lif: current | finite | nan | bad input",
    ),
    case(
        "nan weight", ValueError,
        lambda: [n := network(), n.layers[1].synapse.weight.data.fill_(NAN), n(torch.ones(1, 6))],
        "layers.1.lif: lif: current | finite | nan | diverged weights",
    ),
    case(
        "outputs for states", TypeError,
        lambda: network().run(torch.rand(2, 6), states=network().run(torch.rand(2, 6))),
        "SpikingNetwork: states | are the outputs | [layer.state for layer in outputs]",
    ),
    case(
        "states", ValueError, lambda: network().run(torch.rand(2, 6), states=[None]),
        "SpikingNetwork: states | layer, 2 | are 1",
    ),
    case(
        "state of another layer", ValueError,
        lambda: network().run(torch.rand(2, 6), states=[state((2, 2), (2, 2)), None]),
        "lif: state.membrane | [2, 2] | [2, 5] | state=None",
    ),
    case(
        "float64 input", TypeError, lambda: network()(torch.rand(2, 6, dtype=torch.float64)),
        "SpikingNetwork: input | float64 | float32",
    ),
    case(
        "input of an array", TypeError, lambda: network()(torch.rand(2, 6).numpy()),
        "SpikingNetwork: input | ndarray | torch",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "says"), LAYERS + NOTATION + NETWORKS)
def test_bad_input_is_one_clear_line(call, error, says):
    require_clear_line(call, error, says)


def test_a_refused_call_leaves_the_network_usable():
    net = network()
    with pytest.raises(ValueError, match="finite"):
        net(torch.full((2, 6), NAN))
    assert net(torch.rand(2, 6)).spikes.shape == (3, 2, 2)
