"""The settings of data: which samples an experiment uses, and how events become frames. A TOML file can set each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from bitspike.config import Config, Positive, Real, Truth, Whole, shown

Share = Annotated[Real, Field(ge=0, lt=1)]
Above0 = Annotated[Real, Field(gt=0, le=1e9)]
MOST_NAME = 100  # characters


def _paths(value: object) -> object:
    """Return the value; raise an error in our words unless it is a path or a list of paths."""
    for each in value if isinstance(value, (list, tuple)) and value else [value]:
        if not isinstance(each, (str, Path)) or not str(each):
            raise ValueError(f"must be a path, a pattern or a list of them, but is {shown(value)}")
    return value


def _names(value: object) -> object:
    """Return the value; raise an error in our words unless it is a list of names."""
    for each in value if isinstance(value, (list, tuple)) and value else [None]:
        if not isinstance(each, str) or not each.isprintable() or not 1 <= len(each) <= MOST_NAME:
            raise ValueError(
                f"must be a list of texts, of 1 to {MOST_NAME} printable characters each, but is {shown(value)}"
            )
    return value


OneOrMore = Annotated[Path | tuple[Path, ...], BeforeValidator(_paths)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Group = Annotated[Whole, Field(ge=0, lt=2**31)] | Annotated[str, Field(min_length=1)]

FILES = ("file", "test_file", "validation_file")  # fields that hold paths
PATHS = tuple(f"data.{field}" for field in FILES)
BINNING = ("bin_ms", "steps", "test_steps", "downsample", "polarity", "clip", "duration_ms")  # fields for events


class DataConfig(Config):
    """The data of an experiment: a built-in set by `name`, or the user's own `file`; or samples passed from Python."""

    name: str | None = None
    """A built-in data set; `bitspike data list` shows them."""
    file: OneOrMore | None = None
    """Your own data: an npz or HDF5 file, a list of them, or a pattern such as `"rec-*.npz"`, whose files are sorted by
    name. Paths are relative to the TOML file."""
    test_file: OneOrMore | None = None
    """The test samples of your own data, given like `file`. Without it `test_share` of `file` is held out."""
    validation_file: OneOrMore | None = None
    """The samples that protocol `holdout` chooses the best epoch by, given like `file`. Without it `validation_share`
    of the training samples is held out."""
    passed: Annotated[str, Field(min_length=1)] | None = None
    """The name of samples that were passed from Python, by `bitspike.train_on`. No file holds them: a run's
    experiment.toml has this field, and the samples must be passed again."""
    kind: Literal["images", "events", "spikes"] | None = None
    """The kind of samples in `file`. If it is not given, the names of the file's arrays decide."""
    time_unit: Literal["s", "ms", "us"] | None = None
    """The unit of the events' times in `file`."""
    sensor: tuple[Positive, ...] | None = Field(None, min_length=1, max_length=2, examples=["[128, 128] or [64]"])
    """The sensor's size: height and width, or the number of units. Without it the events tell."""
    time_origin: Literal["first", "zero"] | None = None
    """The time from which bins count in `file`: that of a sample's `first` event (the default), which may well be
    noise, or time `zero` of its recording."""
    class_names: Names | None = None
    """The names of the classes in `file`, in the order of their labels. Without it a class is called by its label."""
    groups: Literal["array", "file"] | None = None
    """The samples of `file` that no split divides: those with the same entry of the array `groups` (the default, where
    the file has one), or those of one `file` of a list."""

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
    """Use only so many training samples, drawn with `split_seed`; of your own data, a share of every class."""
    test_limit: Positive | None = None
    """Use only so many test samples, drawn with `split_seed`; of your own data, a share of every class."""
    validation_share: Share = 0.1
    """The share of training samples, in each class, that protocol `holdout` keeps to choose the best epoch by. Where
    samples are in groups, such as speakers, whole groups are kept, of about so many samples."""
    validation_groups: tuple[Group, ...] | None = Field(None, min_length=1, examples=["[3, 6]"])
    """The groups that protocol `holdout` keeps, by their numbers or names. Without it `split_seed` draws them."""
    test_share: Annotated[Real, Field(gt=0, lt=1)] = 0.2
    """The share of your own `file` that becomes the test set, where there is no `test_file`."""
    split_seed: Annotated[Whole, Field(ge=0, lt=2**32)] = 0
    """The seed that draws the held-out samples and the limits. It does not depend on `seed`."""
    repeat: Positive = 1
    """How often an epoch passes over the training samples."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [field for field in ("name", "file", "passed") if getattr(self, field) is not None]
        if len(given) != 1:
            raise ValueError("give either data.name, a built-in set, or data.file, your own")
        for field in (*FILES[1:], "kind", "time_unit", "sensor", "time_origin", "class_names", "groups"):
            if self.file is None and getattr(self, field) is not None:
                raise ValueError(
                    f"data.{field} belongs to your own data (data.file), but data.{given[0]} is "
                    f"{getattr(self, given[0])!r}"
                )
        return self

    @model_validator(mode="after")
    def _passed_as_they_are(self) -> Self:
        for field in (*BINNING, "keep", "train_limit", "test_limit", "test_share") if self.passed is not None else ():
            # a run's experiment.toml holds the defaults, too
            if getattr(self, field) != type(self).model_fields[field].default:
                raise ValueError(
                    f"data.{field} has no meaning for samples that are passed from Python, which are taken as they "
                    "are; leave it out"
                )
        return self

    @model_validator(mode="after")
    def _no_share_beside_a_file(self) -> Self:
        shares = {"validation_file": ("validation_share", "validation_groups"), "test_file": ("test_share",)}
        for file, fields in shares.items():
            for field in fields if getattr(self, file) is not None else ():
                value = getattr(self, field)
                given = value is not None and field in self.model_fields_set and not self._holds_defaults()
                if given or value != type(self).model_fields[field].default:
                    raise ValueError(
                        f"data.{field} has no meaning beside data.{file}, which holds all of these samples; leave one "
                        "of them out"
                    )
        return self

    def _holds_defaults(self) -> bool:
        """Return whether these are the values of a run's experiment.toml, which holds the defaults, too."""
        return {"validation_share", "test_share", "split_seed"} <= self.model_fields_set
