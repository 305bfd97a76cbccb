"""Samples and datasets from data sets of PyTorch's kind, such as tonic's: pairs of events or frames and a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from bitspike.data.binning import Binning, bin_events
from bitspike.data.default_bins import default_bins
from bitspike.data.event_times import MICROSECONDS, times_from_first
from bitspike.data.progress import Progress, silent
from bitspike.data.samples import Dataset, Frames
from bitspike.data.tonic_datasets import names_in, recordings_of, refuse_images, tonic_size
from bitspike.data.torch_options import (
    clip_option,
    held_out_options,
    in_microseconds,
    numbered_groups,
    require_class_names,
    require_name,
    sensor_option,
    truth_option,
    whole_number,
)
from bitspike.data.torch_samples import Unsplit, is_events, joined_events, joined_frames, read_pairs


def from_torch(
    dataset: Any,
    *,
    bin_ms: float | None = None,
    steps: int | None = None,
    time_unit: Literal["s", "ms", "us"] = "us",
    time_origin: Literal["first", "zero"] = "first",
    sensor: tuple[int, ...] | None = None,
    downsample: int = 1,
    polarity: bool | None = None,
    clip: int | None = None,
    duration_ms: float | None = None,
    groups: Sequence[int] | Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Frames:
    """Return the samples of a PyTorch data set of (events, label) or (frames, label), ready for training.

    All samples are read once. Events are structured NumPy arrays with the fields t and x, perhaps y and p, in any
    order, as tonic has them. They are binned in `steps` of `bin_ms`; what is not given is found from how long the
    samples last. Other options are those of an experiment's [data] table. Where `sensor`, (height, width) or (units,),
    or `polarity` is not given, tonic's `sensor_size` says it, else the largest coordinates do. Frames are arrays or
    tensors `[T, ...]` of whole numbers 0 to 255. Shorter ones are filled up with silence to `steps` (default: the
    longest), longer ones are cut. `groups` says which samples belong together: one whole number or text a sample.

    Examples:
        >>> import numpy as np
        >>> import bitspike
        >>> kind = [("t", "i8"), ("x", "i2"), ("p", "?")]  # as in tonic: t in microseconds
        >>> recordings = [(np.array([(0, 3, 1), (2500, 0, 1)], dtype=kind), 1)] * 4
        >>> samples = bitspike.data.from_torch(recordings, bin_ms=1, steps=5, sensor=(4,), polarity=False)
        >>> x, label = samples[0]
        >>> x.nonzero().tolist(), label  # step and channel of each event
        ([[0, 3], [2, 0]], 1)
    """
    steps = None if steps is None else whole_number("from_torch", "steps", steps, 1)
    downsample = whole_number("from_torch", "downsample", downsample, 1)
    bin_us, duration_us = in_microseconds("bin_ms", bin_ms), in_microseconds("duration_ms", duration_ms)
    sensor, clip, polarity = sensor_option(sensor), clip_option(clip), truth_option("polarity", polarity)
    for name, value, known in (("time_unit", time_unit, MICROSECONDS), ("time_origin", time_origin, ("first", "zero"))):
        if value not in known:
            raise ValueError(f"from_torch: {name} must be {' or '.join(map(repr, known))}, but is {value!r}")
    unsplit, dataset = (dataset, dataset.dataset) if isinstance(dataset, Unsplit) else (None, dataset)
    pairs = list(read_pairs(dataset, progress or silent))
    labels = torch.tensor([label for _, label in pairs], dtype=torch.int64, device="cpu")
    of_sample, _ = numbered_groups(groups, len(pairs))
    training = None if unsplit is None else unsplit.training(labels, of_sample)
    if is_events(pairs[0][0]):
        size = tonic_size(dataset)
        events = joined_events(
            [values for values, _ in pairs], labels, of_sample, MICROSECONDS[time_unit], sensor, size
        )
        if time_origin == "first":
            events = replace(events, t=times_from_first(events.t, events.offsets), origin="first")
        if bin_us is None or steps is None:
            seen = events if training is None else events.select(training.numpy())
            if not len(seen.t):
                raise ValueError(
                    f"from_torch: no {'' if training is None else 'training '}sample has an event, so that no time "
                    "bins can be found; give bin_ms and steps"
                )
            bins = default_bins(seen, bin_us=bin_us, steps=steps, duration_us=duration_us)
            bin_us, steps = bins.bin_us, bins.steps
        polarity = (size is None or size[2] > 1) if polarity is None else polarity
        return bin_events(events, Binning(bin_us, steps, downsample, polarity, clip, duration_us))
    given = {
        "bin_ms": bin_ms is not None,
        "duration_ms": duration_ms is not None,
        "sensor": sensor is not None,
        "polarity": polarity is not None,
        "clip": clip is not None,
        "downsample": downsample > 1,
        "time_unit": time_unit != "us",
        "time_origin": time_origin != "first",
    }
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise ValueError(f"from_torch: {wrong[0]} is for events, but these samples are frames; leave it out")
    refuse_images(pairs[0][0], tonic_size(dataset))
    return joined_frames([values for values, _ in pairs], labels, of_sample, steps, training)


def dataset_from_torch(
    train: Any,
    test: Any = None,
    *,
    valid: Any = None,
    name: str | None = None,
    class_names: Sequence[str] | None = None,
    groups: Sequence[int] | Sequence[str] | None = None,
    test_share: float | None = None,
    split_seed: int | None = None,
    **options: Any,
) -> Dataset:
    """Return a dataset of PyTorch's data sets, read with `from_torch` and `options`.

    All splits get the time bins of the training samples, or as many steps: what a test sample has later is cut.
    Without `test`, `test_share` of the training samples (default 0.2) is held out, of each class, drawn with
    `split_seed` (default 0); or whole `groups` of them, if those are given. `valid` are samples to choose the best
    epoch by; without them, training holds some out. Slices of tonic's SlicedDataset are grouped by their recording, so
    that no split divides one. The data set's `classes`, as tonic and torchvision have them, give the names of classes
    where `class_names` does not. Labels that are not the places of their names become 0, 1, 2 and so on, in their
    order, as those of a file do.

    Examples:
        >>> import numpy as np
        >>> import bitspike
        >>> kind = [("t", "i8"), ("x", "i2"), ("p", "?")]  # as in tonic: t in microseconds
        >>> recordings = [(np.array([(0, 3, 1), (2500, row % 4, 1)], dtype=kind), row % 2) for row in range(20)]
        >>> bitspike.data.dataset_from_torch(recordings, name="mine", bin_ms=1, steps=5, polarity=False)
        Dataset('mine', 'from PyTorch': 16 / 4 samples of (4,), 2 classes)
    """
    require_name(name)
    require_class_names(class_names)
    share, seed = held_out_options(test, test_share, split_seed)
    groups = recordings_of(train) if groups is None else groups
    unsplit = Unsplit(train, share, seed) if test is None else None
    first = from_torch(unsplit or train, groups=groups, **options)
    options = {**options, "steps": first.steps}
    if first.tally is not None:
        options["bin_ms"] = first.tally.bin_us / 1000
    others = {"test": test, "validation": valid}
    parts = {split: from_torch(given, **options) for split, given in others.items() if given is not None}
    for split, samples in parts.items():
        if samples.shape != first.shape:
            raise ValueError(
                f"dataset_from_torch: training samples have the shape {first.shape}, but {split} samples "
                f"{samples.shape}; give sensor if it was found from the events"
            )
    own = _origin(train)
    known = torch.cat([samples.labels for samples in (first, *parts.values())]).unique()
    names, numbered = _classes(own, class_names, known)
    if numbered:
        first = replace(first, labels=torch.searchsorted(known, first.labels))
        parts = {split: replace(each, labels=torch.searchsorted(known, each.labels)) for split, each in parts.items()}
    if unsplit is not None:
        kept, held = unsplit.split(first.labels, first.groups)
        if not len(held):
            raise ValueError(
                f"dataset_from_torch: {len(first)} samples have no {'two of one class' if groups is None else 'group'} "
                "to hold out for the test; give test, or more samples"
            )
        first, parts["test"] = first.select(kept), first.select(held)
    name = type(own).__name__ if name is None else name
    return Dataset(
        name,
        name,
        len(names),
        first,
        parts["test"],
        edition="from PyTorch",
        group_names="" if groups is None else "groups",
        class_names=names,
        valid=parts.get("validation"),
        file_labels=tuple(map(str, known.tolist())) if numbered else (),
        group_labels=numbered_groups(groups, len(train))[1],
    )


def _origin(dataset: Any) -> Any:
    """Return the data set that a Subset, or a Subset of one, is of."""
    while getattr(dataset, "dataset", None) is not None:
        dataset = dataset.dataset
    return dataset


def _classes(dataset: Any, given: Sequence[str] | None, known: Tensor) -> tuple[tuple[str, ...], bool]:
    """Return the names of classes, and whether the `known` labels must become 0, 1, 2 and so on to be their places."""
    largest, count = int(known[-1]), len(known)
    if given is not None:
        if len(given) <= largest and len(given) != count:
            raise ValueError(
                f"dataset_from_torch: class_names must be {count}, one for each label, but are {len(given)}"
            )
        return tuple(given), len(given) <= largest
    own = names_in(getattr(dataset, "classes", None))
    if len(own) > largest:
        return own, False
    return tuple(map(str, known.tolist())), count <= largest
