import pytest
import torch

from bitspike.ops import grouped_linear


def test_each_group_is_a_linear_layer_of_its_own():
    g = torch.Generator().manual_seed(0)
    x, w, b, seed = (torch.randint(-4, 5, s, generator=g).double() for s in ((7, 3, 5), (3, 4, 5), (3, 4), (7, 3, 4)))
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    y = grouped_linear(*leaves)
    expected = [t.clone().requires_grad_() for t in (x, w, b)]
    plain = torch.einsum("tgi,goi->tgo", expected[0], expected[1]) + expected[2]
    assert torch.equal(y, plain)
    y.backward(seed)
    plain.backward(seed)
    for ours, theirs in zip(leaves, expected, strict=True):
        assert torch.equal(ours.grad, theirs.grad)


def test_an_input_that_needs_no_gradient_gets_none():
    x = torch.ones(2, 1, 3)
    w, b = torch.ones(1, 2, 3, requires_grad=True), torch.zeros(1, 2)
    grouped_linear(x, w, b).sum().backward()
    assert torch.equal(w.grad, torch.full((1, 2, 3), 2.0))


@pytest.mark.parametrize(
    ("x", "weight", "bias", "says"),
    [
        ((2, 3), (3, 4, 5), (3, 4), r"x must be \[T, G, I\]"),
        ((7, 2, 5), (3, 4, 5), (3, 4), r"shapes \[7, 2, 5\] and \[3, 4, 5\]"),
        ((7, 3, 5), (3, 4, 5), (4,), r"bias must be \[G, O\] = \[3, 4\]"),
    ],
)
def test_wrong_shapes_are_named(x, weight, bias, says):
    with pytest.raises(ValueError, match=says):
        grouped_linear(torch.ones(x), torch.ones(weight), torch.ones(bias))
