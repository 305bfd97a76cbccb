"""How steps are timed: turns, bursts, spread, and what a profile counts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from bitspike.bench import timing
from bitspike.bench.contender import Arithmetic, Contender, using
from bitspike.bench.timing import Entrant, Spread, counted, race, ratios, warm_up
from helpers.bench import CPU


def fake(name: str, log: list[str], clock: list[float], seconds: float, **options) -> Contender:
    def step() -> None:
        log.append(name)
        clock[0] += seconds

    return Contender(name, name, "1", "", (), step, lambda: None, **options)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


def test_contenders_take_turns(clock):
    log: list[str] = []
    entrants = [Entrant(fake(name, log, clock, seconds)) for name, seconds in (("a", 0.1), ("b", 0.4))]
    race(entrants, CPU, 2.0)
    assert log == ["a", "b"] * 4  # half a second a round
    assert entrants[0].seconds == pytest.approx([0.1] * 4)
    assert ratios(*entrants).median == pytest.approx(4)


def test_there_are_three_rounds_at_least_and_25_at_most(clock):
    log: list[str] = []
    race([Entrant(fake("a", log, clock, 100.0))], CPU, 1.0)
    assert len(log) == 3
    race([Entrant(fake("b", log, clock, 0.001))], CPU, 1.0)
    assert len(log) == 3 + 25


def test_short_steps_are_timed_in_bursts(clock):
    log: list[str] = []
    entrant = warm_up(fake("a", log, clock, 0.002), CPU, 0)
    assert (entrant.steps, len(log)) == (10, timing.WARM_UP["cpu"])
    race([entrant], CPU, 0.0)
    assert entrant.seconds == pytest.approx([0.002] * 3)
    assert warm_up(fake("b", log, clock, 3.0), CPU, 0).steps == 1


def test_ratios_are_taken_round_by_round():
    a, b = (Entrant(fake(name, [], [0.0], 0)) for name in "ab")
    a.seconds, b.seconds = [1.0, 2.0, 10.0], [3.0, 6.0, 30.0]
    assert (ratios(a, b).low, ratios(a, b).high) == (3, 3)


def test_spread_is_median_and_quartiles():
    spread = Spread.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (spread.low, spread.median, spread.high) == (2, 3, 4)
    assert Spread.of([2.0]).rounded() == {"median": 2, "low": 2, "high": 2}
    assert Spread(1.23456789, 1, 1).rounded()["median"] == 1.235


def test_kernels_and_launches_are_told_apart():
    def event(kind, name, annotation=False):
        kind_ = SimpleNamespace(name=kind)
        return SimpleNamespace(device_type=kind_, name=name, is_user_annotation=annotation)

    events = [
        event("CUDA", "gemm"),
        event("CUDA", "_lif_fwd_kernel"),
        event("CUDA", "Memcpy DtoD"),
        event("CUDA", "Memset (Device)"),
        event("CUDA", "Optimizer.step#Adam.step", annotation=True),
        event("CPU", "aten::mm"),
        event("CPU", "cudaLaunchKernel"),
        event("CPU", "cuLaunchKernelEx"),
        event("CPU", "cudaGraphLaunch"),
        event("CPU", "cudaMemcpyAsync"),
    ]
    assert counted(events) == {"kernels": 2, "launches": 3}


def test_a_real_profile_has_the_fields_that_are_counted():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        torch.ones(3) + 1
    assert {event.device_type.name for event in seen.events()} == {"CPU"}
    assert counted(seen.events()) == {"kernels": 0, "launches": 0}
    assert not any(event.is_user_annotation for event in seen.events())


def test_arithmetic_is_set_while_a_contender_runs_and_put_back():
    def now():
        return (
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
            torch.are_deterministic_algorithms_enabled(),
            torch.is_autocast_enabled("cpu"),
        )

    before = now()
    with using(Arithmetic(matmul_tf32=True, conv_tf32=False, autocast_bf16=True, deterministic=True), CPU):
        assert now() == (True, False, True, True)
    assert now() == before
