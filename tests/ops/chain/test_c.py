"""A dense layer in C is its modules: products, bias, dropout and scan in one pass."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bitspike import LIFState
from bitspike.nn.dropout import set_dropout_key
from bitspike.nn.fast import c as fast_c
from bitspike.nn.sharding import Shard, set_shard
from bitspike.ops.chain import c as dense
from helpers.layers import assert_close, assert_same, conv_block, dense_block, few, inputs, plain, sizes

pytestmark = [
    pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here"),
    pytest.mark.usefixtures("however_busy"),
]


@pytest.mark.parametrize("kind", ["spikes", "counts", "silent", "full"])
@pytest.mark.parametrize("keep_membrane", [True, False])
@given(steps=st.integers(1, 9), batch=few, inputs_=sizes, outputs=sizes, bias=st.booleans(), seed=st.integers(0, 99))
def test_a_dense_layer_is_its_modules(kind, keep_membrane, steps, batch, inputs_, outputs, bias, seed):
    block = dense_block(inputs_, outputs, bias=bias, seed=seed)
    assert fast_c.dense_layer(block, inputs(kind, steps, batch, inputs_), None, True) is not None
    assert_same(block, inputs(kind, steps, batch, inputs_, seed=seed), keep_membrane=keep_membrane)


@pytest.mark.usefixtures("in_c")
def test_a_dense_layer_of_many_blocks_of_neurons_and_words_of_time():
    assert_same(dense_block(700, 1500, theta=16.25), inputs("counts", 70, 3, 700).clamp_(max=3))


@pytest.mark.usefixtures("in_c")
@pytest.mark.parametrize("outputs", [3, 40])
def test_a_learnt_decay_and_a_state_have_their_gradients(outputs):
    block = dense_block(50, outputs, learn_beta=True, neurons=outputs)
    state = LIFState(torch.randint(-4, 5, (3, outputs)) / 4, torch.randint(0, 2, (3, outputs)).float())
    assert_same(block, inputs("spikes", 6, 3, 50), state)
    shared = dense_block(50, outputs, learn_beta=True)
    assert_same(shared, inputs("spikes", 6, 3, 50), state)
    before = state.membrane.clone().requires_grad_()
    shared(inputs("spikes", 6, 3, 50), LIFState(before, state.spikes)).membrane.sum().backward()
    again = state.membrane.clone().requires_grad_()
    plain(shared)(inputs("spikes", 6, 3, 50), LIFState(again, state.spikes)).membrane.sum().backward()
    assert_close(before.grad, again.grad, "u0")


@pytest.mark.usefixtures("in_c")
@given(cut=st.integers(1, 8))
def test_splitting_time_changes_nothing(cut):
    block, x = dense_block(40, 20), inputs("counts", 9, 2, 40)
    whole, first = block(x), block(x[:cut])
    second = block(x[cut:], first.state)
    assert torch.equal(torch.cat((first.spikes, second.spikes)), whole.spikes)
    assert torch.equal(second.state.membrane, whole.state.membrane)


def test_a_current_is_rounded_once_when_any_bias_is_added():
    block, x = dense_block(700, 33, theta=1e6), inputs("counts", 2, 3, 700)
    with torch.no_grad():
        block.synapse.bias.normal_()
    total = (x.double() @ block.synapse.signs().double().T).float()
    assert torch.equal(block(x).membrane[0], (total + block.synapse.bias)[0])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_spike(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert_same(dense_block(100, 20), inputs("spikes", 40, 9, 100))
        assert_same(conv_block(3, 5, 3, [nn.AvgPool2d(2)]), inputs("spikes", 9, 13, 3, 8, 8))
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("in_c")
@pytest.mark.parametrize("p", [0.5, 0.186])
@pytest.mark.parametrize("keyed", [True, False])
@given(steps=st.integers(1, 9), outputs=sizes)
def test_dropout_is_the_modules(p, keyed, steps, outputs):
    block, x = dense_block(40, outputs, p=p), inputs("spikes", steps, 3, 40)
    twin = plain(block)
    for layer in (block, twin):
        set_dropout_key(layer, torch.tensor(17) if keyed else None)
    torch.manual_seed(5)
    got, after = block(x), torch.rand(3)
    torch.manual_seed(5)
    wanted = twin(x)
    assert torch.equal(got.spikes, wanted.spikes)
    assert torch.equal(got.membrane, wanted.membrane)
    assert torch.equal(after, torch.rand(3)), "PyTorch's generator was left elsewhere"
    for out in (got, wanted):
        (out.spikes.sum() + out.membrane.square().mean()).backward()
    for (name, a), b in zip(block.named_parameters(), twin.parameters(), strict=True):
        assert_close(a.grad, b.grad, name)


@pytest.mark.parametrize("keyed", [True, False])
def test_a_shard_drops_what_the_whole_batch_drops(keyed):
    block, x = dense_block(40, 20, p=0.4), inputs("spikes", 6, 5, 40)
    set_dropout_key(block, torch.tensor(3) if keyed else None)
    set_shard(block, Shard(0, 5, 5, lambda t: t))
    torch.manual_seed(0)
    whole = block(x)
    set_shard(block, Shard(2, 4, 5, lambda t: t))
    torch.manual_seed(0)
    assert torch.equal(block(x[:, 2:4]).spikes, whole.spikes[:, 2:4])


def test_nothing_is_drawn_for_an_input_that_c_cannot_take():
    block, x = dense_block(40, 20, p=0.4), torch.rand(4, 3, 40)
    torch.manual_seed(0)
    got = block(x).spikes
    torch.manual_seed(0)
    assert torch.equal(got, plain(block)(x).spikes)


def test_layers_whose_inputs_mostly_fire_are_left_alone(monkeypatch, however_busy):
    monkeypatch.setattr(dense, "BUSY", however_busy)
    assert dense.pack_inputs(inputs("spikes", 20, 5, 64) * inputs("spikes", 20, 5, 64, seed=1), 64) is not None
    assert dense.pack_inputs(inputs("full", 20, 5, 64), 64) is None
    few_of_many = (torch.rand(2, 2, 8192, generator=torch.Generator().manual_seed(0)) < 0.1).float()
    assert dense.pack_inputs(few_of_many, 16) is not None
    assert dense.pack_inputs(few_of_many, 8192) is None
