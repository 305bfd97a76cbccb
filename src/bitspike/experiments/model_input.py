"""The input that a run's network takes, as an exported network keeps it; and the names of its classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from bitspike.data.binning import Binning
from bitspike.data.catalog import CATALOG
from bitspike.data.config import DataConfig
from bitspike.data.entry import EventSource
from bitspike.deploy.model import InputModel
from bitspike.experiments.data_facts import kept_facts
from bitspike.experiments.input_rule import input_rule
from bitspike.experiments.schema import Experiment

TimeUnit = Literal["s", "ms", "us"]


def model_input(run: Path, spec: Experiment) -> InputModel:
    """Return how files become input of a run's network.

    Frames that were binned before are plain values: no file says how they were made. So are images that were passed
    from Python, which may be scaled in any way.
    """
    try:
        rule = input_rule(run)
    except (ValueError, OSError):
        if kept_facts(run, spec).get("input") is not None or spec.data.name is not None:
            raise
        return InputModel("values")  # an earlier version kept nothing, and one's own file is gone
    if (events := rule.events) is not None:
        return InputModel("events", **asdict(events.binning), sensor=events.sensor, origin=events.origin)
    return InputModel("image" if rule.kind == "images" and spec.data.passed is None else "values")


def _source(data: DataConfig) -> EventSource | None:
    """Return where the events of a built-in set come from; None for other data."""
    source = CATALOG[data.name].source if data.name is not None and data.name in CATALOG else None
    return source if isinstance(source, EventSource) else None


def binning_by(rule: InputModel) -> Binning:
    """Return the binning that a rule for events says; raise if it leaves out the bins."""
    if rule.bin_us is None or rule.steps is None:
        raise ValueError(
            "the model does not say how wide its time bins are, nor how many (bin_us, steps), so no event is binned"
        )
    return Binning(rule.bin_us, rule.steps, rule.downsample, rule.polarity, rule.clip, rule.duration_us)


def time_unit(data: DataConfig) -> TimeUnit | None:
    """Return the unit of times in an array `t` of a file; None where it is not known."""
    source = _source(data)
    return data.time_unit if source is None else source.time_unit


def class_names(data: DataConfig, classes: int, kept: Sequence[str] = ()) -> list[str]:
    """Return the names of a built-in set's classes, or those that the run has `kept`; and numbers for the others."""
    known = CATALOG[data.name].class_names if data.name is not None and data.name in CATALOG else ()
    if known:
        return [*known, *(f"class {k}" for k in range(len(known), classes))][:classes]
    names = [*kept, *map(str, range(len(kept), classes))][:classes]
    return [f"class {name}" if name.isdecimal() else name for name in names]
