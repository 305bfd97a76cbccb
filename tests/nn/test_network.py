"""Networks from the paper's notation: their parts, their sizes, and the laws of time through many layers."""

import copy
import math

import pytest
import torch
from torch import nn

from bitspike import (
    LIF,
    Adaptation,
    BinaryConv2d,
    BinaryLinear,
    Constant,
    RecurrentLIF,
    Relax,
    ThresholdAnnealing,
    build,
    count_loss,
    initialize,
)
from bitspike.nn import SharedBatchNorm2d, StepBatchNorm2d

CONV = "3Conv3-AP2-4Conv2-MP2-4Dense6Dense3"
SHAPE = (2, 8, 8)


def exact_net(notation=CONV, shape=SHAPE, **kwargs):
    """A network whose every sum is exact in float32, so that spikes can be compared bit for bit."""
    kwargs = {"beta": 0.5, "theta": 0.5, "slope": 1.0, "steps": 7} | kwargs
    net = build(notation, shape, **kwargs)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_((parameter * 16).round() / 8)
    return net


def exact_input(*shape):
    return torch.randint(0, 9, shape) / 4


# ---- What is built


def test_the_parts_of_every_layer():
    net = build(CONV, SHAPE, norm="step", dropout=[0.25, 0.5], theta=[1.0, 2.0, 3.0, 4.0], beta=0.7, slope=5.0)
    first, second, third, last = net.layers
    assert [type(layer.synapse) for layer in net.layers] == [BinaryConv2d, BinaryConv2d, BinaryLinear, BinaryLinear]
    assert (first.synapse.in_channels, first.synapse.out_channels, first.synapse.kernel_size) == (2, 3, (3, 3))
    assert (last.synapse.in_features, last.synapse.out_features) == (6, 3)
    assert isinstance(first.pools[0], nn.AvgPool2d)
    assert isinstance(second.pools[0], nn.MaxPool2d)
    assert isinstance(first.norm, StepBatchNorm2d)
    assert third.norm is None
    assert first.synapse.bias is None
    assert third.synapse.bias is not None
    assert [layer.dropout.p for layer in net.layers] == [0, 0, 0.25, 0.5]
    assert [layer.lif.theta.item() for layer in net.layers] == [1, 2, 3, 4]
    assert {layer.lif.slope for layer in net.layers} == {5.0}
    assert [layer.lif.beta.item() for layer in net.layers] == pytest.approx([0.7] * 4)
    assert net.neuron_names() == [name for name, module in net.named_modules() if isinstance(module, LIF)]


@pytest.mark.parametrize(
    ("norm", "kind"), [("step", StepBatchNorm2d), ("shared", SharedBatchNorm2d), (None, type(None))]
)
def test_the_norm_of_convolutions(norm, kind):
    net = build("2Conv3-18Dense3", (1, 5, 5), norm=norm)
    assert type(net.layers[0].norm) is kind
    net(torch.rand(4, 3, 1, 5, 5))


def test_one_value_a_layer():
    net = build("4-3-2", beta=[0.25, 0.75], slope=[1.0, 2.0])
    assert [layer.lif.beta.item() for layer in net.layers] == [0.25, 0.75]
    assert [layer.lif.slope for layer in net.layers] == [1.0, 2.0]


def test_a_number_of_any_kind_is_a_number():
    assert build("4-3", theta=torch.tensor(2.0)).layers[0].lif.theta.item() == 2.0


def weights(net):
    return [module.weight.numel() for module in net.modules() if isinstance(module, (BinaryConv2d, BinaryLinear))]


def test_the_papers_networks_have_the_papers_sizes():
    fashion = build("16Conv5-AP2-64Conv5-AP2-1024Dense10", (1, 28, 28), norm="step")
    assert weights(fashion) == [400, 25_600, 10_240]
    assert sum(weights(fashion)) == 36_240
    # Beside them one scale and shift a channel, and one bias a class.
    assert sum(p.numel() for p in fashion.parameters()) == 36_240 + 2 * (16 + 64) + 10
    assert weights(build("16Conv5-AP2-32Conv5-AP2-800Dense11", (2, 32, 32))) == [800, 12_800, 8_800]
    assert weights(build("700Dense3000Dense20")) == [2_100_000, 60_000]


def test_the_papers_static_network_runs():
    net = build("16Conv5-AP2-64Conv5-AP2-1024Dense10", (1, 28, 28), norm="step", theta=[7.0, 10.0, 18.0])
    out = net(torch.rand(2, 1, 28, 28), steps=5)
    assert out.spikes.shape == out.membrane.shape == (5, 2, 10)
    assert out.state.membrane.shape == (2, 10)


@pytest.mark.parametrize("training", [False, True])
def test_a_network_is_its_layers_in_a_row(training):
    # The paper's order inside a block: synapse, pool, batch norm, neurons. Pool and norm commute, but not in training.
    net = exact_net(norm="step").train(training)
    x = exact_input(6, 2, *SHAPE)
    spikes = x
    for layer in net.layers:
        steps = []
        for step in spikes:
            y = step
            if isinstance(layer.synapse, BinaryLinear):
                y = y.flatten(1)
            y = layer.synapse(y)
            for pool in layer.pools:
                y = pool(y)
            if layer.norm is not None:
                y = layer.norm(y)
            steps.append(y)
        spikes = layer.lif(torch.stack(steps)).spikes
    assert spikes.any()
    assert torch.equal(net(x).spikes, spikes)


def test_the_float_twin_uses_the_weights_themselves():
    net = build("4-3", binary=False, beta=0.0, theta=100.0)
    x = torch.randn(2, 4)
    synapse = net.layers[0].synapse
    assert torch.equal(net(x, steps=1).membrane[0], nn.functional.linear(x, synapse.weight, synapse.bias))
    assert not build("4-3-2", binary=False, recurrent=True).layers[0].lif.binary


def test_clip_reaches_every_synapse():
    net = build("2Conv3-18Dense4Dense3", (1, 5, 5), clip=0.5, recurrent=True)
    assert [layer.synapse.clip for layer in net.layers] == [0.5] * 3
    assert net.layers[1].lif.clip == 0.5


def test_a_network_says_what_it_is():
    assert "'4-3-2', input_shape=(4,), steps=50" in repr(build("4-3-2", steps=50))


# ---- Where weights start


def state_equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


@pytest.mark.parametrize("init", ["torch", "released"])
def test_a_generator_makes_a_network_reproducible_and_leaves_the_global_one(init):
    before = torch.get_rng_state()
    kwargs = {"init": init, "recurrent": True, "norm": "step"}
    one, same, other = (build(CONV, SHAPE, generator=torch.Generator().manual_seed(s), **kwargs) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert state_equal(one, same)
    assert not state_equal(one, other)


def test_without_a_generator_the_global_one_is_used():
    torch.manual_seed(5)
    one = build(CONV, SHAPE)
    torch.manual_seed(5)
    assert state_equal(one, build(CONV, SHAPE))
    assert not state_equal(one, build(CONV, SHAPE))


def assert_uniform_up_to(values, bound):
    assert values.abs().max() <= bound
    assert values.abs().max() > 0.95 * bound
    # A uniform distribution's standard deviation is bound/sqrt(3).
    assert values.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.15)


def test_released_weights_start_within_their_bounds_and_biases_at_zero():
    net = build(
        "16Conv5-AP2-8Conv3-800Dense50", (4, 28, 28), init="released", generator=torch.Generator().manual_seed(0)
    )
    conv, _, dense = net.layers
    assert_uniform_up_to(conv.synapse.weight, math.sqrt(1.5 / (25 * 4 + 25 * 16)))
    assert_uniform_up_to(dense.synapse.weight, math.sqrt(1.5 / (800 + 50)))
    assert not dense.synapse.bias.any()


def test_torch_weights_start_as_pytorchs_do():
    net = build("16Conv5-AP2-8Conv3-800Dense50", (4, 28, 28), generator=torch.Generator().manual_seed(0))
    conv, _, dense = net.layers
    assert_uniform_up_to(conv.synapse.weight, 1 / math.sqrt(4 * 25))
    assert_uniform_up_to(dense.synapse.weight, 1 / math.sqrt(800))
    assert_uniform_up_to(dense.synapse.bias, 1 / math.sqrt(800))


def test_initialize_draws_any_module_anew():
    net = nn.Sequential(BinaryLinear(100, 50), RecurrentLIF(50))
    initialize(net, "released", torch.Generator().manual_seed(0))
    assert_uniform_up_to(net[0].weight, 0.1)
    assert_uniform_up_to(net[1].weight, 1 / math.sqrt(50))


# ---- Time


@pytest.mark.parametrize("norm", ["step", "shared", None])
def test_a_static_input_is_a_repeated_one(norm):
    net = exact_net(norm=norm).eval()
    x = exact_input(2, *SHAPE)
    static, repeated = net.run(x), net.run(x.expand(7, *x.shape))
    assert static[-1].spikes.any()
    for one, other in zip(static, repeated, strict=True):
        assert torch.equal(one.spikes, other.spikes)
        assert torch.equal(one.membrane, other.membrane)


def test_a_static_input_trains_the_step_norm_like_a_repeated_one():
    net = build(CONV, SHAPE, norm="step", theta=0.5)
    other = copy.deepcopy(net)
    x = torch.rand(4, *SHAPE)
    net(x, steps=9)
    other(x.expand(9, *x.shape))
    one, two = net.layers[0].norm, other.layers[0].norm
    torch.testing.assert_close(one.running_mean, two.running_mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(one.running_var, two.running_var, rtol=1e-6, atol=1e-6)
    assert one.num_batches_tracked == two.num_batches_tracked == 9
    assert one.running_mean.all()


def test_steps_are_the_networks_unless_given():
    net = build("4-3", steps=11)
    assert net(torch.rand(2, 4)).spikes.shape == (11, 2, 3)
    assert net(torch.rand(2, 4), steps=3).spikes.shape == (3, 2, 3)
    assert net(torch.rand(5, 2, 4)).spikes.shape == (5, 2, 3)
    assert net(torch.rand(5, 2, 4), steps=5).spikes.shape == (5, 2, 3)
    assert build("4-3")(torch.rand(2, 4)).spikes.shape == (100, 2, 3)


FORMS = {"plain": {}, "recurrent": {"recurrent": True}, "adaptive": {"adaptation": Adaptation(0.5, 1.0)}}


@pytest.mark.parametrize("cut", [1, 4, 8])
@pytest.mark.parametrize("form", FORMS)
def test_a_stream_in_pieces_is_the_whole(cut, form):
    net = exact_net(norm="step", **FORMS[form]).eval()
    x = exact_input(9, 2, *SHAPE)
    whole = net.run(x)
    first = net.run(x[:cut])
    second = net.run(x[cut:], states=[out.state for out in first])
    assert whole[-1].spikes.any()
    for all_at_once, one, two in zip(whole, first, second, strict=True):
        assert torch.equal(torch.cat([one.spikes, two.spikes]), all_at_once.spikes)
        assert torch.equal(torch.cat([one.membrane, two.membrane]), all_at_once.membrane)
        assert torch.equal(two.state.membrane, all_at_once.state.membrane)


def test_a_static_stream_in_pieces_is_the_whole():
    net, x = exact_net().eval(), exact_input(2, *SHAPE)
    first = net.run(x, steps=3)
    second = net.run(x, steps=4, states=[out.state for out in first])
    assert torch.equal(torch.cat([first[-1].spikes, second[-1].spikes]), net(x, steps=7).spikes)


# ---- Dropout


def dropped(p, training, x=None, steps=400):
    """Currents [T, B, N] of a dense layer whose every current is 4: no decay, no spikes, weights of +1."""
    net = build("4-20", beta=0.0, theta=1e6, dropout=p).train(training)
    with torch.no_grad():
        net.layers[0].synapse.weight.fill_(1.0)
        net.layers[0].synapse.bias.zero_()
    return net(torch.ones(3, 4) if x is None else x, steps=steps).membrane


@pytest.mark.parametrize("p", [0.25, 0.5, 0.75])
def test_dropout_silences_its_share_of_the_current_and_scales_the_rest(p):
    current = dropped(p, training=True)
    assert current.unique().tolist() == pytest.approx([0.0, 4 / (1 - p)])
    share = current.eq(0).float().mean().item()
    assert share == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / current.numel()))


@pytest.mark.parametrize("sequence", [False, True], ids=["static", "sequence"])
def test_dropout_draws_a_mask_for_every_step(sequence):
    current = dropped(0.5, training=True, x=torch.ones(400, 3, 4) if sequence else None)
    assert current.shape == (400, 3, 20)
    # Two steps agree on half of their 60 currents, never on nearly all of them.
    assert (current[1:] == current[:-1]).float().mean((1, 2)).max() < 0.9


def test_evaluation_drops_nothing():
    assert dropped(0.5, training=False).unique().tolist() == [4.0]
    assert dropped(0.0, training=True).unique().tolist() == [4.0]


def test_dropout_acts_on_the_current_not_on_spikes():
    net = build("4-20", dropout=0.5, theta=0.01)
    assert set(net(torch.rand(3, 4)).spikes.unique().tolist()) == {0, 1}


# ---- Recording


def test_record_collects_every_layer():
    net, x = exact_net().eval(), exact_input(2, *SHAPE)
    with net.record() as layers:
        out = net(x)
    assert list(layers) == net.neuron_names()
    for recorded, wanted in zip(layers.values(), net.run(x), strict=True):
        assert torch.equal(recorded.spikes, wanted.spikes)
        assert torch.equal(recorded.membrane, wanted.membrane)
    assert layers["layers.3.lif"] is out


def test_only_the_last_membrane_is_kept_outside_a_record():
    net = build("4-3-2")
    hidden, last = net.run(torch.rand(1, 4), keep_hidden_membrane=False)
    assert hidden.membrane is None
    assert last.membrane is not None
    assert net(torch.rand(1, 4)).membrane is not None


def test_a_record_ends_with_its_block():
    net = build("4-3-2", steps=3)
    with net.record() as layers:
        net(torch.rand(1, 4))
        last = net(torch.rand(1, 4))
    assert layers["layers.1.lif"] is last
    before = dict(layers)
    net(torch.rand(1, 4))
    assert layers == before


def test_a_record_inside_a_record_gives_the_outer_one_back():
    net = build("4-3-2", steps=3)
    with net.record() as outer:
        with net.record() as inner:
            within = net(torch.rand(1, 4))
        after = net(torch.rand(1, 4))
    assert inner["layers.1.lif"] is within
    assert outer["layers.1.lif"] is after


def test_an_error_ends_a_record():
    net = build("4-3-2", steps=3)
    with pytest.raises(ValueError, match="SpikingNetwork: input"), net.record() as layers:
        net(torch.rand(1, 5))
    net(torch.rand(1, 4))
    assert layers == {}


# ---- Saving, copying, training


def test_a_state_dict_restores_everything_that_matters():
    net = exact_net(norm="step", recurrent=True, learn_beta=True)
    net(exact_input(3, *SHAPE))
    ThresholdAnnealing(net, Constant(2.5))
    other = exact_net(norm="step", recurrent=True, learn_beta=True)
    other.load_state_dict(net.state_dict())
    x = exact_input(2, *SHAPE)
    net.eval()
    other.eval()
    assert torch.equal(net(x).membrane, other(x).membrane)
    assert other.layers[0].lif.theta.item() == 2.5


def test_a_copy_is_equal_and_its_own():
    net = exact_net(norm="step").eval()
    other, x = copy.deepcopy(net), exact_input(2, *SHAPE)
    assert torch.equal(net(x).membrane, other(x).membrane)
    with torch.no_grad():
        other.layers[-1].synapse.weight.neg_()
        other.layers[0].lif.theta.fill_(9.0)
    assert not torch.equal(net(x).membrane, other(x).membrane)
    assert net.layers[0].lif.theta.item() == 0.5


VARIANTS = {
    "plain": {},
    "float": {"binary": False},
    "norm": {"norm": "step"},
    "shared": {"norm": "shared"},
    "dropout": {"dropout": 0.3},
    "beta": {"learn_beta": True},
    "recurrent": {"recurrent": True},
    "recurrent beta": {"recurrent": True, "learn_beta": True},
    "adaptive": {"adaptation": Adaptation(0.9, 0.5)},
    "everything": {
        "norm": "step",
        "dropout": 0.3,
        "learn_beta": True,
        "recurrent": True,
        "adaptation": Adaptation(0.9, 0.5),
        "clip": 1.0,
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_trains_and_anneals(variant):
    net = build(CONV, SHAPE, theta=0.6, slope=1.0, steps=10, **VARIANTS[variant])
    annealing = ThresholdAnnealing(net, Relax(0.5, 1.0, 0.5))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    before = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
    loss = count_loss(net(torch.rand(4, *SHAPE)).spikes, torch.tensor([0, 1, 2, 0]))
    loss.backward()
    optimizer.step()
    annealing.step()
    for name, parameter in net.named_parameters():
        assert parameter.isfinite().all(), name
        assert not torch.equal(parameter, before[name]), name
    assert list(annealing.thresholds().values()) == [0.75] * 4
    net(torch.rand(4, *SHAPE))


def test_learnt_decays_are_one_a_dense_neuron_and_one_a_convolution():
    net = build(CONV, SHAPE, learn_beta=True, recurrent=True)
    assert [tuple(layer.lif.beta.shape) for layer in net.layers] == [(), (), (6,), (3,)]


def test_recurrence_is_in_every_dense_layer_but_the_last():
    net = build(CONV, SHAPE, recurrent=True)
    assert [isinstance(layer.lif, RecurrentLIF) for layer in net.layers] == [False, False, True, False]


def test_surrogate_center_and_backend_reach_every_layer():
    net = build(CONV, SHAPE, surrogate_center="current", backend="reference", recurrent=True)
    assert {layer.lif.surrogate_center for layer in net.layers} == {"current"}
    assert {layer.lif.backend for layer in net.layers} == {"reference"}
