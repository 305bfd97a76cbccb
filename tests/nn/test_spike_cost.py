"""`net.spike_cost`: what it adds to gradients, and which values it may have."""

import pytest
import torch

from bitspike import build
from bitspike.nn.sharding import Shard
from bitspike.nn.spike_cost import gradient_of_spikes


def test_its_gradient_is_the_cost_for_each_sample_of_the_whole_batch():
    assert gradient_of_spikes(0.5, 4, 1, None) == 0.125
    assert gradient_of_spikes(0.5, 20, 5, None) == 0.125  # 4 images, seen at 5 places each
    assert gradient_of_spikes(0.5, 1, 1, Shard(0, 1, 4, lambda tensor: tensor)) == 0.125
    assert gradient_of_spikes(0.0, 4, 1, None) == 0.0
    assert gradient_of_spikes(0.5, 0, 1, None) == 0.0


@pytest.mark.parametrize("call", [lambda net, x: net(x), lambda net, x: net.observe(x).output])
def test_every_call_of_the_network_adds_it_and_layers_that_do_not_learn_need_none(call):
    net = build("9-8-7-3", theta=0.5)
    x = torch.rand(5, 4, 9)
    *hidden, output = net.run(x)
    wanted = torch.autograd.grad(
        output.spikes.sum() + 0.5 * sum(layer.spikes.sum() for layer in hidden) / 4, net.layers[0].synapse.weight
    )[0]
    net.spike_cost = 0.5
    found = torch.autograd.grad(call(net, x).spikes.sum(), net.layers[0].synapse.weight)[0]
    torch.testing.assert_close(found, wanted)
    net.layers[0].requires_grad_(False)
    call(net, x).spikes.sum().backward()
    with torch.no_grad():
        call(net, x)


def test_a_network_without_our_dropout_pays_too():
    net = build("9-8-3", theta=0.5)
    net.layers[0].dropout = torch.nn.Identity()
    x = torch.rand(5, 4, 9)
    hidden, output = net.run(x)
    paid = output.spikes.sum() + 0.5 * hidden.spikes.sum() / 4
    weight = net.layers[0].synapse.weight
    (wanted,) = torch.autograd.grad(paid, weight)
    (free,) = torch.autograd.grad(net(x).spikes.sum(), weight)
    net.spike_cost = 0.5
    (found,) = torch.autograd.grad(net(x).spikes.sum(), weight)
    torch.testing.assert_close(found, wanted)
    assert not torch.allclose(found, free)


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (-1e-9, ValueError, "from 0 to 1e\\+37, but is -1e-09; 0 costs nothing"),
        (float("nan"), ValueError, "but is nan"),
        (float("inf"), ValueError, "but is inf"),
        ("much", TypeError, "must be a number, but is 'much'"),
        (True, TypeError, "must be a number, but is True"),
    ],
)
def test_a_wrong_cost_is_refused_where_it_is_set(value, error, says):
    net = build("9-8-3")
    with pytest.raises(error, match=rf"SpikingNetwork: spike_cost .*{says}"):
        net.spike_cost = value
    assert net.spike_cost == 0.0
