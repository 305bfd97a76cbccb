"""The definition of gains: whole numbers, halves to even, and a gradient that rounding does not stop."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.ops import gain


def test_values_are_multiplied_by_whole_numbers():
    x, gains = torch.tensor([[1.0, 2.0, -3.0, 1.0, 1.0]]), torch.tensor([0.4, 3.6, 2.0, 0.5, 1.5])
    assert gain(x, gains).tolist() == [[0.0, 8.0, -6.0, 0.0, 2.0]]


@given(st.floats(0, 255, width=32))
def test_what_multiplies_is_exactly_the_rounded_gain(value):
    """A sum of a gain and what rounding adds to it must not round itself: spikes would be off by a bit."""
    gains = torch.tensor([value])
    assert torch.equal(gain(torch.ones(1), gains), gains.round())


@pytest.mark.parametrize(("dim", "shape"), [(-1, (3, 2, 4)), (-3, (2, 4, 3, 3)), (2, (5, 2, 4, 3, 3)), (1, (2, 4))])
def test_any_dimension_may_hold_the_neurons(dim, shape):
    x, gains = torch.rand(shape), torch.tensor([0.0, 1.0, 2.0, 7.0])
    moved = gain(x.movedim(dim, -1), gains).movedim(-1, dim)
    assert torch.equal(gain(x, gains, dim=dim), moved)


def test_gradients_are_those_of_a_product_with_real_gains():
    x = torch.rand(6, 2, 3, requires_grad=True)
    gains = torch.tensor([0.2, 2.7, 5.0], requires_grad=True)
    towards = torch.rand(6, 2, 3)
    gain(x, gains).backward(towards)
    torch.testing.assert_close(gains.grad, (x * towards).sum((0, 1)).detach())  # also where the gain rounds to 0
    assert torch.equal(x.grad, towards * torch.tensor([0.0, 3.0, 5.0]))


@pytest.mark.parametrize(
    ("x", "gains", "dim", "error", "says"),
    [
        (torch.ones(2, 3), torch.ones(2), -1, ValueError, r"x has shape \[2, 3\] and the gains \[2\]"),
        (torch.ones(2, 3), torch.ones(1, 3), -1, ValueError, r"x has shape \[2, 3\] and the gains \[1, 3\]"),
        (torch.ones(2, 3), torch.ones(3), 5, ValueError, "in dimension 5, but x has shape"),
        (torch.ones(2, 3).byte(), torch.ones(3), -1, TypeError, "x must be .* but is of torch.uint8; call .float"),
        (torch.ones(2, 3) > 0, torch.ones(3), -1, TypeError, "x must be .* but is of torch.bool; call .float"),
        ([1.0, 2.0, 3.0], torch.ones(3), -1, TypeError, "x must be .* but is a list"),
        (torch.ones(2, 3), [1, 2, 3], -1, TypeError, "gains must be .* but is a list"),
    ],
)
def test_bad_input_is_one_line(x, gains, dim, error, says):
    with pytest.raises(error, match=f"^gain: .*{says}"):
        gain(x, gains, dim=dim)
