"""The paper's claims on the temporal coding task (Sec. 4.1, Fig. 4), tested on what was trained here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bitspike.data.coding import TARGET_TIME
from bitspike.experiments.reproduce.coding.outcome import CROSSING_TIME, dead_share, statistics_of
from bitspike.experiments.reproduce.coding.training import History


def claims(histories: dict[str, History]) -> list[dict[str, Any]]:
    """Test the paper's statements on this task; return each with what was measured and whether it holds here."""
    tested = []

    def test(name: str, claim: str, measure: Callable[[History], tuple[bool, str]]) -> None:
        if name in histories:
            holds, evidence = measure(histories[name])
            tested.append({"case": name, "claim": claim, "holds": holds, "evidence": evidence})

    def at_target(h: History) -> tuple[bool, str]:
        s = statistics_of(h)
        n = h.spikes.shape[2]
        return s.near > 0.5, f"within 1 of t={TARGET_TIME} in {s.near:.0%} of iterations, {s.seeds_near} of {n} seeds"

    def silent(h: History) -> tuple[bool, str]:
        s = statistics_of(h)
        return s.active == 0, f"active in {s.active:.0%} of iterations; hidden layer {dead_share(h):.0%} dead"

    def unstable(h: History) -> tuple[bool, str]:
        s = statistics_of(h)
        return s.active > 0 and (s.spikes > 2 or s.near < 0.5), f"{s.spikes:.1f} spikes an iteration instead of 1"

    def at_400(h: History) -> tuple[bool, str]:
        s = statistics_of(h, slice(380, 420))
        where = f"within 1 of t={TARGET_TIME} in {s.near:.0%}, in {CROSSING_TIME - 1}-{TARGET_TIME + 1} in {s.due:.0%}"
        return s.near > 0.5, f"iterations 380-420: {where}, {s.spikes:.1f} spikes"

    def stays(h: History) -> tuple[bool, str]:
        s = statistics_of(h)
        n = h.spikes.shape[2]
        return s.active > 0.5, f"active in {s.active:.0%} of iterations; {s.seeds_silent} of {n} seeds silent"

    test("float32", "full precision solves the task", at_target)
    test("theta1", "theta = 1 is unstable", unstable)
    test("theta50", "theta = 50 is silent", silent)
    for name in ("annealed", "annealed-released", "annealed-25"):
        if name in histories and len(histories[name].theta) > 400:
            test(name, "annealed: fires at the target at iteration 400", at_400)
        test(name, "annealed: stays active to the end", stays)
    return tested
