"""Mistakes in samples, channels and images. Each rule is a function of a profile."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bitspike.data.event_profile import HOT_TIMES, camera_words, channel_name, is_camera
from bitspike.data.finding import Finding, count_of, listed
from bitspike.data.profiles import Profile
from bitspike.data.time_mistakes import MOST_LATE

DEAD_CHANNELS = 0.1  # the share of channels in a row without any event
DEAD_PIXELS = 0.5  # the same for a camera, whose corners often see nothing
DOMINANT = 0.5  # the share of all events in one channel
HOT = 0.01  # the share of all events in hot channels: fewer do no harm
MOST_HOT = 6  # names in a line


def empty_samples(profile: Profile) -> Iterator[Finding]:
    """Some samples have no event in any bin, or are images of one value."""
    for name, split in profile.splits.items():
        if split.empty:
            yield empty_finding(name, split.empty, split.samples, are_images=split.events is None)


def empty_finding(split: str, empty: int, samples: int, *, are_images: bool) -> Finding:
    """Return the finding that so many samples of a split are empty."""
    what = "blank: all their pixels have one value" if are_images else "empty: no bin holds an event"
    remedy = "leave them out of the file" + ("" if are_images else ", or look at their times")
    evidence = f"{count_of(empty, samples, split)} {'is' if empty == 1 else 'are'} {what}"
    return Finding("empty samples", split, evidence, remedy)


def repeated_samples(profile: Profile) -> Iterator[Finding]:
    """Test samples are also training samples."""
    for name, split in profile.splits.items():
        if split.repeated:
            one = split.repeated == 1
            yield Finding(
                "repeated samples",
                name,
                f"{count_of(split.repeated, split.samples, name)} "
                f"{'is also a training sample' if one else 'are also training samples'}",
                f"leave {'it' if one else 'them'} out of one of them, or accuracy says too much",
            )


# ---- Channels


def dead_channels(profile: Profile) -> Iterator[Finding]:
    """Channels, or pixels, have no event in any training sample."""
    events = profile.splits["train"].events
    if events is None or events.left_out >= MOST_LATE:  # then channels are the least of the problems
        return
    if events.silent_channels < (DEAD_PIXELS if is_camera(profile.shape) else DEAD_CHANNELS):
        return
    channels = events.by_channel.numel()
    silent = round(events.silent_channels * channels)
    seen = (events.by_channel == 0) & (profile.splits["test"].events or events).by_channel.gt(0)
    but = f" ({int(seen.sum())} of them have events in the test samples)" if seen.any() else ""
    yield Finding(
        "dead channels",
        "train",
        f"{silent} of {channels} channels ({events.silent_channels:.1%}) have no event in any training sample{but}: "
        f"{listed(events.silent, called=partial(channel_name, shape=profile.shape))}",
        ("are all files of one sensor?" if seen.any() else "is data.sensor too large, or the order of x and y wrong?")
        + " A network learns nothing about them",
    )


def dominant_channel(profile: Profile) -> Iterator[Finding]:
    """One channel has half of all training events, or a few have many times the events of nearly all others."""
    events = profile.splits["train"].events
    if events is None or events.by_channel.numel() < 2 or events.left_out >= MOST_LATE:
        return
    channel, share = events.busiest
    hot = events.hot if share < DOMINANT else [channel]
    together = sum(events.shares(hot))
    if together < HOT:
        return
    channels = events.by_channel.numel()
    names = listed(hot, MOST_HOT, partial(channel_name, shape=profile.shape))
    if len(hot) == 1:
        evidence = f"channel {names} has {share:.1%} of all training events, the mean channel {1 / channels:.2%}"
        remedy = "is it broken (a hot pixel)? If so leave its events out"
    else:
        evidence = (
            f"{len(hot)} of {channels} channels have {together:.1%} of all training events, each more than "
            f"{HOT_TIMES} times what 95 % of the channels have: {names}"
        )
        remedy = "are they broken (hot pixels)? If so leave their events out"
    evidence += camera_words(profile.shape, events.downsample)
    yield Finding("dominant channel", "train", evidence, f"{remedy}; data.clip limits what a bin counts")


# ---- Images


def dark_images(profile: Profile) -> Iterator[Finding]:
    """Images of bytes hold only 0 and 1, of which a pixel makes 0 and 1/255."""
    images = profile.splits["train"].images
    if images is not None and images.dtype == "uint8" and images.high == 1:
        yield Finding(
            "dark images",
            "train",
            "the largest byte of the training images is 1, and a pixel is its byte divided by 255",
            "multiply the images by 255, or write them as floating point",
        )
