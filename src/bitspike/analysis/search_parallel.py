"""The picture of a search in parallel coordinates: an upright axis for each parameter. Plain arrays in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bitspike.analysis.search_data import SearchAxis, SearchTrials
from bitspike.analysis.search_style import GREY, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def parallel(trials: SearchTrials) -> Any:
    """Return a figure with a line for each trial through the values that it drew; the best half is coloured."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    objective = trials.objectives[0]
    figure = Figure(figsize=(max(2.0 + 0.85 * len(trials.axes), 6.0), 5.2), layout="constrained")
    axes = figure.subplots()
    ranked = trials.ranked()
    coloured = ranked[: max(len(ranked) // 2, 1)]
    others = set(range(len(trials.numbers))) - set(coloured)
    lines = [[(at, place) for at, place in enumerate(_places(trials, row)) if place is not None] for row in others]
    axes.add_collection(LineCollection(lines, colors=GREY, linewidths=0.5, alpha=0.5))
    ends = [objective.values[row] for row in (coloured[-1], coloured[0])]
    apart = max(ends) > min(ends)
    norm = Normalize(min(ends), max(ends)) if apart else Normalize(ends[0] - 1, ends[0])
    lines = [[(at, p) for at, p in enumerate(_places(trials, row)) if p is not None] for row in reversed(coloured)]
    drawn = LineCollection(lines, cmap="viridis_r" if objective.maximize else "viridis", norm=norm)
    drawn.set_array([objective.values[row] for row in reversed(coloured)])
    drawn.set_linewidth([0.8] * (len(lines) - 1) + [2.6])
    drawn.set_alpha(0.75)
    axes.add_collection(drawn)
    for at, axis in enumerate(trials.axes):
        _parallel_axis(axes, at, axis)
    axes.set_xlim(-0.5, len(trials.axes) - 0.5)
    axes.set_ylim(-0.06, 1.06)
    names = [axis.name for axis in trials.axes]
    axes.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=8, parse_math=False)
    axes.set_yticks([])
    for side in ("left", "right", "top", "bottom"):
        axes.spines[side].set_visible(False)
    bar = figure.colorbar(drawn, ax=axes, fraction=0.02, pad=0.02)
    bar.set_label(f"{objective.label}; grey: the other half", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    return titled(figure, trials, f"; thick: trial {trials.numbers[coloured[0]]}, the best")


def _places(trials: SearchTrials, row: int) -> list[float | None]:
    return [axis.place(axis.values[row]) for axis in trials.axes]


def _parallel_axis(axes: Axes, at: int, axis: SearchAxis) -> None:
    """Draw one upright axis with its ends, or its choices, beside it."""
    axes.plot([at, at], [0, 1], color="#444444", linewidth=0.9, zorder=3)
    marks = list(axis.choices) or [f"{axis.low:g}", f"{axis.high:g}"]
    for index, text in enumerate(marks):
        place = index / max(len(marks) - 1, 1)
        below = place == 0
        offset = -3 if below else 3
        if 0 < place < 1:
            axes.annotate(text, (at, place), (3, 0), textcoords="offset points", fontsize=7, parse_math=False)
            continue
        axes.annotate(
            text,
            (at, place),
            (0, offset),
            textcoords="offset points",
            fontsize=7,
            ha="center",
            va="top" if below else "bottom",
            parse_math=False,
        )
