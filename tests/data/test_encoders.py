"""Numbers into spikes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import latency, poisson


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_poisson_fires_at_its_rates():
    rates = torch.tensor([0.0, 0.1, 0.5, 0.9, 1.0])
    spikes = poisson(rates, 20_000, generator=seeded(0))
    assert spikes.shape == (20_000, 5)
    assert set(spikes.unique().tolist()) == {0, 1}
    # Five standard errors; 0 never and 1 always fires.
    error = 5 * (rates * (1 - rates) / 20_000).sqrt()
    assert ((spikes.mean(0) - rates).abs() <= error).all()


@pytest.mark.parametrize("drawn", [0.0, 1 - 2**-24])
def test_poisson_keeps_rates_of_0_and_1_at_the_ends_of_the_draw(drawn, monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda shape, **_: torch.full(shape, drawn))
    assert poisson(torch.tensor([0.0, 1.0]), 1).tolist() == [[0, 1]]


def test_poisson_draws_are_independent_over_time_and_elements():
    spikes = poisson(torch.full((2,), 0.5), 20_000, generator=seeded(1)) - 0.5
    assert abs((spikes[:, 0] * spikes[:, 1]).mean()) < 0.01
    assert abs((spikes[1:] * spikes[:-1]).mean()) < 0.01


def test_poisson_rates_may_change_with_time():
    rates = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert torch.equal(poisson(rates), rates)


def test_a_generator_makes_poisson_reproducible_and_leaves_the_global_one():
    rates, before = torch.rand(50), torch.get_rng_state()
    first, second = (poisson(rates, 20, generator=seeded(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, poisson(rates, 20, generator=seeded(4)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_spikes_have_the_dtype_of_the_numbers(dtype):
    numbers = torch.tensor([0.5, 1.0], dtype=dtype)
    assert poisson(numbers, 3).dtype == latency(numbers, 3).dtype == dtype


def test_latency_by_hand():
    # T=5: 1 at t=0, 0.75 at t=1, 0.5 at t=2, 0.4 at round(2.4)=2, 0.1 at round(3.6)=4, 0 never
    spikes = latency(torch.tensor([1.0, 0.75, 0.5, 0.4, 0.1, 0.0]), 5)
    assert spikes.argmax(0).tolist() == [0, 1, 2, 2, 4, 0]
    assert spikes.sum(0).tolist() == [1, 1, 1, 1, 1, 0]


def test_latency_keeps_weak_elements_silent():
    spikes = latency(torch.tensor([0.2, 0.3, 0.30001]), 4, silent_below=0.3)
    assert spikes.sum(0).tolist() == [0, 0, 1]


def test_latency_keeps_every_dimension():
    image = torch.rand(2, 1, 3, 3)
    spikes = latency(image, 7)
    assert spikes.shape == (7, 2, 1, 3, 3)
    assert torch.equal(spikes[:, 1, 0, 2, 0], latency(image[1, 0, 2, 0], 7))


@given(st.lists(st.floats(0.0625, 1, width=32), min_size=1, max_size=10), st.integers(1, 50))
def test_latency_fires_once_and_the_stronger_never_later(values, steps):
    spikes = latency(torch.tensor(sorted(values)), steps)
    assert spikes.sum(0).eq(1).all()
    times = spikes.argmax(0).tolist()
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_small_rates_are_not_rounded_up_in_half_precision(dtype):
    rates = torch.full((1_000_000,), 1e-4, dtype=dtype)
    spikes = poisson(rates, 1, generator=torch.Generator().manual_seed(0))
    assert spikes.dtype == dtype
    assert spikes.float().mean().item() == pytest.approx(1e-4, rel=0.4)
