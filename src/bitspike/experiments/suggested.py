"""Thresholds for an experiment, suggested from the drive of its network on a batch of its training samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from bitspike.experiments.assembly import RunOptions, build_network, check_fit
from bitspike.experiments.held_out import splits
from bitspike.experiments.run_data import dataset_of
from bitspike.experiments.schema import Experiment, as_values, experiment
from bitspike.nn.neurons import LeakyReadout
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
        data = dataset_of(spec, options)
        net = build_network(spec, data.shape)
        check_fit(spec, net, data)
        train = splits(spec, data)["train"]
        rows = calibration_rows(len(train), SAMPLES, spec.seed).sort().values
        net.to(options.device)
        x, _ = train.select(rows).to(options.device).batch(torch.arange(len(rows), device=options.device))
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
