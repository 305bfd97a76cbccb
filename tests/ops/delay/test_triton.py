"""Delays in Triton against the definition, in float64; without a GPU the kernels run in Triton's interpreter."""

import pytest
import torch

from bitspike import delay
from bitspike.ops.delay import reference
from bitspike.ops.delay.op import NARROWEST

pytest.importorskip("triton")
from bitspike.ops.delay.triton import hard, soft
from helpers.kernels import DEVICE, GPU, off, rand

pytestmark = pytest.mark.usefixtures("poisoned")

EXACT = 5e-7
NEAR = 5e-6  # of the delays' gradient, a difference of two sums that are up to longest / width times larger
COMPILED = pytest.mark.slow if GPU else ()  # of cases that differ in the number of taps: each is compiled anew

# steps, batch, neurons (and places), the longest delay, and its width
CASES = [
    ((13, 3, 5), 6, 2.0),
    ((9, 2, 37), 25, 0.3),
    ((7, 2, 3, 4, 2), 4, 1.0),
    pytest.param((5, 1, 40), 8, 4.0, marks=COMPILED),
    pytest.param((6, 2, 3), 1, 0.01, marks=COMPILED),
    pytest.param((6, 2, 3), 0, 1.0, marks=COMPILED),
    pytest.param((1, 1, 1), 63, 20.0, marks=COMPILED),
]


def inputs(shape, longest):
    x = rand(*shape, seed=1) - 0.3
    return x.requires_grad_(), (rand(shape[2], seed=2) * longest).requires_grad_()


def definition(x, delays, longest, width):
    past = x.new_zeros(longest, *x.shape[1:])
    return reference.filtered(x, reference.taps(delays, longest, width), past)


@pytest.mark.parametrize(("shape", "longest", "width"), CASES)
def test_soft_delays_and_their_gradients_are_the_definition(shape, longest, width):
    x, delays = inputs(shape, longest)
    wide_x, wide_delays = (tensor.detach().double().requires_grad_() for tensor in (x, delays))
    out = soft(x, delays, longest, torch.tensor(width, device=DEVICE))
    wanted = definition(wide_x, wide_delays, longest, width)
    assert off(out, wanted) < EXACT
    towards = rand(*shape, seed=3) - 0.5
    out.backward(towards)
    wanted.backward(towards.double())
    assert off(x.grad, wide_x.grad) < EXACT
    if longest:
        assert off(delays.grad, wide_delays.grad) < NEAR
    else:
        assert not delays.grad.any()


def test_the_narrowest_width_has_a_gradient():
    """Below it the kernels' gradient is noise, and a plain backend has to compute it."""
    spikes, towards = rand(50, 8, 40).lt(0.1), rand(50, 8, 40, seed=3) - 0.5
    for width, backend in ((NARROWEST, "triton"), (NARROWEST / 2, "torch")):
        found = []
        for name, dtype in ((backend, torch.float32), ("reference", torch.float64)):
            delays = (rand(40, seed=2) * 25).to(dtype).requires_grad_()
            out = delay(spikes.to(dtype), delays, longest=25, width=width, backend=name)
            found += torch.autograd.grad(out, delays, towards.to(dtype))
        assert off(*found) < 2e-3


@pytest.mark.parametrize("of_x", [True, False])
def test_only_what_is_asked_for_gets_a_gradient(of_x):
    x, delays = inputs((9, 2, 4), 5)
    (delays if of_x else x).requires_grad_(False)
    soft(x, delays, 5, torch.tensor(1.0, device=DEVICE)).square().sum().backward()
    assert (x.grad is not None, delays.grad is not None) == (of_x, not of_x)


def test_gradients_may_lie_anyhow():
    x, delays = inputs((6, 2, 4), 3)
    width = torch.tensor(1.0, device=DEVICE)
    towards = rand(6, 4, 2, seed=3)
    (first,) = torch.autograd.grad(soft(x.transpose(1, 2).contiguous().transpose(1, 2), delays, 3, width), x,
                                   towards.transpose(1, 2))  # fmt: skip
    (second,) = torch.autograd.grad(soft(x, delays, 3, width), x, towards.transpose(1, 2).contiguous())
    assert torch.equal(first, second)


@pytest.mark.parametrize(("shape", "longest", "width"), CASES)
def test_whole_delays_are_the_definition(shape, longest, width):
    x, delays = inputs(shape, longest)
    whole = delays.detach().round().int()
    past = x.new_zeros(longest, *shape[1:])
    towards = rand(*shape, seed=3) - 0.5
    found = []
    for out in (hard(x, whole), reference.shifted(x, whole.long(), past)):
        (grad,) = torch.autograd.grad(out, x, towards)
        found.append((out, grad))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_width_that_changed_before_backward_is_an_error():
    x, delays = inputs((6, 2, 4), 3)
    width = torch.tensor(1.0, device=DEVICE)
    out = soft(x, delays, 3, width)
    width.fill_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("width", [None, 0.7, torch.tensor(0.7)])
@pytest.mark.parametrize("with_past", [False, True])
def test_the_op_runs_in_triton(width, with_past):
    x, delays = inputs((6, 2, 4), 5)
    past = rand(5, 2, 4, seed=8).requires_grad_() if with_past else None
    towards = rand(6, 2, 4, seed=3)
    found = []
    for backend in ("triton", "reference"):
        out = delay(x, delays, longest=5, width=width, past=past, backend=backend)
        learnt = [tensor for tensor in (x, past, None if width is None else delays) if tensor is not None]
        found.append((out, *torch.autograd.grad(out, learnt, towards)))
    for a, b in zip(*found, strict=True):
        if width is None:
            assert torch.equal(a, b)
        else:
            assert off(a, b) < NEAR


@pytest.mark.parametrize(
    ("spikes", "longest", "width", "reason"),
    [
        (torch.zeros(3, 2, 4, dtype=torch.float64), 5, None, "float64, not float32"),
        (torch.zeros(3, 2, 4), 64, None, "delays are up to 64 steps, more than 63"),
        (torch.zeros(65531, 1, 4), 5, None, "there are 65531 steps and delays of up to 5, together more than 65535"),
        (torch.zeros(3, 2, 4), 5, torch.tensor(1.0, requires_grad=True), "the width requires a gradient"),
        (torch.zeros(3, 2, 4), 5, 0.09, "the width is 0.09 steps, less than 0.1: delays would get noise"),
        (torch.zeros(3, 2, 4), 5, torch.tensor(0.05), "the width is 0.05 steps, less than 0.1: delays would get noise"),
    ],
)
def test_the_op_says_what_triton_cannot_do(spikes, longest, width, reason):
    with pytest.raises(ValueError, match=reason):
        delay(spikes.to(DEVICE), torch.zeros(4, device=DEVICE), longest=longest, width=width, backend="triton")
