"""Delays in Triton against the definition, in float64; without a GPU the kernels run in Triton's interpreter."""

import pytest
import torch

from bitspike import delay
from bitspike.ops import gain
from bitspike.ops.delay import reference
from bitspike.ops.delay.op import NARROWEST

pytest.importorskip("triton")
from bitspike.ops.delay.triton import SpikeFilter, filter_backward, hard, rows, soft
from bitspike.ops.dropout.reference import dropout
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


def together(found, wide):
    """The numbers of rows in two halves, what was rounded to float16 and 2**11 times the rest; or in one."""
    assert found.dtype == torch.float16
    first, *rest = found.double().split(wide, 1)
    return first + sum(rest) / 2**11


def counts(*shape):
    return (rand(*shape, seed=7) * 5).floor().to(torch.uint8)


@pytest.mark.parametrize(("shape", "longest", "width"), CASES[:2] + CASES[3:])
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_rows_of_counts_are_dropped_then_delayed(shape, longest, width, share):
    x, delays = counts(*shape), inputs(shape, longest)[1].detach()
    key = torch.tensor(123456789123, device=DEVICE)
    spike_filter = SpikeFilter(delays, longest, torch.tensor(width, device=DEVICE), share, key, layer=3)
    out = together(rows(x, spike_filter, 64), 64).view(*shape[:2], 64)
    dropped = dropout(x.double(), share, key, 3) if share else x.double()
    wanted = definition(dropped, delays.double(), longest, width)
    torch.testing.assert_close(out[..., : shape[2]].double(), wanted, rtol=EXACT, atol=1e-6)
    assert not out[..., shape[2] :].any()


def test_rows_of_counts_by_whole_steps_are_exact():
    x, delays = counts(9, 2, 5) * 51, torch.tensor([0.0, 0.5, 1.5, 7.0, 12.0], device=DEVICE)
    out = rows(x, SpikeFilter(delays, 12), 32).float().view(9, 2, 32)
    wanted = hard(x.float(), torch.tensor([0, 0, 2, 7, 12], dtype=torch.int32, device=DEVICE))
    assert torch.equal(out[..., :5], wanted)
    assert not out[..., 5:].any()


def test_rows_with_dropout_alone():
    x, key = counts(9, 2, 5), torch.tensor(99, device=DEVICE)
    out = rows(x, SpikeFilter(dropout=0.5, key=key, layer=2), 32)
    out = together(out, 32).view(9, 2, 32)
    assert torch.equal(out[..., :5].float(), dropout(x.float(), 0.5, key, 2))


def test_a_width_that_changed_before_backward_is_an_error():
    x, delays = inputs((6, 2, 4), 3)
    width = torch.tensor(1.0, device=DEVICE)
    out = soft(x, delays, 3, width)
    width.fill_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_rows_of_counts_times_gains_are_exact():
    """Counts of 255 times a gain of 255 have 16 bits, more than a float16."""
    x = counts(9, 2, 5) * 63 + 3
    gains = torch.tensor([255.0, 0.0, 14.6, 2.5, 1.0], device=DEVICE)
    wanted = x.float() * torch.tensor([255.0, 0.0, 15.0, 2.0, 1.0], device=DEVICE)
    out = rows(x, SpikeFilter(gains=gains, largest_gain=255), 32)
    assert torch.equal(together(out, 32).view(9, 2, 32)[..., :5].float(), wanted)
    whole = torch.tensor([0.0, 1.0, 2.0, 0.0, 8.0], device=DEVICE)
    out = rows(x, SpikeFilter(whole, 8, gains=gains, largest_gain=255), 32)
    assert torch.equal(together(out, 32).view(9, 2, 32)[..., :5].float(), hard(wanted, whole.int()))


@pytest.mark.parametrize("delayed", [True, False])
def test_gradients_of_gains_are_the_definition(delayed):
    shape, width = (9, 3, 5), torch.tensor(1.2, device=DEVICE)
    x, gains, towards = counts(*shape), rand(5, seed=4) * 15, rand(*shape, seed=3) - 0.5
    delays = rand(5, seed=2) * 6 if delayed else None
    spike_filter = SpikeFilter(delays, 6 if delayed else 0, width if delayed else None, gains=gains, largest_gain=15)
    of_x, found = filter_backward(towards, x, spike_filter, of_x=True, of_delays=delayed, of_gains=True)
    wide = [None if each is None else each.double().requires_grad_() for each in (x, delays, gains)]
    out = gain(wide[0] if delays is None else definition(wide[0], wide[1], 6, 1.2), wide[2])
    out.backward(towards.double())
    assert off(of_x, wide[0].grad) < EXACT
    assert off(found.gains, wide[2].grad) < EXACT
    if delays is not None:
        assert off(found.delays, wide[1].grad) < NEAR
    else:
        assert found.delays is None


def test_filters_with_rounded_delays_have_no_backward_pass():
    x = torch.zeros(4, 3, 5, device=DEVICE)
    with pytest.raises(ValueError, match="the filter's delays are rounded"):
        filter_backward(x, x, SpikeFilter(torch.ones(5, device=DEVICE), 2), of_x=True, of_delays=True)
    with pytest.raises(ValueError, match="the filter has no"):
        SpikeFilter().whole_delays()


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
        (torch.zeros(3, 2, 4), 5, torch.tensor(1.0, requires_grad=True), "the width requires a gradient"),
        (torch.zeros(3, 2, 4), 5, 0.09, "the width is 0.09 steps, less than 0.1: delays would get noise"),
        (torch.zeros(3, 2, 4), 5, torch.tensor(0.05), "the width is 0.05 steps, less than 0.1: delays would get noise"),
    ],
)
def test_the_op_says_what_triton_cannot_do(spikes, longest, width, reason):
    with pytest.raises(ValueError, match=reason):
        delay(spikes.to(DEVICE), torch.zeros(4, device=DEVICE), longest=longest, width=width, backend="triton")
