"""Bad input: one line each that says where, what is required, what came, and what to do."""

import math

import pytest
import torch

from bitspike import (
    LIF,
    Adaptation,
    AdaptiveLIF,
    BinaryConv2d,
    BinaryLinear,
    Constant,
    LIFState,
    Linear,
    RecurrentLIF,
    Relax,
    ThresholdAnnealing,
    binarize,
    build,
    count_loss,
    initialize,
    latency,
    lif,
    poisson,
    trace_loss,
)
from bitspike.experiments.presets import preset, preset_or_file
from bitspike.experiments.schema import as_values, experiment, with_values
from bitspike.nn import StepBatchNorm2d

NAN, INF = math.nan, math.inf
CURRENT = torch.ones(4, 2, 3)  # T, B, N


def run(current=CURRENT, **kwargs):
    return lif(current, **{"beta": 0.5, "theta": 1.0, "slope": 1.0} | kwargs)


def spoilt(value, *where):
    current = CURRENT.clone()
    current[where] = value
    return current


def state(membrane=(2, 3), spikes=(2, 3), level=None):
    return LIFState(torch.zeros(membrane), torch.zeros(spikes), None if level is None else torch.zeros(level))


def network(**kwargs):
    return build("6-5-2", steps=3, **kwargs)


def images(**kwargs):
    return build("2Conv3-AP2-18Dense3", (1, 8, 8), steps=3, **kwargs)


def loaded(**changes):
    annealing = ThresholdAnnealing(network(), Constant(1.0))
    saved = annealing.state_dict() | changes
    annealing.load_state_dict({name: value for name, value in saved.items() if value is not None})


def spec(*settings, **tables):
    if settings:
        return with_values(preset("coding/fixed"), settings)
    return experiment(as_values(preset("coding/fixed")) | tables, "mine.toml")


SPIKES, LABELS = torch.zeros(10, 2, 3), torch.tensor([0, 2])


def case(name, error, call, says):
    """A call, its error, and what the message says, in order: where | the rule | what came | what to do."""
    return pytest.param(call, error, [part.strip() for part in says.split("|")], id=name)


SCHEDULES = [
    case("constant 0", ValueError, lambda: Constant(0.0), "Constant: value | > 0 | is 0.0 | fires at rest"),
    case("constant -1", ValueError, lambda: Constant(-1.0), "Constant: value | > 0 | is -1.0 | fires at rest"),
    case("constant nan", ValueError, lambda: Constant(NAN), "Constant: value | finite | is nan"),
    case("start 0", ValueError, lambda: Relax(0.0, 1.0, 0.1), "Relax: start | > 0 | is 0.0 | fires at rest"),
    case("stop inf", ValueError, lambda: Relax(1.0, INF, 0.1), "Relax: stop | finite | is inf"),
    case("stop = start", ValueError, lambda: Relax(2.0, 2.0, 0.1), "Relax: stop | > start | stop=2.0 | Constant(2"),
    case("stop < start", ValueError, lambda: Relax(3.0, 2.0, 0.1), "Relax: stop | start=3.0 | stop=2.0 | Constant"),
    case("linear stop < start", ValueError, lambda: Linear(3.0, 2.0, 9), "Linear: stop | > start | Constant"),
    case("rate 0", ValueError, lambda: Relax(1.0, 2.0, 0.0), "Relax: rate | (0, 1] | is 0.0 | from_tau"),
    case("rate 1.5", ValueError, lambda: Relax(1.0, 2.0, 1.5), "Relax: rate | (0, 1] | is 1.5 | from_tau"),
    case("rate -0.1", ValueError, lambda: Relax(1.0, 2.0, -0.1), "Relax: rate | (0, 1] | is -0.1 | from_tau"),
    case("rate nan", ValueError, lambda: Relax(1.0, 2.0, NAN), "Relax: rate | (0, 1] | is nan | from_tau"),
    case("tau 0", ValueError, lambda: Relax.from_tau(1.0, 2.0, 0.0), "Relax.from_tau: tau | > 0 | is 0.0"),
    case("tau inf", ValueError, lambda: Relax.from_tau(1.0, 2.0, INF), "Relax.from_tau: tau | finite | is inf"),
    case("linear 0 steps", ValueError, lambda: Linear(1.0, 2.0, 0), "Linear: steps | >= 1 | is 0 | iterations"),
    case("step -1 constant", ValueError, lambda: Constant(1.0)(-1), "Constant: step | >= 0 | is -1 | from 0"),
    case("step -1 relax", ValueError, lambda: Relax(1.0, 2.0, 0.5)(-1), "Relax: step | >= 0 | is -1 | from 0"),
    case("step -1 linear", ValueError, lambda: Linear(1.0, 2.0, 5)(-1), "Linear: step | >= 0 | is -1 | from 0"),
    case("linear nan steps", ValueError, lambda: Linear(1.0, 2.0, NAN), "Linear: steps | nan"),
    case(
        "text for a number", TypeError, lambda: Relax("1", 2.0, 0.5),
        "Relax: start | '1'",
    ),
]  # fmt: skip

SCAN = [
    case("current a list", TypeError, lambda: run([[1.0]]), "lif: current | torch.Tensor | a list"),
    case("integer current", TypeError, lambda: run(CURRENT.long()), "lif: current | int64 | current.float()"),
    case("current of one dimension", ValueError, lambda: run(torch.ones(3)), "lif: current | [3] | steps=T"),
    case("no time steps", ValueError, lambda: run(CURRENT[:0]), "lif: current | at least one | [0, 2, 3]"),
    case("0 steps", ValueError, lambda: run(steps=0), "lif: steps | >= 1 | is 0 | leave it out"),
    case("2.5 steps", ValueError, lambda: run(steps=2.5), "lif: steps | whole | is 2.5 | leave it out"),
    case("True steps", ValueError, lambda: run(steps=True), "lif: steps | whole | is True | leave it out"),
    case(
        "nan current", ValueError, lambda: run(spoilt(NAN, 2, 1, 0)),
        "lif: current | finite | 1 of 24 | first: nan at t=2, index [1, 0] | upstream",
    ),
    case(
        "inf current", ValueError, lambda: run(spoilt(INF, 3, 0, 2)),
        "lif: current | finite | first: inf at t=3, index [0, 2] | upstream",
    ),
    case("-inf current", ValueError, lambda: run(spoilt(-INF, 0, 0, 0)), "lif: current | first: -inf at t=0"),
    case("nan current, torch", ValueError, lambda: run(spoilt(NAN, 0), backend="torch"), "lif: current | 6 of 24"),
    case("nan current, plain", ValueError, lambda: run(spoilt(NAN, 0), backend="reference"), "lif: current | 6 of 24"),
    case("inf, no decay", ValueError, lambda: run(spoilt(INF, 0), beta=0.0), "lif: current | 6 of 24"),
    case(
        "nan static current", ValueError, lambda: run(spoilt(NAN, 3, 1, 2)[3], steps=5),
        "lif: current | first: nan at index [1, 2] | upstream",
    ),
    case(
        "overflow", ValueError, lambda: run(CURRENT * 3e38, beta=1.0, theta=1.0),
        "lif: the membrane | although the current is | overflowed | lower | state=None",
    ),
    case(
        "nan state", ValueError, lambda: run(state=LIFState(torch.full((2, 3), NAN), torch.zeros(2, 3))),
        "lif: the membrane | state | state=None",
    ),
    case(
        "nan recurrent weight", ValueError, lambda: run(recurrent=torch.full((3, 3), NAN)),
        "lif: | recurrent",
    ),
    case("theta 0", ValueError, lambda: run(theta=0.0), "lif: theta must | > 0 | is 0; | fires at rest"),
    case("theta -1", ValueError, lambda: run(theta=-1.0), "lif: theta must | > 0 | is -1; | fires at rest"),
    case("theta nan", ValueError, lambda: run(theta=NAN), "lif: theta must | finite | is nan"),
    case("theta inf", ValueError, lambda: run(theta=INF), "lif: theta must | finite | is inf"),
    case("one bad theta", ValueError, lambda: run(theta=torch.tensor([1.0, -2.0, 1.0])), "lif: theta | is -2;"),
    case("theta_grad 0", ValueError, lambda: run(theta_grad=0.0), "lif: theta_grad | > 0 | is 0;"),
    case("theta a string", TypeError, lambda: run(theta="1"), "lif: theta | number or a tensor | a str"),
    case("theta a bool", TypeError, lambda: run(theta=True), "lif: theta | number or a tensor | a bool"),
    case(
        "theta to learn", ValueError, lambda: run(theta=torch.tensor(1.0, requires_grad=True)),
        "lif: theta | not require grad | theta.detach() | learn beta",
    ),
    case(
        "theta_grad to learn", ValueError, lambda: run(theta_grad=torch.tensor(1.0, requires_grad=True)),
        "lif: theta_grad | not require grad | detach()",
    ),
    case(
        "theta of another shape", ValueError, lambda: run(theta=torch.ones(4)),
        "lif: theta | [4] | [2, 3] | one value per neuron",
    ),
    case("theta with time", ValueError, lambda: run(theta=torch.ones(4, 2, 3)), "lif: theta | [4, 2, 3] | number"),
    case("theta_grad of another shape", ValueError, lambda: run(theta_grad=torch.ones(4)), "lif: theta_grad | [4]"),
    case("beta -0.1", ValueError, lambda: run(beta=-0.1), "lif: beta | [0, 1] | is -0.1 | kept per step"),
    case("beta 1.5", ValueError, lambda: run(beta=1.5), "lif: beta | [0, 1] | is 1.5 | kept per step"),
    case("beta nan", ValueError, lambda: run(beta=NAN), "lif: beta | [0, 1] | is nan | kept per step"),
    case("one bad beta", ValueError, lambda: run(beta=torch.tensor([0.5, 1.0, 2.0])), "lif: beta | is 2;"),
    case("beta of another shape", ValueError, lambda: run(beta=torch.ones(2)), "lif: beta | [2] | [2, 3]"),
    case("beta None", TypeError, lambda: run(beta=None), "lif: beta | number or a tensor | NoneType"),
    case("slope 0", ValueError, lambda: run(slope=0.0), "lif: slope | > 0 | is 0.0"),
    case("slope -1", ValueError, lambda: run(slope=-1.0), "lif: slope | > 0 | is -1.0"),
    case("slope nan", ValueError, lambda: run(slope=NAN), "lif: slope | finite | is nan"),
    case(
        "slope a string", TypeError, lambda: run(slope="25"),
        "lif: slope | str",
    ),
    case(
        "state of another batch", ValueError, lambda: run(state=state((5, 3), (5, 3))),
        "lif: state.membrane | [5, 3] | [2, 3] | state=None",
    ),
    case(
        "state spikes of another shape", ValueError, lambda: run(state=state(spikes=(2,))),
        "lif: state.spikes | None",
    ),
    case(
        "state level of another shape", ValueError, lambda: run(state=state(level=(3,)), adaptation=Adaptation(0.5, 1)),
        "lif: state.adaptation | [3] | state=None",
    ),
    case(
        "state elsewhere", ValueError, lambda: run(state=LIFState(*[torch.zeros(2, 3, device="meta")] * 2)),
        "lif: state.membrane | meta | cpu | move",
    ),
    case(
        "state of nothing", TypeError, lambda: run(state=LIFState(None, None)),
        "lif: state.membrane | tensor | None | state=None",
    ),
    case(
        "recurrent elsewhere", ValueError, lambda: run(recurrent=torch.zeros(3, 3, device="meta")),
        "lif: recurrent | meta | cpu | move",
    ),
    case(
        "state a pair", TypeError, lambda: run(state=(torch.zeros(2, 3), torch.zeros(2, 3))),
        "lif: state | LIFState | tuple",
    ),
    case(
        "state a tensor", TypeError, lambda: run(torch.ones(4, 2, 3, 3), state=torch.zeros(3, 2, 3, 3)),
        "lif: state | LIFState | Tensor",
    ),
    case(
        "recurrent of another size", ValueError, lambda: run(recurrent=torch.ones(4, 4)),
        "lif: recurrent | [N, N] | 3 neurons | [4, 4]",
    ),
    case("recurrent not square", ValueError, lambda: run(recurrent=torch.ones(3, 2)), "lif: recurrent | [3, 2]"),
    case(
        "recurrent a list", TypeError, lambda: run(recurrent=[[1.0]]),
        "lif: recurrent | list",
    ),
    case(
        "recurrent without a batch", ValueError, lambda: run(torch.ones(4, 3), recurrent=torch.ones(3, 3)),
        "lif: recurrent | [T, B, N]",
    ),
    case("rho 1.5", ValueError, lambda: Adaptation(1.5, 1.0), "Adaptation: rho | [0, 1] | is 1.5 | decay"),
    case("rho nan", ValueError, lambda: Adaptation(NAN, 1.0), "Adaptation: rho | [0, 1] | is nan | decay"),
    case("strength -1", ValueError, lambda: Adaptation(0.5, -1.0), "Adaptation: strength | >= 0 | is -1.0"),
    case("strength inf", ValueError, lambda: Adaptation(0.5, INF), "Adaptation: strength | finite | is inf"),
    case(
        "adaptation a pair", TypeError, lambda: run(adaptation=(0.9, 1.8)),
        "lif: adaptation | Adaptation | tuple",
    ),
    case(
        "unknown backend", ValueError, lambda: run(backend="fast"),
        "lif: backend | auto, reference, torch, c | 'fast'",
    ),
    case(
        "float64 in c", ValueError, lambda: run(CURRENT.double(), backend="c"),
        "lif: backend 'c' | float64, not float32 | use 'auto'",
    ),
    case(
        "recurrent in c", ValueError, lambda: run(recurrent=torch.ones(3, 3), backend="c"),
        "lif: backend 'c' | recurrent | use 'auto'",
    ),
    case("integer weights", TypeError, lambda: binarize(torch.tensor([1])), "binarize: w | int64 | w.float()"),
    case("clip 0", ValueError, lambda: binarize(torch.ones(1), 0.0), "binarize: clip | > 0 | is 0.0 | None never"),
    case("clip nan", ValueError, lambda: binarize(torch.ones(1), NAN), "binarize: clip | > 0 | is nan | None never"),
    case("clip -1", ValueError, lambda: BinaryLinear(2, 2, clip=-1), "BinaryLinear: clip | is -1"),
    case(
        "weights a list", TypeError, lambda: binarize([1.0]),
        "binarize: w | list",
    ),
]  # fmt: skip

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

ANNEALING = [
    case(
        "unknown layer", KeyError, lambda: ThresholdAnnealing(network(), {"layers.0.lf": Constant(1.0)}),
        "ThresholdAnnealing: | 'layers.0.lf' | known: layers.0.lif, layers.1.lif | did you mean 'layers.0.lif'",
    ),
    case(
        "nothing like it", KeyError, lambda: ThresholdAnnealing(network(), {"output": Constant(1.0)}),
        "ThresholdAnnealing: | 'output' | known: layers.0.lif, layers.1.lif",
    ),
    case(
        "too few schedules", ValueError, lambda: ThresholdAnnealing(network(), [Constant(1.0)]),
        "ThresholdAnnealing: the list | 2 | layers.0.lif, layers.1.lif | has 1 | dict by name",
    ),
    case(
        "too many schedules", ValueError, lambda: ThresholdAnnealing(network(), [Constant(1.0)] * 3),
        "ThresholdAnnealing: the list | has 3",
    ),
    case(
        "a number", TypeError, lambda: ThresholdAnnealing(network(), 2.0),
        "ThresholdAnnealing: the schedule | Relax | is 2.0",
    ),
    case(
        "a number in a list", TypeError, lambda: ThresholdAnnealing(network(), [Constant(1.0), 2.0]),
        "ThresholdAnnealing: the schedule of 'layers.1.lif' | Constant | is 2.0",
    ),
    case(
        "a function", TypeError, lambda: ThresholdAnnealing(network(), lambda k: 1.0),
        "ThresholdAnnealing: | `final`",
    ),
    case(
        "a class", TypeError, lambda: ThresholdAnnealing(network(), Relax),
        "ThresholdAnnealing: | Relax",
    ),
    case(
        "no neurons", ValueError, lambda: ThresholdAnnealing(BinaryLinear(2, 2), Constant(1.0)),
        "ThresholdAnnealing: the network | no neuron layer | LIF",
    ),
    case(
        "state without step", ValueError, lambda: loaded(step=None),
        "ThresholdAnnealing: the state | step | state_dict",
    ),
    case("step -1", ValueError, lambda: loaded(step=-1), "ThresholdAnnealing: the state's step | >= 0 | is -1"),
    case("step 1.5", ValueError, lambda: loaded(step=1.5), "ThresholdAnnealing: the state's step | whole | is 1.5"),
    case(
        "other schedules", ValueError, lambda: loaded(schedules={"layers.0.lif": [9.0, 9.0, 9.0, 9.0]}),
        "ThresholdAnnealing: the state | [9.0, | [1.0, | create it with the saved ones",
    ),
]  # fmt: skip

LOSSES = [
    case(
        "spikes of 2 dimensions", ValueError, lambda: count_loss(SPIKES[0], LABELS),
        "count_loss: spikes | [T, B, classes] | [2, 3]",
    ),
    case(
        "labels of another number", ValueError, lambda: count_loss(SPIKES, LABELS[:1]),
        "count_loss: labels | [2] | [1]",
    ),
    case(
        "float labels", ValueError, lambda: count_loss(SPIKES, LABELS.float()),
        "count_loss: labels | whole numbers | float32",
    ),
    case(
        "one-hot labels", ValueError, lambda: count_loss(SPIKES, torch.eye(3)[:2]),
        "count_loss: labels | [2] | [2, 3]",
    ),
    case("label 3 of 3", ValueError, lambda: count_loss(SPIKES, LABELS + 1), "count_loss: labels | 0..2 | 1..3"),
    case("label -1", ValueError, lambda: count_loss(SPIKES, LABELS - 1), "count_loss: labels | 0..2 | -1..1"),
    case(
        "rates swapped", ValueError, lambda: count_loss(SPIKES, LABELS, 0.2, 0.8),
        "count_loss: rates | incorrect < correct | 0.8 and 0.2",
    ),
    case("rate above 1", ValueError, lambda: count_loss(SPIKES, LABELS, 1.2), "count_loss: rates | <= 1 | 0.2 and 1.2"),
    case(
        "rate below 0", ValueError, lambda: count_loss(SPIKES, LABELS, 0.8, -0.1),
        "count_loss: rates | 0 <= | -0.1 and 0.8",
    ),
    case(
        "integer spikes", TypeError, lambda: count_loss(SPIKES.long(), LABELS),
        "count_loss: spikes | int64",
    ),
    case(
        "no steps to count", ValueError, lambda: count_loss(SPIKES[:0], LABELS),
        "count_loss: spikes | [0, 2, 3]",
    ),
    case(
        "labels a list", TypeError, lambda: count_loss(SPIKES, [0, 2]),
        "count_loss: labels | list",
    ),
    case(
        "target of another time", ValueError, lambda: trace_loss(torch.ones(4, 2), torch.ones(5)),
        "trace_loss: target | 4 time steps | [5]",
    ),
    case(
        "target of another width", ValueError, lambda: trace_loss(torch.ones(4, 2), torch.ones(4, 3)),
        "trace_loss: target | [4, 3] | [4, 2]",
    ),
    case(
        "target of more dimensions", ValueError, lambda: trace_loss(torch.ones(4, 4), torch.ones(4, 4, 4)),
        "trace_loss: target | [4, 4, 4] | [4, 4]",
    ),
    case(
        "target of fewer dimensions", ValueError, lambda: trace_loss(torch.ones(4, 4, 4), torch.ones(4, 4)),
        "trace_loss: target | [4, 4] | [4, 4, 4]",
    ),
    case(
        "target wider than the membrane", ValueError, lambda: trace_loss(torch.ones(4, 1), torch.ones(4, 5)),
        "trace_loss: target | [4, 5] | [4, 1]",
    ),
    case(
        "target a list", TypeError, lambda: trace_loss(torch.ones(2), [1.0, 2.0]),
        "trace_loss: target | tensor | list",
    ),
    case(
        "membrane that was not kept", TypeError, lambda: trace_loss(None, torch.ones(4)),
        "trace_loss: membrane | None | keep_membrane",
    ),
]  # fmt: skip

ENCODERS = [
    case(
        "pixels", ValueError, lambda: poisson(torch.tensor([0.0, 255.0]), 3),
        "poisson: rates | [0, 1] | 0..255 | divide images by 255",
    ),
    case("negative rate", ValueError, lambda: poisson(torch.tensor([-0.5]), 3), "poisson: rates | [0, 1] | -0.5..-0.5"),
    case("nan rate", ValueError, lambda: poisson(torch.tensor([NAN]), 3), "poisson: rates | [0, 1] | nan"),
    case("integer rates", TypeError, lambda: poisson(torch.tensor([1]), 3), "poisson: rates | floating point | int64"),
    case("poisson, 0 steps", ValueError, lambda: poisson(torch.rand(2), 0), "poisson: steps | >= 1 | is 0"),
    case("latency, 1.5 steps", ValueError, lambda: latency(torch.rand(2), 1.5), "latency: steps | whole | is 1.5"),
    case(
        "intensity of pixels", ValueError, lambda: latency(torch.tensor([255.0]), 3),
        "latency: intensity | [0, 1] | 255 | divide",
    ),
    case(
        "integer intensity", TypeError, lambda: latency(torch.tensor([1]), 3),
        "latency: intensity | floating point | int64",
    ),
    case(
        "rates a list", TypeError, lambda: poisson([0.5], 3),
        "poisson: rates | list",
    ),
    case(
        "silent below nan", ValueError, lambda: latency(torch.rand(2), 3, silent_below=NAN),
        "latency: silent_below | nan",
    ),
]  # fmt: skip

EXPERIMENTS = [
    case(
        "wrong table", ValueError, lambda: spec(network={"beta": 0.5}),
        "mine.toml: | no table is named [network] | [data], [net], [train] | did you mean [net]",
    ),
    case(
        "number in quotes", ValueError, lambda: spec(train={"lr": "1e-3"}),
        "mine.toml: train.lr: | a valid number | '1e-3' | without quotes: 1e-3",
    ),
    case(
        "one bad setting of several", ValueError, lambda: spec("train.epochs=3", "train.lr=-1", "net.beta=0.5"),
        "--set train.lr=-1: train.lr: | greater than 0 | is -1",
    ),
    case(
        "settings that do not go together", ValueError, lambda: spec("train.epochs=3", "train.schedule=cosine"),
        "--set train.schedule=cosine: train.half_period is missing",
    ),
    case(
        "data for an experiment", ValueError, lambda: preset_or_file("mine.npz"),
        "mine.npz | an experiment is a preset or a TOML file | [data] file = 'mine.npz' | bitspike preset show",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "says"),
    EXPERIMENTS + SCHEDULES + SCAN + LAYERS + NOTATION + NETWORKS + ANNEALING + LOSSES + ENCODERS,
)
def test_bad_input_is_one_clear_line(call, error, says):
    with pytest.raises(error) as caught:
        call()
    message = caught.value.args[0]
    assert message.startswith(says[0]), message
    assert "\n" not in message
    position = 0
    for part in says:
        position = message.find(part, position)
        assert position >= 0, f"{part!r} is not in {message!r}, or not in this order"


def test_every_backend_refuses_what_is_not_finite(backend):
    with pytest.raises(ValueError, match=r"lif: current must be finite, but 1 of 24 .* at t=1, index \[0, 1\]"):
        run(spoilt(NAN, 1, 0, 1), backend=backend)


def test_a_missing_kernel_says_why(monkeypatch):
    monkeypatch.setattr("bitspike.ops.native.library.library", lambda: None)
    with pytest.raises(ValueError, match=r"lif: backend 'c' cannot run.*missing or out of date.*use 'auto'"):
        run(backend="c")


def test_a_wrong_backend_in_the_environment_is_named_as_such(monkeypatch):
    monkeypatch.setenv("BITSPIKE_BACKEND", "fast")
    with pytest.raises(ValueError, match=r"BITSPIKE_BACKEND.*auto, reference, torch, c.*'fast'"):
        run()


def test_a_refused_call_leaves_the_network_usable():
    net = network()
    with pytest.raises(ValueError, match="finite"):
        net(torch.full((2, 6), NAN))
    assert net(torch.rand(2, 6)).spikes.shape == (3, 2, 2)
