"""The pictures of a search: history, slices, importances, Pareto front, and its other ones. Plain arrays in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitspike.analysis.search_data import SearchAxis, SearchObjective, SearchTrials
from bitspike.analysis.search_parallel import parallel
from bitspike.analysis.search_style import BEST, GREY, LATE, titled
from bitspike.analysis.traces import require_matplotlib
from bitspike.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 4  # of slices
BELOW = 0.25  # the share of trials that may lie below a picture: many are at chance, and would flatten the rest
APART = 0.05  # of a picture's width that two numbers of trials must be apart


def draw_search(trials: SearchTrials, folder: Path) -> list[Path]:
    """Draw every picture that the trials have enough for into a folder; return the files."""
    require_matplotlib()
    pictures: dict[str, Callable[[SearchTrials], Any]] = {"history": history, "slices": slices, "parallel": parallel}
    if trials.importances:
        pictures["importances"] = importances
    if len(trials.objectives) > 1:
        pictures["front"] = front
    return [_saved(draw(trials), folder / f"{name}.png") for name, draw in pictures.items()]


def draw_slices(trials: SearchTrials, path: Path) -> Path:
    """Draw a panel for each parameter into one file."""
    require_matplotlib()
    return _saved(slices(trials), path)


def _saved(figure: Any, path: Path) -> Path:
    return write_atomically(path, lambda to: figure.savefig(to, format="png", dpi=110))


def history(trials: SearchTrials) -> Any:
    """Return a figure with the value of each trial, and the best one so far as a line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    axes = figure.subplots()
    _scatter(axes, dict(enumerate(map(float, trials.numbers))), trials)
    axes.plot(trials.numbers, trials.best_so_far(), color=BEST, linewidth=1.8, drawstyle="steps-post", label="best")
    axes.set_xlabel("trial", fontsize=8)
    axes.set_ylabel(trials.objectives[0].label, fontsize=8)
    figure.legend(fontsize=8, loc="outside upper right", ncols=4)
    return titled(figure, trials)


def slices(trials: SearchTrials) -> Any:
    """Return a figure with a panel for each parameter: the value of a trial by what it drew, later trials darker."""
    from matplotlib.figure import Figure

    rows = math.ceil(len(trials.axes) / COLUMNS)
    figure = Figure(figsize=(12.0, 0.5 + 2.3 * rows), layout="constrained")
    grid = figure.subplots(rows, COLUMNS, sharey=True, squeeze=False)
    for axes, axis in zip(grid.flat, trials.axes, strict=False):
        _slice(axes, axis, trials)
    for axes in grid[:, 0]:
        axes.set_ylabel(trials.objectives[0].label, fontsize=8)
    for axes in list(grid.flat)[len(trials.axes) :]:
        axes.set_visible(False)
    return titled(figure, trials, "; darker: later trials")


def _slice(axes: Axes, axis: SearchAxis, trials: SearchTrials) -> None:
    """Draw the trials that drew the parameter; choices are spread a little, so that points do not hide each other."""
    from matplotlib.ticker import MaxNLocator

    places: dict[int, float] = {}
    for row, value in enumerate(axis.values):
        if value is not None and axis.choices:
            places[row] = axis.choices.index(str(value)) + 0.3 * ((row * 0.618034) % 1 - 0.5)
        elif value is not None:
            places[row] = float(value)
    _scatter(axes, places, trials, by_number=True)
    if axis.choices:
        axes.set_xticks(range(len(axis.choices)), list(axis.choices), parse_math=False)
        axes.set_xlim(-0.5, len(axis.choices) - 0.5)
    elif axis.log:
        margin = (axis.high / axis.low) ** 0.03
        axes.set_xscale("log")
        axes.set_xlim(axis.low / margin, axis.high * margin)
    else:
        margin = 0.03 * (axis.high - axis.low)
        axes.set_xlim(axis.low - margin, axis.high + margin)
        if axis.whole:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(axis.name, fontsize=9, loc="left", parse_math=False)
    axes.tick_params(labelsize=7)


def _scatter(axes: Axes, places: Mapping[int, float], trials: SearchTrials, *, by_number: bool = False) -> None:
    """Draw the first objective of trials over their places, by row; those below the picture are marks at its edge.

    `by_number` makes later trials darker.
    """
    objective = trials.objectives[0]
    bottom, top = _limits(objective)
    inside = [row for row in places if bottom <= objective.values[row] <= top]
    outside = list(places.keys() - set(inside))
    last = max(*trials.numbers, 1)

    def points(rows: Sequence[int], **options: Any) -> None:
        axes.scatter([places[row] for row in rows], [objective.values[row] for row in rows], s=12, **options)

    if rows := [row for row in inside if not trials.pruned[row]]:
        colors = {"c": [trials.numbers[row] for row in rows], "cmap": "GnBu", "vmin": -0.35 * last, "vmax": last}
        tint = colors if by_number else {"color": GREY}
        points(rows, linewidths=0.2, edgecolors="#55606e", label="trial", **tint)
    if rows := [row for row in inside if trials.pruned[row]]:
        points(rows, marker="x", linewidths=0.8, color=GREY, label="pruned")
    if outside:
        edge = [bottom if objective.maximize else top] * len(outside)
        marker = "v" if objective.maximize else "^"
        axes.scatter([places[row] for row in outside], edge, s=9, marker=marker, color=GREY, label="worse than shown")
    span = top - bottom
    axes.set_ylim(bottom - 0.03 * span, top + 0.05 * span)
    axes.grid(color="#e3e3e3", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)


def _limits(objective: SearchObjective) -> tuple[float, float]:
    """Return the values between which a picture shows trials: from the best to those worse than most."""
    ordered = sorted(objective.values, reverse=not objective.maximize)
    worst, best = ordered[int(BELOW * len(ordered)) if len(ordered) >= 20 else 0], ordered[-1]
    low, high = min(worst, best), max(worst, best)
    rounding = 1e-6 * (high - low)
    return (low - rounding, high + rounding) if high > low else (low - 0.5, high + 0.5)


def importances(trials: SearchTrials) -> Any:
    """Return a figure with a bar for each parameter: how much it decides whether a trial is among the best."""
    from matplotlib.figure import Figure

    ordered = sorted(trials.importances.items(), key=lambda item: item[1])
    figure = Figure(figsize=(7.2, 0.9 + 0.28 * len(ordered)), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh([name for name, _ in ordered], [100 * share for _, share in ordered], color=LATE, height=0.7)
    axes.bar_label(bars, fmt="%.1f", fontsize=7, padding=2)
    axes.set_xlabel(f"importance for {trials.objectives[0].label.partition(',')[0]}, % (PED-ANOVA)", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.margins(x=0.1)
    for side in ("right", "top"):
        axes.spines[side].set_visible(False)
    return titled(figure, trials)


def front(trials: SearchTrials) -> Any:
    """Return a figure of two objectives: every trial, and those that no other one beats in both, by their numbers."""
    from matplotlib.figure import Figure

    first, second = trials.objectives[:2]
    figure = Figure(figsize=(7.2, 5.0), layout="constrained")
    axes = figure.subplots()
    kept = [row for row, pruned in enumerate(trials.pruned) if not pruned]
    axes.scatter([second.values[r] for r in kept], [first.values[r] for r in kept], s=12, color=GREY, label="trial")
    rows = sorted(trials.front(), key=lambda row: second.values[row])
    x, y = [second.values[row] for row in rows], [first.values[row] for row in rows]
    steps = "steps-post" if second.maximize != first.maximize else "steps-pre"
    axes.plot(x, y, color=BEST, linewidth=1.2, drawstyle=steps, marker="o", markersize=4, label="Pareto front")
    if all(value > 0 for value in second.values) and max(second.values) > 20 * min(second.values):
        axes.set_xscale("log")
    bottom, top = _limits(first)
    axes.set_ylim(bottom - 0.03 * (top - bottom), top + 0.08 * (top - bottom))
    _name_front(axes, trials, rows)
    axes.set_xlabel(second.label, fontsize=8)
    axes.set_ylabel(first.label, fontsize=8)
    axes.grid(color="#e3e3e3", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    figure.legend(fontsize=8, loc="outside upper right", ncols=2)
    hidden = sum(not bottom <= first.values[row] <= top for row in kept)
    return titled(figure, trials, f"; {hidden} worse ones are not shown" if hidden else "")


def _name_front(axes: Axes, trials: SearchTrials, rows: Sequence[int]) -> None:
    """Write the numbers of trials beside their marks, as far as the marks are apart."""
    first, second = trials.objectives[:2]
    last = -math.inf
    for row in rows:
        place = (second.values[row], first.values[row])
        across = axes.transAxes.inverted().transform(axes.transData.transform(place))[0]
        if across - last > APART:
            last = across
            number = str(trials.numbers[row])
            axes.annotate(number, place, (2, 4), textcoords="offset points", fontsize=7, color="#444444")
