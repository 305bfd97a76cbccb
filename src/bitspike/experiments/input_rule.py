"""What a run's samples are: the rule by which new files become input of its network, and the names of its classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bitspike.data.binning import Binning
from bitspike.data.binning_fields import binning_of
from bitspike.data.catalog import CATALOG
from bitspike.data.config import DataConfig
from bitspike.data.entry import EventSource, ImageSource
from bitspike.data.own_files import own_kind
from bitspike.data.own_paths import expanded
from bitspike.deploy.model import InputModel

TimeUnit = Literal["s", "ms", "us"]


def input_rule(data: DataConfig) -> InputModel:
    """Return how the samples of `data` were made from files.

    Samples that were passed from Python or drawn from a seed, and frames that were binned before, are plain values: no
    file says how they were made.
    """
    source = _source(data)
    if isinstance(source, EventSource) or (data.file is not None and None not in (data.bin_ms, data.steps)):
        return _event_rule(data, source)
    if isinstance(source, ImageSource) or (data.file is not None and _holds_images(data)):
        return InputModel("image")
    return InputModel("values")


def _source(data: DataConfig) -> object:
    """Return where the samples of a built-in set come from; None for other data."""
    return CATALOG[data.name].source if data.name is not None and data.name in CATALOG else None


def _event_rule(data: DataConfig, source: object) -> InputModel:
    """Return the rule of a run on events: the bins of its test samples."""
    binning = binning_of(data)
    known = source if isinstance(source, EventSource) else None
    from_zero = data.time_origin == "zero" if known is None else known.origin == "zero"
    return InputModel(
        "events",
        bin_us=binning.bin_us,
        steps=binning.steps,
        downsample=binning.downsample,
        polarity=binning.polarity,
        clip=binning.clip,
        duration_us=binning.duration_us,
        sensor=data.sensor if known is None else known.sensor,
        origin="zero" if from_zero else "first",
    )


def _holds_images(data: DataConfig) -> bool:
    """Return whether one's own files hold images; a file that is gone is not taken for one of images."""
    if data.kind is not None or data.file is None:
        return data.kind == "images"
    try:
        return own_kind(expanded(data.file)[:1], data) == "images"
    except (OSError, ValueError):
        return False


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
    return source.time_unit if isinstance(source, EventSource) else data.time_unit


def class_names(data: DataConfig, classes: int, kept: Sequence[str] = ()) -> list[str]:
    """Return the names of a built-in set's classes, or those that the run has `kept`; and numbers for the others."""
    known = CATALOG[data.name].class_names if data.name is not None and data.name in CATALOG else ()
    if known:
        return [*known, *(f"class {k}" for k in range(len(known), classes))][:classes]
    names = [*kept, *map(str, range(len(kept), classes))][:classes]
    return [f"class {name}" if name.isdecimal() else name for name in names]
