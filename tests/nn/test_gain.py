"""nn.Gain: whole numbers in both modes, clamped, learnt; networks with gains, split in time and on static images."""

import pytest
import torch

from bitspike import Gain, build
from bitspike.nn.gain import first_gain


def network(notation="6-8-7-3", shape=None, **settings):
    settings = {"theta": [6.0, 8.0, 6.0][: notation.count("-")] or 1.0, "slope": 1.0, **settings}
    net = build(notation, shape, gains=15, generator=torch.Generator().manual_seed(0), **settings)
    for i, layer in enumerate(net.layers):
        if layer.gain is not None:
            drawn = torch.rand(len(layer.gain.gains), generator=torch.Generator().manual_seed(i))
            layer.gain.gains.data = drawn * 9 - 1  # some below 0, some that round to 0
    return net


def counts(steps=9, batch=2, neurons=6):
    return (torch.rand(steps, batch, neurons, generator=torch.Generator().manual_seed(9)) * 2.5).floor()


def test_gains_start_at_a_quarter_of_their_range():
    assert [first_gain(largest) for largest in (1, 2, 3, 7, 15, 255)] == [1, 1, 1, 2, 4, 64]
    assert Gain(3, 15).gains.tolist() == [4.0, 4.0, 4.0]


def test_both_modes_round_and_training_clamps():
    layer, x = Gain(3, 7), torch.ones(2, 3)
    layer.gains.data = torch.tensor([-2.0, 2.6, 9.0])
    assert layer.eval()(x)[0].tolist() == [0.0, 3.0, 7.0]
    assert layer.gains.tolist() == pytest.approx([-2.0, 2.6, 9.0])
    layer.train()(x).sum().backward()
    assert layer.gains.tolist() == pytest.approx([0.0, 2.6, 7.0])
    assert layer.gains.grad.tolist() == [2.0, 2.0, 2.0]  # those at the border learn as well
    assert layer.rounded().tolist() == [0, 3, 7]


def test_a_gain_is_that_many_copies_of_a_sender():
    """A network whose senders are repeated as often as their gains say has the same spikes."""
    net = network("4-5-3").eval()
    x = counts(neurons=4)
    copies = [layer.gain.rounded() for layer in net.layers]
    twice = build(f"{int(copies[0].sum())}-5-3", theta=[6.0, 8.0], slope=1.0).eval()
    for ours, theirs, often in zip(net.layers, twice.layers, copies, strict=True):
        if theirs.synapse.in_features == len(often):
            continue
        theirs.synapse.weight.data = ours.synapse.weight.data.repeat_interleave(often, 1)
        theirs.synapse.bias.data = ours.synapse.bias.data
    with torch.no_grad():
        wanted = twice.layers[0](x.repeat_interleave(copies[0], 2))
        assert torch.equal(net.layers[0](x).spikes, wanted.spikes)
    assert 0 < wanted.spikes.mean() < 1


@pytest.mark.parametrize("delays", [0, 4])
@pytest.mark.parametrize("mode", [True, False])
def test_parts_in_time_give_the_whole(delays, mode):
    net, x = network(delays=delays).train(mode), counts()
    whole = net.run(x)
    first = net.run(x[:4])
    rest = net.run(x[4:], states=[layer.state for layer in first])
    for one, two, all_of_it in zip(first, rest, whole, strict=True):
        assert torch.equal(torch.cat([one.spikes, two.spikes]), all_of_it.spikes)


@pytest.mark.parametrize(("notation", "shape"), [("12-8-5", None), ("3Conv3-AP2-12Dense5", (2, 6, 6))])
def test_a_static_input_is_a_repeated_one(notation, shape):
    net = network(notation, shape, theta=2.0, steps=7).eval()
    x = (torch.rand(4, *(shape or (12,))) * 3).floor()
    assert [len(layer.gain.gains) for layer in net.layers] == ([12, 8] if shape is None else [2, 12])
    with torch.no_grad():
        static, moving = net(x), net(x.expand(7, *x.shape))
    assert torch.equal(static.spikes, moving.spikes)


@pytest.mark.parametrize("settings", [{}, {"delays": 3}, {"dense_norm": True, "readout": "membrane"}])
def test_fast_layers_are_their_definition(settings):
    """On the CPU spikes times gains are whole numbers, which C adds up."""
    fast, plain = network(**settings), network(**settings, backend="reference")
    plain.load_state_dict(fast.state_dict())
    x, found = counts(), []
    for net in (fast, plain):
        out = net(x)
        (out.membrane if "readout" in settings else out.spikes).square().sum().backward()
        found.append((out, [p.grad for p in net.parameters()]))
    (ours, grads), (theirs, wanted) = found
    assert torch.equal(ours.spikes, theirs.spikes)
    for a, b in zip(grads, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_gains_are_learnt():
    """The layer finds how loud each sender of its target was."""
    torch.manual_seed(0)
    x, wanted = torch.rand(200, 3), torch.tensor([0.0, 3.0, 11.0])
    layer = Gain(3, 15)
    optimizer = torch.optim.Adam(layer.parameters(), 0.1)
    for _ in range(300):
        loss = (layer(x) - x * wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert layer.rounded().tolist() == wanted.tolist()


def test_a_list_has_one_for_each_layer():
    net = build("6-8-7-3", gains=[0, 15, 3])
    assert [layer.gain and (len(layer.gain.gains), layer.gain.largest) for layer in net.layers] == [
        None,
        (8, 15),
        (7, 3),
    ]
    assert "layers.1.gain.gains" in net.state_dict()


def test_half_precision_keeps_gains():
    layer = Gain(2, 15)
    layer.gains.data = torch.tensor([3.4999, 4.0])
    assert layer.half().gains.dtype == torch.float32
    assert layer(torch.ones(1, 2, dtype=torch.float16)).dtype == torch.float16
    assert layer.rounded().tolist() == [3, 4]


def test_saved_gains_that_do_not_fit_are_refused():
    saved = Gain(2, 15).state_dict()
    with pytest.raises(RuntimeError, match="gains go up to 4, but this layer's largest is 3; build the network with"):
        Gain(2, 3).load_state_dict(saved)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Gain(0, 3), "Gain: neurons must be a whole number >= 1, but is 0"),
        (lambda: Gain(2, 0), "Gain: largest must be a whole number in 1..255, but is 0"),
        (lambda: Gain(2, 256), "Gain: largest must be a whole number in 1..255, but is 256"),
        (
            lambda: Gain(2, 3)(torch.ones(4, 3)),
            r"gain: x must have one value for each gain in dimension -1, but x has shape \[4, 3\] and the gains \[2\]",
        ),
        (lambda: build("6-3", gains=-1), "build: gains must be a whole number in 0..255, .* but is -1; 0 means none"),
        (lambda: build("6-3", gains=2.5), "build: gains must be a whole number in 0..255, .* but is 2.5; 0 means"),
        (lambda: build("6-8-3", gains=[15]), "build: gains must be one number or one a layer, 2, but 1 were given"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        call()


def test_gains_that_an_optimizer_has_moved_too_far_are_saved_as_they_are_used():
    net, same = network(), network()
    net.layers[0].gain.gains.data[:2] = torch.tensor([-3.0, 17.5])
    same.load_state_dict(net.state_dict())
    assert same.layers[0].gain.gains[:2].tolist() == [0.0, 15.0]
    assert same.layers[0].gain.rounded().equal(net.layers[0].gain.rounded())
