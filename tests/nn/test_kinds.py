"""Kinds of neurons: names in a table, or a function of the user's; what is wrong is said in a line."""

import pytest
import torch

from bitspike import LIF, Adaptation, AdaptiveLIF, Constant, RecurrentLIF, ThresholdAnnealing, build
from bitspike.nn import NeuronLayer
from bitspike.nn.kinds import NEURONS

NOTATION, SHAPE = "3Conv3-AP2-48Dense7Dense4", (1, 10, 10)


class Doubled(LIF):
    """LIF of twice the current."""

    def forward(self, current, state=None, **kwargs):
        return super().forward(2 * current, state, **kwargs)


def network(**settings):
    return build(NOTATION, SHAPE, steps=5, generator=torch.Generator().manual_seed(0), **settings)


def kinds(net):
    return [type(layer.lif) for layer in net.layers]


def test_every_name_of_the_table_makes_a_network_that_runs():
    for name in NEURONS:
        assert network(neuron=name)(torch.rand(2, *SHAPE)).spikes.shape == (5, 2, 4)


def test_names_give_their_classes():
    assert kinds(network()) == kinds(network(neuron="lif")) == [LIF] * 3
    assert kinds(network(neuron="recurrent")) == kinds(network(recurrent=True)) == [LIF, RecurrentLIF, LIF]
    assert kinds(network(neuron="adaptive")) == [AdaptiveLIF] * 3


def test_recurrent_is_one_kind_however_it_is_asked_for():
    settings = {"learn_beta": True, "binary": False, "clip": 0.5}
    asked, named = network(recurrent=True, **settings), network(neuron="recurrent", **settings)
    assert network(recurrent=True, neuron="recurrent").layers[1].lif.binary
    assert (asked.layers[1].lif.binary, asked.layers[1].lif.clip) == (False, 0.5)
    for name, value in asked.state_dict().items():
        assert torch.equal(value, named.state_dict()[name]), name


def test_adaptive_neurons_take_the_adaptation_that_is_given():
    assert network(neuron="adaptive").layers[0].lif.adaptation == AdaptiveLIF().adaptation
    assert network(neuron="adaptive", adaptation=Adaptation(0.5, 0.25)).layers[0].lif.adaptation == Adaptation(
        0.5, 0.25
    )
    assert network(adaptation=Adaptation(0.5, 0.25)).layers[0].lif.adaptation == Adaptation(0.5, 0.25)


def test_a_function_is_told_of_each_layer():
    told = []

    def make(layer):
        told.append(layer)
        return LIF(**layer.settings)

    net = network(neuron=make, beta=[0.5, 0.25, 0.75], theta=2.0, learn_beta=True, binary=False, clip=1.0)
    assert all(isinstance(layer, NeuronLayer) for layer in told)
    assert [(layer.index, layer.last, layer.shape) for layer in told] == [
        (0, False, (3, 4, 4)),
        (1, False, (7,)),
        (2, True, (4,)),
    ]
    assert {(layer.binary, layer.clip) for layer in told} == {(False, 1.0)}
    assert [layer.settings["beta"] for layer in told] == [0.5, 0.25, 0.75]
    assert [tuple(layer.lif.beta.shape) for layer in net.layers] == [(), (7,), (4,)]


def test_own_neurons_run_as_they_say_and_can_be_annealed():
    net = network(neuron=lambda layer: Doubled(**layer.settings), theta=1.5)
    x = torch.rand(2, *SHAPE)
    block = net.layers[0]
    assert torch.equal(block(x, steps=5).spikes, block.lif(block.pooled(x), steps=5).spikes)
    plain = LIF(theta=1.5)(2 * block.pooled(x), steps=5)
    assert torch.equal(net.run(x)[0].spikes, plain.spikes)
    ThresholdAnnealing(net, Constant(3.0))
    assert [layer.lif.theta.item() for layer in net.layers] == [3.0] * 3


def test_own_neurons_are_not_fused_and_the_network_says_why():
    pytest.importorskip("triton")
    device = "cuda" if torch.cuda.is_available() else "cpu"  # where Triton's interpreter runs
    x = torch.rand(2, *SHAPE, device=device)
    assert network().to(device).unfused(x) is None
    reason = network(neuron=lambda layer: Doubled(**layer.settings)).to(device).unfused(x)
    assert reason == f"layer 1 has a {__name__}.Doubled in place of a LIF"


def test_own_neurons_of_a_dense_layer_are_called_on_spikes():
    net = build("30Dense20Dense5", neuron=lambda layer: Doubled(**layer.settings), theta=3.0)
    x = (torch.rand(6, 2, 30) < 0.1).float()
    block = net.layers[0]
    assert torch.equal(block(x).spikes, LIF(theta=3.0)(2 * block.synapse(x)).spikes)


@pytest.mark.parametrize(
    ("neuron", "error", "says"),
    [
        (
            "synaptic",
            ValueError,
            "build: neuron must be one of lif, recurrent, adaptive, or a function .* is 'synaptic'",
        ),
        (None, TypeError, r"build: neuron must be a name or a function .* is None; write neuron=lambda layer: MyLIF\("),
        (3, TypeError, "build: neuron must be a name or a function .* is 3; write neuron=lambda"),
        (Doubled, TypeError, r"build: neuron must .* is the class Doubled; write neuron=lambda layer: Doubled\(\*\*"),
        (lambda layer: torch.nn.ReLU(), TypeError, "neuron must make a LIF or a class .* made a ReLU for layer 1"),
        (lambda layer: Doubled, TypeError, "neuron must make a LIF .* made a type for layer 1"),
    ],
)
def test_what_is_no_kind_of_neuron_is_refused(neuron, error, says):
    with pytest.raises(error, match=says) as raised:
        network(neuron=neuron)
    assert "\n" not in str(raised.value)


def test_one_kind_at_a_time():
    with pytest.raises(ValueError, match=r"recurrent=True means neuron='recurrent', but neuron is 'adaptive'; leave"):
        network(neuron="adaptive", recurrent=True)


def test_layers_do_not_share_neurons():
    one = LIF()
    with pytest.raises(
        ValueError, match="neuron must make new neurons for each layer, but gave layer 2 those of layer 1"
    ):
        network(neuron=lambda layer: one)
