"""Mistakes in data: what looks like one, with the figure that shows it and what to do about it.

Each rule is a function of a profile. The thresholds are the constants below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bitspike.data.profiles import EventProfile, Profile

FEW_STEPS = 0.05  # the share of the steps in which nearly all events come, if the time unit is too small
LEAST_STEPS = 4  # fewer steps may well hold all events in the first
UNUSED_STEPS = 0.5  # the share of the steps that hold nearly no events, at the end
MOST_LATE = 0.5  # the share of the events after the last bin, if the time unit is too large
SOME_LOST = 0.01  # the share of the events that may be lost for one reason without a word
SOME_CLIPPED = 0.05
OTHER_LOSS = 0.05  # the share of the events that the test split may lose more than the training split
DEAD_CHANNELS = 0.1  # the share of channels in a row without any event
DEAD_PIXELS = 0.5  # the same for a camera, whose corners often see nothing
DOMINANT = 0.5  # the share of all events in one channel
HOT, HOT_TIMES = 0.05, 20  # the same where there are many channels: a share, and so many times the mean channel's
IMBALANCE = 3.0  # samples of the largest class for each sample of the smallest
ABOVE_EVEN = 1.5  # the largest class's share, in shares of a class in a balanced set
MOST_NAMES = 8  # that one line lists


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that looks like a mistake in the data.

    `cause` is a short fixed name, `where` the split, `evidence` the figures in words, `remedy` what to do.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> from bitspike.data.samples import frames_from_dense
        >>> samples = frames_from_dense(torch.ones(4, 10, 3), torch.arange(4) % 2)
        >>> shown = bitspike.data.profile(bitspike.data.Dataset("mine", "Mine", 2, samples, samples))
        >>> [finding.cause for finding in bitspike.data.findings(shown)]
        ['repeated samples']
    """

    cause: str
    where: str
    evidence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.evidence}; {self.remedy}"


def findings(profile: Profile) -> list[Finding]:
    """Return what looks like a mistake in the data: an empty list if nothing does.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> train, test = (bitspike.data.Images(torch.rand(9, 1, 8, 8), torch.arange(9) % n) for n in (3, 2))
        >>> data = bitspike.data.Dataset("mine", "Mine", 3, train, test, class_names=("cat", "cow", "dog"))
        >>> for finding in bitspike.data.findings(bitspike.data.profile(data)):
        ...     print(finding)
        class dog (of 3) has no test sample; the result says nothing about what is missing
    """
    return [finding for rule in RULES for finding in rule(profile)]


# ---- Time


def _time_too_short(profile: Profile) -> Iterator[Finding]:
    """Nearly all events come in the first few steps: the unit of time is too small, or bins are too long."""
    events = profile.splits["train"].events
    if events is None or events.steps < LEAST_STEPS or not events.over_at:
        return
    if events.over_at <= max(1, FEW_STEPS * events.steps):
        share = float(events.by_step[: events.over_at].sum() / events.by_step.sum())
        first = "first step" if events.over_at == 1 else f"first {events.over_at} steps"
        evidence = f"{share:.1%} of the training events come in the {first} of {events.steps}{_lasting(events)}"
        yield Finding("time too short", "train", evidence, f"check data.time_unit{_other_bins(events)}")
    elif events.over_at <= (1 - UNUSED_STEPS) * events.steps:
        evidence = f"95% of the training events come in the first {events.over_at} of {events.steps} steps"
        yield Finding("unused steps", "train", evidence, f"set data.steps to about {events.over_at}")


def _time_too_long(profile: Profile) -> Iterator[Finding]:
    """Most training events come after the last bin: the unit of time is too large; or some do: samples are longer."""
    events = profile.splits["train"].events
    if events is None or events.lost is None or events.duration_ms is None or events.bin_ms is None:
        return
    after = events.lost["after"]
    if after >= MOST_LATE:
        evidence = f"{after:.1%} of the training events come after the last bin{_lasting(events)}"
        yield Finding("time too long", "train", evidence, f"check data.time_unit{_other_bins(events)}")
    elif after >= SOME_LOST and events.cut_ms is None:
        steps = math.ceil(events.duration_ms.high / events.bin_ms)
        yield Finding(
            "long samples",
            "train",
            f"{events.longer or 0:.1%} of the training samples are longer than the {events.steps} bins of "
            f"{events.bin_ms:g} ms and lose their end, {after:.1%} of all events",
            f"raise data.steps to {steps}, or data.bin_ms to {_rounded(events.duration_ms.high / events.steps)}",
        )


def _lasting(events: EventProfile) -> str:
    """Return how long samples and bins last, in brackets; an empty text where that is not known."""
    if events.duration_ms is None or events.bin_ms is None:
        return ""
    return (
        f" (the median sample lasts {_ms(events.duration_ms.median)}, the {events.steps} bins of {_ms(events.bin_ms)} "
        f"last {_ms(events.steps * events.bin_ms)})"
    )


def _ms(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 1000 else f"{value:.3g} ms"


def _other_bins(events: EventProfile) -> str:
    """Return the width of bins that would fit the durations; an empty text where that is not known."""
    if events.duration_ms is None or not events.duration_ms.high:
        return ""
    return f"; if it is right, data.bin_ms = {_rounded(events.duration_ms.high / events.steps)} would fit"


def _rounded(value: float) -> str:
    """Return a number that is not smaller, with two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(round(value / unit, 6)) * unit:.6g}"


# ---- Events that are lost


def _lost(profile: Profile) -> Iterator[Finding]:
    """A share of the events is before the first bin, outside the cells of the sensor, or beyond the count of a bin."""
    advice = {
        "before": ("come before time 0", SOME_LOST, 'set data.time_origin = "first", or add an offset to t'),
        "outside": ("lie at the border, in cells that are not whole", SOME_LOST, "choose a data.downsample that divides"
                    " the sensor's size"),
        "clipped": ("are more than a bin may count", SOME_CLIPPED, "raise data.clip, or take shorter bins"),
    }  # fmt: skip
    for reason, (what, least, remedy) in advice.items():
        for name, split in profile.splits.items():
            share = (split.events.lost or {}).get(reason, 0.0) if split.events is not None else 0.0
            if share >= least:
                yield Finding(f"events {reason}", name, f"{share:.1%} of the {_words(name)} events {what}", remedy)
                break  # the other splits have the same settings


def _test_loses_more(profile: Profile) -> Iterator[Finding]:
    """The test split loses events that the training split does not."""
    train = profile.splits["train"].events
    for name, split in profile.splits.items():
        if train is None or split.events is None or split.events.left_out < train.left_out + OTHER_LOSS:
            continue
        lasting = ""
        if split.events.duration_ms is not None and train.duration_ms is not None:
            medians = (_ms(each.duration_ms.median) for each in (split.events, train) if each.duration_ms is not None)
            lasting = " (the median samples last {} and {})".format(*medians)
        yield Finding(
            "other losses",
            name,
            f"{split.events.left_out:.1%} of the {_words(name)} events are in no bin, but only {train.left_out:.1%} of "
            f"the training events{lasting}",
            "give both files one unit of time and samples of one length, or raise data.test_steps",
        )


def _empty(profile: Profile) -> Iterator[Finding]:
    """Some samples have no event in any bin, or are images of one value."""
    for name, split in profile.splits.items():
        if split.empty:
            what = "blank: all their pixels have one value" if split.events is None else "empty: no bin holds an event"
            remedy = "leave them out of the file" + ("" if split.events is None else ", or look at their times")
            evidence = f"{_of(split.empty, split.samples, name)} {'is' if split.empty == 1 else 'are'} {what}"
            yield Finding("empty samples", name, evidence, remedy)


# ---- Channels


def _dead_channels(profile: Profile) -> Iterator[Finding]:
    """Channels, or pixels, have no event in any training sample."""
    events = profile.splits["train"].events
    if events is None or events.left_out >= MOST_LATE:  # then channels are the least of the problems
        return
    if events.silent_channels < (DEAD_PIXELS if _is_camera(profile.shape) else DEAD_CHANNELS):
        return
    channels = events.by_channel.numel()
    silent = round(events.silent_channels * channels)
    seen = (events.by_channel == 0) & (profile.splits["test"].events or events).by_channel.gt(0)
    but = f" ({int(seen.sum())} of them have events in the test samples)" if seen.any() else ""
    yield Finding(
        "dead channels",
        "train",
        f"{silent} of {channels} channels ({events.silent_channels:.1%}) have no event in any training sample{but}",
        "is data.sensor too large, or the order of x and y wrong? A network learns nothing about them",
    )


def _dominant_channel(profile: Profile) -> Iterator[Finding]:
    """One channel has a large share of all training events."""
    events = profile.splits["train"].events
    if events is None or events.by_channel.numel() < 2 or events.left_out >= MOST_LATE:
        return
    channel, share = events.busiest
    if share >= min(DOMINANT, max(HOT, HOT_TIMES / events.by_channel.numel())):
        place = [int(i) for i in _unravelled(channel, profile.shape)]
        at = str(place[0]) if len(place) == 1 else str(tuple(place))
        yield Finding(
            "dominant channel",
            "train",
            f"channel {at} has {share:.1%} of all training events, the mean channel "
            f"{1 / events.by_channel.numel():.2%}",
            "is it broken (a hot pixel)? If so leave its events out; data.clip limits what a bin counts",
        )


def _is_camera(shape: Sequence[int]) -> bool:
    return len(shape) == 3 and min(shape[1:]) > 1


def _unravelled(index: int, shape: Sequence[int]) -> list[int]:
    place: list[int] = []
    for size in reversed(shape):
        index, at = divmod(index, size)
        place.insert(0, at)
    return place


# ---- Classes


def _missing_classes(profile: Profile) -> Iterator[Finding]:
    """A class has no training sample, or it has some but none in another split."""
    trained = profile.splits["train"].by_class
    for name, split in profile.splits.items():
        wanted = [name == "train" or count > 0 for count in trained]
        missing = [profile.class_names[at] for at, count in enumerate(split.by_class) if wanted[at] and not count]
        if missing:
            one = len(missing) == 1
            yield Finding(
                "missing classes",
                name,
                f"{'class' if one else 'classes'} {_listed(missing)} (of {len(trained)}) {'has' if one else 'have'} no "
                f"{_words(name)} sample",
                "a network can't learn what it is not shown: add samples, or number the labels anew"
                if name == "train"
                else "the result says nothing about what is missing",
            )


def _imbalance(profile: Profile) -> Iterator[Finding]:
    """The largest class has many times the samples of the smallest."""
    split = profile.splits["train"]
    counts = [count for count in split.by_class if count]
    largest, share = split.majority
    if len(counts) < 2 or max(counts) < IMBALANCE * min(counts) or share < ABOVE_EVEN / len(counts):
        return
    smallest = split.by_class.index(min(counts))
    yield Finding(
        "imbalance",
        "train",
        f"{share:.1%} of the training samples are of class {profile.class_names[largest]} "
        f"({max(counts):,}; class {profile.class_names[smallest]} has {min(counts):,})",
        f'compare an accuracy with {share:.1%}, not with {1 / len(counts):.1%}; train.class_weights = "balanced" helps',
    )


def _repeated(profile: Profile) -> Iterator[Finding]:
    """Test samples are also training samples."""
    for name, split in profile.splits.items():
        if split.repeated:
            one = split.repeated == 1
            yield Finding(
                "repeated samples",
                name,
                f"{_of(split.repeated, split.samples, name)} "
                f"{'is also a training sample' if one else 'are also training samples'}",
                f"leave {'it' if one else 'them'} out of one of them, or accuracy says too much",
            )


# ---- Images


def _dark_images(profile: Profile) -> Iterator[Finding]:
    """Images of bytes hold only 0 and 1, of which a pixel makes 0 and 1/255."""
    images = profile.splits["train"].images
    if images is not None and images.dtype == "uint8" and images.high == 1:
        yield Finding(
            "dark images",
            "train",
            "the largest byte of the training images is 1, and a pixel is its byte divided by 255",
            "multiply the images by 255, or write them as floating point",
        )


def _words(split: str) -> str:
    return {"train": "training", "valid": "validation"}.get(split, split)


def _of(count: int, samples: int, split: str) -> str:
    return f"{count:,} of {samples:,} {_words(split)} samples"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


RULES: tuple[Callable[[Profile], Iterator[Finding]], ...] = (
    _time_too_short,
    _time_too_long,
    _test_loses_more,
    _lost,
    _empty,
    _dead_channels,
    _dominant_channel,
    _missing_classes,
    _imbalance,
    _repeated,
    _dark_images,
)
