"""Thresholds are the paper's recurrences in closed form; learning rates are the formulas that they say, to the bit."""

import math
from dataclasses import FrozenInstanceError, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike import Constant, Linear, Relax, Schedule
from bitspike.schedules import Cosine, Exponential, WarmupCosine

starts = st.floats(0.01, 50)
gaps = st.floats(0.01, 50)
rates = st.floats(1e-6, 1)
steps = st.integers(0, 200)
ALL = [Constant(2.0), Linear(1.0, 4.0, 8), Relax(1.0, 4.0, 0.1), Relax.from_tau(1.0, 4.0, 30)]


@given(starts, gaps, rates, steps)
def test_relax_is_the_papers_recurrence(start, gap, rate, k):
    theta, stop = start, start + gap
    for _ in range(k):
        theta += rate * (stop - theta)
    assert Relax(start, stop, rate)(k) == pytest.approx(theta, rel=1e-9)


def test_relax_by_hand():
    assert [Relax(1.0, 9.0, 0.5)(k) for k in range(5)] == [1.0, 5.0, 7.0, 8.0, 8.5]
    assert [Relax(1.0, 9.0, 0.25)(k) for k in range(3)] == [1.0, 3.0, 4.5]


def test_relax_of_rate_one_arrives_after_one_iteration():
    assert [Relax(1.0, 3.0, 1.0)(k) for k in range(3)] == [1.0, 3.0, 3.0]


@given(starts, gaps, st.floats(0.1, 1e5))
def test_from_tau_uses_the_rate_of_the_differential_equation(start, gap, tau):
    assert Relax.from_tau(start, start + gap, tau).rate == pytest.approx(1 - math.exp(-1 / tau), rel=1e-9)


@pytest.mark.parametrize("tau", [1, 7, 1000])
def test_from_tau_leaves_one_part_in_e_after_tau_iterations(tau):
    schedule = Relax.from_tau(2.0, 5.0, tau)
    assert schedule(tau) == pytest.approx(5.0 - 3.0 / math.e)
    assert schedule(2 * tau) == pytest.approx(5.0 - 3.0 / math.e**2)


def test_a_longer_tau_is_slower():
    # The paper's text has exp(-1/tau), with which a slower relaxation would jump further.
    values = [Relax.from_tau(1.0, 2.0, tau)(1) for tau in (1, 10, 100, 1000)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 1.0011


@given(starts, gaps, rates, st.integers(1, 100), steps)
def test_a_rise_never_falls_and_stays_between_its_ends(start, gap, rate, length, k):
    for schedule in (Relax(start, start + gap, rate), Linear(start, start + gap, length)):
        now, later = schedule(k), schedule(k + 1)
        assert start <= now * (1 + 1e-12)
        assert now <= later <= schedule.final == start + gap


@given(starts, gaps, st.integers(1, 1000))
def test_linear_ends_exactly_and_stays(start, gap, length):
    schedule = Linear(start, start + gap, length)
    assert schedule(0) == start
    assert schedule(length) == schedule(length + 1) == schedule(10 * length) == start + gap


def test_linear_rises_by_the_same_amount_each_iteration():
    assert [Linear(1.0, 3.0, 4)(k) for k in range(7)] == [1.0, 1.5, 2.0, 2.5, 3.0, 3.0, 3.0]


@given(starts, steps)
def test_constant_is_constant(value, k):
    assert Constant(value)(k) == Constant(value).final == value


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_final_is_the_limit(schedule):
    assert schedule(100_000) == pytest.approx(schedule.final, rel=1e-12)


@pytest.mark.parametrize("schedule", ALL, ids=repr)
def test_a_schedule_is_a_value(schedule):
    assert isinstance(schedule, Schedule)
    # Annealing saves the representation to refuse a state of other schedules: it must tell everything.
    names = {"Constant": Constant, "Linear": Linear, "Relax": Relax}
    assert eval(repr(schedule), names) == schedule
    assert len({schedule, eval(repr(schedule), names)}) == 1
    with pytest.raises(FrozenInstanceError):
        setattr(schedule, fields(schedule)[0].name, 3.0)


# ---- Learning rates: equal to the last bit, as the numbers of every run depend on them


@given(st.floats(1e-6, 10), st.integers(1, 10_000), st.integers(0, 50_000))
def test_a_cosine_is_its_formula(lr, half_period, k):
    assert Cosine(lr, half_period)(k) == lr / 2 * (1 + math.cos(math.pi * k / half_period))


@given(st.floats(1e-6, 10), st.floats(0, 0.99), st.integers(1, 10_000), st.integers(0, 20_000))
def test_a_warm_up_and_a_cosine_are_their_formulas(lr, share, total, k):
    warm = share * total
    fallen = lr / 2 * (1 + math.cos(math.pi * min((k - warm) / (total - warm), 1.0)))
    assert WarmupCosine(lr, warm, total)(k) == (lr * k / warm if k < warm else fallen)


def test_learning_rates_by_hand():
    assert [round(Cosine(2.0, 10)(k), 9) for k in (0, 5, 10, 15, 20)] == [2.0, 1.0, 0.0, 1.0, 2.0]
    assert [round(WarmupCosine(2.0, 10, 50)(k), 9) for k in (0, 5, 10, 30, 50, 90)] == [0.0, 1.0, 2.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("rate", [Cosine(1.0, 10), WarmupCosine(1.0, 2.5, 10)], ids=repr)
def test_a_learning_rate_is_a_value_but_no_threshold(rate):
    assert rate == type(rate)(*(getattr(rate, field.name) for field in fields(rate)))
    assert not isinstance(rate, Schedule)
    with pytest.raises(FrozenInstanceError):
        setattr(rate, fields(rate)[0].name, 3.0)
    with pytest.raises(ValueError, match=f"{type(rate).__name__}: step must be >= 0, but is -1"):
        rate(-1)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Cosine(0.0, 10), "Cosine: start must be a finite learning rate > 0, but is 0.0"),
        (lambda: Cosine(math.inf, 10), "Cosine: start must be a finite learning rate > 0, but is inf"),
        (lambda: Cosine(1.0, 0), "Cosine: half_period must be >= 1, but is 0"),
        (lambda: WarmupCosine(-1.0, 0, 10), "WarmupCosine: peak must be a finite learning rate > 0, but is -1.0"),
        (lambda: WarmupCosine(1.0, 0, 0), "WarmupCosine: steps must be >= 1, but is 0"),
        (lambda: WarmupCosine(1.0, 10, 10), r"WarmupCosine: warmup must be in \[0, steps\), but is 10 of 10"),
        (lambda: WarmupCosine(1.0, -1, 10), r"WarmupCosine: warmup must be in \[0, steps\), but is -1 of 10"),
    ],
)
def test_a_learning_rate_that_is_none_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_a_learning_rate_of_words_is_refused():
    with pytest.raises(TypeError, match="Cosine: start must be a number, but is '1'"):
        Cosine("1", 10)


# ---- The width of delays


@given(st.floats(0.1, 100), st.floats(0.1, 100), st.floats(0, 300), steps)
def test_an_exponential_is_its_formula(start, stop, length, k):
    found = Exponential(start, stop, length)(k)
    if k >= length:
        assert found == stop
    else:
        assert math.log(found / start) == pytest.approx(math.log(stop / start) * k / length, rel=1e-6, abs=1e-9)


def test_an_exponential_by_hand():
    assert [Exponential(16.0, 1.0, 8)(k) for k in (0, 2, 4, 6, 8, 9, 100)] == [16.0, 8.0, 4.0, 2.0, 1.0, 1.0, 1.0]
    assert [Exponential(2.0, 8.0, 2.5)(k) for k in (0, 2, 3)] == [2.0, pytest.approx(2 * 4**0.8), 8.0]
    assert Exponential(4.0, 0.5, 0)(0) == 0.5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0.0, 1.0, 3), "Exponential: start must be a finite number > 0, but is 0.0"),
        ((1.0, math.inf, 3), "Exponential: stop must be a finite number > 0, but is inf"),
        ((1.0, 2.0, -1), "Exponential: steps must be a finite number >= 0, but is -1"),
    ],
)
def test_an_exponential_that_is_none_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        Exponential(*arguments)
    with pytest.raises(ValueError, match="Exponential: step must be >= 0, but is -1"):
        Exponential(1.0, 2.0, 3)(-1)
