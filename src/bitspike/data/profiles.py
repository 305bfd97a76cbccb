"""Profiles of data: what a person wants to see of each split before training. Samples in, numbers out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from bitspike.data.duplicates import count_repeated, sample_digests
from bitspike.data.event_profile import EventProfile, Spread, count_silent, event_profile
from bitspike.data.samples import Dataset, Frames, Images, Samples

__all__ = [
    "EventProfile",
    "ImageProfile",
    "Profile",
    "SplitProfile",
    "Spread",
    "count_empty",
    "group_labels",
    "profile",
]


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

    `class_weights` says whether training weighs the classes.

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
    class_weights: bool = False


def profile(data: Dataset, splits: Mapping[str, Samples] | None = None, *, class_weights: bool = False) -> Profile:
    """Return what `data` holds, split by split; `findings` tells what looks like a mistake.

    `splits` are the samples by the name of their split, "train" and "test" at least, where they are not those of
    `data`: so does an experiment that holds some training samples out for validation. `class_weights` says that
    training weighs the classes, so that no finding advises it.

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
    return Profile(data.title, data.shape, data.class_names, data.group_names, profiles, class_weights)


def _split(samples: Samples, data: Dataset, repeated: int) -> SplitProfile:
    """Return the profile of one split."""
    # labels beyond the classes are not classes, but times
    by_class = tuple(torch.bincount(samples.labels, minlength=data.classes)[: data.classes].tolist())
    return SplitProfile(
        len(samples),
        by_class,
        group_labels(samples, data),
        event_profile(samples) if isinstance(samples, Frames) else None,
        _images(samples) if isinstance(samples, Images) else None,
        repeated,
    )


def group_labels(samples: Samples, data: Dataset) -> tuple[int | str, ...] | None:
    """Return the groups that the samples are in, by their names or numbers; None where they are in none."""
    if samples.groups is None:
        return None
    numbers = samples.groups.unique().tolist()
    return tuple(data.group_labels[group] if data.group_labels else group for group in numbers)


def count_empty(samples: Samples) -> int:
    """Return how many samples have no event in any bin, or are images with the same value everywhere."""
    if isinstance(samples, Images):
        flat = samples.values.flatten(1)
        return int((flat.amin(1) == flat.amax(1)).sum())
    return count_silent(samples)


def _images(samples: Images) -> ImageProfile:
    """Return the profile of images."""
    flat = samples.values.flatten(1)
    total = sum(float(part.sum(dtype=torch.float64)) for part in flat.split(4096))
    kind = str(flat.dtype).removeprefix("torch.")
    return ImageProfile(kind, float(flat.min()), float(flat.max()), total / flat.numel(), count_empty(samples))
