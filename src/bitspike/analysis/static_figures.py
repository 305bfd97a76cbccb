"""Figures of accuracy and loss over epochs, and of how often neurons fire. Plain numbers in, PNG files out."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitspike.analysis.activity import LayerActivity
from bitspike.analysis.traces import require_matplotlib
from bitspike.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {
    "float32": "#8d99ae",
    "theta1": "#edae49",
    "fixed": "#00798c",
    "annealed": "#d1495b",
    "best": "#2d6a4f",
    "moving": "#3f5e9a",
    "at-inf": "#66a182",
    "at-0": "#b58900",
    "pooled": "#7b4fa3",
    "recalibrated": "#2aa1b3",
    "loss-not-over-T": "#8c564b",
    "adam": "#e07b39",
    "no-dropout": "#555555",
    "moving-no-dropout": "#1b998b",
    "torch-init": "#c77dab",
    "weight-clip": "#6a994e",
    "cut": "#9c6644",
}
DARK = "#333333"  # thresholds
STYLES = (":", "--", "-.", (0, (1, 3)))  # of thresholds, by layer


@dataclass(frozen=True, slots=True)
class Line:
    """The curve of one cell: the accuracy of each trial by epoch, in percent, and the paper's mean."""

    name: str
    trials: list[list[float]]
    paper: float | None = None


@dataclass(frozen=True, slots=True)
class Losses:
    """The training loss of each trial of a cell by epoch, at the iterations `steps`."""

    name: str
    steps: list[list[int]]
    losses: list[list[float]]


@dataclass(frozen=True, slots=True)
class Descent:
    """The training loss of each trial by epoch, at the iterations `steps`, and each layer's `theta` at `theta_steps`.

    `beside` are the losses of other cells. `logarithmic` spreads the first iterations, where thresholds may settle.
    """

    steps: list[list[int]]
    losses: list[list[float]]
    theta_steps: list[int]
    theta: list[list[float]]  # by layer
    beside: Sequence[Losses] = ()
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Fired:
    """The activity of a network's layers for samples that are shown for `steps`."""

    layers: list[LayerActivity]
    steps: int


@dataclass(frozen=True, slots=True)
class Group:
    """One row of panels: one task under one protocol."""

    title: str
    accuracy_on: str
    variants: list[Line]
    ablations: list[Line]  # the first is what the others change
    descent: Descent | None
    activity: dict[str, Fired]  # by cell


def _figure(width: float, height: float) -> Figure:
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: Path) -> Path:
    return write_atomically(path, lambda to: figure.savefig(to, format="png", dpi=110))


def draw_curves(groups: Sequence[Group], path: Path) -> Path:
    """Draw a row for each group: accuracy of variants, accuracy of ablations, annealed loss with its thresholds."""
    kinds = [kind for kind in ("variants", "ablations", "descent") if any(_has(group, kind) for group in groups)]
    figure = _figure(5.2 * len(kinds), 3.6 * len(groups))
    grid = figure.subplots(len(groups), len(kinds), squeeze=False)
    for row, group in zip(grid, groups, strict=True):
        for axes, kind in zip(row, kinds, strict=True):
            if not _has(group, kind):
                axes.axis("off")
            elif kind == "descent":
                _descent(axes, group)
            else:
                _accuracy(axes, group, group.variants if kind == "variants" else group.ablations, kind)
    return _save(figure, path)


def _has(group: Group, kind: str) -> bool:
    if kind == "descent":
        return group.descent is not None
    return len(group.ablations) > 1 if kind == "ablations" else bool(group.variants)


def _accuracy(axes: Axes, group: Group, lines: Sequence[Line], kind: str) -> None:
    """Draw every trial as a thin line, the median of common epochs as a thick one, the paper's mean dashed."""
    from matplotlib.ticker import MaxNLocator

    low, high = visible(lines)
    for line in lines:
        color = COLORS.get(line.name, "#000000")
        for trial in line.trials:
            axes.plot(range(1, len(trial) + 1), trial, color=color, linewidth=0.5, alpha=0.35)
        middle = middle_curve(line.trials)
        name = f"{line.name} (below)" if middle and max(middle) < low else line.name
        axes.plot(range(1, len(middle) + 1), middle, color=color, linewidth=2.0, label=name)
        if line.paper is not None and kind == "variants":
            axes.axhline(line.paper, color=color, linewidth=1.1, linestyle=(0, (5, 3)))
    if kind == "ablations" and lines[0].paper is not None:
        axes.axhline(lines[0].paper, color=COLORS[lines[0].name], linewidth=1.1, linestyle=(0, (5, 3)))
    axes.set_ylim(low, high)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"{group.title}: {'cells' if kind == 'variants' else 'ablations'}", fontsize=9, loc="left")
    papers = "" if all(line.paper is None for line in lines) else "; dashed: the paper's mean, on its test samples"
    axes.set_xlabel(f"epoch  (thick: median of trials{papers})", fontsize=8)
    axes.set_ylabel(f"{group.accuracy_on} accuracy, %", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7, loc="lower right", ncols=2, framealpha=0.8)


def middle_curve(trials: Sequence[Sequence[float]]) -> list[float]:
    """Return the median over trials for the epochs that all have; one trial that collapses does not move it.

    Later epochs are left out, because the median would jump where a trial ends.
    """
    return [statistics.median(values) for values in zip(*trials, strict=False)]


def visible(lines: Sequence[Line]) -> tuple[float, float]:
    """Return a range of accuracies that shows most of every median, with room for the legend below.

    Trials that collapse may leave the range, and so may the lowest of many lines: it would flatten all others.
    """
    lows = sorted(sorted(middle)[len(middle) // 4] for line in lines if (middle := middle_curve(line.trials)))
    papers = [line.paper for line in lines if line.paper is not None]
    if not lows and not papers:
        return 0.0, 100.2
    low = min([*lows[len(lows) // 6 :], *papers])
    high = max([max(trial) for line in lines for trial in line.trials if trial] + papers)
    height = max(high - low, 1.0)
    return max(low - 0.35 * height, 0.0), min(high + 0.08 * height, 100.2)


def _descent(axes: Axes, group: Group) -> None:
    """Draw losses over iterations, and every layer's threshold on the right; the legend lies below both."""
    descent = group.descent
    if descent is None:
        return
    cells = (Losses("annealed", descent.steps, descent.losses), *descent.beside)
    for cell in cells:
        for steps, losses in zip(cell.steps, cell.losses, strict=True):
            axes.plot(steps, losses, color=COLORS[cell.name], linewidth=0.5, alpha=0.35)
        middle = middle_curve(cell.losses)
        at = cell.steps[0][: len(middle)] if middle else []
        axes.plot(at, middle, color=COLORS[cell.name], linewidth=2.0, label=f"loss, {cell.name}")
    axes.set_xscale("log" if descent.logarithmic else "linear")
    axes.set_xlabel("iteration  (thick: median of trials)", fontsize=8)
    axes.set_ylabel("training loss of the epoch", fontsize=8)
    axes.set_title(f"{group.title}: loss, and annealed thresholds", fontsize=9, loc="left")
    axes.tick_params(labelsize=7, which="both")
    right: Any = axes.twinx()
    for number, (theta, style) in enumerate(zip(descent.theta, itertools.cycle(STYLES)), start=1):
        label = rf"$\theta$ of layer {number}"
        right.plot(descent.theta_steps, theta, color=DARK, linewidth=1.4, linestyle=style, label=label)
    right.set_ylabel(r"$\theta$, annealed", fontsize=8, color=DARK)
    right.tick_params(labelsize=7)
    for each in (axes, right):
        low, high = each.get_ylim()
        each.set_ylim(low - 0.25 * (high - low), high)
    handles = [*axes.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    columns = len(handles) if len(handles) <= 4 else 3
    right.legend(handles=handles, fontsize=7, loc="lower center", ncols=columns, columnspacing=1.2)


def draw_spikes(groups: Sequence[Group], path: Path) -> Path:
    """Draw a row for each group and a column for each layer: how many neurons fire how often, and how many are dead."""
    columns = max(len(fired.layers) for group in groups for fired in group.activity.values())
    figure = _figure(4.4 * columns, 3.2 * len(groups))
    grid = figure.subplots(len(groups), columns, squeeze=False)
    for row, group in zip(grid, groups, strict=True):
        for number, axes in enumerate(row):
            _histogram(axes, group, number)
    return _save(figure, path)


def _histogram(axes: Axes, group: Group, number: int) -> None:
    drawn = {name: fired for name, fired in group.activity.items() if number < len(fired.layers)}
    for name, fired in drawn.items():
        layer = fired.layers[number]
        bins = len(layer.histogram)
        edges = [100 * i / bins for i in range(bins + 1)]
        shares = [100 * count / layer.neurons for count in layer.histogram]
        axes.stairs(
            shares,
            edges,
            color=COLORS.get(name, "#000000"),
            linewidth=1.6,
            label=f"{name}: {layer.dead:.1%} dead, {layer.spikes:.3g} spikes each in {fired.steps} steps",
        )
    axes.set_xlim(0, 100)
    axes.set_yscale("log")
    most = max((fired.layers[number].neurons for fired in drawn.values()), default=10)
    axes.set_ylim(60 / most, 150)  # a single neuron shows
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title(f"{group.title}: layer {number + 1}, best trial", fontsize=9, loc="left")
    axes.set_xlabel("steps of a sample in which a neuron fires, %", fontsize=8)
    axes.set_ylabel("neurons, %", fontsize=8)
    axes.tick_params(labelsize=7, which="both")
    axes.legend(fontsize=7, framealpha=0.8)
