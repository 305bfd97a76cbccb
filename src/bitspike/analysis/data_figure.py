"""The figure of a data set: a few samples, and how events lie over time, channels and classes. Plain arrays in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bitspike.analysis.traces import require_matplotlib
from bitspike.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SAMPLES = 6
MOST_CLASSES = 30  # whose names fit under the bars
MOST_TITLE = 24  # characters
COLORS = {"train": "#00798c", "valid": "#edae49", "test": "#d1495b"}
WORDS = {"train": "training", "valid": "validation", "test": "test"}
EVENTS, OTHER = "#1b2a41", "#d1495b"


@dataclass(frozen=True, slots=True)
class SamplePanel:
    """One sample to draw: `values [T, ...]` counts of events, or `[C, H, W]` of an image, under a title."""

    title: str
    values: Tensor


@dataclass(frozen=True, slots=True)
class DataFigure:
    """All that the figure shows; the mappings are by the name of a split.

    `by_step [T]` and `by_channel [*shape]` are the mean numbers of events of a sample, and empty for images. `step_ms`
    is the length of a step, None where it is not known. `by_class` is the number of samples of each class.
    """

    title: str
    samples: Sequence[SamplePanel]
    is_image: bool
    class_names: Sequence[str]
    by_class: Mapping[str, Sequence[int]]
    by_step: Mapping[str, Tensor]
    by_channel: Mapping[str, Tensor]
    step_ms: float | None = None


def draw_data(figure: DataFigure, path: Path) -> Path:
    """Draw up to six samples above events a step, events a channel and samples a class; write a PNG file."""
    require_matplotlib()
    from matplotlib.figure import Figure

    columns = max(len(figure.samples) if len(figure.samples) <= 4 else 3, 1)
    rows = math.ceil(len(figure.samples[:MOST_SAMPLES]) / columns)
    drawn = Figure(figsize=(11, 2.6 * rows + 3.2), layout="constrained")
    parts: Any = drawn.subfigures(2, 1, height_ratios=[2.6 * rows, 3.0])
    above, below = parts
    shape = tuple(figure.samples[0].values.shape[1:])
    colors = ""
    if not figure.is_image and len(shape) > 1 and shape[0] == 2:
        colors = " (polarity 1 red, 0 blue, both black)" if _is_camera(shape) else " (polarity 1 red, 0 black)"
    drawn.suptitle(_short(figure.title, 100) + colors, fontsize=10, x=0.01, ha="left")
    grid = above.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[len(figure.samples) :]:
        axes.axis("off")
    for at, (axes, sample) in enumerate(zip(grid, figure.samples[:MOST_SAMPLES], strict=False)):
        axes.set_title(_short(sample.title), fontsize=9, loc="left")
        axes.tick_params(labelsize=7)
        if figure.is_image:
            _image(axes, sample.values)
        elif _is_camera(tuple(sample.values.shape[1:])):
            _camera(axes, sample.values.sum(0))
        else:
            _rows(axes, sample.values, figure.step_ms, labelled=at % columns == 0)
    if figure.is_image:
        classes = below.subplots(1, 1)
    else:
        steps, channels, classes = below.subplots(1, 3)
        _steps(steps, figure)
        _channels(channels, figure)
    _classes(classes, figure)
    return write_atomically(path, lambda to: drawn.savefig(to, format="png", dpi=110))


def _is_camera(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and min(shape[1:]) > 1


def _short(text: str, most: int = MOST_TITLE) -> str:
    """Return the text as matplotlib shows it unchanged (a dollar sign begins a formula).

    A long text is cut in the middle: names often differ at their end.
    """
    tail = (most - 3) // 2
    cut = text if len(text) <= most else f"{text[: most - 3 - tail]}...{text[-tail:]}"
    return cut.replace("$", r"\$")


def _image(axes: Axes, values: Tensor) -> None:
    """Draw an image as it is: three channels are colours, else the mean of the channels is a grey."""
    if len(values) == 3:
        axes.imshow(values.permute(1, 2, 0).clamp(0, 1).numpy(), interpolation="nearest")
    else:
        axes.imshow(values.mean(0).numpy(), cmap="Greys_r", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])


def _camera(axes: Axes, summed: Tensor) -> None:
    """Draw the events of a camera `[channels, H, W]`, summed over time: polarity 1 is red, 0 blue, both are black."""
    shown = summed.double()
    top = float(shown.flatten().quantile(0.99)) if shown.any() else 1.0
    depth = (shown / max(top, 1.0)).clamp(max=1).sqrt()
    blue, red = (depth[0], depth[1]) if len(depth) == 2 else (depth.sum(0), depth.sum(0))
    both = torch.maximum(red, blue)
    picture = torch.stack([1 - blue, 1 - both, 1 - red], dim=-1).clamp(0, 1)
    axes.imshow(picture.numpy(), interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])


def _rows(axes: Axes, values: Tensor, step_ms: float | None, *, labelled: bool) -> None:
    """Draw a dot for each bin with events, time against channel; a second polarity has another colour."""
    parts = [values.flatten(1)] if values.ndim != 3 or values.shape[1] != 2 else [values[:, 0], values[:, 1]]
    channels = parts[0].shape[1]
    size = max(0.6, min(14.0, 4000 / (len(values) * channels) ** 0.75))
    for part, color in zip(parts, (EVENTS, OTHER), strict=False):
        t, channel = torch.nonzero(part, as_tuple=True)
        weight = part[t, channel].double().sqrt()
        axes.scatter(
            (t.double() + 0.5).numpy() * (step_ms or 1),
            channel.numpy(),
            s=size * weight.numpy(),
            color=color,
            linewidths=0,
            rasterized=True,
        )
    axes.set_xlim(0, len(values) * (step_ms or 1))
    axes.set_ylim(channels - 0.5, -0.5)
    if labelled:
        axes.set_ylabel("channel", fontsize=8)
    axes.set_xlabel("ms" if step_ms else "step", fontsize=8)


def _steps(axes: Axes, figure: DataFigure) -> None:
    """Draw the events of a sample over time, a line for each split."""
    for split, values in figure.by_step.items():
        width = figure.step_ms or 1
        edges = torch.arange(len(values) + 1).double() * width
        axes.stairs(values.numpy(), edges.numpy(), color=COLORS[split], label=WORDS[split], linewidth=1.2)
    axes.set_ylim(bottom=0)
    axes.set_title("events a step (mean of a sample)", fontsize=9, loc="left")
    axes.set_xlabel("ms" if figure.step_ms else "step", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7, frameon=False)


def _channels(axes: Axes, figure: DataFigure) -> None:
    """Draw the events of each channel: lines for rows of channels, a map of the training samples for a camera."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=_is_camera(tuple(figure.by_channel["train"].shape))))
    axes.tick_params(labelsize=7)
    shape = tuple(figure.by_channel["train"].shape)
    if _is_camera(shape):
        shown = axes.imshow(figure.by_channel["train"].sum(0).numpy(), cmap="viridis", interpolation="nearest")
        axes.figure.colorbar(shown, ax=axes, shrink=0.8).ax.tick_params(labelsize=7)
        axes.set_title("events a pixel (mean training sample)", fontsize=9, loc="left")
        return
    for split, values in figure.by_channel.items():
        for at, part in enumerate(values if values.ndim == 2 else [values.flatten()]):
            label = WORDS[split] if not at else None
            style = "-" if not at else ":"
            axes.plot(part.numpy(), color=COLORS[split], label=label, linewidth=1.0, linestyle=style,
                      marker="." if part.numel() <= 40 else None)  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_title("events a channel (mean of a sample)", fontsize=9, loc="left")
    axes.set_xlabel("channel", fontsize=8)


def _classes(axes: Axes, figure: DataFigure) -> None:
    """Draw the share of each class in every split, so that splits of different sizes can be compared."""
    count, splits = len(figure.class_names), list(figure.by_class)
    width = 0.8 / len(splits)
    for at, split in enumerate(splits):
        counts = torch.tensor(figure.by_class[split]).double()
        places = torch.arange(count).double() + (at - (len(splits) - 1) / 2) * width
        axes.bar(places.numpy(), (100 * counts / counts.sum().clamp(min=1)).numpy(), width, color=COLORS[split],
                 label=f"{WORDS[split]} ({int(counts.sum()):,})")  # fmt: skip
    if count <= MOST_CLASSES:
        long = max(map(len, figure.class_names)) * count > 45
        names = [_short(name, 12) for name in figure.class_names]
        axes.set_xticks(range(count), names, fontsize=7, rotation=90 if long else 0)
    axes.set_title("samples a class, in percent of the split", fontsize=9, loc="left")
    axes.tick_params(labelsize=7)
    axes.margins(y=0.3)  # room for the legend
    axes.legend(fontsize=7, frameon=False, loc="upper right", ncols=len(splits))
