"""Mistakes in the time of events, and events that are in no bin. Each rule is a function of a profile."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bitspike.data.event_profile import EventProfile, Spread
from bitspike.data.finding import Finding, split_words
from bitspike.data.profiles import Profile
from bitspike.data.rounding import two_digits_up

FEW_STEPS = 0.05  # the share of the steps in which nearly all events come, if the time unit is too small
LEAST_STEPS = 4  # fewer steps may well hold all events in the first
ENOUGH_STEPS = 100  # that are advised where there is one
UNUSED_STEPS = 0.5  # the share of the steps that hold nearly no events, at the end
SHORTEST_MS, LONGEST_MS = 1.0, 600_000.0  # a median sample of less or more is rare: bins that were found fit it anyway
LATE = 0.1  # the share of the steps before the first event, if nearly all samples begin so late
VERY_LATE = 0.5  # the same, if half of the samples do
MOST_LATE = 0.5  # the share of the events after the last bin, if the time unit is too large
SOME_LOST = 0.01  # the share of the events that may be lost for one reason without a word
SOME_CLIPPED = 0.05
OTHER_LENGTH = 10  # times the median duration of the training samples, or a tenth of it
OTHER_LOSS = 0.05  # the share of the events that the test split may lose more than the training split


# ---- Time


def time_too_short(profile: Profile) -> Iterator[Finding]:
    """Nearly all events come in the first few steps: the unit of time is too small, or bins are too long."""
    events = profile.splits["train"].events
    if events is None or not events.over_at or (events.lost or {}).get("after", 0) >= MOST_LATE:
        return  # where most come after the last bin, the rest says nothing
    if events.steps >= LEAST_STEPS and events.over_at <= max(1, FEW_STEPS * events.steps):
        share = float(events.by_step[: events.over_at].sum() / events.by_step.sum())
        lasting = 0.0 if events.duration_ms is None else events.duration_ms.high
        first = "first step" if events.over_at == 1 else f"first {events.over_at} steps"
        evidence = f"{share:.1%} of the training events come in the {first} of {events.steps}{_lasting(events)}"
        yield Finding("time too short", "train", evidence, f"check data.time_unit{_other_bins(events, lasting)}")
    elif events.duration_ms is not None and events.duration_ms.median < SHORTEST_MS:
        evidence = f"the median training sample lasts only {_ms(events.duration_ms.median)}"
        yield Finding("time too short", "train", evidence, "check data.time_unit")
    elif events.steps >= LEAST_STEPS and events.over_at <= (1 - UNUSED_STEPS) * events.steps:
        evidence = f"95% of the training events come in the first {events.over_at} of {events.steps} steps"
        longer = "" if events.cut_ms is None else f", or raise data.duration_ms, which is {events.cut_ms:g}"
        yield Finding("unused steps", "train", evidence, f"set data.steps to about {events.over_at}{longer}")


def one_step(profile: Profile) -> Iterator[Finding]:
    """A sample is one time step, so that the order of its events is lost."""
    events = profile.splits["train"].events
    if events is not None and events.steps == 1 and events.duration_ms is not None and events.duration_ms.median > 0:
        evidence = f"a sample is one time step of {_ms(events.bin_ms or 0)}, so that nothing is left of its time"
        width = _rounded(events.duration_ms.high / ENOUGH_STEPS)
        remedy = f"lower data.bin_ms (to {width} for {ENOUGH_STEPS} steps), or raise data.steps"
        yield Finding("one step", "train", evidence, remedy)


def time_too_long(profile: Profile) -> Iterator[Finding]:
    """Most training events come after the last bin: the unit of time is too large; or some do: samples are longer."""
    events = profile.splits["train"].events
    if events is None or events.lost is None or events.duration_ms is None or events.bin_ms is None:
        return
    after, end = events.lost["after"], events.cut_ms or events.steps * events.bin_ms
    needed = _needed_ms(events.duration_ms, events.longest_ms or 0.0, end)
    if after >= MOST_LATE and events.cut_ms is not None:
        evidence = f"data.duration_ms = {events.cut_ms:g} leaves out {after:.1%} of the training events"
        remedy = f"check data.time_unit; if it is right, raise data.duration_ms to {_rounded(needed)}"
        median = f" (the median sample lasts {_ms(events.duration_ms.median)})"
        yield Finding("time too long", "train", evidence + median, remedy)
    elif after >= MOST_LATE:
        evidence = f"{after:.1%} of the training events come after the last bin{_lasting(events)}"
        yield Finding("time too long", "train", evidence, f"check data.time_unit{_other_bins(events, needed)}")
    elif events.duration_ms.median > LONGEST_MS:
        evidence = f"the median training sample lasts {events.duration_ms.median / 60_000:,.0f} minutes"
        yield Finding("time too long", "train", evidence, "check data.time_unit")
    elif after >= SOME_LOST and events.cut_ms is None:
        yield Finding(
            "long samples",
            "train",
            f"{events.longer or 0:.1%} of the training samples are longer than the {events.steps} bins of "
            f"{events.bin_ms:g} ms and lose their end, {after:.1%} of all events",
            f"raise data.steps to {math.floor(needed / events.bin_ms) + 1}, or data.bin_ms to "
            f"{_rounded(needed / events.steps)}",
        )


def late_beginning(profile: Profile) -> Iterator[Finding]:
    """Samples begin after many empty steps: time counts from the start of a recording."""
    events = profile.splits["train"].events
    if events is None or events.steps < LEAST_STEPS:
        return
    all_late, most_late = events.begins.low >= LATE * events.steps, events.begins.median >= VERY_LATE * events.steps
    if not all_late and not most_late:
        return
    # the 5th percentile says when all but a few begin
    who, step = ("95%", events.begins.low) if all_late else ("half", events.begins.median)
    yield Finding(
        "late beginning",
        "train",
        f"{who} of the training samples have no event in the first {step:.0f} of {events.steps} steps",
        'set data.time_origin = "first", and bins count from a sample\'s first event'
        if events.bin_ms is not None
        else "leave these steps out of the file",
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
    return f"{value:,.0f} ms" if value >= 99.95 else f"{value:.3g} ms"


def _other_bins(events: EventProfile, needed_ms: float) -> str:
    """Return the width of bins that would last `needed_ms`; an empty text where no width would do."""
    if not 0 < needed_ms <= LONGEST_MS:
        return ""
    return f"; if it is right, data.bin_ms = {_rounded(needed_ms / events.steps)} would fit"


def _needed_ms(duration_ms: Spread, longest_ms: float, end_ms: float) -> float:
    """Return how long bins that end too soon must last: for 95 % of the samples; for all, where they hold 95 %."""
    return duration_ms.high if duration_ms.high >= end_ms else longest_ms


def _rounded(value: float) -> str:
    return f"{two_digits_up(value):.6g}"


# ---- Events that are lost


def lost_events(profile: Profile) -> Iterator[Finding]:
    """A share of the events is before the first bin, outside the cells of the sensor, or beyond the count of a bin."""
    events = profile.splits["train"].events
    advice = {
        "before": ("come before time 0", SOME_LOST, 'set data.time_origin = "first", or add an offset to t'),
        "outside": ("lie at the border, in cells that are not whole", SOME_LOST, _whole_cells(profile, events)),
        "clipped": ("are more than a bin may count", SOME_CLIPPED, "raise data.clip, or take shorter bins"),
    }
    for reason, (what, least, remedy) in advice.items():
        for name, split in profile.splits.items():
            share = (split.events.lost or {}).get(reason, 0.0) if split.events is not None else 0.0
            if share >= least:
                yield Finding(f"events {reason}", name, f"{share:.1%} of the {split_words(name)} events {what}", remedy)
                break  # the other splits have the same settings


def _whole_cells(profile: Profile, events: EventProfile | None) -> str:
    """Return advice for a sensor whose size `downsample` does not divide."""
    side = 1 if events is None else events.downsample
    cells = profile.shape[-2:] if len(profile.shape) == 3 else profile.shape[-1:]
    size = [(cell + 1) * side for cell in cells]
    return (
        f"data.downsample = {side} (found, if you gave none) does not divide the sensor's size: give "
        f"data.sensor = {size}, or choose a data.downsample that divides it"
    )


def loses_more_in_testing(profile: Profile) -> Iterator[Finding]:
    """The test split loses events that the training split does not."""
    train = profile.splits["train"].events
    for name, split in profile.splits.items():
        if train is None or split.events is None or split.events.left_out < train.left_out + OTHER_LOSS:
            continue
        lasting = ""
        if split.events.duration_ms is not None and train.duration_ms is not None:
            medians = (_ms(each.duration_ms.median) for each in (split.events, train) if each.duration_ms is not None)
            lasting = " (the median samples last {} and {})".format(*medians)
        cut = split.events.cut_ms
        remedy = "data.test_steps" if cut is None else f"data.duration_ms, which is {cut:g}"
        yield Finding(
            "other losses",
            name,
            f"{split.events.left_out:.1%} of the {split_words(name)} events are in no bin, but only "
            f"{train.left_out:.1%} of the training events{lasting}",
            f"give both files one unit of time and samples of one length, or raise {remedy}",
        )


def other_durations(profile: Profile) -> Iterator[Finding]:
    """Samples of another split are much longer or shorter than the training samples."""
    train = profile.splits["train"].events
    for name, split in profile.splits.items():
        if train is None or split.events is None or train.duration_ms is None or split.events.duration_ms is None:
            continue
        own, trained = split.events.duration_ms.median, train.duration_ms.median
        loses = split.events.left_out >= train.left_out + OTHER_LOSS  # a finding of its own
        if not loses and not trained / OTHER_LENGTH < own < trained * OTHER_LENGTH and own != trained:
            yield Finding(
                "other durations",
                name,
                f"the median {split_words(name)} sample lasts {_ms(own)}, the median training sample {_ms(trained)}",
                "is the unit of time the same in both files?",
            )
