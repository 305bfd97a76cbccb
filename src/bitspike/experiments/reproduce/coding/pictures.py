"""The figure, the page and the animation of the temporal coding task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bitspike.analysis.traces import Traces, animate, write_figure, write_page
from bitspike.data.coding import STEPS, TARGET_TIME
from bitspike.data.progress import Progress
from bitspike.experiments.reproduce.coding.outcome import dead_share, statistics_of
from bitspike.experiments.reproduce.coding.training import History

FRAMES = 60  # of the animation


def write_pictures(histories: Sequence[History], out: Path, *, animation: bool, progress: Progress) -> None:
    """Write coding.png, coding.html and, with `animation`, coding.gif."""
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
    """Return the traces to draw for a case, with a note on its outcome."""
    s = statistics_of(history)
    note = (
        f"At the end: {s.spikes:.1f} output spikes,\nnear t={TARGET_TIME} in {s.near:.0%}, active in {s.active:.0%},\n"
        f"hidden layer {dead_share(history):.0%} dead."
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
