"""Dropout in C, its mask and its gradient are the definition's."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

import bitspike
from bitspike.ops.dropout import c as dropout_c
from bitspike.ops.dropout import reference as dropout
from helpers.layers import few, sizes

pytestmark = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")


@given(
    steps=st.integers(1, 9), batch=few, neurons=sizes, p=st.floats(0.01, 0.99), key=st.integers(-(2**63), 2**63 - 1),
    first=st.integers(0, 5),
)  # fmt: skip
def test_the_mask_is_that_of_the_definition(steps, batch, neurons, p, key, first):
    got = dropout_c.keep_mask((steps, batch, neurons), dropout_c.draw(p, torch.tensor(key), 3, first * neurons))
    wanted = dropout.keep_mask((steps, batch, neurons), p, torch.tensor(key), 3, first)
    assert torch.equal(got.bool(), wanted)


@given(
    steps=st.integers(1, 9), batch=few, neurons=sizes, p=st.floats(0.01, 0.99), key=st.integers(-(2**63), 2**63 - 1),
)  # fmt: skip
def test_dropout_and_its_gradient_are_the_definition(steps, batch, neurons, p, key):
    x = torch.randn(steps, batch, neurons, generator=torch.Generator().manual_seed(key & 0xFFFF), requires_grad=True)
    got = dropout_c.dropout(x, dropout_c.draw(p, torch.tensor(key), 3, 0), 1 / (1 - p))
    wanted = dropout.dropout(x, p, torch.tensor(key), 3)
    assert torch.equal(got, wanted)
    towards = torch.randn_like(x)
    of_got, of_wanted = (torch.autograd.grad(out, x, towards)[0] for out in (got, wanted))
    assert torch.equal(of_got, of_wanted)


@pytest.mark.parametrize("shape", [(9, 3, 700), (13, 40, 64), (2, 1, 1024), (5, 1, 1025)])
@pytest.mark.parametrize("threads", [1, 3])
def test_many_places_and_threads(poisoned, shape, threads):
    """Several chunks of places, the last one smaller; memory shows what is not written."""
    key, draws = torch.tensor(-5), dropout_c.draw(0.3, torch.tensor(-5), 1, 7 * shape[2])
    x, before = torch.randn(shape, generator=torch.Generator().manual_seed(3)), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert torch.equal(dropout_c.dropout(x, draws, 1 / 0.7), dropout.dropout(x, 0.3, key, 1, first_row=7))
        assert torch.equal(dropout_c.keep_mask(shape, draws).bool(), dropout.keep_mask(shape, 0.3, key, 1, 7))
    finally:
        torch.set_num_threads(before)


def test_counters_of_more_than_32_bits_start_again_at_0():
    wanted = dropout.keep_mask((5, 3, 4), 0.5, torch.tensor(3), 1, first_row=2**30 - 1)
    got = dropout_c.keep_mask((5, 3, 4), dropout_c.draw(0.5, torch.tensor(3), 1, 4 * (2**30 - 1)))
    assert torch.equal(got.bool(), wanted)


@pytest.mark.filterwarnings("ignore")  # of PyTorch itself
def test_a_tensor_without_memory_is_dropped_by_pytorch():
    with FakeTensorMode():
        drop = bitspike.nn.dropout.Dropout(0.5)
        drop.key = torch.zeros((), dtype=torch.int64)
        assert drop(torch.ones(6, 2, 3)).shape == (6, 2, 3)


def test_a_gradient_of_dropout_can_be_differentiated_again():
    x = torch.ones(6, 2, 3, dtype=torch.float32, requires_grad=True)
    draws = dropout_c.draw(0.5, torch.tensor(7), 0, 0)
    (grad,) = torch.autograd.grad(dropout_c.dropout(x, draws, 2.0).square().sum(), x, create_graph=True)
    (again,) = torch.autograd.grad(grad.sum(), x)
    assert torch.equal(again, 8 * dropout_c.keep_mask(tuple(x.shape), draws))


def dropped(x):
    return dropout_c.dropout(x, dropout_c.draw(0.4, torch.tensor(7), 2, 5), 1 / 0.6)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # in PyTorch itself
def test_tangents_are_dropped_alike():
    x, tangent = torch.randn(6, 2, 3, dtype=torch.float32), torch.randn(6, 2, 3, dtype=torch.float32)
    with forward_ad.dual_level():
        out = forward_ad.unpack_dual(dropped(forward_ad.make_dual(x, tangent)))
        assert torch.equal(out.primal, dropped(x))
        assert torch.equal(out.tangent, dropped(tangent))


def test_gradients_in_a_batch_are_each_gradient():
    """The backward pass is mapped over them: what it gets has no memory of its own."""
    x = torch.randn(6, 2, 3, dtype=torch.float32, requires_grad=True)
    towards = torch.randn(4, 6, 2, 3, dtype=torch.float32)
    (together,) = torch.autograd.grad(dropped(x), x, towards, is_grads_batched=True)
    alone = torch.stack([torch.autograd.grad(dropped(x), x, one)[0] for one in towards])
    assert torch.equal(together, alone)
    mapped = torch.func.vmap(lambda one: torch.autograd.grad(out, x, one, retain_graph=True)[0])
    out = dropped(x)
    assert torch.equal(mapped(towards), alone)


def test_numbers_may_lie_in_any_order():
    x = torch.randn(3, 2, 6, dtype=torch.float32).transpose(0, 2).requires_grad_()
    assert torch.equal(dropped(x), dropped(x.contiguous()))
    (grad,) = torch.autograd.grad(dropped(x).sum(), x)
    assert torch.equal(grad, dropped(torch.ones(6, 2, 3, dtype=torch.float32)))
