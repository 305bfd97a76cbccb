"""The benchmark itself: for each case, our step and the peers' steps take turns. The result is plain data."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bitspike.bench.cases import Case
from bitspike.bench.contender import Contender
from bitspike.bench.floor import Ceilings, Work, count, measure_ceilings
from bitspike.bench.ours import ours
from bitspike.bench.peers import variants
from bitspike.bench.problem import Problem, prepare
from bitspike.bench.timing import Entrant, Spread, allocated, launches, race, ratios, warm_up

FORMAT = 1
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of what to measure. `seconds` is the time for the rounds of one case, without building and compiling."""

    cases: Sequence[Case]
    peers: Sequence[str]
    device: torch.device
    seconds: float = 20.0
    command: str = "bitspike.bench.measure"  # how to do it again
    deadline: float = float("inf")  # of time.monotonic(): contenders that would start later are left out
    not_installed: Mapping[str, str] = field(default_factory=dict)  # peers that are left out, and how to install them
    begin: Callable[[str, int], Callable[[], None]] = field(default=lambda stage, steps: lambda: None)
    done: Callable[[Result], object] = lambda result: None  # after each case, with all so far
    failed: Callable[[str, BaseException], object] = lambda name, error: None  # a contender, which is then left out


def run(plan: Plan) -> Result:
    """Measure every case; return the result in JSON's terms."""
    from bitspike.experiments.provenance import versions

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it our steps would not be deterministic
    ceilings = measure_ceilings(plan.device)
    result: Result = {"format": FORMAT, "command": plan.command, "versions": versions()}
    result |= {"device": str(plan.device), "not_installed": dict(plan.not_installed), "cases": {}}
    for case in plan.cases:
        result["cases"][case.name] = _case(plan, case)
        ceilings = measure_ceilings(plan.device, ceilings)  # another load on the machine may have slowed the first
        result["ceilings"] = {"operations_per_s": ceilings.operations, "bytes_per_s": ceilings.bytes}
        for each in result["cases"].values():
            _set_floor(each, ceilings)
        plan.done(result)
    return result


def _set_floor(case: Result, ceilings: Ceilings) -> None:
    floor = case["floor"]
    work = Work(floor["operations"], floor["bytes"], floor["bytes_streamed"])
    floor["ms"] = _digits(ceilings.milliseconds(work))
    floor["ms_streamed"] = _digits(ceilings.milliseconds(work, streamed=True))


def _case(plan: Plan, case: Case) -> Result:
    problem = prepare(case, plan.device)
    work = count(case, problem.recipe.optimizer, skips_zeros=plan.device.type == "cpu")
    rows: dict[str, Result] = {}
    entrants: dict[str, Entrant] = {}
    makers: list[tuple[str, Callable[[Problem], Contender]]] = [("bitspike", ours)]
    for peer in plan.peers:
        try:
            makers += [(each.name, each.make) for each in variants(peer) if each.fits(problem)]
        except Exception as error:  # a library that does not import here
            plan.failed(peer, error)
            rows[peer] = _failed(error)
    tick = plan.begin(f"{case.name}: first steps", len(makers))
    for name, make in makers:
        rows[name] = _enter(plan, problem, make, entrants, name)
        tick()
    race(list(entrants.values()), plan.device, plan.seconds, plan.begin(f"{case.name}: rounds", 25))
    for name, entrant in entrants.items():
        rows[name] |= _figures(entrant, entrants.get("bitspike"), plan.device, case)
    entrants.clear()
    gc.collect()
    return {
        "title": case.title,
        "notation": case.notation,
        "batch": case.batch,
        "steps": case.steps,
        "work": case.work,
        "group": case.group,
        "grown_to": case.grown_to() if case.along else None,
        "neuron_steps": case.neuron_steps(),
        "floor": {"operations": work.operations, "bytes": work.bytes, "bytes_streamed": work.streamed},
        "rows": rows,
    }


def _enter(
    plan: Plan, problem: Problem, make: Callable[[Problem], Contender], entrants: dict[str, Entrant], name: str
) -> Result:
    """Build a contender and run its first steps; a failure becomes a part of the result, and the others go on."""
    if time.monotonic() > plan.deadline:
        return {"error": "no time was left"}
    try:
        before = allocated(plan.device)
        contender = make(problem)
        entrants[name] = warm_up(contender, plan.device, before)
    except Exception as error:
        plan.failed(name, error)
        return _failed(error)
    return {
        "library": contender.library,
        "version": contender.version,
        "differs": list(contender.differs),
    }


def _failed(error: BaseException) -> Result:
    message = " ".join(str(error).split()) or type(error).__name__
    return {"error": f"{type(error).__name__}: {message[:400]}"}


def _figures(entrant: Entrant, reference: Entrant | None, device: torch.device, case: Case) -> Result:
    milliseconds = Spread.of([1e3 * seconds for seconds in entrant.seconds])
    state = entrant.contender.state
    found: Result = {
        "setting": entrant.contender.setting + (f"; {state()}" if state and device.type == "cuda" else ""),
        "ms": milliseconds.rounded(),
        "rounds": len(entrant.seconds),
        "steps_a_round": entrant.steps,
        "first_s": _digits(entrant.first),
        "peak_mb": None if entrant.peak is None else _digits(entrant.peak / 2**20),
        "ns_per_neuron_step": _digits(1e6 * milliseconds.median / case.neuron_steps()),
        "bytes_per_neuron_step": None if entrant.peak is None else _digits(entrant.peak / case.neuron_steps()),
        "times_ours": None if reference is None else ratios(reference, entrant).rounded(3),
    }
    try:
        found["gpu"] = launches(entrant.contender, device)
    except Exception as error:  # a profiler that cannot run here costs this figure only
        found["gpu"] = _failed(error)
    return found


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def fastest(rows: Mapping[str, Result], library: str) -> str | None:
    """Return the row of a library with the smallest median."""
    measured = {
        name: row["ms"]["median"] for name, row in rows.items() if row.get("library") == library and "ms" in row
    }
    return min(measured, key=lambda name: measured[name], default=None)
