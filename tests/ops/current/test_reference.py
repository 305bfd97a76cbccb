"""The definition of the current at test time: each term against numbers worked out by hand or by exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bitspike.ops.current import Form, Pool, fold_norm
from bitspike.ops.current.reference import current


def small(*shape, seed=0):
    return torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed)).float()


def test_a_dense_layer_adds_inputs_in_ascending_order():
    """2**60 swallows a 1 that comes after it, and is gone when a later 1 comes."""
    ones = torch.ones(1, 4)
    assert current(torch.tensor([[1.0, 2.0**60, -(2.0**60), 1.0]]), ones, Form()).item() == 1.0
    assert current(torch.tensor([[2.0**60, -(2.0**60), 1.0, 1.0]]), ones, Form()).item() == 2.0
    assert current(torch.tensor([[1.0, 1.0, 2.0**60, -(2.0**60)]]), ones, Form()).item() == 0.0


def test_a_convolution_adds_channel_by_channel_row_by_row():
    big, x = 2.0**60, torch.zeros(1, 2, 2, 2)
    ones = torch.ones(1, 2, 2, 2)
    order = [(c, i, j) for c in range(2) for i in range(2) for j in range(2)]
    for place in range(6):
        # Two large numbers that cancel lie next to each other: what came before them is lost.
        x.zero_()
        values = [1.0] * 8
        values[place], values[place + 1] = big, -big
        for (c, i, j), value in zip(order, values, strict=True):
            x[0, c, i, j] = value
        assert current(x, ones, Form()).item() == 6 - place


def test_sums_are_rounded_once():
    x = torch.tensor([[1.0, 2.0**-30, -1.0]])
    assert current(x, torch.ones(1, 3), Form()).item() == 2.0**-30
    thirds = torch.full((1, 1, 3, 3), 1 / 3)
    exact = Fraction(float(thirds[0, 0, 0, 0]))
    form = Form(pools=(Pool("average", 3, 3),))
    assert current(thirds, torch.ones(1, 1, 1, 1), form).item() == np.float32(float(exact))


def test_average_pools_divide_at_the_end_by_all_their_sizes():
    x = torch.arange(36.0).view(1, 1, 6, 6)
    pools = (Pool("average", 3, 1), Pool("max", 2, 2), Pool("average", 2, 1))
    form = Form(pools=pools)
    sums = F.avg_pool2d(
        F.max_pool2d(F.avg_pool2d(x.double(), 3, 1, divisor_override=1), 2, 2), 2, 1, divisor_override=1
    )
    assert form.divisor == 36
    assert torch.equal(current(x, torch.ones(1, 1, 1, 1), form), (sums / 36).float())


def test_the_window_of_an_average_pool_is_added_row_by_row():
    big = 2.0**60
    rows = torch.tensor([[[[1.0, big], [-big, 1.0]]]])
    assert current(rows, torch.ones(1, 1, 1, 1), Form(pools=(Pool("average", 2, 2),))).item() == 1 / 4
    assert current(rows.mT, torch.ones(1, 1, 1, 1), Form(pools=(Pool("average", 2, 2),))).item() == 1 / 4
    last = torch.tensor([[[[big, -big], [1.0, 1.0]]]])
    assert current(last, torch.ones(1, 1, 1, 1), Form(pools=(Pool("average", 2, 2),))).item() == 2 / 4


@pytest.mark.parametrize("stride", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
def test_stride_and_padding_are_those_of_a_convolution(stride, padding):
    x, signs = small(2, 3, 7, 6), small(4, 3, 3, 2, seed=1).sign()
    assert torch.equal(current(x, signs, Form(stride, padding)), F.conv2d(x, signs, None, stride, padding))


def test_bias_comes_before_scale_and_offset_and_each_is_rounded():
    c, tiny = torch.tensor([[1.0]]), 2.0**-24
    ones = torch.ones(1, 1)
    half = torch.tensor([tiny])
    assert current(c, ones, Form(), half).item() == 1.0  # a tie goes to the even neighbour
    norm = (torch.tensor([3.0]), torch.tensor([0.5]))
    assert current(c, ones, Form(), torch.tensor([2.0]), norm).item() == 9.5
    # 1 + 2**-12 squared is 1 + 2**-11 + 2**-24: rounded to float32 before the offset takes the 1 away.
    near = torch.tensor([[1 + 2.0**-12]])
    norm = (near[0], torch.tensor([-1.0]))
    assert current(near, ones, Form(), None, norm).item() == 2.0**-11


def test_a_batch_norm_folds_in_float64():
    random = np.random.default_rng(0)
    weight, bias, mean = (random.normal(size=50).astype(np.float32) for _ in range(3))
    variance, eps = random.uniform(0.01, 9, 50).astype(np.float32), 1e-5
    factor = weight.astype(np.float64) / np.sqrt(variance.astype(np.float64) + eps)
    offset = bias.astype(np.float64) - mean.astype(np.float64) * factor
    scale, found = fold_norm(*map(torch.from_numpy, (weight, bias, mean, variance)), eps)
    assert scale.dtype == found.dtype == torch.float32
    assert np.array_equal(scale.numpy(), factor.astype(np.float32))
    assert np.array_equal(found.numpy(), offset.astype(np.float32))
    plain, still = fold_norm(None, None, torch.tensor([2.0]), torch.tensor([3.0]), 1.0)
    assert (plain.item(), still.item()) == (0.5, -1.0)


def test_a_form_that_leaves_nothing_does_not_fit():
    assert Form().fits(3, 3, 3, 3)
    assert not Form().fits(3, 2, 3, 3)
    assert Form(padding=(0, 1)).fits(3, 2, 3, 3)
    assert not Form(pools=(Pool("max", 2, 1),)).fits(3, 3, 3, 3)
    assert Form(stride=(2, 2), pools=(Pool("max", 2, 1), Pool("average", 2, 2))).fits(7, 7, 3, 3)
