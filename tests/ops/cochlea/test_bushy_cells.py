"""Bushy cells: the binomial draw, the laws of firing, and the statistics of the authors' own code."""

import math

import pytest
import torch
from scipy.stats import binom

from bitspike.ops.cochlea.bushy_cells import BUSHY_CELLS, BushyCells, binomial, bushy_cells, power, uniforms
from helpers.lauscher_values import BUSHY

RATE = 24000.0
REFRACTORY = 24


def constant(p, units=96, steps=2400):
    return torch.full((units, steps), p, dtype=torch.float64)


def test_the_draw_is_the_inverse_of_the_binomial_distribution():
    u = torch.rand(4000, dtype=torch.float64)
    n, p = torch.randint(0, 41, (4000,)), torch.rand(4000, dtype=torch.float64) ** 2
    assert binomial(u, n, p).tolist() == binom.ppf(u, n, p).astype(int).clip(0).tolist()


def test_certain_and_impossible_draws():
    u, n = torch.rand(8, dtype=torch.float64), torch.arange(8)
    assert binomial(u, n, torch.ones(8).double()).tolist() == n.tolist()
    assert binomial(u, n, torch.full((8,), 1.5).double()).tolist() == n.tolist()
    assert binomial(u, n, torch.zeros(8).double()).tolist() == [0] * 8


def test_powers():
    base, n = torch.rand(64, dtype=torch.float64), torch.arange(64)
    torch.testing.assert_close(power(base, n), base**n, rtol=1e-13, atol=0)


def test_numbers_are_those_of_seed_unit_and_step():
    draws = uniforms(range(3, 9), 30, seed=5)
    assert torch.equal(draws[2:4, :11], uniforms(range(5, 7), 11, seed=5))
    assert not torch.equal(draws, uniforms(range(3, 9), 30, seed=6))
    many = uniforms(range(40), 5000, seed=0)
    assert many.min() > 0
    assert many.max() < 1
    assert many.mean().item() == pytest.approx(0.5, abs=5 * 0.2887 / math.sqrt(many.numel()))


@pytest.mark.parametrize("p", BUSHY)
def test_cells_fire_as_often_as_lauschers(p):
    mean, deviation, first = BUSHY[p]
    spikes = bushy_cells(constant(p), RATE, seed=1)
    counts = spikes.sum(1, dtype=torch.float64)
    assert counts.mean().item() == pytest.approx(mean, abs=4 * deviation * math.sqrt(2 / 96) + 0.05)
    assert counts.std().item() == pytest.approx(deviation, rel=0.35)
    assert spikes.argmax(1).double().mean().item() == pytest.approx(first, rel=0.25)


def test_the_number_of_fibres_that_fire_is_that_of_fibres_one_by_one():
    """Cells with a tiny weight, so that only the fibres count: simulate each fibre with its own refractory time."""
    generator = torch.Generator().manual_seed(3)
    p, steps, cells = 0.02, 480, 400
    last = torch.full((cells, 40), -REFRACTORY)
    total = torch.zeros(cells)
    for t in range(steps):
        fires = (torch.rand(cells, 40, generator=generator) < p) & (t - last >= REFRACTORY)
        last[fires] = t
        total += fires.sum(1)
    # A cell that sums without leak fires when the sum reaches a whole number of thresholds: read it off.
    model = BushyCells(membrane_s=1e9, synapse_s=1e-9, weight=40 * RATE / 1e6, refractory_s=1e-3)
    counted = torch.zeros(cells)
    draws = uniforms(range(cells), steps, 9)
    fired, free = torch.zeros(REFRACTORY, cells, dtype=torch.int64), torch.full((cells,), 40)
    for t in range(steps):
        free += fired[t % REFRACTORY]
        fired[t % REFRACTORY] = binomial(draws[:, t], free, torch.full((cells,), p).double())
        free -= fired[t % REFRACTORY]
        counted += fired[t % REFRACTORY]
    assert bushy_cells(constant(p, cells, steps), RATE, 9, model=model).sum() == 0  # far below threshold
    error = math.sqrt((total.var() + counted.var()).item() / cells)
    assert counted.mean().item() == pytest.approx(total.mean().item(), abs=4 * error)
    assert counted.std().item() == pytest.approx(total.std().item(), rel=0.2)


def test_a_cell_rests_after_a_spike():
    spikes = bushy_cells(constant(0.9, 4, 600), RATE, seed=0)
    for row in spikes:
        assert row.nonzero().flatten().diff().min() > REFRACTORY


def test_without_probability_nothing_fires():
    assert bushy_cells(constant(0.0, 3, 50), RATE, seed=0).sum() == 0


def test_the_membrane_of_one_cell_by_hand():
    """One fibre that always fires, then rests: u decays and gains the decaying current until it is 1."""
    model = BushyCells(fibres=1, weight=0.06 * RATE, refractory_s=10 / RATE)
    spikes = bushy_cells(constant(1.0, 1, 100), RATE, 0, model=model)[0]
    u = current = 0.0
    until, found = 0, []
    for t in range(100):
        current = current * math.exp(-1 / (RATE * 5e-4)) + (t % 10 == 0)
        u = u * math.exp(-1 / (RATE * 1e-3)) + current * 0.06 if t >= until else 0.0
        if u >= 1:
            found.append(t)
            u, until = 0.0, t + 11
    assert len(found) > 1
    assert spikes.nonzero().flatten().tolist() == found


def test_units_and_time_may_be_split():
    p = constant(0.02, 10, 300) * torch.rand(10, 300).double()
    whole = bushy_cells(p, RATE, 4)
    assert torch.equal(whole[6:], bushy_cells(p[6:], RATE, 4, first_unit=6))
    assert torch.equal(whole[:, :100], bushy_cells(p[:, :100], RATE, 4))
    assert BUSHY_CELLS.per_step(RATE)[0] == REFRACTORY


def test_the_constants_are_lauschers():
    refractory, membrane, synapse, weight = BUSHY_CELLS.per_step(RATE)
    assert (BUSHY_CELLS.fibres, refractory) == (40, REFRACTORY)
    assert (membrane, synapse) == (math.exp(-1 / 24), math.exp(-1 / 12))
    assert weight == pytest.approx(13e3 / 40 / RATE)
