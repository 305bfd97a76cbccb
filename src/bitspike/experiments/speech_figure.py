"""The figure of `bitspike predict --figure`: what a network hears in recordings."""

from __future__ import annotations

from pathlib import Path

from bitspike.analysis.speech_figure import MOST_COLUMNS, HeardSpikes, draw_speech
from bitspike.analysis.traces import require_matplotlib
from bitspike.experiments.model_input import binning_by
from bitspike.experiments.predicting.files import Given
from bitspike.experiments.predicting.networks import Network
from bitspike.experiments.predicting.predictions import Prediction


def require_drawable(network: Network, path: Path) -> None:
    """Raise unless the network hears recordings, and the file can be drawn."""
    require_matplotlib()
    if path.suffix.lower() != ".png":
        raise ValueError(f"--figure must end in .png, but is {path}")
    if not network.trained_on.hears_recordings:
        raise ValueError(
            f"--figure shows recordings, but {network.name} was trained on {network.trained_on.title}; leave it out"
        )


def draw_heard(network: Network, given: Given, found: list[Prediction], path: Path) -> None:
    """Draw a column for each of the first recordings: its spikes, and those of each layer."""
    binning = binning_by(network.trained_on.input)
    panels = []
    for each, held in zip(found[:MOST_COLUMNS], given.events, strict=False):
        if held is None or each.membrane is None:
            raise ValueError(f"--figure shows recordings, but {each.name} is none")
        events, row = held
        here = slice(int(events.offsets[row]), int(events.offsets[row + 1]))
        sure = "" if each.label is None else f" ({each.confidence[each.answer]:.0%})"
        title = f"{Path(each.name).name}: {each.answer}{sure}"
        end_ms = binning.steps * binning.bin_us / 1000
        panels.append(
            HeardSpikes(title, events.t[here] / 1000, events.x[here], each.layers, each.membrane, each.label, end_ms)
        )
    draw_speech(panels, list(network.trained_on.class_names), path)
