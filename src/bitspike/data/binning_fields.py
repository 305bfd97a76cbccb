"""The fields of an experiment's [data] table that bin events: the binning they give, and where they are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bitspike.data.binning import Binning
from bitspike.data.catalog import CATALOG, lookup
from bitspike.data.config import DataConfig
from bitspike.data.entry import EventSource


def binning_for(config: DataConfig, defaults: EventSource | None, split: str) -> Binning:
    """Return the binning of a split: from `config`, or where it is silent from the dataset's `defaults`."""

    def chosen(field: str, otherwise: Any = None) -> Any:
        given = getattr(config, field)
        default = getattr(defaults, field, None)
        return given if given is not None else default if default is not None else otherwise

    bin_ms, steps = chosen("bin_ms"), chosen("steps")
    if bin_ms is None or steps is None:
        raise ValueError(
            "data: events need data.bin_ms, the width of a time bin, and data.steps, how many there are; an experiment "
            "file of your own events may leave them out, and its run has them"
        )
    if split == "test":
        # steps given without test_steps hold for both
        steps = config.test_steps or (config.steps if config.steps is not None else chosen("test_steps", steps))
    return Binning(
        bin_us=round(bin_ms * 1000),
        steps=steps,
        downsample=chosen("downsample", 1),
        polarity=chosen("polarity", True),
        clip=config.clip,
        duration_us=duration_us(config),
    )


def duration_us(config: DataConfig) -> int | None:
    """Return `config.duration_ms` in microseconds, or None."""
    return None if config.duration_ms is None else round(config.duration_ms * 1000)


def binning_of(config: DataConfig) -> Binning:
    """Return how a new sample is binned to be like the test samples of `config`, which must be events."""
    source = None if config.file is not None else lookup(str(config.name), CATALOG).source
    if source is not None and not isinstance(source, EventSource):
        raise ValueError(f"data: {config.name} has no events, so that nothing is binned")
    return binning_for(config, source, "test")


def refuse_fields(config: DataConfig, fields: Sequence[str], because: str) -> None:
    """Raise if one of the fields is set; `because` says why it would have no effect."""
    for field in fields:
        if getattr(config, field) is not None:
            raise ValueError(f"data.{field} has no meaning here: {because}; leave it out")
