"""Synapses are PyTorch's on the signs of their weights; their float twins are PyTorch's own."""

import pytest
import torch
import torch.nn.functional as F

from bitspike import BinaryConv2d, BinaryLinear


def test_binary_linear_is_linear_on_signs_with_a_real_bias():
    layer = BinaryLinear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.1, -0.2, 0.0], [-3.0, 0.5, -0.1]]))
        layer.bias.copy_(torch.tensor([0.25, -0.5]))
    assert layer(torch.tensor([1.0, 2.0, 4.0])).tolist() == [1 - 2 + 4 + 0.25, -1 + 2 - 4 - 0.5]


def test_binary_linear_sends_the_gradient_of_the_sign_to_the_latent_weight():
    layer = BinaryLinear(3, 2, clip=0.5)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.1, -0.2, 0.0], [-3.0, 0.5, -0.1]]))
    layer(torch.tensor([[1.0, 2.0, 4.0]])).sum().backward()
    assert layer.weight.grad.tolist() == [[1, 2, 4], [0, 2, 4]]
    assert layer.bias.grad.tolist() == [1, 1]


def test_binary_conv_is_conv_on_signs_without_bias():
    layer = BinaryConv2d(2, 3, 3, clip=1.0)
    assert layer.bias is None
    x = torch.randint(-4, 5, (2, 2, 6, 6)).float()
    signs = torch.where(layer.weight >= 0, 1.0, -1.0)
    assert torch.equal(layer(x), F.conv2d(x, signs))


def test_binary_conv_clips_the_gradient():
    layer = BinaryConv2d(1, 1, 2, clip=0.5)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[[[0.1, -0.6], [0.5, 9.0]]]]))
    layer(torch.ones(1, 1, 2, 2)).sum().backward()
    assert layer.weight.grad.flatten().tolist() == [1, 0, 1, 0]


def test_binary_conv_takes_time_first():
    layer = BinaryConv2d(2, 3, 3, bias=True, padding=1, stride=2)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([0.5, -1.0, 2.0]))
    x = torch.randint(-4, 5, (5, 2, 2, 6, 6)).float()
    assert torch.equal(layer(x), torch.stack([layer(step) for step in x]))


@pytest.mark.parametrize("dims", [4, 5])
def test_the_float_twins_are_pytorchs_layers(dims):
    x = torch.randn(*(2,) * (dims - 3), 2, 5, 5)
    conv = BinaryConv2d(2, 3, 3, binary=False)
    flat = x.reshape(-1, 2, 5, 5)
    assert torch.equal(conv(x).reshape(-1, 3, 3, 3), F.conv2d(flat, conv.weight))
    linear = BinaryLinear(5, 4, binary=False)
    assert torch.equal(linear(x), F.linear(x, linear.weight, linear.bias))


def test_synapses_say_whether_they_are_binary():
    assert "binary=True" in repr(BinaryLinear(2, 2))
    assert "binary=False" in repr(BinaryConv2d(2, 2, 1, binary=False))
