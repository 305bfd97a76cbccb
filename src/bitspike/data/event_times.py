"""Times of events: whole microseconds, in the file's own time or from a sample's first event on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bitspike.data.array_checks import require_finite, require_flat

if TYPE_CHECKING:
    from numpy.typing import NDArray

MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
LOOKED_AT = 10_000  # events
LEAST_TIMES, KEPT_TIMES = 100, 0.02  # different times, and the share of them that stay different


def microseconds(where: Path | str, name: str, t: NDArray[Any], scale: int) -> NDArray[np.int64]:
    """Return t * scale as int64, whatever the type of `t [E]`; raise unless all are numbers within 2**53.

    Errors begin with `where` and call the times `name`.
    """
    require_flat(where, name, t)
    if t.dtype.kind not in "iuf":
        raise ValueError(f"{where}: {name} must be numbers, but is {t.dtype}")
    require_finite(where, name, t)
    if len(t):
        low, high = t.min().item(), t.max().item()
        if max(abs(low), abs(high)) * scale > 2**53:
            raise ValueError(f"{where}: {name} must be numbers within 2**53 us, but ranges over {low}..{high}")
    if t.dtype.kind == "f":
        return np.rint(t.astype(np.float64) * scale).astype(np.int64)
    return np.asarray(t.astype(np.int64) * scale)


def require_different_times(where: Path | str, name: str, given: NDArray[Any], t: NDArray[np.int64]) -> None:
    """Raise if times that differ in the file become equal in whole microseconds `t [E]`: their unit is too small."""
    if given.dtype.kind != "f":
        return
    before, after = (len(np.unique(times[:LOOKED_AT])) for times in (given, t))
    if before >= LEAST_TIMES and after < KEPT_TIMES * before:
        raise ValueError(
            f"{where}: {before:,} different times in {name} are only {after:,} in whole microseconds, so that "
            "data.time_unit is too small; try 's' or 'ms'"
        )


def times_from_first(t: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return t minus the time of the first event of its sample; each sample must be sorted by time."""
    lengths = np.diff(offsets)
    first = np.repeat(t[offsets[:-1][lengths > 0]], lengths[lengths > 0])
    return np.subtract(t, first, out=first)
