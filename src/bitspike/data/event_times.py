"""Times of events: whole microseconds, in the file's own time or from a sample's first event on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bitspike.data.array_checks import as_number, in_words, require_finite, require_flat

if TYPE_CHECKING:
    from numpy.typing import NDArray

MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
LOOKED_AT = 10_000  # events
COARSEST_US = 10_000  # between a time and the next one that its type can hold
LEAST_TIMES, KEPT_TIMES = 100, 0.02  # different times, and the share of them that stay different


def microseconds(where: Path | str, name: str, t: NDArray[Any], scale: int) -> NDArray[np.int64]:
    """Return t * scale as int64, whatever the type of `t [E]`; raise unless all are numbers within 2**53.

    Errors begin with `where` and call the times `name`.
    """
    require_flat(where, name, t)
    if t.dtype.kind not in "iuf":
        dates = f"; write {name}.astype('M8[us]').astype('int64'), in microseconds" if t.dtype.kind == "M" else ""
        raise ValueError(f"{where}: {name} must be numbers, but is {in_words(t.dtype)}{dates or as_number(name, t)}")
    require_finite(where, name, t)
    if len(t):
        low, high = t.min().item(), t.max().item()
        if max(abs(low), abs(high)) * scale > 2**53:
            raise ValueError(f"{where}: {name} must be numbers within 2**53 us, but ranges over {low}..{high}")
    if t.dtype.kind == "f":
        return np.rint(t.astype(np.float64) * scale).astype(np.int64)
    return np.asarray(t.astype(np.int64) * scale)


def require_different_times(
    where: Path | str, name: str, t: NDArray[Any], scale: int, *, option: str = "data.time_unit"
) -> None:
    """Raise if times are equal that should differ: by too small a unit, or as numbers with too few digits.

    The times `t [E]` are in units of `scale` microseconds; a person gives the unit as `option`.
    """
    if t.dtype.kind != "f" or not len(t):
        return
    largest = np.abs(t).max()
    distance = float(np.spacing(largest)) * scale
    if distance > COARSEST_US:
        raise ValueError(
            f"{where}: {name} is {t.dtype}, which holds a time of {largest:g} only to {distance / 1e6:.2g} s; write it "
            "as float64, or count from the beginning of the recording"
        )
    some = t[:LOOKED_AT]
    before, after = (len(np.unique(times)) for times in (some, microseconds(where, name, some, scale)))
    if before >= LEAST_TIMES and after < KEPT_TIMES * before:
        raise ValueError(
            f"{where}: {before:,} different times in {name} are only {after:,} in whole microseconds: "
            f"{option} is too small a unit; try 's' or 'ms'"
        )


def times_from_first(t: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return t minus the time of the first event of its sample; each sample must be sorted by time."""
    lengths = np.diff(offsets)
    first = np.repeat(t[offsets[:-1][lengths > 0]], lengths[lengths > 0])
    return np.subtract(t, first, out=first)
