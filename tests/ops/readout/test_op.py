"""A leaky membrane equals its definition bit for bit in every backend; scores are its scaled mean over time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import LIFState
from bitspike.ops.readout import leaky, leaky_scores, ordered_scores, reference
from helpers.interpreter import mend

SHAPE = (9, 3, 5)  # T, B, N


def betas(kind):
    return 0.5 if kind == "one" else torch.linspace(0.0, 1.0, 5)


@pytest.mark.parametrize("kind", ["one", "each"])
def test_the_membrane_is_the_definitions_bit_for_bit(backend, kind):
    current = 10 * torch.randn(SHAPE)
    out = leaky(current, beta=betas(kind), backend=backend)
    assert torch.equal(out.membrane, reference.membrane(current, betas(kind)))
    assert torch.equal(out.state.membrane, out.membrane[-1])
    assert not out.spikes.any()
    assert out.spikes.shape == SHAPE


def require_silent(backend):
    """A membrane just below the largest number neither fires nor resets."""
    largest = torch.finfo(torch.float32).max
    current = torch.tensor([1e30, 1e38, -1e30, -1e38, largest / 2, -largest, 1.0]).repeat(3, 1, 1)
    current[1:] *= torch.tensor([0.5, 0.0]).view(2, 1, 1)
    current.requires_grad_()
    out = leaky(current, beta=0.5, backend=backend)
    assert not out.spikes.any()
    assert not out.state.spikes.any()
    assert torch.equal(out.membrane, reference.membrane(current, 0.5))
    out.spikes.sum().backward()
    assert not current.grad.any()


def test_the_largest_membranes_do_not_fire(backend):
    require_silent(backend)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of the interpreter's NumPy: infinity is meant
def test_the_largest_membranes_do_not_fire_in_triton():
    pytest.importorskip("triton")
    mend()
    require_silent("triton")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_threshold_is_the_largest_number_of_the_membrane(dtype):
    out = leaky(torch.full((2, 1, 1), 1e38, dtype=dtype), beta=0.5)
    assert not out.spikes.any()
    assert out.membrane[1] == 1.5 * out.membrane[0]


def test_the_definition_by_hand():
    current = torch.tensor([1.0, 2.0, -4.0]).view(3, 1, 1)
    assert reference.membrane(current, 0.5).flatten().tolist() == [1.0, 2.5, -2.75]
    assert reference.membrane(current, 0.5, torch.full((1, 1), 8.0)).flatten().tolist() == [5.0, 4.5, -1.75]


@pytest.mark.parametrize("kind", ["one", "each"])
def test_gradients_are_the_definitions(backend, kind):
    current, start, weights = torch.randn(SHAPE), torch.randn(SHAPE[1:]), torch.randn(SHAPE)
    found = []
    for run in (
        lambda i, u: leaky(i, beta=betas(kind), state=LIFState(u, torch.zeros_like(u)), backend=backend).membrane,
        lambda i, u: reference.membrane(i, betas(kind), u),
    ):
        i, u = current.clone().requires_grad_(), start.clone().requires_grad_()
        (run(i, u) * weights).sum().backward()
        found.append((i.grad, u.grad))
    for mine, wanted in zip(*found, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-6)


def test_a_learnt_decay_gets_its_gradient():
    current = torch.randn(SHAPE)
    mine, wanted = (torch.full((5,), 0.7, requires_grad=True) for _ in range(2))
    leaky(current, beta=mine).membrane.square().sum().backward()
    reference.membrane(current, wanted).square().sum().backward()
    torch.testing.assert_close(mine.grad, wanted.grad, rtol=1e-4, atol=1e-4)


def test_spikes_carry_no_gradient(backend):
    current = torch.randn(SHAPE, requires_grad=True)
    leaky(current, beta=0.5, backend=backend).spikes.sum().backward()
    assert not current.grad.any()


@given(st.integers(1, 8))
def test_a_split_in_time_changes_nothing(at):
    current = torch.randn(SHAPE)
    whole = leaky(current, beta=0.9)
    first = leaky(current[:at], beta=0.9)
    rest = leaky(current[at:], beta=0.9, state=first.state)
    assert torch.equal(torch.cat([first.membrane, rest.membrane]), whole.membrane)


def test_a_spike_in_the_state_resets_nothing():
    state = LIFState(torch.ones(3, 5), torch.ones(3, 5))
    assert torch.equal(leaky(torch.zeros(SHAPE), beta=0.5, state=state).membrane[0], torch.full((3, 5), 0.5))


def test_a_constant_current_is_a_repeated_one():
    current = torch.randn(SHAPE[1:])
    out = leaky(current, beta=0.9, steps=9)
    assert torch.equal(out.membrane, leaky(current.expand(SHAPE), beta=0.9).membrane)


def test_scores_are_the_scaled_mean_over_time():
    membrane = torch.tensor([[[1.0, 4.0]], [[3.0, 8.0]]])  # two steps, one sample
    assert leaky_scores(membrane, 0.75).tolist() == [[0.5, 1.5]]
    assert leaky_scores(membrane, torch.tensor([0.5, 0.75])).tolist() == [[1.0, 1.5]]


def test_scores_are_a_weighted_sum_of_the_current():
    """(1 - beta**(T - t)) / T is the weight of step t: the readout sees the whole input, the end of it less."""
    current, beta = torch.randn(SHAPE, dtype=torch.float64), 0.8
    weights = (1 - beta ** torch.arange(9, 0, -1, dtype=torch.float64)) / 9
    wanted = (weights.view(-1, 1, 1) * current).sum(0)
    torch.testing.assert_close(leaky_scores(leaky(current, beta=beta).membrane, beta), wanted)


def test_a_state_that_is_none_of_ours_is_refused():
    with pytest.raises(TypeError, match="LIFState"):
        leaky(torch.zeros(SHAPE), beta=0.5, state=(torch.zeros(3, 5),))


def test_ordered_scores_add_up_in_float64_step_by_step():
    big = 2.0**60
    membrane = torch.tensor([[1.0, 2.0**24], [big, 1.0], [-big, 1.0], [2.0, 0.0]])[:, None]
    assert ordered_scores(membrane, torch.tensor(0.0)).tolist() == [[2 / 4, (2.0**24 + 2) / 4]]


def test_ordered_scores_round_the_mean_and_then_the_product():
    beta = torch.tensor(0.95)
    mean = torch.tensor(7.0) / 3  # float32
    wanted = mean * (1 - beta)
    membrane = torch.tensor([3.0, 1.0, 3.0]).view(3, 1, 1)
    assert ordered_scores(membrane, beta).item() == wanted.item()
    exact = (membrane.double().mean() * (1 - beta.double())).float()
    assert wanted.item() != exact.item(), "other numbers are needed to tell the two apart"


def test_a_readout_has_ordered_scores_in_evaluation_mode_alone():
    from bitspike.nn import LeakyReadout

    readout, membrane = LeakyReadout(beta=0.9), torch.randn(100, 50, 20)
    output = readout(membrane)._replace(membrane=membrane)
    assert torch.equal(readout.scores(output), leaky_scores(membrane, readout.beta))
    readout.eval()
    assert torch.equal(readout.scores(output), ordered_scores(membrane, readout.beta))
    assert not torch.equal(readout.scores(output), leaky_scores(membrane, readout.beta))
