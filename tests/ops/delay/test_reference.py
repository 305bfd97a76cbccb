"""The definition: what it says by hand, against a convolution that shares no code with it, and its laws."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import delay
from bitspike.ops.delay.reference import taps
from helpers.delays import by_hand, calls, dilated_convolution, learn

BACKENDS = pytest.mark.parametrize("backend", ["reference", "auto"])


def one_neuron(values):
    return torch.tensor(values).view(-1, 1, 1)


@pytest.mark.parametrize(
    ("d", "wanted"),
    [
        (0.0, [1, 2, 3, 4]),
        (1.0, [0, 1, 2, 3]),
        (3.0, [0, 0, 0, 1]),
        (4.0, [0, 0, 0, 0]),  # as long as the input: silence
        (99.0, [0, 0, 0, 0]),
        (0.49, [1, 2, 3, 4]),
        (0.5, [1, 2, 3, 4]),  # halves go to the even neighbour
        (1.5, [0, 0, 1, 2]),
        (2.5, [0, 0, 1, 2]),
        (2.51, [0, 0, 0, 1]),
    ],
)
def test_a_delay_of_whole_steps(d, wanted):
    assert delay(one_neuron([1.0, 2.0, 3.0, 4.0]), torch.tensor([d])).flatten().tolist() == wanted


def test_the_steps_before_the_first_are_the_past():
    past, spikes = one_neuron([7.0, 8.0, 9.0]), one_neuron([1.0, 2.0])
    for d, wanted in enumerate([[1, 2], [9, 1], [8, 9], [7, 8]]):
        assert delay(spikes, torch.tensor([d]), longest=3, past=past).flatten().tolist() == wanted


@BACKENDS
def test_taps_weigh_as_a_gaussian(backend):
    """One spike shows the weights: w_k = exp(-((k - d) / width)**2 / 2) over their sum, written out with math."""
    d, width, longest = 1.3, 0.8, 4
    raw = [math.exp(-(((k - d) / width) ** 2) / 2) for k in range(longest + 1)]
    wanted = [value / sum(raw) for value in raw]
    delays = torch.tensor([d], dtype=torch.float64)
    assert taps(delays, longest, width)[0].tolist() == pytest.approx(wanted, rel=1e-12)
    one = one_neuron([2.0, 0, 0, 0, 0, 0, 0]).double()
    out = delay(one, delays, longest=longest, width=width, backend=backend)
    assert out.flatten().tolist() == pytest.approx([2 * w for w in wanted] + [0, 0], rel=1e-12)


@pytest.mark.parametrize("width", [0.3, 1.0, 2.0])
def test_no_tap_is_too_small_for_fast_arithmetic(width):
    """Weights that no sum would notice are 0, because CPUs are slow with products as small as theirs."""
    delays = torch.linspace(0, 25, 60)
    weights = taps(delays, 25, width)
    exact = torch.softmax(-((torch.arange(26.0) - delays[:, None]) / width).square() / 2, dim=1)
    assert ((weights == 0) == (exact < 1e-20)).all()
    assert ((weights == exact) | (exact < 1e-20)).all()
    assert (weights == 0).any()


def test_longest_is_the_largest_delay_rounded_up_unless_given():
    one = one_neuron([1.0, 0, 0, 0, 0])
    for d, longest in ((2.2, 3), (2.0, 2), (0.0, 0)):
        delays = torch.tensor([d])
        assert torch.equal(delay(one, delays, width=1.0), delay(one, delays, width=1.0, longest=longest))
        assert not torch.equal(delay(one, delays, width=1.0), delay(one, delays, width=1.0, longest=longest + 1))


@BACKENDS
def test_a_soft_delay_longer_than_the_input_keeps_its_weights(backend):
    """Taps beyond the input still count in the sum that normalises."""
    long = delay(one_neuron([1.0] + [0.0] * 9), torch.tensor([4.0]), longest=9, width=2.0, backend=backend)
    short = delay(one_neuron([1.0, 0.0, 0.0]), torch.tensor([4.0]), longest=9, width=2.0, backend=backend)
    torch.testing.assert_close(short, long[:3], rtol=1e-6, atol=0)


@BACKENDS
def test_a_very_narrow_soft_delay_is_the_hard_one(backend):
    """Also half-way between two taps, where both exponentials are too small for a float."""
    spikes = torch.rand(6, 2, 3)
    narrow = delay(spikes, torch.tensor([1.0, 2.1, 0.6]), longest=4, width=1e-3, backend=backend)
    torch.testing.assert_close(narrow, by_hand(spikes, torch.tensor([1, 2, 1]), None))
    between = delay(spikes, torch.tensor([1.5] * 3), longest=4, width=1e-3, backend=backend)
    two = [by_hand(spikes, torch.tensor([d] * 3), None) for d in (1, 2)]
    torch.testing.assert_close(between, (two[0] + two[1]) / 2)


@given(call=calls(soft=False))
def test_whole_steps_are_those_moved_by_hand(call):
    out = delay(**call)
    assert torch.equal(out, by_hand(call["spikes"], call["delays"].round(), call["past"]))


@BACKENDS
@given(call=calls(soft=True).filter(lambda call: call["width"] > 0.2))  # the oracle's exponentials underflow below
def test_soft_delays_and_their_gradients_are_a_convolutions(backend, call):
    call = {name: v.double() if isinstance(v, torch.Tensor) else v for name, v in call.items()}
    incoming = torch.randn_like(call["spikes"])
    out, grads = learn(call, incoming, torch.float64, backend=backend)
    leaves = {name: call[name].clone().requires_grad_() for name in grads}
    wanted = dilated_convolution(**call | leaves)
    torch.testing.assert_close(out, wanted.detach(), rtol=1e-9, atol=1e-11)
    found = torch.autograd.grad(wanted, list(leaves.values()), incoming)
    for name, grad in zip(leaves, found, strict=True):
        torch.testing.assert_close(grads[name], grad, rtol=1e-8, atol=1e-10, msg=lambda m, name=name: f"{name}: {m}")


@BACKENDS
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 2, 2)])
@pytest.mark.parametrize("steps", [3, 9])
def test_gradients_are_finite_differences(backend, shape, steps):
    spikes = torch.randn(steps, *shape, dtype=torch.float64, requires_grad=True)
    past = torch.randn(5, *shape, dtype=torch.float64, requires_grad=True)
    delays = torch.tensor([0.3, 2.5, 4.6], dtype=torch.float64, requires_grad=True)
    width = torch.tensor(0.7, dtype=torch.float64)

    def soft(spikes, delays, past):
        return delay(spikes, delays, longest=5, width=width, past=past, backend=backend)

    def hard(spikes, past):
        return delay(spikes, delays, longest=5, past=past, backend=backend)

    assert torch.autograd.gradcheck(soft, (spikes, delays, past))
    assert torch.autograd.gradcheck(hard, (spikes, past))
    assert not hard(spikes.detach(), past.detach()).requires_grad  # a rounded delay cannot be learnt


@pytest.mark.parametrize("backend", ["reference", "auto"])
@given(call=calls(), cut=st.integers(0, 12))
def test_a_split_in_time_changes_nothing(backend, call, cut):
    """Neither the output nor any gradient: the past of the second part is the end of the first."""
    cut = min(cut, len(call["spikes"]))
    longest, past = call["longest"], call["past"]
    incoming = torch.randn_like(call["spikes"])
    whole, grads = learn(call, incoming, torch.float64, backend=backend)

    call = {name: v.double() if isinstance(v, torch.Tensor) else v for name, v in call.items()}
    before = torch.zeros(longest, *whole.shape[1:], dtype=torch.float64) if past is None else past.double()
    series = torch.cat([before, call["spikes"]]).requires_grad_()
    delays = call["delays"].clone().requires_grad_(call["width"] is not None)
    parts = [
        delay(**call | {
            "spikes": series[longest + first : longest + last], "past": series[first : longest + first],
            "delays": delays,
        }, backend=backend)
        for first, last in ((0, cut), (cut, len(whole))) if last > first
    ]  # fmt: skip
    out = torch.cat(parts)
    out.backward(incoming.double())
    if call["width"] is None or backend == "reference":
        assert torch.equal(out, whole)
    else:
        torch.testing.assert_close(out, whole, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(series.grad[longest:], grads["spikes"])
    if "delays" in grads:
        torch.testing.assert_close(delays.grad, grads["delays"])


@BACKENDS
def test_a_width_may_be_a_tensor(backend):
    spikes, delays = torch.rand(5, 2, 3), torch.tensor([0.2, 1.4, 3.0])
    wanted = delay(spikes, delays, longest=3, width=0.75, backend=backend)
    assert torch.equal(delay(spikes, delays, longest=3, width=torch.tensor(0.75), backend=backend), wanted)


@BACKENDS
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_only_stores(backend, dtype):
    """Sums over taps are float32, whatever the spikes are; the output is rounded to their dtype once."""
    spikes, delays = torch.rand(9, 2, 3).to(dtype), torch.tensor([0.2, 1.4, 3.0])
    assert torch.equal(delay(spikes, delays, backend=backend), delay(spikes.float(), delays).to(dtype))
    soft = delay(spikes, delays, width=2.0, backend=backend)
    assert torch.equal(soft, delay(spikes.float(), delays, width=2.0, backend=backend).to(dtype))


@BACKENDS
def test_sums_are_as_wide_as_the_wider_of_spikes_and_delays(backend):
    spikes, delays = torch.rand(9, 2, 3), torch.tensor([0.2, 1.4, 3.0], dtype=torch.float64)
    wanted = delay(spikes.double(), delays, width=2.0, backend=backend)
    assert torch.equal(delay(spikes, delays, width=2.0, backend=backend), wanted.float())
    other = delay(spikes.double(), delays.float(), width=2.0, backend=backend)
    assert other.dtype == torch.float64
    torch.testing.assert_close(other, wanted, rtol=1e-6, atol=1e-7)


def test_a_batch_may_be_empty_and_neurons_too():
    assert delay(torch.rand(5, 0, 3), torch.ones(3), width=0.5).shape == (5, 0, 3)
    assert delay(torch.rand(5, 2, 0), torch.ones(0), width=0.5).shape == (5, 2, 0)
    assert delay(torch.rand(5, 0, 3), torch.ones(3)).shape == (5, 0, 3)
