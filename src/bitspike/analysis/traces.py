"""Pictures of membrane traces over training: a figure, an animation, and a page with a slider, from plain arrays."""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bitspike._lazy import not_installed
from bitspike.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEMBRANE, TARGET, THRESHOLD, SPIKE = "#1f5fa8", "#d9822b", "#5b5b5b", "#111111"


@dataclass(frozen=True, slots=True)
class Traces:
    """One case over training: `membrane` and `spikes` of the output neuron `[K, T, S]`, `theta [K]`, `target [T]`."""

    name: str
    title: str
    note: str
    target: Tensor
    membrane: Tensor
    spikes: Tensor
    theta: Tensor

    @property
    def limits(self) -> tuple[float, float]:
        """Return a range of the membrane that shows target and threshold; larger values leave the panel."""
        top = max(self.target.max().item(), self.theta.max().item())
        return -0.25 * top, 1.35 * top


def require_matplotlib() -> None:
    """Raise an error if matplotlib is not installed; call it before a training whose figure is drawn at the end."""
    if importlib.util.find_spec("matplotlib") is None:
        raise not_installed("matplotlib", "figures need matplotlib", extra="report")


def _figure(**options: Any) -> Figure:
    """Return an empty figure that belongs to no window and no notebook."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(**options)


def _panel(axes: Axes, traces: Traces, k: int, seed: int) -> None:
    """Draw the membrane of one seed at iteration k, with the other seeds behind it, target and threshold."""
    t = range(len(traces.target))
    axes.plot(t, traces.membrane[k].numpy(), color=MEMBRANE, alpha=0.12, linewidth=0.6)
    axes.plot(t, traces.membrane[k, :, seed].numpy(), color=MEMBRANE, linewidth=1.3)
    axes.plot(t, traces.target.numpy(), color=TARGET, linewidth=1.0, linestyle=(0, (4, 2)))
    axes.axhline(traces.theta[k].item(), color=THRESHOLD, linewidth=1.0, linestyle=":")
    axes.set_ylim(*traces.limits)
    axes.set_xlim(0, len(traces.target))
    axes.tick_params(labelbottom=False, labelsize=7)


def _raster(axes: Axes, spikes: Tensor) -> None:
    """Draw `spikes [T, S]`: a row for each seed, a mark for each spike."""
    time, seed = torch.nonzero(spikes, as_tuple=True)
    axes.scatter(time.numpy(), seed.numpy(), s=2.0, color=SPIKE, marker="s", linewidths=0)
    axes.set_ylim(spikes.shape[1] - 0.5, -0.5)
    axes.set_xlim(0, spikes.shape[0])
    axes.set_yticks([])
    axes.tick_params(labelsize=7)


def draw(cases: Sequence[Traces], iterations: Sequence[int], *, seed: int = 0) -> Figure:
    """Draw a row for each case: the target, then the membrane at each of `iterations`, all seeds' spikes beneath."""
    columns = len(iterations) + 1
    figure = _figure(figsize=(2.5 * columns, 2.25 * len(cases) + 0.7), layout="constrained")
    grid = figure.add_gridspec(len(cases) * 2, columns, height_ratios=[3.0, 1.0] * len(cases))
    for row, traces in enumerate(cases):
        top = figure.add_subplot(grid[2 * row, 0])
        top.plot(traces.target.numpy(), color=TARGET, linewidth=1.3, linestyle=(0, (4, 2)), label="target")
        top.axhline(traces.theta[-1].item(), color=THRESHOLD, linewidth=1.0, linestyle=":", label="threshold")
        top.plot([], [], color=MEMBRANE, linewidth=1.3, label="membrane")
        top.set_ylim(*traces.limits)
        top.set_xlim(0, len(traces.target))
        top.tick_params(labelbottom=False, labelsize=7)
        top.set_ylabel("u", fontsize=9)
        lettered = f"({chr(97 + row)}) {traces.title}".replace(", ", ",\n")
        top.set_title(lettered, fontsize=9, loc="left", fontweight="bold")
        if row == 0:
            top.legend(fontsize=7, loc="upper left", frameon=False)
        text = figure.add_subplot(grid[2 * row + 1, 0])
        text.axis("off")
        text.text(0, 1.0, traces.note, fontsize=7, va="top", wrap=True, transform=text.transAxes)
        for column, k in enumerate(iterations, start=1):
            axes = figure.add_subplot(grid[2 * row, column])
            _panel(axes, traces, k, seed)
            axes.set_title(f"iteration {k}, $\\theta$ = {traces.theta[k].item():.3g}", fontsize=8)
            beneath = figure.add_subplot(grid[2 * row + 1, column])
            _raster(beneath, traces.spikes[k])
            if column == 1:
                beneath.set_ylabel("seeds", fontsize=7)
            if row == len(cases) - 1:
                beneath.set_xlabel("time step", fontsize=8)
    return figure


def animate(
    cases: Sequence[Traces], path: Path, *, seed: int = 0, frames: int = 60, on_frame: Callable[[], None] = lambda: None
) -> Path:
    """Write a GIF of every case's membrane over training; the line of the threshold moves with the schedule."""
    columns = 4 if len(cases) > 6 else 3 if len(cases) > 4 else min(2, len(cases))
    rows = -(-len(cases) // columns)
    figure = _figure(figsize=(3.1 * columns, 2.2 * rows + 0.4))
    from matplotlib.animation import PillowWriter

    grid = figure.subplots(rows, columns, squeeze=False)
    figure.subplots_adjust(left=0.06, right=0.99, bottom=0.09, top=0.86, hspace=0.45, wspace=0.22)
    heading = figure.suptitle("", fontsize=10)
    moving = []
    for axes, traces in zip(grid.flat, cases, strict=False):
        axes.plot(traces.target.numpy(), color=TARGET, linewidth=1.0, linestyle=(0, (4, 2)))
        (membrane,) = axes.plot(traces.membrane[0, :, seed].numpy(), color=MEMBRANE, linewidth=1.3)
        threshold = axes.axhline(traces.theta[0].item(), color=THRESHOLD, linewidth=1.0, linestyle=":")
        (marks,) = axes.plot([], [], linestyle="", marker="|", color=SPIKE, markersize=7)
        axes.set_ylim(*traces.limits)
        axes.set_xlim(0, len(traces.target))
        axes.set_title(traces.title, fontsize=8)
        axes.tick_params(labelsize=7)
        moving.append((traces, membrane, threshold, marks))
    for axes in list(grid.flat)[len(cases) :]:
        axes.axis("off")

    def write(to: Path) -> None:
        writer = PillowWriter(fps=10)
        with writer.saving(figure, str(to), dpi=72):
            for k in frame_iterations(len(cases[0].theta), frames):
                heading.set_text(f"iteration {k}: membrane (blue), target (orange), threshold (dotted), spikes (bars)")
                for traces, membrane, threshold, marks in moving:
                    membrane.set_ydata(traces.membrane[k, :, seed].numpy())
                    threshold.set_ydata([traces.theta[k].item()] * 2)
                    times = torch.nonzero(traces.spikes[k, :, seed]).flatten().numpy()
                    marks.set_data(times, [traces.limits[1] * 0.95] * len(times))
                writer.grab_frame()
                on_frame()

    return write_atomically(path, write)


def frame_iterations(iterations: int, frames: int) -> list[int]:
    """Return up to `frames` iterations from first to last, denser at the start, where most happens."""
    if frames >= iterations:
        return list(range(iterations))
    spread = [(i / (frames - 1)) ** 1.5 * (iterations - 1) for i in range(frames)]
    return sorted({round(k) for k in spread})


def write_figure(cases: Sequence[Traces], iterations: Sequence[int], path: Path) -> Path:
    """Draw the cases, as `draw` does, into a PNG file."""
    figure = draw(cases, iterations)
    return write_atomically(path, lambda to: figure.savefig(to, dpi=100))


def _quantized(values: Tensor, limits: tuple[float, float]) -> str:
    """Return values in base64, as 16-bit steps of three times the panel's range; values further out are not visible."""
    low, high = limits
    middle, scale = (low + high) / 2, 1.5 * (high - low)
    steps = ((values - middle) / scale * 32767).clamp(-32767, 32767).round().to(torch.int16)
    return base64.b64encode(steps.contiguous().numpy().tobytes()).decode()


def _packed(bits: Tensor) -> str:
    """Return bits in base64, eight in a byte, the first one lowest."""
    flat = bits.flatten().to(torch.uint8)
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % 8)).view(-1, 8)
    octets = (flat << torch.arange(8, dtype=torch.uint8, device=bits.device)).sum(1).to(torch.uint8)
    return base64.b64encode(octets.numpy().tobytes()).decode()


def write_page(cases: Sequence[Traces], path: Path, *, heading: str, every: int = 5, seeds: int = 5) -> Path:
    """Write an HTML page in one file: a slider over iterations, the membrane of a chosen seed, spikes of all seeds."""
    panels = []
    for traces in cases:
        kept = sorted({*range(0, len(traces.theta), every), len(traces.theta) - 1})
        membrane = traces.membrane[kept][..., :seeds].permute(2, 0, 1)  # [S, K, T]
        spikes = traces.spikes[kept].permute(0, 2, 1)  # [K, S, T]
        panels.append(
            {
                "title": traces.title,
                "note": traces.note,
                "limits": traces.limits,
                "iterations": kept,
                "theta": [round(traces.theta[k].item(), 4) for k in kept],
                "target": [round(v, 4) for v in traces.target.tolist()],
                "membrane": _quantized(membrane, traces.limits),
                "spikes": _packed(spikes),
                "allSeeds": spikes.shape[1],
                "shownSeeds": membrane.shape[0],
            }
        )
    # "<" cannot appear in the data, so no text of a case can end the script element or open another.
    data = json.dumps({"heading": heading, "panels": panels}).replace("<", "\\u003c")
    template = resources.files("bitspike.analysis").joinpath("traces.html").read_text(encoding="utf-8")
    page = template.replace("__DATA__", data)
    return write_atomically(path, lambda to: to.write_text(page, encoding="utf-8"))
