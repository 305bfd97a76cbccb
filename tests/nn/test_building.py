"""What `build` puts into a network beyond the notation: delays, norms of Dense layers, readouts, dropped spikes."""

import copy
import pickle

import numpy as np
import pytest
import torch

from bitspike import LIF, Adaptation, ThresholdAnnealing, build, initialize, suggest_schedules
from bitspike.nn import DecayRange, Delay, LeakyReadout, SharedBatchNorm1d, StepBatchNorm2d
from bitspike.nn.dropout import Dropout, set_dropout_key
from bitspike.schedules import Relax

DENSE = "6-8-7-3"
IMAGES, SHAPE = "3Conv3-AP2-4Conv3-16Dense5", (2, 10, 10)
ALL = {
    "delays": 4, "dense_norm": True, "readout": "membrane", "spike_dropout": [0.3, 0.2],
    "beta": [DecayRange(0.5, 0.9), DecayRange(0.6, 0.97), 0.95], "theta": 0.75,
}  # fmt: skip


def network(notation=DENSE, shape=None, seed=0, **settings):
    return build(notation, shape, generator=torch.Generator().manual_seed(seed), **settings)


def spikes(*shape):
    return (torch.rand(shape) < 0.4).float()


# ---- delays


def test_a_delay_before_every_synapse():
    net = network(delays=4)
    assert [(len(layer.delay.delays), layer.delay.longest) for layer in net.layers] == [(6, 4), (8, 4), (7, 4)]
    net = network(IMAGES, SHAPE, delays=9)
    assert [len(layer.delay.delays) for layer in net.layers] == [2, 3, 16]  # channels, channels, neurons
    assert net.run(spikes(11, 2, *SHAPE))[1].spikes.shape == (11, 2, 4, 2, 2)
    assert "layers.0.delay.delays" in net.state_dict()
    assert all(layer.delay is None for layer in network(delays=0).layers)


def test_a_longest_delay_for_each_layer():
    net = network(delays=[0, 4, 2])
    assert [layer.delay and (len(layer.delay.delays), layer.delay.longest) for layer in net.layers] == [
        None,
        (8, 4),
        (7, 2),
    ]
    assert net(spikes(9, 2, 6)).spikes.shape == (9, 2, 3)
    with pytest.raises(ValueError, match=r"build: delays must be one number or one a layer, 3, but 2 were given"):
        network(delays=[4, 4])
    with pytest.raises(ValueError, match=r"build: delays must be a whole number .* but is \[0, -1, 2\]"):
        network(delays=[0, -1, 2])


def test_whole_numbers_of_numpy_are_whole_numbers():
    net = network(delays=np.int64(4), gains=[np.int32(3), 0, 7])
    assert [layer.delay.longest for layer in net.layers] == [4, 4, 4]
    assert [layer.gain and layer.gain.largest for layer in net.layers] == [3, None, 7]


def test_delays_are_drawn_after_all_weights_from_the_same_generator():
    delayed, plain, again = network(delays=20), network(), network(delays=20)
    for one, two in zip(delayed.layers, plain.layers, strict=True):
        assert torch.equal(one.synapse.weight, two.synapse.weight)
        assert torch.equal(one.synapse.bias, two.synapse.bias)
    for one, two in zip(delayed.layers, again.layers, strict=True):
        assert torch.equal(one.delay.delays, two.delay.delays)
        assert len(one.delay.delays.unique()) > 4
    delays = torch.cat([layer.delay.delays for layer in build("2000-3", delays=20).layers]).detach()
    assert delays.mean().item() == pytest.approx(10, abs=0.5)
    assert delays.std().item() == pytest.approx(20 / 12**0.5, abs=0.3)
    initialize(delayed, "torch", torch.Generator().manual_seed(5))
    assert not torch.equal(delayed.layers[0].delay.delays, again.layers[0].delay.delays)


def test_rounded_delays_move_whole_spikes():
    net = network(delays=3, theta=0.75).eval()
    x = spikes(12, 2, 6)
    wanted = x
    for layer in net.layers:
        late = torch.zeros_like(wanted)
        for j, d in enumerate(layer.delay.rounded().tolist()):
            late[d:, :, j] = wanted[: len(wanted) - d, :, j]
        out = layer.lif(layer.synapse(late))
        wanted = out.spikes
    assert torch.equal(net(x).spikes, wanted)


@pytest.mark.parametrize("notation", [(DENSE, (6,)), (IMAGES, SHAPE)], ids=["dense", "images"])
@pytest.mark.parametrize("at", [1, 3, 9])
def test_a_split_in_time_changes_nothing(notation, at):
    net = network(*notation, delays=5, theta=0.75, readout="membrane").eval()
    x = spikes(13, 2, *notation[1])
    first = net.run(x[:at])
    rest = net.run(x[at:], states=[out.state for out in first])
    for whole, one, two in zip(net.run(x), first, rest, strict=True):
        assert torch.equal(whole.spikes, torch.cat([one.spikes, two.spikes]))
        assert torch.equal(whole.membrane, torch.cat([one.membrane, two.membrane]))
        assert torch.equal(whole.state.past, two.state.past)


def test_a_delay_longer_than_the_input_gives_silence():
    net = network(delays=50, theta=0.75).eval()
    with torch.no_grad():
        for layer in net.layers:
            layer.delay.delays.fill_(50.0)
            layer.synapse.bias.zero_()
    assert not any(out.membrane.any() for out in net.run(spikes(10, 2, 6)))


@pytest.mark.parametrize("delays", [5, [0, 5, 0], [0, 0, 1]])
def test_a_static_input_is_refused(delays):
    net = network(IMAGES, SHAPE, delays=delays)
    for call in (net, net.run, net.observe, net.scores):
        with pytest.raises(ValueError, match=r"SpikingNetwork: delays need a sequence \[T, B, \.\.\.\], .* delays=0"):
            call(torch.rand(2, *SHAPE))


@pytest.mark.parametrize("delays", [-1, 2.5, True, "3", None])
def test_a_wrong_longest_delay_is_one_line(delays):
    with pytest.raises(ValueError, match=f"build: delays must be a whole number >= 0, .* but is {delays!r}; 0 means"):
        network(delays=delays)


def test_a_network_by_its_definition_has_delays_by_theirs():
    assert [layer.delay.backend for layer in network(delays=2, backend="reference").layers] == ["reference"] * 3
    fast, slow = (network(delays=3, theta=0.75, backend=backend).eval() for backend in ("auto", "reference"))
    x = spikes(12, 2, 6)
    assert torch.equal(fast(x).membrane, slow(x).membrane)


def test_delays_are_learnt():
    net = network(delays=6, theta=0.75)
    net(spikes(20, 4, 6)).membrane.sum().backward()
    assert all(layer.delay.delays.grad.any() for layer in net.layers)


# ---- batch norm of Dense layers


def test_feedback_behind_a_norm_is_as_large_as_its_currents():
    first, second = (layer.lif for layer in network(dense_norm=True, recurrent=True).layers[:2])
    assert (first.recurrent_scale, second.recurrent_scale) == (8**-0.5, 7**-0.5)
    assert first.recurrent_share() == second.recurrent_share() == 0.3  # with 1, gradients grow from step to step
    for settings in ({}, {"dense_norm": True, "binary": False}):
        assert [layer.lif.recurrent_scale for layer in network(recurrent=True, **settings).layers[:2]] == [1.0, 1.0]


def test_every_dense_layer_has_a_norm_and_no_bias():
    net = network(dense_norm=True)
    assert [type(layer.norm) for layer in net.layers] == [SharedBatchNorm1d] * 3
    assert [layer.norm.num_features for layer in net.layers] == [8, 7, 3]
    assert all(layer.synapse.bias is None for layer in net.layers)
    assert [type(layer.norm) for layer in network().layers] == [type(None)] * 3


def test_convolutions_keep_a_norm_of_their_own():
    both = network(IMAGES, SHAPE, norm="step", dense_norm=True)
    assert [type(layer.norm) for layer in both.layers] == [StepBatchNorm2d, StepBatchNorm2d, SharedBatchNorm1d]
    alone = network(IMAGES, SHAPE, dense_norm=True)
    assert [type(layer.norm) for layer in alone.layers] == [type(None), type(None), SharedBatchNorm1d]


def test_a_normalized_network_takes_static_inputs_and_single_samples():
    net = network(dense_norm=True, steps=5)
    assert net(torch.rand(4, 6)).spikes.shape == (5, 4, 3)
    assert net(torch.rand(1, 6)).spikes.shape == (5, 1, 3)
    assert net(torch.rand(1, 1, 6)).spikes.shape == (1, 1, 3)
    static, repeated = (network(dense_norm=True, steps=5, theta=0.5) for _ in range(2))
    x = torch.rand(4, 6)
    torch.testing.assert_close(static(x).membrane, repeated(x.expand(5, 4, 6)).membrane, rtol=1e-4, atol=1e-4)


# ---- readouts


def test_a_membrane_readout_never_fires():
    net = network(readout="membrane", theta=0.1)
    assert [type(layer.lif) for layer in net.layers] == [LIF, LIF, LeakyReadout]
    assert net.readout == "membrane"
    assert network().readout == "spikes"
    x = spikes(20, 4, 6)
    *hidden, out = net.run(x)
    assert not out.spikes.any()
    assert out.membrane.abs().max() > 1  # far above theta
    assert hidden[-1].spikes.any()
    assert not net.observe(x).counts()[-1].any()
    with net.record() as layers:
        net(x)
    assert torch.equal(layers["layers.2.lif"].membrane, out.membrane)


def test_scores_of_spikes_are_rates():
    net, x = network(theta=0.5), spikes(20, 4, 6)
    out = net(x)
    assert torch.equal(net.scores(x), out.spikes.mean(0))
    assert torch.equal(net.output_scores(out), out.spikes.mean(0))
    assert net.output_scores(out._replace(spikes=out.spikes.bfloat16())).dtype == torch.float32


def test_scores_of_a_membrane_are_scaled_by_its_decay():
    net, x = network(readout="membrane", beta=[0.9, 0.9, 0.75]), spikes(20, 4, 6)
    out = net(x)
    torch.testing.assert_close(net.scores(x), (0.25 * out.membrane).mean(0))
    assert torch.equal(net.output_scores(out), net.scores(x))
    with pytest.raises(ValueError, match="LeakyReadout: the scores need the output's membrane"):
        net.output_scores(out._replace(membrane=None))


def test_scores_of_a_static_input():
    net = network(readout="membrane", steps=7)
    x = torch.rand(4, 6)
    torch.testing.assert_close(net.scores(x), net.scores(x.expand(7, 4, 6)))
    torch.testing.assert_close(net.scores(x, steps=3), net.scores(x.expand(3, 4, 6)))


def test_a_readout_goes_with_every_kind_of_neurons():
    kinds = {
        "recurrent": {"recurrent": True},
        "adaptive": {"adaptation": Adaptation(0.5, 1.0)},
        "own": {"neuron": mine},
    }
    for settings in kinds.values():
        net = network(readout="membrane", learn_beta=True, **settings)
        assert type(net.layers[-1].lif) is LeakyReadout
        net.scores(spikes(9, 2, 6)).sum().backward()
        assert net.layers[-1].lif.beta_logit.grad.any()


def mine(layer):
    return LIF(**layer.settings)


def test_thresholds_of_a_readout_change_nothing():
    net, x = network(readout="membrane"), spikes(20, 4, 6)
    before = net.scores(x)
    net.layers[-1].lif.theta = 1e-3
    assert torch.equal(net.scores(x), before)
    annealing = ThresholdAnnealing(net, Relax(0.5, 2.0, 0.5))
    annealing.step()
    assert len(annealing.thresholds()) == 3


def test_a_wrong_readout_is_one_line():
    with pytest.raises(ValueError, match="build: readout must be 'spikes' or 'membrane', but is 'voltage'"):
        network(readout="voltage")


# ---- dropout on spikes


def test_hidden_spikes_are_dropped_on_their_way():
    net = network(spike_dropout=[0.25, 0.5])
    first, second, third = (layer.spike_dropout for layer in net.layers)
    assert first is None  # the network's input is kept
    assert (second.p, third.p) == (0.25, 0.5)
    assert isinstance(second, Dropout)
    assert (second.layer, third.layer) == (4, 5)  # currents have 0 to 2
    assert [layer.dropout.layer for layer in net.layers] == [0, 1, 2]
    assert [layer.spike_dropout for layer in network(spike_dropout=0.0).layers] == [None] * 3
    assert [layer.spike_dropout and layer.spike_dropout.p for layer in network(spike_dropout=0.5).layers] == [
        None, 0.5, 0.5,
    ]  # fmt: skip


def test_masks_follow_from_the_key_and_evaluation_drops_nothing():
    net, plain = network(spike_dropout=0.5, theta=0.75), network(theta=0.75)
    x, key = spikes(20, 4, 6), torch.tensor(5)
    set_dropout_key(net, key)
    assert torch.equal(net(x).membrane, net(x).membrane)
    assert not torch.equal(net(x).membrane, plain(x).membrane)
    first = net(x).membrane
    key.fill_(6)
    assert not torch.equal(net(x).membrane, first)
    assert torch.equal(net.eval()(x).membrane, plain(x).membrane)


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (1.0, r"build: spike_dropout must be in \[0, 1\), but is 1.0"),
        ([0.1], "build: spike_dropout must be one number or one a hidden layer, 2, but 1 were given"),
        ("a", "build: spike_dropout must be a number, but is 'a'"),
    ],
)
def test_wrong_shares_are_one_line(share, words):
    with pytest.raises((ValueError, TypeError), match=words):
        network(spike_dropout=share)


# ---- all of it


def test_a_network_of_all_parts_trains_is_copied_and_saved():
    net = network(**ALL)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    x, labels = spikes(20, 16, 6), torch.arange(16) % 3
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(10 * net.scores(x), labels).backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
        optimizer.step()
    net.eval()
    copies = copy.deepcopy(net), pickle.loads(pickle.dumps(net)), network(seed=9, **ALL).eval()
    copies[2].load_state_dict(net.state_dict())
    for other in copies:
        assert torch.equal(other.scores(x), net.scores(x))


def test_thresholds_are_suggested_for_a_network_of_all_parts():
    net = network(**ALL)
    before = copy.deepcopy(net.state_dict())
    assert len(suggest_schedules(net, spikes(20, 16, 6), iterations=100)) == 3
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert net.layers[1].spike_dropout.p == 0.3


def test_a_network_shows_its_parts():
    text = repr(network(**ALL))
    assert "LeakyReadout(beta=0.95)" in text
    assert "Delay(6, longest=4)" in text
    assert "SharedBatchNorm1d(8" in text


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_network_of_all_parts_in_another_precision(dtype):
    net = network(**ALL).to(dtype)
    assert net.scores(spikes(9, 4, 6).to(dtype)).shape == (4, 3)
    assert isinstance(net.layers[0].delay, Delay)


def test_decays_that_a_function_chose_are_kept():
    def mine(layer):
        return LIF(**layer.settings | {"beta": 0.25})

    net = build("6-5-4", beta=DecayRange(0.6, 0.9), neuron=mine)
    assert [layer.lif.beta.unique().tolist() for layer in net.layers] == [[0.25], [0.25]]


def test_a_readout_that_keeps_all_of_its_membrane_is_refused():
    with pytest.raises(ValueError, match=r"readout='membrane' needs a last beta below 1, but it is 1.0; take 0.95"):
        build("6-5-4", beta=[0.5, 1.0], readout="membrane")
    build("6-5-4", beta=[1.0, 0.5], readout="membrane")
    build("6-5-4", beta=1.0)
