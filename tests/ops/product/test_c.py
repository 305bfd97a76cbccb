"""A convolution in C, with the pool behind it folded in, is its modules."""

import os

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bitspike.nn.fast import c as fast_c
from bitspike.ops.product import c as conv
from helpers.layers import assert_close, assert_same, conv_block, few, inputs, plain, sizes

pytestmark = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")


@pytest.mark.parametrize("kind", ["spikes", "counts", "full"])
@given(
    steps=few, batch=st.sampled_from([1, 2, 7]), channels=st.sampled_from([1, 3, 16, 17]), filters=sizes,
    kernel=st.tuples(few, few), pool=st.integers(0, 3), side=st.tuples(st.integers(5, 9), st.integers(5, 9)),
)  # fmt: skip
def test_a_convolution_with_its_pool_is_its_modules(kind, steps, batch, channels, filters, kernel, pool, side):
    # A third is not exact: pools of 3 x 3 are compared by their currents alone.
    x, kernels = inputs(kind, steps, batch, channels, *side), torch.randn(filters, channels, *kernel).sign()
    pools = [nn.AvgPool2d(pool)] if pool else []
    got, wanted = conv.conv_pool(x, kernels, pool or 1), F.conv2d(x.flatten(0, 1), kernels)
    for layer in pools:
        wanted = layer(wanted)
    assert torch.equal(got, wanted.view_as(got))
    if pool != 3:
        assert_same(conv_block(channels, filters, kernel, pools), x)


@pytest.mark.parametrize("size", [4, 16])
def test_a_large_pool_is_its_module(size):
    """Sums are divided by a power of two, so they are exact."""
    x, kernels = inputs("counts", 2, 3, 2, 40, 37), torch.randn(5, 2, 4, 3).sign()
    got, wanted = conv.conv_pool(x, kernels, size), F.avg_pool2d(F.conv2d(x.flatten(0, 1), kernels), size)
    assert torch.equal(got, wanted.view_as(got))


def test_a_kernel_is_folded_where_that_saves_memory(monkeypatch):
    """Images of 12 x 12 have as many places as the folded kernel has numbers if there are 6 of them."""
    monkeypatch.setattr(conv, "_SMALL", 0)
    x, kernels = inputs("spikes", 3, 2, 6, 12, 12), torch.randn(5, 6, 5, 5).sign()
    assert conv.conv_pool(x, kernels, 8) is not None
    assert conv.conv_pool(x[:2], kernels, 8) is None
    assert conv.conv_pool(x[:1], kernels) is not None, "without a pool there is nothing to fold"
    monkeypatch.undo()
    assert conv.conv_pool(x[:2], kernels, 8) is not None


@pytest.mark.usefixtures("in_c")
@pytest.mark.parametrize(
    "pools",
    [
        [nn.AvgPool2d(2), nn.AvgPool2d(2)],
        [nn.MaxPool2d(2)],
        [nn.AvgPool2d(2), nn.MaxPool2d(2)],
        [nn.AvgPool2d(2, 1)],
        [nn.AvgPool2d(2, padding=1)],
        [nn.AvgPool2d((2, 1))],
        [nn.AvgPool2d(4, ceil_mode=True)],
        [nn.AvgPool2d(2, divisor_override=1)],
    ],
    ids=["two", "max", "mixed", "overlapping", "padded", "oblong", "ceil", "divisor"],
)
def test_pools_that_do_not_fold_run_behind(pools):
    assert_same(conv_block(2, 5, 3, pools), inputs("spikes", 3, 2, 2, 12, 12))


@pytest.mark.parametrize(
    "options", [{"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}, {"bias": True}, {"binary": False}]
)
def test_other_convolutions_run_by_their_modules(options):
    block, x = conv_block(2, 4, 3, [], **options), inputs("spikes", 3, 2, 2, 8, 8)
    assert fast_c.convolved(block, x) is None
    assert torch.equal(block(x).spikes, plain(block)(x).spikes)


def test_an_image_smaller_than_the_folded_kernel_is_the_modules_matter():
    assert conv.conv_pool(inputs("spikes", 1, 1, 2, 4, 4), torch.ones(3, 2, 4, 4), 2) is None
    with pytest.raises(RuntimeError, match="too small"):
        conv_block(2, 3, 4, [nn.AvgPool2d(2)])(inputs("spikes", 1, 1, 2, 4, 4))


def test_a_long_sum_of_gradients_keeps_its_digits():
    # 100 steps of 20 images: float32 all the way would lose 2e-5.
    random = torch.Generator().manual_seed(0)
    x = (torch.rand(100, 20, 2, 8, 8, generator=random) < 0.5).float()
    grad = torch.rand(100, 20, 3, 3, 3, generator=random)
    kernels = torch.randn(3, 2, 3, 3).sign().requires_grad_()
    (conv.conv_pool(x, kernels, 2) * grad).sum().backward()
    exact = kernels.detach().double().requires_grad_()
    (F.avg_pool2d(F.conv2d(x.flatten(0, 1).double(), exact), 2) * grad.flatten(0, 1).double()).sum().backward()
    assert_close(kernels.grad.double(), exact.grad, "kernel", 5e-7)
