"""Spike filters in C: the definition's outputs bit for bit, gradients to float32's rounding of the float64 ones."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.ops.delay import delay
from bitspike.ops.dropout.reference import dropout
from bitspike.ops.filter.op import filtered
from bitspike.ops.filter.reference import filtered as definition
from bitspike.ops.filter.spike_filter import SpikeFilter

pytestmark = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")
ROUNDING = 2e-6  # of the largest, beside what the definition itself loses in float32
SHAPES = [(1, 1), (2, 3), (1, 17), (3, 2, 2, 3), (2, 1, 5), (3, 21)]  # of one step: [B, N, ...]


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


def spike_filter_of(neurons, longest, share=0.3, gained=True, width=0.8, first_row=0):
    gains = (torch.rand(neurons, generator=torch.Generator().manual_seed(5)) * 15).requires_grad_() if gained else None
    delays = (torch.rand(neurons, generator=torch.Generator().manual_seed(6)) * longest).requires_grad_()
    key = torch.tensor(123456789123)
    return SpikeFilter(delays, longest, torch.tensor(width), share, key, 2, first_row, gains, 15)


def last_steps(x, f, past):
    """The last `longest` steps of past and input after dropout, zeros before the start."""
    dropped = dropout(x, f.dropout, f.key, f.layer, f.first_row) if f.dropout else x
    before = x.new_zeros(f.longest, *x.shape[1:]) if past is None else past
    return torch.cat([before, dropped])[len(x) :]


def gradients(tensors, outputs, towards):
    found = torch.autograd.grad(outputs, tensors, towards, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, found, strict=True)]


def plainly(leaves, f, past, dtype):
    """The leaves in another precision, and what the definition makes of them."""
    given = [each.detach().to(dtype).requires_grad_() for each in leaves]
    x, delays, *rest = given
    gains = rest.pop(0) if f.gains is not None else None
    before = rest.pop(0) if past is not None else None
    exact = replace(f, delays=delays, gains=gains)
    return given, [definition(x, exact, before), last_steps(x, exact, before)]


def error(found, right):
    return (found.double() - right).abs().max().item() if right.numel() else 0.0


def assert_is_the_definition(x, f, past):
    leaves = [each for each in (x, f.delays, f.gains, past) if each is not None]
    out, held = filtered(x, f, past)
    narrow, exact = (plainly(leaves, f, past, dtype) for dtype in (torch.float32, torch.float64))
    with torch.no_grad():
        assert torch.equal(out, narrow[1][0])
        assert torch.equal(held, narrow[1][1])
    for of_held in (False, True):
        towards = [normal(*out.shape, seed=1), normal(*held.shape, seed=2) * of_held]
        got = gradients(leaves, [out, held], towards)
        plain = gradients(*narrow, towards)
        wanted = gradients(*exact, [each.double() for each in towards])
        for mine, rounded, right in zip(got, plain, wanted, strict=True):
            largest = max(right.abs().max().item(), 1) if right.numel() else 0.0  # terms are about 1, and may cancel
            assert error(mine, right) <= 4 * error(rounded, right) + ROUNDING * largest


@given(
    st.integers(1, 13), st.integers(0, 14), st.sampled_from(SHAPES), st.sampled_from([0.0, 0.2, 0.9]), st.booleans(),
    st.booleans(), st.sampled_from([0.1, 0.8, 7.0]), st.integers(0, 3),
)  # fmt: skip
def test_it_is_the_definition(steps, longest, shape, share, gained, with_past, width, first_row):
    f = spike_filter_of(shape[1], longest, share, gained, width, first_row)
    past = normal(longest, *shape, seed=4).requires_grad_() if with_past else None
    assert_is_the_definition(normal(steps, *shape).requires_grad_(), f, past)


@pytest.mark.parametrize("shape", [(130, 9, 70), (7, 3, 5, 4, 3), (100, 1, 31), (33, 40, 50)])
@pytest.mark.parametrize("with_past", [True, False])
def test_blocks_and_parts_of_any_size(poisoned, shape, with_past):
    """Whole blocks of columns and a rest, more samples than threads; memory shows what is not written."""
    past = normal(11, *shape[1:], seed=4).requires_grad_() if with_past else None
    assert_is_the_definition(normal(*shape).requires_grad_(), spike_filter_of(shape[2], 11), past)


def test_sums_over_thousands_of_steps_stay_as_exact_as_the_definition():
    """Float32 sums of one step after another would lose a digit more."""
    f = spike_filter_of(3, 5, share=0.0, width=0.5)
    x, towards = torch.rand(4000, 1, 3), torch.rand(4000, 1, 3)
    leaves = [x.requires_grad_(), f.delays, f.gains]
    wanted = gradients(*plainly(leaves, f, None, torch.float64), [towards.double(), torch.zeros(5, 1, 3).double()])
    got = gradients(leaves, [filtered(x, f)[0]], [towards])
    for mine, right in zip(got[1:], wanted[1:], strict=True):
        assert error(mine, right) <= 3e-5 * right.abs().max()


def test_threads_change_no_bit():
    x, f, found = normal(40, 30, 50).requires_grad_(), spike_filter_of(50, 9), []
    before = torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            out, held = filtered(x, f)
            found.append([out, held, *gradients([x, f.delays, f.gains], [out, held], [out.detach(), held.detach()])])
        finally:
            torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("alone", ["x", "delays", "gains", "past"])
def test_a_gradient_alone_is_the_one_among_all(alone):
    f = spike_filter_of(6, 4)
    leaves = {"x": normal(9, 2, 6), "delays": f.delays, "gains": f.gains, "past": normal(4, 2, 6, seed=3)}
    for leaf in leaves.values():
        leaf.requires_grad_()
    towards = normal(9, 2, 6, seed=1)

    def out(given):
        return filtered(given["x"], replace(f, delays=given["delays"], gains=given["gains"]), given["past"])[0]

    wanted = torch.autograd.grad(out(leaves), list(leaves.values()), towards)[list(leaves).index(alone)]
    single = {name: leaf if name == alone else leaf.detach() for name, leaf in leaves.items()}
    (got,) = torch.autograd.grad(out(single), leaves[alone], towards)
    assert torch.equal(got, wanted)


def test_hooks_of_autograd_may_return_tensors_in_another_order():
    f = spike_filter_of(6, 4)
    x, past, towards = (
        normal(9, 2, 6).requires_grad_(),
        normal(4, 2, 6, seed=3).requires_grad_(),
        normal(9, 2, 6, seed=1),
    )
    leaves = [x, f.delays, f.gains, past]
    wanted = torch.autograd.grad(filtered(x, f, past)[0], leaves, towards)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t.mT.contiguous().mT if t.dim() > 1 else t):
        out = filtered(x, f, past)[0]
    assert all(map(torch.equal, torch.autograd.grad(out, leaves, towards), wanted))


def test_a_minus_sign_that_is_only_a_mark_counts():
    """PyTorch keeps one on views, such as the imaginary part of a conjugate."""
    f = replace(spike_filter_of(4, 2, gained=False), dropout=0.0)
    x, towards = normal(5, 2, 4).requires_grad_(), normal(5, 2, 4, seed=1)
    (wanted,) = torch.autograd.grad(filtered(x, f)[0], x, -towards)
    (got,) = torch.autograd.grad(filtered(x, f)[0], x, torch._neg_view(towards))
    assert torch.equal(got, wanted)
    marked = torch._neg_view(x.detach())
    got, wanted = (delay(each, f.delays, longest=2, width=0.5) for each in (marked, -x))
    torch.testing.assert_close(got, wanted)


def test_what_it_cannot_do_is_said():
    x, f = normal(3, 1, 4), spike_filter_of(4, 2)
    with pytest.raises(ValueError, match="delays must be soft in C"):
        filtered(x, replace(f, width=None))
    for run in (filtered, definition):
        with pytest.raises(ValueError, match="at least one"):
            run(x[:0], replace(f, dropout=0.0))
        with pytest.raises(ValueError, match="dropout draws from a key, but the filter has none"):
            run(x, replace(f, key=None))
