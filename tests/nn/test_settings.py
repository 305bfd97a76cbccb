"""Settings of layers and networks are checked where they are set, on every backend alike; what is right is kept."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from bitspike import LIF, Adaptation, AdaptiveLIF, RecurrentLIF, Relax, ThresholdAnnealing, build, lif
from bitspike.nn import BinaryConv2d, BinaryLinear
from bitspike.nn.dropout import Dropout

NAN, INF = float("nan"), float("inf")
KINDS = {
    "LIF": LIF,
    "AdaptiveLIF": AdaptiveLIF,
    "RecurrentLIF": lambda **given: RecurrentLIF(3, **given),
}
BACKENDS = ("auto", "reference", "torch", "c")


def a_network(**options):
    return build("3Conv3-AP2-27Dense4", (1, 8, 8), **options)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["theta", "theta_grad"])
def test_a_threshold_cannot_be_learnt(kind, name, backend):
    layer = KINDS[kind](backend=backend)
    says = rf"^{kind}: {name} cannot be learnt: thresholds follow a schedule and get no gradient; .*learn_beta=True"
    learnt = [
        nn.Parameter(torch.tensor(2.0)),
        nn.Parameter(torch.tensor(2.0), requires_grad=False),  # the optimizer would own it all the same
        torch.tensor(2.0, requires_grad=True),
        torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
    ]
    for value in learnt:
        with pytest.raises(TypeError, match=says):
            setattr(layer, name, value)
        with pytest.raises(TypeError, match=says):
            layer.register_buffer(name, value)
    with pytest.raises(TypeError, match=says):
        layer.register_parameter(name, learnt[0])
    assert name not in dict(layer.named_parameters())
    assert getattr(layer, name).item() == 1.0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["theta", "theta_grad"])
def test_a_threshold_that_is_made_to_require_grad_in_place_is_refused_by_every_backend(name, backend):
    # "auto" ran such a layer in C, and trained it not at all.
    net = build("30Dense20Dense5", backend=backend)
    getattr(net.layers[0].lif, name).requires_grad_()
    spikes = (torch.rand(6, 2, 30) < 0.3).float()
    with pytest.raises(ValueError, match=rf"lif: {name} must not require grad"):
        net(spikes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_is_written_into_the_threshold(kind):
    layer = KINDS[kind](theta=2.0, slope=1.0)
    buffer = layer.theta
    layer.theta = 3
    assert layer.theta is buffer  # a captured graph reads that address
    assert (layer.theta.item(), layer.theta_grad.item()) == (3.0, 2.0)
    layer.theta_grad = 5.0
    assert (layer.theta.item(), layer.theta_grad.item()) == (3.0, 5.0)
    moving = KINDS[kind](theta=2.0, surrogate_center="current")
    moving.theta = 3.0
    assert (moving.theta.item(), moving.theta_grad.item()) == (3.0, 3.0)
    assert set(layer.state_dict()) >= {"theta", "theta_grad"}


def test_a_tensor_takes_the_thresholds_place_and_means_one_a_neuron():
    layer = LIF(0.5, 1.0, slope=2.0)
    layer.theta = torch.tensor([1.0, 2.0, 3.0])
    current = torch.randint(0, 4, (5, 2, 3)).float()
    wanted = lif(current, beta=0.5, theta=torch.tensor([1.0, 2.0, 3.0]), theta_grad=1.0, slope=2.0)
    assert torch.equal(layer(current).spikes, wanted.spikes)
    assert layer.state_dict()["theta"].tolist() == [1.0, 2.0, 3.0]
    moving = LIF(0.5, 1.0, surrogate_center="current")
    moving.theta = torch.tensor([1.0, 2.0])
    assert moving.theta_grad.tolist() == [1.0, 2.0]
    assert moving.theta_grad is not moving.theta  # or raising one would raise the other


def test_settings_that_are_right_are_taken():
    layer = RecurrentLIF(3)
    layer.slope, layer.surrogate, layer.surrogate_center, layer.backend = 3, "arctan", "current", "reference"
    layer.adaptation, layer.binary, layer.clip = Adaptation(0.5, 1.0), False, 2
    assert (layer.slope, layer.clip, layer.adaptation) == (3.0, 2, Adaptation(0.5, 1.0))
    assert isinstance(layer.slope, float)
    layer.adaptation = layer.clip = None
    layer.binary, layer.clip = np.bool_(True), np.float32(0.5)
    net = a_network(steps=10)
    net.steps, net.glances, net.recompute = 45, 9, True
    assert net(torch.rand(2, 1, 8, 8)).spikes.shape == (45, 2, 4)


def wrong(name, value, error, says):
    return pytest.param(name, value, error, says, id=f"{name}={value!r}"[:40])


LAYER = [
    wrong("theta", -1, ValueError, "theta must be a finite number > 0, but is -1.0"),
    wrong("theta", NAN, ValueError, "theta must be a finite number > 0, but is nan"),
    wrong("theta", INF, ValueError, "theta must be a finite number > 0, but is inf"),
    wrong("theta", "3", TypeError, "theta must be a number, but is '3'"),
    wrong("theta", None, TypeError, "theta must be a number, but is None"),
    wrong("theta", [1.0, 2.0], TypeError, "theta must be a number, but is "),
    wrong("theta", torch.tensor([1.0, -2.0, 3.0]), ValueError, "theta must be finite and > 0, but is -2; "),
    wrong("theta", torch.tensor(NAN), ValueError, "theta must be finite and > 0, but is nan; "),
    wrong("theta", torch.tensor(2), TypeError, "theta must be floating point, but has dtype torch.int64; call .float"),
    wrong("theta_grad", 0.0, ValueError, "theta_grad must be a finite number > 0, but is 0.0"),
    wrong("beta", 0.5, AttributeError, "beta is given when the layer is made, "),
    wrong("slope", -3, ValueError, "slope must be a finite number > 0, but is -3.0"),
    wrong("slope", NAN, ValueError, "slope must be a finite number > 0, but is nan"),
    wrong("slope", "steep", TypeError, "slope must be a number, but is 'steep'"),
    wrong("surrogate", "foo", ValueError, "surrogate must be one of fast_sigmoid, arctan, "),
    wrong("surrogate_center", "now", ValueError, "surrogate_center must be 'initial'"),
    wrong(
        "adaptation", 3, TypeError, "adaptation must be an Adaptation, but is a int; write Adaptation(rho, strength)"
    ),
    wrong("backend", "cuda", ValueError, "backend must be one of auto, reference, torch, c, triton, but is 'cuda'; "),
    wrong("backend", None, ValueError, "backend must be one of auto, reference, torch, c, triton, but is None; "),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "value", "error", "says"), LAYER)
def test_a_wrong_setting_of_a_layer_is_refused_where_it_is_set(kind, name, value, error, says):
    layer = KINDS[kind]()
    before = layer.state_dict()
    with pytest.raises(error) as raised:
        setattr(layer, name, value)
    assert str(raised.value).startswith(f"{kind}: {says}")
    assert "\n" not in str(raised.value)
    layer(torch.ones(2, 1, 3))  # as it was
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())


@pytest.mark.parametrize("bad", [-1.0, 0.0, NAN, INF, "2", torch.ones(3)])
def test_set_theta_is_checked_before_anything_is_written(bad):
    layer = LIF(theta=2.0)
    for given in ({"theta": bad, "initial": 1.0}, {"theta": 1.0, "initial": bad}):
        with pytest.raises((TypeError, ValueError), match=r"^LIF: (theta|initial) must be "):
            layer.set_theta(**given)
    assert (layer.theta.item(), layer.theta_grad.item()) == (2.0, 2.0)


def test_thresholds_fit_the_neurons_that_a_layer_knows():
    for layer in (RecurrentLIF(3), LIF(learn_beta=True, neurons=3), LIF(torch.full((3,), 0.5))):
        layer.theta = torch.ones(3)
        with pytest.raises(ValueError, match=r"theta of shape \[4\] does not fit neurons of shape \[3\]"):
            layer.theta = torch.ones(4)


SYNAPSES = [
    lambda **given: BinaryLinear(3, 2, **given),
    lambda **given: BinaryConv2d(1, 2, 3, **given),
    KINDS["RecurrentLIF"],
]


@pytest.mark.parametrize("make", SYNAPSES)
@pytest.mark.parametrize(
    ("name", "value", "error", "says"),
    [
        wrong("clip", -1, ValueError, "clip must be > 0 or None, but is -1; None never cuts the gradient"),
        wrong("clip", NAN, ValueError, "clip must be > 0 or None, but is nan"),
        wrong("clip", "1", TypeError, "clip must be a number > 0 or None, but is '1'"),
        wrong("binary", "yes", TypeError, "binary must be True or False, but is 'yes'"),
        wrong("binary", None, TypeError, "binary must be True or False, but is None"),
    ],
)
def test_a_wrong_setting_of_a_synapse_is_refused_when_made_and_later(make, name, value, error, says):
    with pytest.raises(error) as raised:
        make(**{name: value})
    assert says in str(raised.value)
    made = make()
    with pytest.raises(error) as raised:
        setattr(made, name, value)
    assert str(raised.value).startswith(f"{type(made).__name__}: {says}")


@pytest.mark.parametrize(
    ("name", "value", "error", "says"),
    [
        wrong("p", 2, ValueError, "p must be in [0, 1), but is 2.0; it is the share that is dropped"),
        wrong("p", 1.0, ValueError, "p must be in [0, 1), but is 1.0"),
        wrong("p", -0.1, ValueError, "p must be in [0, 1), but is -0.1"),
        wrong("p", NAN, ValueError, "p must be in [0, 1), but is nan"),
        wrong("p", "0.5", TypeError, "p must be a number, but is '0.5'"),
        wrong("p", None, TypeError, "p must be a number, but is None"),
        wrong("p", True, TypeError, "p must be a number, but is True"),
    ],
)
def test_a_wrong_share_of_dropout_is_refused_when_made_and_later(name, value, error, says):
    block = build("30Dense20Dense5", dropout=0.25).layers[0]
    for give in (lambda: Dropout(value), lambda: setattr(block.dropout, name, value)):
        with pytest.raises(error) as raised:
            give()
        assert str(raised.value).startswith(f"Dropout: {says}")
    assert block.dropout.p == 0.25
    block.dropout.p = np.float32(0.5)
    assert type(block.dropout.p) is float
    assert block.dropout.p == 0.5


def test_hardness_is_a_tensor_or_none():
    synapse = BinaryLinear(3, 2)
    for bad in (2.0, torch.ones(3), torch.tensor(2), "soft"):
        with pytest.raises(TypeError, match="BinaryLinear: hardness must be a 0-d tensor or None, but is "):
            synapse.hardness = bad
    synapse.hardness = torch.tensor(2.0)
    synapse.hardness = None


@pytest.mark.parametrize(
    ("name", "value", "error", "says"),
    [
        wrong("steps", -1, ValueError, "steps must be a whole number >= 1, but is -1"),
        wrong("steps", 2.5, ValueError, "steps must be a whole number >= 1, but is 2.5"),
        wrong("glances", 4, ValueError, "glances must be 1, 5 or 9, but is 4"),
        wrong("recompute", "no", TypeError, "recompute must be True or False, but is 'no'"),
        wrong("input_shape", 784, TypeError, "input_shape must be a tuple, but is 784"),
    ],
)
def test_a_wrong_setting_of_a_network_is_refused_where_it_is_set(name, value, error, says):
    net = a_network()
    with pytest.raises(error) as raised:
        setattr(net, name, value)
    assert str(raised.value).startswith(f"SpikingNetwork: {says}")
    assert net(torch.rand(2, 1, 8, 8), steps=3).spikes.shape == (3, 2, 4)


@pytest.mark.parametrize("name", ["binary", "learn_beta", "recurrent", "recompute"])
def test_a_word_is_not_taken_for_true(name):
    with pytest.raises(TypeError, match=rf"{name} must be True or False, but is 'no'"):
        a_network(**{name: "no"})


def test_a_device_is_not_a_backend():
    says = (
        "{}: backend must be one of auto, reference, torch, c, triton, but is 'cuda'; it is a way to compute, "
        'the device is where the tensors are: net.to("cuda") and x.to("cuda")'
    )
    calls = {
        "build": lambda: a_network(backend="cuda"),
        "LIF": lambda: LIF(backend="cuda"),
        "RecurrentLIF": lambda: RecurrentLIF(3, backend="cuda"),
        "lif": lambda: lif(torch.ones(2, 1, 3), beta=0.5, theta=1.0, slope=1.0, backend="cuda"),
    }
    for where, call in calls.items():
        with pytest.raises(ValueError) as raised:  # noqa: PT011 (the whole line is compared)
            call()
        assert str(raised.value) == says.format(where)


@pytest.mark.parametrize(("rho", "strength"), [("0.9", 1.0), (0.9, None), (True, 1.0)])
def test_an_adaptation_is_of_numbers(rho, strength):
    with pytest.raises(
        TypeError, match=r"^Adaptation: (rho|strength) must be a number, but is ('0.9', a str|None|True)$"
    ):
        Adaptation(rho, strength)


def test_thresholds_are_float32_under_a_default_dtype_of_half_precision():
    # 17.95 became 18 in bfloat16, and no step of annealing moved it.
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        layer = LIF(theta=17.95)
    finally:
        torch.set_default_dtype(before)
    assert (layer.theta.dtype, layer.theta_grad.dtype, layer.beta.dtype) == (torch.float32,) * 3
    assert layer.theta.item() == pytest.approx(17.95, rel=1e-6)


# ---- What modules are used for otherwise goes on


def copies(net):
    fresh = a_network(generator=torch.Generator().manual_seed(9), theta=7.0, recurrent=True)
    fresh.load_state_dict(net.state_dict())
    assigned = a_network(generator=torch.Generator().manual_seed(9), theta=7.0, recurrent=True)
    assigned.load_state_dict(net.state_dict(), assign=True)
    with torch.device("meta"):
        empty = a_network(theta=7.0, recurrent=True)
    empty.load_state_dict(net.state_dict(), assign=True)
    return {
        "deepcopy": copy.deepcopy(net),
        "pickle": pickle.loads(pickle.dumps(net)),
        "state_dict": fresh,
        "assigned": assigned,
        "from meta": empty,
        "there and back": copy.deepcopy(net).double().float().to("cpu"),
    }


def test_copies_are_the_network():
    net = a_network(generator=torch.Generator().manual_seed(0), recurrent=True)
    net.layers[0].lif.set_theta(1.5, initial=1.25)
    net.layers[1].lif.theta = 2.0
    x = torch.rand(2, 1, 8, 8)
    wanted = net(x, steps=9).spikes
    assert wanted.any()
    for how, other in copies(net).items():
        assert torch.equal(other(x, steps=9).spikes, wanted), how
        assert other.layers[0].lif.theta.item() == 1.5, how
        assert other.layers[0].lif.theta_grad.item() == 1.25, how
        with pytest.raises(ValueError, match="slope must be"):
            other.layers[0].lif.slope = -3


def test_thresholds_may_be_exchanged_for_one_call():
    layer = LIF(0.5, 1.0)
    current = torch.full((1, 1, 1), 2.0)
    assert layer(current).spikes.item() == 1
    assert torch.func.functional_call(layer, {"theta": torch.tensor(3.0)}, (current,)).spikes.item() == 0
    assert layer(current).spikes.item() == 1


def test_thresholds_stay_float32_in_half_precision():
    layer = RecurrentLIF(3, theta=17.95).bfloat16()
    assert layer.theta.dtype == torch.float32
    assert layer.weight.dtype == torch.bfloat16


def test_a_threshold_given_in_half_precision_can_still_be_annealed():
    layer = LIF()
    layer.theta = torch.tensor(2.0, dtype=torch.bfloat16)
    annealing = ThresholdAnnealing(layer, Relax(17.0, 18.0, rate=0.001))
    for _ in range(50):
        annealing.step()
    assert layer.theta.dtype == torch.float32
    assert layer.theta.item() == pytest.approx(Relax(17.0, 18.0, rate=0.001)(50))


@pytest.mark.parametrize("name", ["theta", "slope", "beta"])
def test_a_truth_value_is_no_number(name):
    with pytest.raises(TypeError, match=f"{name} must be a number, but is True"):
        LIF(**{name: True})
