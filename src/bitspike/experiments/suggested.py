"""Thresholds for an experiment, suggested from the drive of its network on a batch of its training samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from bitspike.data.samples import Dataset
from bitspike.experiments.assembly import RunOptions, build_network, check_fit
from bitspike.experiments.held_out import splits
from bitspike.experiments.run_data import dataset_of
from bitspike.experiments.schema import Experiment, as_values, experiment
from bitspike.nn.neurons import LeakyReadout
from bitspike.nn.notation import Conv, parse
from bitspike.schedules import Relax, Schedule
from bitspike.suggest.schedules import suggest_with_drives
from bitspike.train.numerics import as_input, reproducible
from bitspike.train.tricks.recalibrate import calibration_rows

SAMPLES = 256  # of the training set; more hardly change a median


@dataclass(frozen=True, slots=True)
class LayerThreshold:
    """The thresholds that are suggested for one layer of neurons.

    `drive` is the typical peak of its membranes, `alive` the share of its neurons that fire for some sample at the
    final threshold before training, `theta` a number or a table `{start, stop, rate}`. A layer that is read by its
    membrane never fires.
    """

    layer: str
    drive: float
    alive: float | None
    feedback: bool
    theta: float | dict[str, float]

    @property
    def fires(self) -> bool:
        """Whether the layer fires; its threshold has no effect if it does not."""
        return self.alive is not None


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An experiment with suggested thresholds, the thresholds by layer, and what they were measured on."""

    spec: Experiment
    layers: list[LayerThreshold]
    samples: int
    iterations: int
    title: str


def suggest_thresholds(spec: Experiment, options: RunOptions) -> Suggestion:
    """Build the experiment's network, measure it on training samples, and put the suggested thresholds into it.

    The samples are drawn with the experiment's seed, from those that train. The schedules are for all its epochs.
    """
    with reproducible(spec.train.precision):
        return _suggestion(spec, dataset_of(spec, options), options.device)


def theta_without_norm(spec: Experiment, data: Dataset, theta: Any) -> list[Any] | None:
    """Return the thresholds of all layers: `theta` where batch norm is in front of one, else the suggested one.

    Return None where every layer that fires has batch norm, or where the notation does not fit the data.
    """
    try:
        layers, _ = parse(spec.net.notation, data.shape)
    except ValueError:
        return None
    normalized = [spec.net.norm != "none" if isinstance(layer, Conv) else spec.net.dense_norm for layer in layers]
    if all(normalized[: -1 if spec.net.readout == "membrane" else None]):
        return None
    with reproducible(spec.train.precision):
        found = _suggestion(spec, data, torch.device("cpu"))
    return [theta if each else layer.theta for each, layer in zip(normalized, found.layers, strict=True)]


def _suggestion(spec: Experiment, data: Dataset, device: torch.device) -> Suggestion:
    """Return the suggestion for an experiment on this data."""
    net = build_network(spec, data.shape)
    check_fit(spec, net, data)
    train = splits(spec, data)["train"]
    rows = calibration_rows(len(train), SAMPLES, spec.seed).sort().values
    net.to(device)
    x, _ = train.select(rows).to(device).batch(torch.arange(len(rows), device=device))
    iterations = spec.train.epochs * -(-len(train) * spec.data.repeat // spec.train.batch)
    found = suggest_with_drives(net, as_input(x, next(net.parameters()).dtype), iterations)
    layers = []
    for (schedule, drive), block in zip(found, net.layers, strict=True):
        fires = not isinstance(block.lif, LeakyReadout)
        alive = drive.alive(schedule.final) if fires else None
        layers.append(
            LayerThreshold(drive.layer, _rounded(drive.typical), alive, drive.feedback, _as_value(schedule, fires))
        )
    values = as_values(spec)
    values["net"]["theta"] = [layer.theta for layer in layers]
    values["sources"] = {**values.get("sources", {}), "net.theta": f"bitspike suggest, {len(rows)} training samples"}
    return Suggestion(experiment(values, spec.name), layers, len(rows), iterations, data.title)


def _as_value(schedule: Schedule, fires: bool) -> Any:
    """Return a schedule as experiments write it; a number for a layer that never fires."""
    if not isinstance(schedule, Relax) or not fires:
        return _rounded(schedule.final)
    return {"start": _rounded(schedule.start), "stop": _rounded(schedule.stop), "rate": _rounded(schedule.rate)}


def _rounded(value: float) -> float:
    """Return four significant digits."""
    return float(f"{value:.4g}")
