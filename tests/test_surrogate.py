"""The spike and the derivative that stands in for its own."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.ops import fast_sigmoid_grad, spike


def test_by_hand():
    u = torch.tensor([3.0, 4.0, 2.0, 3.5, 0.0], dtype=torch.float64)
    # slope 2 around 3: 1, (1 + 2)**-2 on both sides, (1 + 1)**-2, (1 + 6)**-2
    expected = torch.tensor([1, 1 / 9, 1 / 9, 1 / 4, 1 / 49], dtype=torch.float64)
    torch.testing.assert_close(fast_sigmoid_grad(u, 3.0, 2.0), expected, rtol=1e-15, atol=0)


@given(st.floats(-20, 20), st.floats(0.1, 20), st.floats(0.01, 50))
def test_it_is_the_derivative_of_the_fast_sigmoid(u, center, slope):
    x = torch.tensor(u, dtype=torch.float64, requires_grad=True)
    away = x - center
    (away / (1 + slope * away.abs())).backward()
    expected = x.grad.item()
    assert fast_sigmoid_grad(x.detach(), center, slope).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_far_from_the_center_it_fades_without_becoming_nan():
    assert fast_sigmoid_grad(torch.tensor([-1e38, 1e38]), 1.0, 1e3).tolist() == [0, 0]


def test_a_spike_needs_the_threshold_not_more():
    u = torch.tensor([1.4999999, 1.5, 1.5000001, -9.0, 9.0])
    z = spike(u, torch.tensor(1.5), torch.tensor(100.0), 1.0)
    assert z.tolist() == [0, 1, 1, 0, 1]


def test_the_gradient_is_centered_on_center_and_none_reaches_theta():
    u = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64, requires_grad=True)
    theta = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
    center = torch.tensor(2.0, dtype=torch.float64)
    arriving = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    spike(u, theta, center, 1.0).backward(arriving)
    assert u.grad.tolist() == [1 / 4, -2.0, 3 / 25]
    assert theta.grad is None


def test_a_center_that_depends_on_spikes_gets_minus_the_gradient():
    u = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    center = torch.tensor([2.0, 2.0], dtype=torch.float64, requires_grad=True)
    spike(u, torch.tensor(1.0), center, 1.0).backward(torch.tensor([8.0, 3.0], dtype=torch.float64))
    assert u.grad.tolist() == [2.0, 3.0]
    assert center.grad.tolist() == [-2.0, -3.0]
