"""The samples of one file, and the options that files are read with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from bitspike.data.array_files import listed, open_arrays
from bitspike.data.events import Events
from bitspike.data.progress import Progress, silent
from bitspike.data.sample_columns import read_columns
from bitspike.data.samples import Samples
from bitspike.experiments.model_input import TimeUnit
from bitspike.experiments.predicting.trained_on import TrainedOn

ARRAY_FILES = (".npz", ".h5", ".hdf5", ".hdf")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How files are read: `invert` is for images, `seed` and `trim` for recordings, `time_unit` for events."""

    invert: bool = False
    seed: int = 0
    trim: bool = True
    time_unit: TimeUnit | None = None
    progress: Progress = silent


def require_time_unit(given: str | None) -> TimeUnit | None:
    """Return the unit of times that a person gave; raise unless it is one."""
    found = next((unit for unit in get_args(TimeUnit) if unit == given), None)
    if found is None and given is not None:
        raise ValueError(f"--time-unit must be s, ms or us, but is {given!r}")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class FileSamples:
    """The samples of a file, as the network takes them. `expected` has a class for each; None where none is known.

    `notes` are what a person should know. Of events, `missed` is the share of each sample that comes too late.
    """

    samples: Samples
    expected: list[int | None]
    notes: list[str] = field(default_factory=list)
    missed: list[float] = field(default_factory=list)
    events: Events | None = None


def arrays_in(path: Path) -> set[str]:
    """Return the names of the arrays in a file."""
    with open_arrays(path) as arrays:
        return set(arrays)


def require_array(path: Path, names: set[str], wanted: str, what: str) -> None:
    """Raise unless a file holds the array `wanted`; `what` is what the network takes."""
    if wanted not in names:
        raise ValueError(f"{path}: holds {listed(names)}, but the network takes {what}; write an array {wanted}")


def labels_of(path: Path, trained_on: TrainedOn, samples: int, names: set[str]) -> tuple[list[int | None], list[str]]:
    """Return the class of each sample by the file's labels, and a note about labels that are no class."""
    return (
        numbered(path, read_columns(path).labels.tolist(), trained_on) if "labels" in names else ([None] * samples, [])
    )


def numbered(path: Path, labels: Sequence[Any], trained_on: TrainedOn) -> tuple[list[int | None], list[str]]:
    """Return the class of each label, and a note about labels that are no class of the network."""
    found = trained_on.numbered(labels)
    strange = [label for label, number in zip(labels, found, strict=True) if number is None]
    if not strange:
        return found, []
    return found, [
        f"{path}: {len(strange)} of {len(labels)} labels are no class of the network (the first is {strange[0]!r}), "
        "and are not in the accuracy"
    ]


def require_sizes(path: Path, shape: tuple[int, ...], trained_on: TrainedOn, why: str = "") -> None:
    """Raise unless samples have the shape of the network's input."""
    if shape != trained_on.input_shape:
        raise ValueError(
            f"{path}: samples have the shape {list(shape)}, but the network was trained on {trained_on.title} with "
            f"{list(trained_on.input_shape)}{why}; give samples like those of its training"
        )
