"""The figure of what a network hears: a recording's spikes, and beneath them those of each layer. Plain arrays in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bitspike.analysis.traces import require_matplotlib
from bitspike.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_COLUMNS = 6
SPIKE, ANSWER = "#1b2a41", "#d1495b"


@dataclass(frozen=True, slots=True)
class HeardSpikes:
    """One recording: its spikes `t_ms [E]` of `units [E]`, and the spikes of each layer `[T, ...]` by name.

    `membrane [T, classes]` is the output's; it is drawn if the output never fires. The network hears until `end_ms`.
    """

    title: str
    t_ms: Any
    units: Any
    layers: dict[str, Tensor]
    membrane: Tensor
    answer: int | None
    end_ms: float


def draw_speech(panels: Sequence[HeardSpikes], classes: Sequence[str], path: Path, *, units: int = 700) -> Path:
    """Draw a column for each recording: the cochleagram, then the spikes of each layer, the output with its classes."""
    if len(panels) > MOST_COLUMNS:
        raise ValueError(f"predict: a figure has room for {MOST_COLUMNS} recordings, but there are {len(panels)}")
    require_matplotlib()
    from matplotlib.figure import Figure

    names = list(panels[0].layers)
    rows = 1 + len(names)
    heights = [2.4, *[1.6] * (len(names) - 1), 0.13 * len(classes) + 0.6]
    width = 5.4 if len(panels) == 1 else 3.6 * len(panels) + 1
    figure = Figure(figsize=(width, sum(heights) + 0.8), layout="constrained")
    grid = figure.subplots(rows, len(panels), squeeze=False, sharex="col", gridspec_kw={"height_ratios": heights})
    for column, panel in enumerate(panels):
        top = grid[0, column]
        _dots(top, panel.t_ms, panel.units, units)
        top.set_title(panel.title, fontsize=9, loc="left")
        top.set_xlim(0, panel.end_ms)
        for row, name in enumerate(names[:-1], start=1):
            spikes = panel.layers[name].flatten(1)
            t, neuron = torch.nonzero(spikes, as_tuple=True)
            step = panel.end_ms / len(spikes)
            _dots(grid[row, column], (t.double() + 0.5).numpy() * step, neuron.numpy(), spikes.shape[1])
        _output(grid[-1, column], panel, panel.layers[names[-1]].flatten(1), classes, labelled=column == 0)
        grid[-1, column].set_xlabel("ms", fontsize=8)
    fires = any(panel.layers[names[-1]].any() for panel in panels)
    labels = ["unit of the cochlea\n(0 is the highest tone)", *(f"layer {i}, neuron" for i in range(1, len(names)))]
    labels.append("spikes of each class" if fires else "membrane of each class\n(darker is higher)")
    for axes, label in zip(grid[:, 0], labels, strict=True):
        axes.set_ylabel(label, fontsize=8)
    return write_atomically(path, lambda to: figure.savefig(to, format="png", dpi=130))


def _dots(axes: Axes, t: Any, row: Any, rows: int) -> None:
    """Draw a dot for each spike, smaller where there are many."""
    size = 0.8 if len(t) > 4000 else 1.6 if len(t) > 800 else 4.0
    axes.scatter(t, row, s=size, color=SPIKE, linewidths=0, rasterized=True)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.tick_params(labelsize=7)


def _output(axes: Axes, panel: HeardSpikes, spikes: Tensor, classes: Sequence[str], *, labelled: bool) -> None:
    """Draw the output's spikes, a line of its own for each class, or its membrane where it never fires.

    Only the first column names all classes; each names its answer.
    """
    step = panel.end_ms / len(spikes)
    if spikes.any():
        t, neuron = torch.nonzero(spikes, as_tuple=True)
        colors = [ANSWER if n == panel.answer else SPIKE for n in neuron.tolist()]
        axes.scatter((t.double() + 0.5).numpy() * step, neuron.numpy(), s=9, c=colors, marker="|", linewidths=0.8)
    else:
        extent = (0, panel.end_ms, len(classes) - 0.5, -0.5)
        axes.imshow(panel.membrane.T.numpy(), aspect="auto", extent=extent, cmap="Greys", interpolation="nearest")
    axes.set_ylim(len(classes) - 0.5, -0.5)
    names = [name if labelled or i == panel.answer else "" for i, name in enumerate(classes)]
    axes.set_yticks(range(len(classes)), names, fontsize=7)
    if panel.answer is not None:
        axes.get_yticklabels()[panel.answer].set_color(ANSWER)
    axes.tick_params(axis="x", labelsize=7)
