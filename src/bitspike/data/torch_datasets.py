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
from bitspike.data.splits import split_rows
from bitspike.data.torch_samples import is_events, joined_events, joined_frames, read_pairs, sensor_size


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
    for name, value, known in (("time_unit", time_unit, MICROSECONDS), ("time_origin", time_origin, ("first", "zero"))):
        if value not in known:
            raise ValueError(f"from_torch: {name} must be {' or '.join(map(repr, known))}, but is {value!r}")
    pairs = list(read_pairs(dataset, progress or silent))
    labels = torch.tensor([label for _, label in pairs], dtype=torch.int64, device="cpu")
    of_sample = _groups(groups, len(pairs))
    if is_events(pairs[0][0]):
        size = sensor_size(dataset)
        events = joined_events(
            [values for values, _ in pairs], labels, of_sample, MICROSECONDS[time_unit], sensor, size
        )
        if time_origin == "first":
            events = replace(events, t=times_from_first(events.t, events.offsets))
        width, duration = (None if each is None else round(each * 1000) for each in (bin_ms, duration_ms))
        bins = default_bins(events, bin_us=width, steps=steps, duration_us=duration)
        binning = Binning(
            bin_us=bins.bin_us,
            steps=bins.steps,
            downsample=downsample,
            polarity=(size is None or size[2] > 1) if polarity is None else polarity,
            clip=clip,
            duration_us=duration,
        )
        return bin_events(events, binning)
    given = {"bin_ms": bin_ms, "sensor": sensor, "polarity": polarity, "clip": clip, "duration_ms": duration_ms}
    if wrong := [name for name, value in given.items() if value is not None] or ["downsample"] * (downsample > 1):
        raise ValueError(f"from_torch: {wrong[0]} is for events, but these samples are frames; leave it out")
    return joined_frames([values for values, _ in pairs], labels, of_sample, steps)


def dataset_from_torch(
    train: Any,
    test: Any = None,
    *,
    valid: Any = None,
    name: str | None = None,
    class_names: Sequence[str] | None = None,
    groups: Sequence[int] | Sequence[str] | None = None,
    test_share: float = 0.2,
    split_seed: int = 0,
    **options: Any,
) -> Dataset:
    """Return a dataset of PyTorch's data sets, read with `from_torch` and `options`; all splits get the same time bins.

    Without `test`, `test_share` of the training samples is held out, of each class; or whole `groups` of them, if those
    are given. `valid` are samples to choose the best epoch by; without them, training holds some out. The data set's
    `classes`, as tonic and torchvision have them, give the names of classes where `class_names` does not. Labels that
    are not the places of their names become 0, 1, 2 and so on, in their order, as those of a file do.

    Examples:
        >>> import numpy as np
        >>> import bitspike
        >>> kind = [("t", "i8"), ("x", "i2"), ("p", "?")]  # as in tonic: t in microseconds
        >>> recordings = [(np.array([(0, 3, 1), (2500, row % 4, 1)], dtype=kind), row % 2) for row in range(20)]
        >>> bitspike.data.dataset_from_torch(recordings, name="mine", bin_ms=1, steps=5, polarity=False)
        Dataset('mine', 'from PyTorch': 16 / 4 samples of (4,), 2 classes)
    """
    first = from_torch(train, groups=groups, **options)
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
    if test is None:
        kept, held = split_rows(first, test_share, split_seed)
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
        group_labels=_group_names(groups),
    )


def _origin(dataset: Any) -> Any:
    """Return the data set that a Subset, or a Subset of one, is of."""
    while hasattr(dataset, "dataset"):
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
    own = getattr(dataset, "classes", None)
    if isinstance(own, (list, tuple)) and len(own) > largest and all(isinstance(each, str) for each in own):
        return tuple(own), False
    return tuple(map(str, known.tolist())), count <= largest


def _group_names(groups: Sequence[int] | Sequence[str] | None) -> tuple[str, ...]:
    """Return the name of each group where they are text, in the order of their numbers."""
    return tuple(sorted(set(map(str, groups)))) if groups is not None and isinstance(groups[0], str) else ()


def _groups(groups: Sequence[int] | Sequence[str] | None, samples: int) -> Tensor | None:
    if groups is None:
        return None
    import numpy as np

    values = np.asarray(groups)
    if values.dtype.kind in "US":
        values = np.unique(values, return_inverse=True)[1]
    found = torch.as_tensor(values, dtype=torch.int64, device="cpu")
    if found.shape != (samples,):
        raise ValueError(
            f"from_torch: groups must be one number or text a sample, {samples}, but are {list(found.shape)}"
        )
    return found
