"""Signs forward, straight through backward."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import binarize

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_signs_are_exact_and_zero_is_plus_one(dtype):
    w = torch.tensor([-6e4, -2.0, -1e-4, -0.0, 0.0, 1e-4, 3.0, 6e4], dtype=dtype)
    signs = binarize(w)
    assert signs.dtype == dtype
    assert signs.tolist() == [-1, -1, -1, 1, 1, 1, 1, 1]


def test_a_weight_that_has_diverged_is_not_hidden_behind_a_sign():
    signs = binarize(torch.tensor([torch.nan, 1.0, torch.inf, -torch.inf]))
    assert signs.isnan().tolist() == [True, False, True, True]


@given(st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=20))
def test_binarizing_twice_changes_nothing(values):
    once = binarize(torch.tensor(values))
    assert torch.equal(binarize(once), once)


def test_the_gradient_passes_unchanged_whatever_the_weight():
    w = torch.tensor([-100.0, -0.5, 0.0, 0.5, 100.0], requires_grad=True)
    arriving = torch.tensor([1.0, -2.0, 3.0, -4.0, 5.0])
    binarize(w).backward(arriving)
    assert torch.equal(w.grad, arriving)


def test_a_clip_stops_the_gradient_only_beyond_it():
    w = torch.tensor([-1.5, -1.0, -0.5, 0.0, 1.0, 1.001], requires_grad=True)
    binarize(w, clip=1.0).backward(torch.full((6,), 3.0))
    assert w.grad.tolist() == [0, 3, 3, 3, 3, 0]
    w.grad = None
    binarize(w, 0.75).backward(torch.full((6,), 3.0))
    assert w.grad.tolist() == [0, 0, 3, 3, 0, 0]


def test_the_weight_itself_is_left_alone():
    w = torch.tensor([-0.25, 0.75])
    binarize(w)
    assert w.tolist() == [-0.25, 0.75]
