"""Mistakes in data: all rules that look for one. A rule is a function of a profile that yields findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bitspike.data.class_mistakes import imbalance, missing_classes, one_class, shared_groups, similar_names
from bitspike.data.finding import Finding
from bitspike.data.profiles import Profile
from bitspike.data.sample_mistakes import (
    dark_images,
    dead_channels,
    dominant_channel,
    empty_samples,
    repeated_samples,
)
from bitspike.data.time_mistakes import (
    late_beginning,
    loses_more_in_testing,
    lost_events,
    one_step,
    other_durations,
    time_too_long,
    time_too_short,
)

RULES: tuple[Callable[[Profile], Iterator[Finding]], ...] = (
    time_too_short,
    time_too_long,
    one_step,
    late_beginning,
    loses_more_in_testing,
    lost_events,
    other_durations,
    empty_samples,
    dead_channels,
    dominant_channel,
    similar_names,
    one_class,
    missing_classes,
    imbalance,
    shared_groups,
    repeated_samples,
    dark_images,
)


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
