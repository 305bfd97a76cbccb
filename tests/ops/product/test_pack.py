"""Spikes and small counts become bits; what C could not add up exactly is left alone."""

import os

import pytest
import torch

from bitspike.ops.chain import c as dense
from bitspike.ops.product import c as conv
from bitspike.ops.product.pack import pack
from helpers.layers import inputs

pytestmark = [
    pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here"),
    pytest.mark.usefixtures("however_busy"),
]


@pytest.mark.parametrize("value", [-1.0, 0.5, 256.0, float("nan"), float("inf")])
def test_what_is_not_a_small_whole_number_is_left_alone(value):
    x = inputs("counts", 3, 2, 70)
    assert pack(x, 70) is not None
    x[2, 1, 69] = value
    assert pack(x, 70) is None


def test_sums_that_float32_or_16_bits_cannot_hold_are_left_alone():
    spikes, counts = torch.ones(1, 1, 3), torch.full((1, 1, 3), 2.0)
    assert pack(spikes, 2**24 - 1) is not None
    assert pack(spikes, 2**24) is None
    assert pack(counts, 2**24 // 255) is not None
    assert pack(counts, 2**24 // 255 + 1) is None
    assert dense.pack_inputs(torch.ones(1, 1, 2**15 - 1), 1) is not None
    assert dense.pack_inputs(torch.ones(1, 1, 2**15), 1) is None
    images, kernels = torch.ones(1, 1, 1829, 4, 4), torch.ones(1, 1829, 3, 3)
    assert conv.conv_pool(images, kernels, 2) is not None
    assert conv.conv_pool(2 * images, kernels, 2) is None  # might reach 255 * 1829 * 9 * 4
