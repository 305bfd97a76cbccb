"""The catalog's entry for a data set: its files, its classes, and how its samples are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bitspike.data.known_files import File
from bitspike.data.progress import Progress

if TYPE_CHECKING:
    from bitspike.data.events import Events
    from bitspike.data.samples import Dataset, Images

UNKNOWN = "local copy, checksum not known"


@dataclass(frozen=True, slots=True)
class Found:
    """A data set on this machine; `files` has the catalog's name of each file, whichever form of it is here.

    `fingerprint` changes whenever the files do.
    """

    name: str
    title: str
    edition: str
    folder: Path
    files: Mapping[str, Path]
    fingerprint: str

    def train_and_test(self) -> tuple[Path, Path]:
        """Return the training and the test file, for a set with one file of each, named by `train` and `test`."""
        train, test = (next(path for name, path in self.files.items() if part in name) for part in ("train", "test"))
        return train, test


@dataclass(frozen=True, slots=True)
class Edition:
    """One set of files that makes up the data set.

    Where the checksums are not known, `read` reads all of the files, and raises an error if it cannot.
    """

    name: str
    files: tuple[File, ...]
    title: str = ""  # if it must not have the data set's own title
    read: Callable[[Mapping[str, Path]], object] | None = None


# ---- How samples are made. Readers import what they need (torch, h5py) when they are called.


@dataclass(frozen=True, slots=True)
class ImageSource:
    """The source of a data set of images. `read` gives those for training and those for testing."""

    read: Callable[[Found], tuple[Images, Images]]


@dataclass(frozen=True, slots=True)
class EventSource:
    """The source of a data set of events. `read` gives those for training and those for testing.

    The fields from `bin_ms` to `polarity` say how events become frames; an experiment's [data] table may say otherwise.
    The last three say what a new file must be like to be read as the set's own are.
    """

    read: Callable[[Found, Progress], tuple[Events, Events]]
    bin_ms: float
    steps: int
    test_steps: int | None = None  # of a test sample, if it has another length
    downsample: int = 1
    polarity: bool = True
    sensor: tuple[int, ...] | None = None  # (height, width), or (units,)
    origin: Literal["zero", "first"] = "first"  # bins count from time 0, or from a sample's first event
    time_unit: Literal["s", "ms", "us"] | None = None  # of an array `t`


@dataclass(frozen=True, slots=True)
class SeedSource:
    """The source of a data set without files: a seed draws its samples."""

    draw: Callable[[int], Dataset]


@dataclass(frozen=True, slots=True)
class Entry:
    """A data set of the catalog. Editions are in the order of preference; a set without editions is built in.

    `folders` are the names of folders in which copies lie. `page` is where a person gets the files if no mirror has
    them. `labels` says what a label is: a class, or the time step at which the output should fire. `group_names` says
    what groups the samples are in, such as "speakers", which a split never divides; empty if they are in none.
    `class_names` has a name for each class, by its label; it is empty where the set gives none.
    """

    name: str
    title: str
    what: str
    licence: str
    homepage: str
    citation: str
    classes: int
    source: ImageSource | EventSource | SeedSource
    labels: Literal["classes", "times"] = "classes"
    folders: tuple[str, ...] = (".",)
    editions: tuple[Edition, ...] = ()
    page: str = ""
    group_names: str = ""
    class_names: tuple[str, ...] = ()

    @property
    def drawn_from_seed(self) -> bool:
        """True if each seed has its own samples; else all seeds share the same samples."""
        return isinstance(self.source, SeedSource)
