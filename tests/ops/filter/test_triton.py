"""Spike filters in Triton against the definition, in float64; without a GPU kernels run in Triton's interpreter."""

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton")
from bitspike.ops.delay.triton import hard
from bitspike.ops.dropout.reference import dropout
from bitspike.ops.filter.reference import filtered
from bitspike.ops.filter.spike_filter import SpikeFilter
from bitspike.ops.filter.triton import filter_backward, rows
from helpers.kernels import DEVICE, GPU, off, rand

pytestmark = pytest.mark.usefixtures("poisoned")

EXACT = 5e-7
NEAR = 5e-6  # of the delays' gradient, a difference of two sums that are up to longest / width times larger
COMPILED = pytest.mark.slow if GPU else ()  # of cases that differ in the number of taps: each is compiled anew

# neurons, the longest delay, and its width; of 9 steps and 2 samples
CASES = [
    (5, 6, 2.0),
    (37, 25, 0.3),
    pytest.param(40, 8, 4.0, marks=COMPILED),
    pytest.param(3, 1, 0.01, marks=COMPILED),
    pytest.param(3, 0, 1.0, marks=COMPILED),
    pytest.param(1, 63, 20.0, marks=COMPILED),
]


def together(found, wide):
    """The numbers of rows in two halves, what was rounded to float16 and 2**11 times the rest; or in one."""
    assert found.dtype == torch.float16
    first, *rest = found.double().split(wide, 1)
    return first + sum(rest) / 2**11


def counts(*shape):
    return (rand(*shape, seed=7) * 5).floor().to(torch.uint8)


@pytest.mark.parametrize(("neurons", "longest", "width"), CASES)
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_rows_of_counts_are_dropped_then_delayed(neurons, longest, width, share):
    x, delays = counts(9, 2, neurons), rand(neurons, seed=2) * longest
    key = torch.tensor(123456789123, device=DEVICE)
    spike_filter = SpikeFilter(delays, longest, torch.tensor(width, device=DEVICE), share, key, layer=3)
    out = together(rows(x, spike_filter, 64), 64).view(9, 2, 64)
    wanted = filtered(x.double(), replace(spike_filter, delays=delays.double()))
    torch.testing.assert_close(out[..., :neurons].double(), wanted, rtol=EXACT, atol=1e-6)
    assert not out[..., neurons:].any()


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
    filtered(wide[0], replace(spike_filter, delays=wide[1], gains=wide[2])).backward(towards.double())
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
