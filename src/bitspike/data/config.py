"""The settings of data: which samples an experiment uses, and how events become frames. A TOML file can set each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bitspike.config import Config, Positive, Real, Truth, Whole

Share = Annotated[Real, Field(ge=0, lt=1)]
Above0 = Annotated[Real, Field(gt=0, le=1e9)]


class DataConfig(Config):
    """The data of an experiment: a built-in set by `name`, or the user's own `file`."""

    name: str | None = None
    """A built-in data set; `bitspike data list` shows them."""
    file: Path | None = None
    """Your own data, an npz or HDF5 file. The path is relative to the TOML file."""
    test_file: Path | None = None
    """The test samples of your own data. Without it `test_share` of `file` is held out."""
    kind: Literal["images", "events", "spikes"] | None = None
    """The kind of samples in `file`. If it is not given, the names of the file's arrays decide."""
    time_unit: Literal["s", "ms", "us"] | None = None
    """The unit of the events' times in `file`."""
    sensor: tuple[Positive, ...] | None = None
    """The sensor's size: height and width, or the number of units. Without it the events tell."""

    bin_ms: Above0 | None = None
    """The width of a time bin, in milliseconds. Events of one bin are one time step."""
    steps: Positive | None = None
    """The time bins of a training sample."""
    test_steps: Positive | None = None
    """The time bins of a test sample, where they are not those of a training sample."""
    downsample: Positive | None = None
    """Events are summed over squares of this side, in pixels."""
    polarity: Truth | None = None
    """Give each polarity of the events a channel of its own."""
    clip: Annotated[Whole, Field(ge=1, le=255)] | None = None
    """The most events that are counted in one bin; 1 gives bits."""
    duration_ms: Above0 | None = None
    """Events after this time, in milliseconds, are left out."""

    keep: Annotated[Real, Field(gt=0, le=1)] = 1.0
    """The share of pixels that thinned images keep; they are drawn once for each sample."""
    train_limit: Positive | None = None
    """Use only so many training samples, drawn with `split_seed`."""
    test_limit: Positive | None = None
    """Use only so many test samples, drawn with `split_seed`."""
    validation_share: Share = 0.1
    """The share of training samples, in each class, that protocol `holdout` keeps to choose the best epoch by. Where
    samples are in groups, such as speakers, whole groups are kept, of about so many samples."""
    validation_groups: tuple[Annotated[Whole, Field(ge=0, lt=2**31)], ...] | None = Field(None, min_length=1)
    """The groups that protocol `holdout` keeps, by their numbers. Without it `split_seed` draws them."""
    test_share: Annotated[Real, Field(gt=0, lt=1)] = 0.2
    """The share of your own `file` that becomes the test set, where there is no `test_file`."""
    split_seed: Annotated[Whole, Field(ge=0, lt=2**32)] = 0
    """The seed that draws the held-out samples and the limits. It does not depend on `seed`."""
    repeat: Positive = 1
    """How often an epoch passes over the training samples."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.name is None) == (self.file is None):
            raise ValueError("give either data.name, a built-in set, or data.file, your own")
        for field in ("test_file", "kind", "time_unit", "sensor"):
            if self.file is None and getattr(self, field) is not None:
                raise ValueError(f"data.{field} belongs to your own data (data.file), but data.name is {self.name!r}")
        return self
