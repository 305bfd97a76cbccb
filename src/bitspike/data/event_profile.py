"""Figures of the events of a split: how many there are, where and when, and how many are in no bin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bitspike.data.frames import Frames

MOST_EVENTS = 95  # percent; "events are over" at the step by which so many have come
BLOCK_BINS = 2**22
HOT_TIMES = 5  # what a hot channel has of the 95th percentile of all channels that have events
FEWEST_CHANNELS = 20  # for which such a percentile means something


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of a number over samples, with the 5th and the 95th percentile."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Tensor) -> Spread:
        """Return the spread of `values [N]`; of each percentile the value itself, without interpolation."""
        ordered = values.double().sort().values
        return cls(*(float(ordered[round(share * (len(ordered) - 1))]) for share in (0.5, 0.05, 0.95)))


@dataclass(frozen=True, slots=True)
class EventProfile:
    """Figures of the events of a split; only events in bins count, but for `lost` and `duration_ms`.

    `by_step [T]` and `by_channel [*shape]` are the mean numbers of events of a sample. `begins` is the step of a
    sample's first event, from 0 on. `steps_used` is how many of its steps hold events; `over_at` is the number of steps
    in which 95 % of all events come. `lost` has the share of the events that are in no bin, by the reason, `longer` the
    share of the samples that lose events after the last bin (both None where the samples were not binned here).
    `longest_ms` is the duration of the longest sample. `empty` counts the samples without events. A cell's side is
    `downsample` pixels.
    """

    per_sample: Spread
    by_step: Tensor = field(repr=False)
    by_channel: Tensor = field(repr=False)
    begins: Spread
    steps_used: Spread
    over_at: int
    empty: int
    largest_count: int
    lost: Mapping[str, float] | None = None
    longer: float | None = None
    duration_ms: Spread | None = None
    longest_ms: float | None = None
    bin_ms: float | None = None
    cut_ms: float | None = None  # data.duration_ms, where bins end there
    downsample: int = 1

    @property
    def steps(self) -> int:
        """The number of time steps."""
        return len(self.by_step)

    @property
    def per_step(self) -> Spread:
        """The mean events of a sample in a step, over the steps."""
        return Spread.of(self.by_step)

    @property
    def per_channel(self) -> Spread:
        """The mean events of a sample in a channel, over the channels."""
        return Spread.of(self.by_channel.flatten())

    @property
    def left_out(self) -> float:
        """The share of all events that are in no bin."""
        return sum((self.lost or {}).values())

    @property
    def silent_channels(self) -> float:
        """The share of the channels that no sample has an event in."""
        return float((self.by_channel == 0).double().mean())

    @property
    def silent(self) -> list[int]:
        """The channels that no sample has an event in, as places in `by_channel.flatten()`."""
        places: list[int] = (self.by_channel.flatten() == 0).nonzero().flatten().tolist()
        return places

    @property
    def hot(self) -> list[int]:
        """The channels with more than five times the events of 95 % of the channels, the busiest first.

        Channels without events do not count among the 95 %. Of fewer than 20 channels none is hot.
        """
        flat = self.by_channel.flatten()
        active = flat[flat > 0]
        if len(active) < FEWEST_CHANNELS:
            return []
        found = (flat > HOT_TIMES * Spread.of(active).high).nonzero().flatten()
        places: list[int] = found[flat[found].argsort(descending=True, stable=True)].tolist()
        return places

    def shares(self, channels: Sequence[int]) -> list[float]:
        """Return the share of all events that each of some channels has."""
        flat = self.by_channel.flatten()
        shares: list[float] = (flat[list(channels)] / flat.sum().clamp(min=1e-300)).tolist()
        return shares

    @property
    def busiest(self) -> tuple[int, float]:
        """The channel with the most events, and its share of all events."""
        flat = self.by_channel.flatten()
        return int(flat.argmax()), float(flat.max() / flat.sum().clamp(min=1e-300))


def event_profile(samples: Frames) -> EventProfile:
    """Return the profile of binned events."""
    size, count = torch.Size(samples.shape).numel(), len(samples)
    by_bin = torch.zeros(samples.steps * size, dtype=torch.int64, device="cpu")
    per_sample = torch.zeros(count, dtype=torch.int64, device="cpu")
    steps_used = torch.zeros(count, dtype=torch.int64, device="cpu")
    largest = 0
    for rows, sample, index, events in _blocks(samples):
        by_bin.index_add_(0, index, events)
        per_sample.index_add_(0, sample, events)
        used = torch.zeros(len(rows), samples.steps, dtype=torch.bool, device="cpu")
        used[sample - rows.start, index // size] = True
        steps_used[rows.start : rows.stop] = used.sum(1)
        largest = max(largest, int(events.max()) if len(events) else 0)
    by_bin = by_bin.view(samples.steps, size)
    by_step = by_bin.sum(1)
    come = by_step.cumsum(0) * 100 >= MOST_EVENTS * by_step.sum()
    tally = samples.tally
    durations = None if tally is None or not bool(tally.given.any()) else tally.last_us[tally.given > 0].double() / 1000
    return EventProfile(
        per_sample=Spread.of(per_sample),
        by_step=by_step.double() / count,
        by_channel=(by_bin.sum(0).double() / count).view(samples.shape),
        begins=Spread.of(_first_bins(samples) // size),
        steps_used=Spread.of(steps_used),
        over_at=int(come.int().argmax()) + 1 if int(by_step.sum()) else 0,
        empty=count_silent(samples),
        largest_count=largest,
        lost=None if tally is None else tally.shares(),
        longer=None if tally is None else float((tally.after > 0).double().mean()),
        duration_ms=None if durations is None else Spread.of(durations),
        longest_ms=None if durations is None else float(durations.max()),
        bin_ms=None if tally is None else tally.bin_us / 1000,
        cut_ms=None if tally is None or tally.end_us != tally.duration_us else tally.end_us / 1000,
        downsample=1 if tally is None else tally.downsample,
    )


def channel_name(channel: int, shape: Sequence[int]) -> str:
    """Return the name of a channel by its place in samples of `shape`: "3", or "(1, 17, 11)" of a camera."""
    place: list[int] = []
    for size in reversed(shape):
        channel, at = divmod(channel, size)
        place.insert(0, at)
    return str(place[0]) if len(place) == 1 else str(tuple(place))


def is_camera(shape: Sequence[int]) -> bool:
    """Return whether channels are the pixels of a camera, and not a row."""
    return len(shape) == 3 and min(shape[1:]) > 1


def camera_words(shape: Sequence[int], downsample: int) -> str:
    """Return what the numbers in the name of a camera's channel mean, in brackets; an empty text for a row."""
    squares = f", in squares of {downsample} pixels" if downsample > 1 else ""
    return f" (polarity, row, column{squares})" if is_camera(shape) else ""


def count_silent(samples: Frames) -> int:
    """Return how many samples have no event in any bin."""
    return int((samples.lengths == 0).sum())


def _first_bins(samples: Frames) -> Tensor:
    """Return the index of the first bin of each sample that has one; a single 0 where none has."""
    held = samples.lengths > 0
    return samples.index[samples.starts[held]] if held.any() else torch.zeros(1, dtype=torch.int32, device="cpu")


def _blocks(samples: Frames) -> Iterator[tuple[range, Tensor, Tensor, Tensor]]:
    """Yield ranges of samples, and of each of their bins the sample, the index and the number of events."""
    lengths, starts = samples.lengths, samples.starts
    at = 0
    while at < len(lengths):
        held = lengths[at:].cumsum(0)
        end = at + max(int((held <= BLOCK_BINS).sum()), 1)
        here = lengths[at:end]
        sample = torch.repeat_interleave(torch.arange(at, end, device="cpu"), here)
        first = here.cumsum(0) - here
        bins = torch.arange(len(sample), device="cpu") + (starts[at:end] - first)[sample - at]
        yield range(at, end), sample, samples.index[bins].long(), samples.count[bins].long()
        at = end
