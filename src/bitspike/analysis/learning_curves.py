"""The picture of how a run learnt: accuracy, loss, thresholds and spikes by epoch. Rows in, a PNG file out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitspike.analysis.static_figures import middle_curve
from bitspike.analysis.traces import require_matplotlib
from bitspike.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAINED, JUDGED = "#8d99ae", "#d1495b"
LAYERS = ("#00798c", "#edae49", "#3f5e9a", "#66a182", "#7b4fa3", "#9c6644", "#2aa1b3", "#555555")
FEWEST_EPOCHS = 2  # a single point is no curve


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a panel: the values of each trial by epoch; with several trials, their median is drawn thick."""

    name: str
    color: str
    trials: list[list[float]]


def learning_curves(trials: Sequence[Sequence[dict[str, Any]]], *, output_fires: bool = True) -> dict[str, list[Curve]]:
    """Return the curves of each panel, from the rows of metrics.jsonl of one or more trials.

    Accuracies are in percent. Spikes are those of a whole layer for a sample. An output that never fires, because its
    membrane is read, has neither a threshold nor spikes.
    """
    first = trials[0][0]
    on = "test" if "test_accuracy" in first else "valid"
    shown = {"train": ("training", TRAINED), on: ({"test": "test", "valid": "validation"}[on], JUDGED)}

    def over_time(key: str, factor: float) -> list[Curve]:
        return [
            Curve(name, color, [[factor * row[f"{part}_{key}"] for row in rows] for rows in trials])
            for part, (name, color) in shown.items()
        ]

    def by_layer(key: str) -> list[Curve]:
        count = len(first[key])
        return [
            Curve(
                "output" if layer == count - 1 else f"layer {layer + 1}",
                JUDGED if layer == count - 1 else LAYERS[layer % len(LAYERS)],
                [[row[key][layer] for row in rows] for rows in trials],
            )
            for layer in range(count if output_fires else count - 1)
        ]

    return {
        "accuracy, %": over_time("accuracy", 100.0),
        "loss": over_time("loss", 1.0),
        "threshold": by_layer("theta"),
        "spikes a sample": by_layer("spikes"),
    }


def draw_learning_curves(
    trials: Sequence[Sequence[dict[str, Any]]],
    path: Path,
    title: str,
    chosen: int | None = None,
    *,
    output_fires: bool = True,
) -> Path:
    """Draw four panels by epoch from the rows of metrics.jsonl of one or more trials; mark the epoch `chosen`."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 6.4))
    figure.subplots_adjust(left=0.075, right=0.985, bottom=0.08, top=0.91, wspace=0.2, hspace=0.28)
    grid = figure.subplots(2, 2, sharex=True)
    for axes, (name, curves) in zip(grid.flat, learning_curves(trials, output_fires=output_fires).items(), strict=True):
        _panel(axes, name, curves)
        if chosen:
            axes.axvline(chosen, color="#333333", linewidth=0.8, linestyle=":")
    for axes in grid[-1]:
        axes.set_xlabel("epoch", fontsize=8)
    if chosen:
        title = f"{title}; dotted: the chosen epoch, {chosen}"
    figure.suptitle(title, fontsize=10, x=0.075, ha="left", parse_math=False)  # a name with dollars is no formula
    return write_atomically(path, lambda to: figure.savefig(to, format="png", dpi=110))


def _panel(axes: Axes, name: str, curves: Sequence[Curve]) -> None:
    """Draw every trial as a thin line, and the median of the epochs that all have as a thick one."""
    from matplotlib.ticker import MaxNLocator

    for curve in curves:
        for trial in curve.trials if len(curve.trials) > 1 else ():
            axes.plot(range(1, len(trial) + 1), trial, color=curve.color, linewidth=0.6, alpha=0.45)
        middle = middle_curve(curve.trials)
        marker = "o" if len(middle) < 20 else None
        axes.plot(
            range(1, len(middle) + 1),
            middle,
            color=curve.color,
            linewidth=1.8,
            marker=marker,
            markersize=3,
            label=curve.name,
        )
    axes.set_title(name, fontsize=9, loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.tick_params(labelsize=8, labelbottom=True)
    if curves:
        axes.legend(fontsize=8, framealpha=0.8, ncols=2 if len(curves) > 4 else 1)
