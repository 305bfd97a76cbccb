"""Which data an experiment trains on, and how events become frames. Every field can be set from a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bitspike.config import Config, Positive, Real, Truth, Whole

Share = Annotated[Real, Field(ge=0, lt=1)]
Above0 = Annotated[Real, Field(gt=0, le=1e9)]


class DataConfig(Config):
    """A built-in set by `name`, or the user's own `file`."""

    name: str | None = None  # a built-in set: `bitspike data list`
    file: Path | None = None  # own data: npz or HDF5, relative to the TOML file
    test_file: Path | None = None  # own data's test set; without it `test_share` of `file` is held out
    kind: Literal["images", "events", "spikes"] | None = None  # what `file` holds; found by its arrays if not given
    time_unit: Literal["s", "ms", "us"] | None = None  # of the events' `t`
    sensor: tuple[Positive, ...] | None = None  # (height, width) or (units,); found from the events if not given

    bin_ms: Above0 | None = None  # width of a time bin
    steps: Positive | None = None  # time bins of a training sample
    test_steps: Positive | None = None  # and of a test sample, if others
    downsample: Positive | None = None  # events are summed over squares of this side
    polarity: Truth | None = None  # one channel a polarity
    clip: Annotated[Whole, Field(ge=1, le=255)] | None = None  # events counted in a bin at most; 1 gives bits
    duration_ms: Above0 | None = None  # events after this are left out

    keep: Annotated[Real, Field(gt=0, le=1)] = 1.0  # thinned images: the share of pixels kept, drawn once a sample
    train_limit: Positive | None = None  # only so many samples, drawn with `split_seed`
    test_limit: Positive | None = None
    validation_share: Share = 0.1  # of the training samples, class by class; the holdout protocol picks on them
    test_share: Annotated[Real, Field(gt=0, lt=1)] = 0.2
    split_seed: Annotated[Whole, Field(ge=0, lt=2**32)] = 0
    repeat: Positive = 1  # how often an epoch passes over the training samples

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.name is None) == (self.file is None):
            raise ValueError("give either data.name, a built-in set, or data.file, your own")
        for field in ("test_file", "kind", "time_unit", "sensor"):
            if self.file is None and getattr(self, field) is not None:
                raise ValueError(f"data.{field} belongs to your own data (data.file), but data.name is {self.name!r}")
        return self
