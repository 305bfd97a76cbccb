"""Dropout in Triton is the definition, forward and backward."""

import pytest
import torch

pytest.importorskip("triton")
from bitspike.ops.dropout.reference import dropout as plain_dropout
from bitspike.ops.dropout.triton import dropout
from helpers.kernels import DEVICE, rand

pytestmark = pytest.mark.usefixtures("poisoned")


def test_dropout_is_the_plain_one_both_ways():
    x = rand(9, 3, 11).requires_grad_()
    key = torch.tensor(77, device=DEVICE)
    y = dropout(x, 0.3, key, 2)
    assert torch.equal(y, plain_dropout(x, 0.3, key, 2))
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad, plain_dropout(torch.ones_like(x), 0.3, key, 2))
