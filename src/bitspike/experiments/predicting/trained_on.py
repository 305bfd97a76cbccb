"""The data a network was trained on: all that `bitspike predict` must know to turn files into its input."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from bitspike.data.config import DataConfig
from bitspike.data.speech.spike_files import UNITS
from bitspike.deploy.model import InputModel, NetworkModel
from bitspike.experiments.data_facts import kept_facts, unknown_facts
from bitspike.experiments.exporting import texts
from bitspike.experiments.model_input import TimeUnit, class_names, model_input, time_unit
from bitspike.experiments.schema import Experiment
from bitspike.text import printable

LOGIT_SCALE = 10.0  # the default of train.logit_scale, for a packed file that does not say


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """The samples of a network's training. `labels` has the label of each class in files, as text.

    `title` is what errors call the samples. The confidence of answers is the softmax of `logit_scale` x score.
    `notes` are what a person should know.
    """

    title: str
    input: InputModel
    input_shape: tuple[int, ...]
    class_names: tuple[str, ...]
    labels: tuple[str, ...]
    logit_scale: float = LOGIT_SCALE
    time_unit: TimeUnit | None = None
    notes: tuple[str, ...] = ()

    @property
    def hears_recordings(self) -> bool:
        """Whether the samples are spikes of the cochlea's 700 units, which recordings become."""
        units_fit = self.input_shape == (UNITS // self.input.downsample,)
        return self.input.kind == "events" and units_fit and self.input.sensor in (None, (UNITS,))

    def numbered(self, labels: Sequence[Any]) -> list[int | None]:
        """Return the class of each label in a file, or of a class's name; None for what is no class of the network."""
        known = {label: k for k, label in enumerate(self.labels)}
        names = {name: k for k, name in enumerate(self.class_names)}
        return [
            known.get(str(label), names.get(label) if isinstance(label, str) else None)  # a number is never a name
            for label in labels
        ]


def of_run(run: Path, spec: Experiment, input_shape: tuple[int, ...], classes: int) -> TrainedOn:
    """Return what a run's network was trained on."""
    facts = kept_facts(run, spec)
    unknown = unknown_facts(spec, facts)
    names = class_names(spec.data, classes, texts(facts.get("class_names")))
    return TrainedOn(
        called(spec.data),
        model_input(run, spec),
        input_shape,
        _different(names),
        () if unknown else _labels(texts(facts.get("file_labels")), classes),
        spec.train.logit_scale,
        time_unit(spec.data),
        (f"{run}: {unknown}",) if unknown else (),
    )


def of_model(model: NetworkModel) -> TrainedOn:
    """Return what a packed network was trained on, as far as its metadata tell."""
    notes = model.metadata
    names = [*map(printable, model.class_names), *(f"class {k}" for k in range(len(model.class_names), model.classes))]
    return TrainedOn(
        printable(notes.get("data") or "data that it does not name"),
        model.input,
        model.input_shape,
        _different(names[: model.classes]),
        _listed(notes["labels"]) if "labels" in notes else _labels([], model.classes),
        _scale(notes.get("logit_scale", "")),
        next((unit for unit in get_args(TimeUnit) if unit == notes.get("time_unit")), None),
    )


def called(data: DataConfig) -> str:
    """Return the words for a run's data: its name, or its files."""
    if data.file is None:
        return data.name or f"{data.passed!r}, samples passed from Python"
    return data.file.name if isinstance(data.file, Path) else " and ".join(path.name for path in data.file)


def _different(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, with numbers behind them if some are the same."""
    return tuple(names if len(set(names)) == len(names) else (f"{name} ({k})" for k, name in enumerate(names)))


def _labels(given: Sequence[str], classes: int) -> tuple[str, ...]:
    return tuple(given) if given else tuple(map(str, range(classes)))


def _listed(text: str) -> tuple[str, ...]:
    """Return labels from the metadata; none where they are not listed, and then no label is known."""
    try:
        return tuple(texts(json.loads(text)))
    except (ValueError, RecursionError):  # free text of a file from outside
        return ()


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        return LOGIT_SCALE
    return scale if math.isfinite(scale) and scale > 0 else LOGIT_SCALE
