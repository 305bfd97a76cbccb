"""Binning of events into frames: the number of events at each time step and place, stored only where it is not 0."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from bitspike.data.progress import Progress, silent
from bitspike.data.samples import Frames, frames
from bitspike.data.tally import COLUMNS, Tally

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

    Events before 0 are left out, and those from `steps * bin_us` or from `duration_us` on, whichever is sooner. A size
    that `downsample` does not divide loses the incomplete cells at its far border. `polarity` gives two channels where
    the events have one. Without `clip` counts go up to 255.
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
                f"Binning: downsample must be at most the sensor's size {list(events.sensor)}, but is "
                f"{self.downsample}; choose one that divides it"
            )
        if self.polarity and events.p is not None:
            return (2, *cells)
        return cells if events.y is None else (1, *cells)


@dataclass(frozen=True, slots=True)
class EventRule:
    """How events became frames: their `binning`, the size of the `sensor`, and the time from which bins count.

    That is the time of a sample's `first` event, or `zero` of its recording.
    """

    binning: Binning
    sensor: tuple[int, ...]
    origin: Literal["first", "zero"]


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

    def work(block: range) -> _Block:
        result = _bin_block(events, binning, block, shape)
        step()
        return result

    with ThreadPoolExecutor(max(1, workers)) as pool:
        parts = list(pool.map(work, blocks))
    columns = (
        np.concatenate([np.empty(0, dtype), *(getattr(part, name) for part in parts)])
        for name, dtype in (("index", np.int32), ("count", np.uint8), ("lengths", np.int64))
    )
    chosen = np.array(events.labels[rows.start : rows.stop], dtype=np.int64)
    index, count, lengths, labels = (torch.from_numpy(column) for column in (*columns, chosen))
    table = np.concatenate([np.empty((len(COLUMNS), 0), np.int64), *(part.table for part in parts)], axis=1)
    tally = Tally(
        binning.bin_us, binning.end_us, binning.downsample, binning.duration_us, *map(torch.from_numpy, table)
    )
    groups = None if events.groups is None else torch.from_numpy(events.groups[rows.start : rows.stop].astype(np.int64))
    rule = EventRule(binning, events.sensor, events.origin)
    return frames(index, count, lengths, labels, binning.steps, shape, tally, groups, rule)


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


@dataclass(frozen=True, slots=True)
class _Block:
    """The bins of a few samples, and the columns of their tally in the order of COLUMNS."""

    index: NDArray[np.int32]
    count: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    table: NDArray[np.int64]


def _bin_block(events: Events, binning: Binning, rows: range, shape: tuple[int, ...]) -> _Block:
    """Return the bins of a few samples: number every event's bin, sort, and count equal numbers."""
    import numpy as np

    offsets = events.offsets[rows.start : rows.stop + 1]
    here = slice(int(offsets[0]), int(offsets[-1]))
    t = events.t[here]
    place, inside = _place(events, binning, here, shape)
    before, after = t < 0, t >= binning.end_us
    kept = inside & ~before & ~after
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

    def of_each(events: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(sample[events], minlength=len(rows)).astype(np.int64)

    counted = np.diff(np.concatenate([[0], np.cumsum(count, dtype=np.int64)])[edges])
    last = np.zeros(len(rows), np.int64)
    np.maximum.at(last, sample, t)
    lost = (of_each(before), of_each(after), of_each(~(inside | before | after)), of_each(kept) - counted)
    return _Block(number, count, lengths, np.stack([np.diff(offsets), *lost, last]))


def _place(
    events: Events, binning: Binning, here: slice, shape: tuple[int, ...]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return each event's place in a frame of `shape`, and whether it has one."""
    import numpy as np

    columns = [("x", events.x, events.sensor[-1], shape[-1])]
    if events.y is not None:
        columns.insert(0, ("y", events.y, events.sensor[0], shape[-2]))
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


def _require_within(name: str, values: NDArray[np.integer], size: int) -> None:
    if not len(values):
        return
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= size:
        raise ValueError(
            f"bin_events: {name} must be in 0..{size - 1}, but goes over {low}..{high}; is the sensor right?"
        )


def _require_positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"Binning: {name} must be a whole number of at least 1, but is {value!r}")
