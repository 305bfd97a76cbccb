"""`bitspike reproduce coding`: train the cases, test the paper's claims on them, write pictures and numbers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, Literal

import torch

from bitspike.analysis.timing import TimingStatistics, timing_statistics
from bitspike.analysis.traces import Traces, animate, require_matplotlib, write_figure, write_page
from bitspike.data.coding import STEPS, TARGET_TIME
from bitspike.data.progress import Progress, silent
from bitspike.experiments.provenance import versions
from bitspike.experiments.reproduce.coding.cases import CASES, DEFAULT
from bitspike.experiments.reproduce.coding.train import CROSSING_TIME, Case, History, train
from bitspike.files import write_text

LAST = 300  # iterations at the end of training that the statistics cover
FRAMES = 60


def select(names: Sequence[str] | None, loss: Literal["mean", "sum"]) -> list[Case]:
    """The named cases (default: the paper's and ours) with the error summed or averaged over time."""
    chosen = list(names or DEFAULT)
    for name in chosen:
        if name not in CASES:
            raise ValueError(f"reproduce coding: no case is named {name!r}; known: {', '.join(CASES)}")
    return [replace(CASES[name], loss=loss) for name in dict.fromkeys(chosen)]


def reproduce_coding(
    out: Path,
    *,
    seeds: int = 20,
    iterations: int = 1000,
    cases: Sequence[str] | None = None,
    loss: Literal["mean", "sum"] = "mean",
    animation: bool = True,
    command: str | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Train `seeds` networks of each case and write everything into `out`; gives what summary.json holds."""
    if seeds < 1 or iterations < 2:
        raise ValueError(
            f"reproduce coding: needs seeds >= 1 and iterations >= 2, but got {seeds!r} and {iterations!r}"
        )
    chosen = select(cases, loss)
    require_matplotlib()
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    histories = train_all(chosen, range(seeds), iterations, progress)
    summary = {
        "task": "temporal coding (Fig. 4)",
        "command": command or "bitspike.experiments.reproduce.coding.report.reproduce_coding",
        "seeds": list(range(seeds)),
        "iterations": iterations,
        "statistics_over": f"the last {min(LAST, iterations)} iterations, all seeds",
        "target_time": TARGET_TIME,
        "loss_over_time": loss,
        "versions": versions(),
        "seconds_training": round(time.perf_counter() - began, 1),
        "cases": {h.case.name: describe(h) for h in histories},
        "claims": claims({h.case.name: h for h in histories}),
    }
    write_pictures(histories, out, animation=animation, progress=progress)
    summary["seconds"] = round(time.perf_counter() - began, 1)
    write_text(out / "summary.json", json.dumps(summary, indent=2) + "\n")
    return summary


def train_all(cases: Sequence[Case], seeds: Sequence[int], iterations: int, progress: Progress) -> list[History]:
    """Every case, as many at once as PyTorch has threads: a case is too small to share, two side by side are not."""
    workers = torch.get_num_threads()
    stop = Event()

    def one(case: Case) -> History:
        step = progress(case.title, iterations)

        def on_iteration() -> None:
            if stop.is_set():
                raise InterruptedError("training was interrupted")
            step()

        return train(case, seeds, iterations, on_iteration)

    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(workers) as pool:
            running = [pool.submit(one, case) for case in cases]
            try:
                return [case.result() for case in running]
            except BaseException:  # Ctrl-C too: do not wait for the others to end by themselves
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        torch.set_num_threads(workers)


def describe(history: History) -> dict[str, Any]:
    """A case's parameters and what came of it."""
    case = history.case
    last = min(LAST, len(history.theta))
    final = ((history.target[:, None] - history.membrane[-1]) ** 2).sum(0)
    silence = (history.target**2).sum().item()
    return {
        "title": case.title,
        "source": case.source,
        "binary": case.binary,
        "beta": case.beta,
        "theta": repr(case.theta),
        "surrogate_center": case.surrogate_center,
        "init": case.init,
        "learning_rate": case.learning_rate,
        **_statistics(history).as_dict(),
        "hidden_dead": round(history.dead[-last:].mean().item(), 4),
        "theta_last": round(history.theta[-1].item(), 4),
        "final_loss_mean": round(final.mean().item(), 4),
        "final_loss_median": round(final.median().item(), 4),
        "final_loss_over_silence": round(final.median().item() / silence, 4),
        "per_seed": {
            "near": [round(v, 4) for v in _near_by_seed(history, last)],
            "final_loss": [round(v, 4) for v in final.tolist()],
        },
    }


def _statistics(history: History, iterations: slice = slice(None)) -> TimingStatistics:
    """Of the last iterations, or of those before the end of a slice."""
    spikes = history.spikes[iterations]
    return timing_statistics(spikes, TARGET_TIME, min(LAST, len(spikes)), CROSSING_TIME)


def _near_by_seed(history: History, last: int) -> list[float]:
    near = history.spikes[-last:, TARGET_TIME - 1 : TARGET_TIME + 2].amax(1)
    return [float(v) for v in near.mean(0)]


def claims(histories: dict[str, History]) -> list[dict[str, Any]]:
    """The paper's statements on this task (Sec. 4.1, Fig. 4), each with a measure and whether it holds here."""
    tested = []

    def test(name: str, claim: str, measure: Callable[[History], tuple[bool, str]]) -> None:
        if name in histories:
            holds, evidence = measure(histories[name])
            tested.append({"case": name, "claim": claim, "holds": holds, "evidence": evidence})

    def at_target(h: History) -> tuple[bool, str]:
        s = _statistics(h)
        n = h.spikes.shape[2]
        return s.near > 0.5, f"within 1 of t={TARGET_TIME} in {s.near:.0%} of iterations, {s.seeds_near} of {n} seeds"

    def silent(h: History) -> tuple[bool, str]:
        s = _statistics(h)
        dead = h.dead[-LAST:].mean().item()
        return s.active == 0, f"active in {s.active:.0%} of iterations; hidden layer {dead:.0%} dead"

    def unstable(h: History) -> tuple[bool, str]:
        s = _statistics(h)
        return s.active > 0 and (s.spikes > 2 or s.near < 0.5), f"{s.spikes:.1f} spikes an iteration instead of 1"

    def at_400(h: History) -> tuple[bool, str]:
        s = _statistics(h, slice(380, 420))
        where = f"within 1 of t={TARGET_TIME} in {s.near:.0%}, in {CROSSING_TIME - 1}-{TARGET_TIME + 1} in {s.due:.0%}"
        return s.near > 0.5, f"iterations 380-420: {where}, {s.spikes:.1f} spikes"

    def stays(h: History) -> tuple[bool, str]:
        s = _statistics(h)
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


def write_pictures(histories: Sequence[History], out: Path, *, animation: bool, progress: Progress) -> None:
    """coding.png, coding.html and coding.gif."""
    traces = [_traces(h) for h in histories]
    iterations = len(histories[0].theta)
    shown = sorted({min(k, iterations - 1) for k in (0, 100, 400, iterations - 1)})
    step = progress("figure and page", 2)
    write_figure(traces, shown, out / "coding.png")
    step()
    seeds = histories[0].spikes.shape[2]
    write_page(
        traces,
        out / "coding.html",
        heading=f"Temporal coding: fire once, at t = {TARGET_TIME} of {STEPS} ({seeds} seeds, {iterations} iterations)",
    )
    step()
    if animation:
        frames = min(FRAMES, iterations)
        animate(traces, out / "coding.gif", frames=frames, on_frame=progress("animation", frames))


def _traces(history: History) -> Traces:
    s = _statistics(history)
    dead = history.dead[-LAST:].mean().item()
    note = (
        f"At the end: {s.spikes:.1f} output spikes,\nnear t={TARGET_TIME} in {s.near:.0%}, active in {s.active:.0%},\n"
        f"hidden layer {dead:.0%} dead."
    )
    return Traces(
        history.case.name,
        history.case.title,
        note,
        history.target,
        history.membrane,
        history.spikes,
        history.theta,
    )
