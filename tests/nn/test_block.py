"""The order within a layer: dropout on spikes, delay, synapse, batch norm, dropout on the current, neurons."""

import pytest
import torch

from bitspike import LIF, BinaryConv2d, BinaryLinear
from bitspike.nn import Block, Delay, SharedBatchNorm1d
from bitspike.nn.dropout import Dropout, set_dropout_key
from bitspike.nn.fast import c as fast_c
from bitspike.ops.native.library import library
from helpers.layers import however_busy  # noqa: F401 (a fixture)

T, B, N, OUT = 12, 3, 6, 5
KEY = torch.tensor(987654321)


def spikes(*shape):
    return (torch.rand(shape) < 0.4).float()


def whole(**parts):
    """A dense layer with everything."""
    return Block(
        BinaryLinear(N, OUT, bias=False), LIF(beta=0.5, theta=0.75, backend=parts.pop("backend", "auto")),
        norm=SharedBatchNorm1d(OUT), dropout=0.25, delay=Delay(N, 3), spike_dropout=0.4, **parts,
    )  # fmt: skip


@pytest.mark.parametrize("training", [True, False])
def test_the_parts_come_in_their_order(training):
    block = whole().train(training)
    block.spike_dropout.layer = 7
    set_dropout_key(block, KEY)
    x = spikes(T, B, N)
    out = block(x)
    norm = SharedBatchNorm1d(OUT).train(training)
    parts = block.spike_dropout, block.delay, block.synapse, norm, block.dropout
    values = x
    for part in parts:
        values = part(values)
    assert torch.equal(out.membrane, block.lif(values).membrane)
    norm_now = block.norm.state_dict()
    assert all(torch.equal(value, norm_now[name]) for name, value in norm.state_dict().items())
    if training:
        dropped = block.spike_dropout(x)
        assert 0 < (dropped != x).float().mean() < 0.6
        assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.6])


def test_no_share_means_no_module():
    synapse = BinaryLinear(N, OUT)
    assert Block(synapse, LIF()).spike_dropout is None
    assert Block(synapse, LIF(), spike_dropout=0.0).spike_dropout is None
    assert Block(synapse, LIF()).delay is None
    assert isinstance(Block(synapse, LIF(), spike_dropout=0.5).spike_dropout, Dropout)
    with pytest.raises(ValueError, match=r"Dropout: p must be in \[0, 1\)"):
        Block(synapse, LIF(), spike_dropout=1.5)


@pytest.mark.parametrize("at", [1, 2, 7, 11])
@pytest.mark.parametrize("training", [True, False])
def test_a_state_continues_what_the_delay_holds(at, training):
    block = Block(BinaryLinear(N, OUT), LIF(beta=0.5, theta=0.75), delay=Delay(N, 5)).train(training)
    x = spikes(T, B, N)
    out = block(x)
    first = block(x[:at])
    rest = block(x[at:], first.state)
    assert first.state.past.shape == (5, B, N)
    assert torch.equal(rest.state.past, out.state.past)
    assert torch.equal(rest.state.past, x[-5:])
    got = torch.cat([first.membrane, rest.membrane])
    if training:  # soft: sums of taps may be in another order
        torch.testing.assert_close(got, out.membrane)
    else:
        assert torch.equal(got, out.membrane)


class OwnDelay(Delay):
    """A delay with a forward pass of its own, which knows of no more than the input and the past."""

    def forward(self, x, past=None):
        return super().forward(x, past)


@pytest.mark.parametrize("kind", [Delay, OwnDelay])
def test_what_the_delay_holds_is_kept_once(kind):
    block = Block(BinaryLinear(N, OUT), LIF(beta=0.5, theta=0.75), delay=kind(N, 5))
    x = spikes(T, B, N).requires_grad_()
    past = block(x).state.past
    assert past.requires_grad
    assert torch.equal(past, x[-5:])
    assert torch.equal(block.delay.state, past)
    assert not block.delay.state.requires_grad
    assert (block.delay.state.data_ptr() == past.data_ptr()) is (kind is Delay)


def test_a_state_without_a_past_is_refused():
    block = Block(BinaryLinear(N, OUT), LIF(beta=0.5), delay=Delay(N, 5)).eval()
    x = spikes(T, B, N)
    with pytest.raises(ValueError, match=r"needs the steps that its delay holds \(state.past\); pass the state"):
        block(x, block(x).state._replace(past=None))


def test_gradients_reach_the_past():
    block = Block(BinaryLinear(N, OUT), LIF(beta=0.5), delay=Delay(N, 5))
    x = spikes(T, B, N).requires_grad_()
    first = block(x[:6])
    block(x[6:], first.state._replace(membrane=first.state.membrane.detach())).membrane.sum().backward()
    assert x.grad[1:6].any()
    assert not x.grad[0].any()
    state = first.state.detach()
    assert state.past.grad_fn is None


def test_one_delay_a_channel_before_a_convolution():
    delay = Delay(2, 4).eval()
    delay.delays.data = torch.tensor([0.0, 3.0])
    conv = BinaryConv2d(2, 3, 3)
    block = Block(conv, LIF(beta=0.5, theta=0.75), delay=delay).eval()
    x = spikes(T, B, 2, 6, 6)
    late = x.clone()
    late[:, :, 1] = torch.cat([torch.zeros(3, B, 6, 6), x[:-3, :, 1]])
    assert torch.equal(block(x).membrane, Block(conv, block.lif)(late).membrane)


def test_a_dense_layer_delays_each_neuron_of_an_image():
    block = Block(BinaryLinear(18, OUT), LIF(beta=0.5), delay=Delay(18, 4)).eval()
    x = spikes(T, B, 2, 3, 3)
    assert torch.equal(block(x).membrane, block(x.flatten(2)).membrane)


def test_delays_of_one_constant_step_are_refused():
    block = Block(BinaryLinear(N, OUT), LIF(), delay=Delay(N, 4))
    with pytest.raises(ValueError, match=r"Block: delays need a sequence \[T, B, \.\.\.\], .* one step \[3, 6\]"):
        block(spikes(B, N), steps=T)


def test_dropout_on_a_constant_input_draws_a_mask_for_each_step():
    block = Block(BinaryLinear(N, OUT), LIF(beta=0.0, theta=1e6), spike_dropout=0.5)
    set_dropout_key(block, KEY)
    x = torch.ones(B, N)
    membrane = block(x, steps=T).membrane
    assert membrane.shape == (T, B, OUT)
    assert len(membrane.unique(dim=0)) > 1
    assert torch.equal(membrane, block(x.expand(T, B, N)).membrane)


def test_whole_delays_run_in_c(monkeypatch, however_busy):  # noqa: F811
    """In evaluation a delay moves whole spikes, so the layer behind it runs in C as it is."""
    if library() is None:
        pytest.skip("the compiled kernels are missing")
    seen, dense = [], fast_c.dense_layer
    monkeypatch.setattr(fast_c, "dense_layer", lambda *args: seen.append(dense(*args)) or seen[-1])
    block, plain = (
        Block(BinaryLinear(N, OUT), LIF(beta=0.5, theta=0.75, backend=backend), delay=Delay(N, 4)).eval()
        for backend in ("auto", "reference")
    )
    plain.load_state_dict(block.state_dict())
    x = spikes(T, B, N)
    assert torch.equal(block(x).membrane, plain(x).membrane)
    assert len(seen) == 1
    assert seen[0] is not None
    assert block.train()(x).spikes.shape == (T, B, OUT)
    assert seen[1] is None  # soft delays make real numbers of spikes
