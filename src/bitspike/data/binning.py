"""Binning of events into frames: the number of events at each time step and place, stored only where it is not 0."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from bitspike.data.progress import Progress, silent
from bitspike.data.samples import Frames, frames

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bitspike.data.events import Events

MOST_COUNT = 255
MOST_BINS = 2**31 - 1
BLOCK_EVENTS = 2**21


@dataclass(frozen=True, slots=True)
class Binning:
    """An event at time t and place x counts in step t // bin_us and place x // downsample; at most `clip` count.

    Events from `steps * bin_us` or from `duration_us` on are left out, whichever is sooner. A size that `downsample`
    does not divide loses the incomplete cells at its far border. `polarity` gives two channels where the events have
    one. Without `clip` counts go up to 255.
    """

    bin_us: int
    steps: int
    downsample: int = 1
    polarity: bool = True
    clip: int | None = None
    duration_us: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("bin_us", self.bin_us), ("steps", self.steps), ("downsample", self.downsample)):
            _require_positive(name, value)
        if self.duration_us is not None:
            _require_positive("duration_us", self.duration_us)
        if self.clip is not None and not 1 <= self.clip <= MOST_COUNT:
            raise ValueError(f"Binning: clip must be in 1..{MOST_COUNT} or None, but is {self.clip!r}")

    @property
    def end_us(self) -> int:
        """The time at which frames end; later events are left out."""
        end = self.steps * self.bin_us
        return end if self.duration_us is None else min(end, self.duration_us)

    def shape(self, events: Events) -> tuple[int, ...]:
        """Return the shape of one frame: `(2 or 1, H/d, W/d)`; for a line of units `(units/d,)` or `(2, units/d)`."""
        cells = tuple(size // self.downsample for size in events.sensor)
        if min(cells) < 1:
            raise ValueError(
                f"Binning: downsample must be at most the sensor's size {events.sensor}, but is {self.downsample}"
            )
        if self.polarity and events.p is not None:
            return (2, *cells)
        return cells if events.y is None else (1, *cells)


def bin_events(
    events: Events,
    binning: Binning,
    rows: range | None = None,
    *,
    workers: int = 1,
    progress: Progress = silent,
) -> Frames:
    """Return frames of the samples `rows` (default: all), each sample's bins in the order of their index.

    Blocks of samples are binned on `workers` threads: sorting takes most of the time, and runs in parallel.
    """
    import numpy as np

    rows = range(len(events)) if rows is None else rows
    if rows and (rows.step != 1 or rows[0] < 0 or rows[-1] >= len(events)):
        raise ValueError(f"bin_events: rows must be a range of step 1 within 0..{len(events)}, but is {rows}")
    shape = binning.shape(events)
    bins = binning.steps * math.prod(shape)
    if bins > MOST_BINS:
        raise ValueError(
            f"bin_events: {binning.steps} steps of {shape} are {bins} bins, more than the {MOST_BINS} that can be "
            "numbered; take longer bins, fewer steps or a larger downsample"
        )
    blocks = list(_blocks(events, rows, bins))
    step = progress("binning events", len(blocks))

    def work(block: range) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int64]]:
        result = _bin_block(events, binning, block, shape)
        step()
        return result

    with ThreadPoolExecutor(max(1, workers)) as pool:
        parts = list(pool.map(work, blocks))
    columns = (
        np.concatenate([np.empty(0, dtype), *(part[column] for part in parts)])
        for column, dtype in enumerate((np.int32, np.uint8, np.int64))
    )
    chosen = np.array(events.labels[rows.start : rows.stop], dtype=np.int64)
    index, count, lengths, labels = (torch.from_numpy(column) for column in (*columns, chosen))
    given = int(events.offsets[rows.stop] - events.offsets[rows.start]) if rows else 0
    left_out = 1 - int(count.sum(dtype=torch.int64)) / given if given else 0.0
    groups = None if events.groups is None else torch.from_numpy(events.groups[rows.start : rows.stop].astype(np.int64))
    return frames(index, count, lengths, labels, binning.steps, shape, left_out, groups)


def _blocks(events: Events, rows: range, bins: int) -> Iterator[range]:
    """Yield ranges of `rows` with about BLOCK_EVENTS events each, whose bins can be numbered in 32 bits."""
    import numpy as np

    at = rows.start
    most = max(1, MOST_BINS // bins)
    while at < rows.stop:
        full = int(np.searchsorted(events.offsets, events.offsets[at] + BLOCK_EVENTS, side="right")) - 1
        end = min(max(full, at + 1), at + most, rows.stop)
        yield range(at, end)
        at = end


def _bin_block(
    events: Events, binning: Binning, rows: range, shape: tuple[int, ...]
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int64]]:
    """Return index, count and lengths of a few samples: number every event's bin, sort, and count equal numbers."""
    import numpy as np

    offsets = events.offsets[rows.start : rows.stop + 1]
    here = slice(int(offsets[0]), int(offsets[-1]))
    t = events.t[here]
    place, kept = _place(events, binning, here, shape)
    kept &= t < binning.end_us
    sample = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(offsets))
    size = math.prod(shape)
    # Events that are left out may overflow here; they are gone before the number is used.
    number = (sample * binning.steps + (t // binning.bin_us).astype(np.int32)) * size + place
    # Events come in the order of time, so the numbers are nearly sorted: a merge is twice as fast as quicksort here.
    number = np.sort(number[kept], kind="stable")
    first = np.flatnonzero(np.diff(number, prepend=-1))
    count = np.minimum(np.diff(first, append=len(number)), binning.clip or MOST_COUNT).astype(np.uint8)
    number, bins = number[first], binning.steps * size
    edges = np.searchsorted(number, np.arange(len(rows) + 1, dtype=np.int32) * bins)
    lengths = np.diff(edges).astype(np.int64)
    number -= np.repeat(np.arange(len(rows), dtype=np.int32) * bins, lengths).astype(np.int32)
    return number, count, lengths


def _place(
    events: Events, binning: Binning, here: slice, shape: tuple[int, ...]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return each event's place in a frame of `shape`, and whether it has one."""
    import numpy as np

    columns = [("x", events.x, events.sensor[-1], shape[-1])]
    if events.y is not None:
        columns.insert(0, ("y", events.y, events.sensor[0], shape[-2]))
    _require_within("t", events.t[here], None)
    place = np.zeros(here.stop - here.start, dtype=np.int32)
    kept = np.ones(len(place), dtype=bool)
    if events.p is not None:
        _require_within("p", events.p[here], 2)
        if binning.polarity:
            place += events.p[here]
    for name, column, sensor, cells in columns:
        _require_within(name, column[here], sensor)
        values = column[here].astype(np.int32)
        if binning.downsample > 1:
            values //= binning.downsample
        if cells * binning.downsample < sensor:
            kept &= values < cells
        place *= cells
        place += values
    return place, kept


def _require_within(name: str, values: NDArray[np.integer], size: int | None) -> None:
    if not len(values):
        return
    low, high = int(values.min()), int(values.max())
    if low < 0 or (size is not None and high >= size):
        bound = "at least 0" if size is None else f"in 0..{size - 1}"
        raise ValueError(f"bin_events: {name} must be {bound}, but goes over {low}..{high}; is the sensor right?")


def _require_positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"Binning: {name} must be a whole number of at least 1, but is {value!r}")
