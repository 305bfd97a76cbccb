"""Batch norm of all steps at once in C has the bits of T calls of F.batch_norm."""

import copy
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.nn import StepBatchNorm2d
from bitspike.ops.norm import c as norm
from helpers.layers import assert_close

pytestmark = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")


def test_this_pytorchs_bits_are_known():
    assert norm.fused_here() is not None, "this PyTorch's batch norm has bits of its own: step_norm is never used"


@given(
    steps=st.integers(1, 6), batch=st.integers(1, 5), channels=st.sampled_from([1, 2, 7, 8, 9, 19]),
    side=st.integers(2, 5), momentum=st.sampled_from([0.1, 0.37, 1.0]), tracked=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_all_steps_at_once_have_the_bits_of_t_calls(steps, batch, channels, side, momentum, tracked, seed):
    torch.manual_seed(seed)
    ours = StepBatchNorm2d(channels, momentum=momentum, track_running_stats=tracked)
    with torch.no_grad():
        ours.weight.normal_()
        ours.bias.normal_()
    theirs, exact = copy.deepcopy(ours), copy.deepcopy(ours).double()
    x = (torch.randn(steps, batch, channels, side, side) * 3 + 1).requires_grad_()
    x64 = x.detach().double().requires_grad_()
    out = ours(x)
    assert type(out.grad_fn).__name__ == "_StepNormBackward"
    assert torch.equal(out, theirs(x.detach(), plain=True))
    for a, b in zip(ours.buffers(), theirs.buffers(), strict=True):
        assert torch.equal(a, b)
    weights = torch.randn(out.shape)
    (out * weights).sum().backward()
    (exact(x64) * weights.double()).sum().backward()
    if batch * side * side > 4:  # of few values the gradient is a difference of like numbers
        assert_close(x.grad.double(), x64.grad, "x")
    assert_close(ours.weight.grad.double(), exact.weight.grad, "weight")
    assert_close(ours.bias.grad.double(), exact.bias.grad, "bias")


def test_a_norm_without_parameters_is_pytorchs_matter():
    ours, x = StepBatchNorm2d(7, affine=False), torch.randn(4, 3, 7, 2, 2)
    assert torch.equal(ours(x), copy.deepcopy(ours)(x, plain=True))


def test_images_of_one_pixel_are_pytorchs_matter():
    ours, x = StepBatchNorm2d(7), torch.randn(4, 3, 7, 1, 1)
    assert torch.equal(ours(x), copy.deepcopy(ours)(x, plain=True))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        StepBatchNorm2d(3)(torch.randn(4, 1, 3, 1, 1))
