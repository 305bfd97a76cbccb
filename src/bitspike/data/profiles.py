"""Profiles of data: what a person wants to see of each split before training. Samples in, numbers out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bitspike.data.duplicates import count_repeated, sample_digests
from bitspike.data.samples import Dataset, Frames, Images, Samples

MOST_EVENTS = 95  # percent; "events are over" at the step by which so many have come
BLOCK_BINS = 2**22


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

    `by_step [T]` and `by_channel [*shape]` are the mean numbers of events of a sample. `steps_used` is how many steps
    of a sample hold events; `over_at` is the number of steps in which 95 % of all events come. `lost` has the share of
    the events that are in no bin, by the reason, `longer` the share of the samples that lose events after the last bin
    (both None where the samples were not binned here). `empty` counts the samples without events.
    """

    per_sample: Spread
    by_step: Tensor
    by_channel: Tensor
    steps_used: Spread
    over_at: int
    empty: int
    largest_count: int
    lost: Mapping[str, float] | None = None
    longer: float | None = None
    duration_ms: Spread | None = None
    bin_ms: float | None = None
    cut_ms: float | None = None  # where bins end before the last step is over: data.duration_ms

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
    def busiest(self) -> tuple[int, float]:
        """The channel with the most events, and its share of all events."""
        flat = self.by_channel.flatten()
        return int(flat.argmax()), float(flat.max() / flat.sum().clamp(min=1e-300))


@dataclass(frozen=True, slots=True)
class ImageProfile:
    """Figures of the images of a split: the type of a pixel, the range of pixels, and how many images are blank."""

    dtype: str
    low: float
    high: float
    mean: float
    empty: int


@dataclass(frozen=True, slots=True)
class SplitProfile:
    """Figures of one split: how many samples of each class, its groups, and its events or images.

    `repeated` counts the samples that are also training samples, equal in all their bins or pixels.
    """

    samples: int
    by_class: tuple[int, ...]
    groups: tuple[int | str, ...] | None
    events: EventProfile | None
    images: ImageProfile | None
    repeated: int = 0

    @property
    def majority(self) -> tuple[int, float]:
        """The class with the most samples, and its share of the samples."""
        most = max(range(len(self.by_class)), key=self.by_class.__getitem__)
        return most, self.by_class[most] / max(self.samples, 1)

    @property
    def empty(self) -> int:
        """The number of samples without events, or of blank images."""
        return self.events.empty if self.events is not None else self.images.empty if self.images is not None else 0


@dataclass(frozen=True, slots=True)
class Profile:
    """Figures of a data set, split by split: `splits` has "train", "test" and perhaps "valid".

    Examples:
        >>> import torch
        >>> import bitspike
        >>> from bitspike.data.samples import frames_from_dense
        >>> samples = frames_from_dense(torch.ones(4, 10, 3), torch.tensor([0, 0, 0, 1]))
        >>> shown = bitspike.data.profile(bitspike.data.Dataset("mine", "Mine", 2, samples, samples))
        >>> shown.splits["train"].by_class, shown.splits["train"].events.per_sample.median
        ((3, 1), 30.0)
        >>> shown.splits["test"].repeated  # all test samples are training samples
        4
    """

    title: str
    shape: tuple[int, ...]
    class_names: tuple[str, ...]
    group_names: str
    splits: Mapping[str, SplitProfile]


def profile(data: Dataset, splits: Mapping[str, Samples] | None = None) -> Profile:
    """Return what `data` holds, split by split; `findings` tells what looks like a mistake.

    `splits` are the samples by the name of their split, "train" and "test" at least, where they are not those of
    `data`: so does an experiment that holds some training samples out for validation.

    Examples:
        >>> import bitspike
        >>> shown = bitspike.data.profile(bitspike.data.load("coding"))
        >>> shown.splits["train"].samples, shown.splits["train"].events.steps
        (1, 100)
    """
    if splits is None:
        splits = {"train": data.train} | ({} if data.valid is None else {"valid": data.valid}) | {"test": data.test}
    splits = {name: samples.to("cpu") for name, samples in splits.items()}
    known = sample_digests(splits["train"])
    profiles = {}
    for name, samples in splits.items():
        repeated = 0 if name == "train" else count_repeated(sample_digests(samples), known)
        profiles[name] = _split(samples, data, repeated)
    return Profile(data.title, data.shape, data.class_names, data.group_names, profiles)


def _split(samples: Samples, data: Dataset, repeated: int) -> SplitProfile:
    """Return the profile of one split."""
    # labels beyond the classes are not classes, but times
    by_class = tuple(torch.bincount(samples.labels, minlength=data.classes)[: data.classes].tolist())
    groups: tuple[int | str, ...] | None = None
    if samples.groups is not None:
        numbers = samples.groups.unique().tolist()
        groups = tuple(data.group_labels[group] if data.group_labels else group for group in numbers)
    return SplitProfile(
        len(samples),
        by_class,
        groups,
        _events(samples) if isinstance(samples, Frames) else None,
        _images(samples) if isinstance(samples, Images) else None,
        repeated,
    )


def count_empty(samples: Samples) -> int:
    """Return how many samples have no event in any bin, or are images with the same value everywhere."""
    if isinstance(samples, Images):
        flat = samples.values.flatten(1)
        return int((flat.amin(1) == flat.amax(1)).sum())
    return int((samples.lengths == 0).sum())


def _images(samples: Images) -> ImageProfile:
    """Return the profile of images."""
    flat = samples.values.flatten(1)
    total = sum(float(part.sum(dtype=torch.float64)) for part in flat.split(4096))
    kind = str(flat.dtype).removeprefix("torch.")
    return ImageProfile(kind, float(flat.min()), float(flat.max()), total / flat.numel(), count_empty(samples))


def _events(samples: Frames) -> EventProfile:
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
    timed = tally is not None and bool(tally.given.any())
    return EventProfile(
        per_sample=Spread.of(per_sample),
        by_step=by_step.double() / count,
        by_channel=(by_bin.sum(0).double() / count).view(samples.shape),
        steps_used=Spread.of(steps_used),
        over_at=int(come.int().argmax()) + 1 if int(by_step.sum()) else 0,
        empty=count_empty(samples),
        largest_count=largest,
        lost=None if tally is None else tally.shares(),
        longer=None if tally is None else float((tally.after > 0).double().mean()),
        duration_ms=Spread.of(tally.last_us[tally.given > 0].double() / 1000) if tally is not None and timed else None,
        bin_ms=None if tally is None else tally.bin_us / 1000,
        cut_ms=None if tally is None or tally.end_us >= tally.bin_us * samples.steps else tally.end_us / 1000,
    )


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
