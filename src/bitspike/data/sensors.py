"""The size of a sensor: given, or found from its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEW = 0.001  # a share of the events that may be damaged
FAR = 8  # times as far out as all other events
LEAST = 64  # a smaller sensor does no harm


def sensor_size(
    path: Path | str,
    columns: Mapping[str, NDArray[Any]],
    offsets: NDArray[np.int64],
    given: tuple[int, ...] | None,
    *,
    option: str = "data.sensor",
) -> tuple[int, ...]:
    """Return the size of the sensor, (height, width) or (units,): the `given` one, else found from `x` and `y [E]`.

    Raise if the given size is too small, or if the found one is large because of a few events far from all others.
    Errors begin with `path`, and call the size that a person may give `option`.
    """
    names = [name for name in ("y", "x") if name in columns]
    found = tuple(int(columns[name].max()) + 1 if len(columns[name]) else 1 for name in names)
    if given is None:
        for name, size in zip(names, found, strict=True):
            _refuse_far_events(path, name, columns[name], offsets, size, f"{option} = {list(found)}")
        return found
    if len(given) != len(names):
        why = f"these events have {'x and y' if len(names) == 2 else 'x and no y'}"
        raise ValueError(
            f"{path}: sensor must be {_wanted(names)}, at least {list(found)}, but is {list(given)}: {why}; give "
            f"{option} = {list(found)}"
        )
    for name, size, need in zip(names, given, found, strict=True):
        if size < need:
            swapped = len(given) == 2 and given[0] >= found[1] and given[1] >= found[0]
            remedy = "; are x and y in the wrong order?" if swapped else _one_based(columns[name], size)
            raise ValueError(
                f"{path}: sensor must be {_wanted(names)}, at least {list(found)} for these events, but is "
                f"{list(given)}: {_largest(name, columns[name], offsets)}{remedy or f'; give {option} = {list(found)}'}"
            )
    return tuple(given)


def _wanted(names: Sequence[str]) -> str:
    return "[height, width]" if len(names) == 2 else "[units]"


def _refuse_far_events(
    path: Path | str, name: str, values: NDArray[Any], offsets: NDArray[np.int64], size: int, setting: str
) -> None:
    """Raise if all but a few events lie in the first eighth of the found size; `setting` would let them pass."""
    if size < LEAST:
        return
    far = values >= size // FAR
    count = int(np.count_nonzero(far))
    if count <= FEW * len(values):
        raise ValueError(
            f"{path}: {_largest(name, values, offsets)}, but all except {count} of {len(values):,} events have "
            f"{name} <= {values[~far].max()}; leave the far events out, or give {setting} if they are right"
        )


def _largest(name: str, values: NDArray[Any], offsets: NDArray[np.int64]) -> str:
    """Return the largest coordinate in words, and the sample of its first event."""
    event = int(values.argmax())
    sample = int(np.searchsorted(offsets, event, side="right")) - 1
    return f"the largest {name} is {values[event]} (event {event} of all, in sample {sample})"


def _one_based(values: NDArray[Any], size: int) -> str:
    """Return advice where coordinates seem to count from 1; else an empty text."""
    counts_from_1 = int(values.max()) == size and int(values.min()) >= 1
    return "; coordinates count from 0, so subtract 1" if counts_from_1 else ""
