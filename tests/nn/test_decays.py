"""Decays from a range: a constant for each neuron, drawn after the weights, kept in the state."""

import pytest
import torch

from bitspike import build
from bitspike.nn import DecayRange
from bitspike.nn.decays import draw_decays

WIDE = DecayRange(0.6, 0.97)


def network(beta, seed=0, **settings):
    return build("6-50-40-3", beta=beta, generator=torch.Generator().manual_seed(seed), **settings)


def test_each_neuron_of_a_dense_layer_has_its_own_constant_decay():
    net = network([WIDE, 0.5, WIDE])
    first, second, last = (layer.lif.beta for layer in net.layers)
    assert (first.shape, second.shape, last.shape) == ((50,), (), (3,))
    assert second.item() == 0.5
    assert first.min() >= 0.6
    assert first.max() <= 0.97
    assert first.max() - first.min() > 0.3
    assert not first.requires_grad
    assert len(first.unique()) > 40


def test_a_convolution_gets_one_decay_for_all():
    net = build("3Conv3-AP2-48Dense5", (1, 10, 10), beta=WIDE)
    assert net.layers[0].lif.beta.shape == ()
    assert 0.6 <= net.layers[0].lif.beta.item() <= 0.97
    assert net.layers[1].lif.beta.shape == (5,)


def test_decays_are_drawn_after_all_weights_from_the_same_generator():
    ranged, plain = network(WIDE), network(0.9)
    for one, two in zip(ranged.layers, plain.layers, strict=True):
        assert torch.equal(one.synapse.weight, two.synapse.weight)
    again, other = network(WIDE), network(WIDE, seed=1)
    assert torch.equal(again.layers[0].lif.beta, ranged.layers[0].lif.beta)
    assert not torch.equal(other.layers[0].lif.beta, ranged.layers[0].lif.beta)


def test_without_a_generator_they_are_drawn_from_pytorchs():
    torch.manual_seed(3)
    first = build("6-50-3", beta=WIDE)
    torch.manual_seed(3)
    again = build("6-50-3", beta=WIDE)
    assert torch.equal(first.layers[0].lif.beta, again.layers[0].lif.beta)


def test_a_state_holds_the_decays():
    net, other = network(WIDE), network(WIDE, seed=1)
    other.load_state_dict(net.state_dict())
    x = torch.rand(20, 2, 6)
    assert torch.equal(net(x).membrane, other(x).membrane)
    assert net.state_dict()["layers.0.lif._beta"].shape == (50,)


def test_learnt_decays_start_in_the_range():
    net = network(WIDE, learn_beta=True)
    beta = net.layers[0].lif.beta
    assert beta.requires_grad
    assert beta.shape == (50,)
    assert 0.6 - 1e-6 <= beta.min() < beta.max() <= 0.97 + 1e-6
    assert beta.max() - beta.min() > 0.3
    with pytest.raises(ValueError, match=r"build: a learnt beta must start inside \(0, 1\)"):
        network(DecayRange(0.5, 1.0), learn_beta=True)


def test_every_kind_of_neurons_takes_a_range():
    x = torch.rand(5, 2, 6)
    for settings in ({"recurrent": True}, {"neuron": "adaptive"}, {"readout": "membrane"}):
        assert network(WIDE, **settings)(x).spikes.shape == (5, 2, 3)


def test_a_draw_is_uniform_between_low_and_high():
    lif = build("1-100000", beta=WIDE).layers[0].lif
    draw_decays(lif, DecayRange(0.25, 0.75), torch.Generator().manual_seed(0))
    assert lif.beta.mean().item() == pytest.approx(0.5, abs=5e-3)
    assert lif.beta.std().item() == pytest.approx(0.5 / 12**0.5, abs=5e-3)
    assert 0.25 <= lif.beta.min() < 0.251
    assert 0.749 < lif.beta.max() <= 0.75
    draw_decays(lif, DecayRange(0.9, 0.9), None)
    assert lif.beta.unique().tolist() == pytest.approx([0.9])


@pytest.mark.parametrize(("low", "high"), [(-0.1, 0.5), (0.5, 1.1), (0.8, 0.7), (float("nan"), 0.5)])
def test_a_wrong_range_is_one_line(low, high):
    with pytest.raises(ValueError, match="DecayRange: decays must satisfy 0 <= low <= high <= 1, but are"):
        DecayRange(low, high)
