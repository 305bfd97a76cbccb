"""Single samples of a PyTorch data set, read and checked: structured arrays of events, and dense frames."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from bitspike.data.binning import MOST_COUNT
from bitspike.data.event_times import microseconds
from bitspike.data.events import Events
from bitspike.data.progress import Progress
from bitspike.data.samples import Frames, frames


def read_pairs(dataset: Any, progress: Progress) -> Iterator[tuple[Any, int]]:
    """Yield (events or frames, label) of each sample; raise unless the data set has a length and such pairs."""
    try:
        count = len(dataset)
    except TypeError:
        raise TypeError(
            f"from_torch: the data set must have a length and samples by number, but {type(dataset).__name__} has "
            "none; give list(dataset)"
        ) from None
    if not count:
        raise ValueError("from_torch: the data set has no samples")
    step = progress("reading samples", count)
    for row in range(count):
        pair = dataset[row]
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(f"from_torch: sample {row} must be (events or frames, label), but is {_kind(pair)}")
        try:
            label = operator.index(pair[1].item() if hasattr(pair[1], "item") else pair[1])
        except (TypeError, ValueError, RuntimeError):  # several numbers
            label = -1
        if label < 0:
            raise ValueError(
                f"from_torch: the label of sample {row} must be a whole number from 0 on, but is {pair[1]!r:.60}; a "
                "target_transform can number labels"
            )
        yield pair[0], label
        step()


def _kind(value: object) -> str:
    return f"{len(value)} values" if isinstance(value, (tuple, list)) else type(value).__name__


# ---- Events


def is_events(values: object) -> bool:
    """Return whether the values are events: an array with named fields."""
    return getattr(getattr(values, "dtype", None), "names", None) is not None


def sensor_size(dataset: Any) -> tuple[int, int, int] | None:
    """Return tonic's (width, height, polarities) of a data set, or of the one that a Subset is of; None if unknown."""
    while not hasattr(dataset, "sensor_size") and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    size = getattr(dataset, "sensor_size", None)
    if not isinstance(size, (tuple, list)) or len(size) != 3 or not all(isinstance(each, int) for each in size):
        return None
    return size[0], size[1], size[2]


def joined_events(
    parts: Sequence[Any],
    labels: Tensor,
    groups: Tensor | None,
    scale: int,
    sensor: tuple[int, ...] | None,
    size: tuple[int, int, int] | None,
) -> Events:
    """Return the events of all samples, each in the order of time, in microseconds."""
    import numpy as np

    names = set(parts[0].dtype.names if is_events(parts[0]) else ())
    for row, part in enumerate(parts):
        if not is_events(part) or set(part.dtype.names) != names or not {"t", "x"} <= names or part.ndim != 1:
            held = f"{list(part.shape)} with {', '.join(part.dtype.names)}" if is_events(part) else type(part).__name__
            raise ValueError(
                "from_torch: events must be [E] with the fields t and x, perhaps y and p, the same in all samples, but "
                f"sample {row} is {held}"
            )
    parts = [part[np.argsort(part["t"], kind="stable")] for part in parts]
    lengths = [len(part) for part in parts]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in ("t", "x", "y", "p") if name in names}
    if "y" in columns and size is not None and size[1] == 1:
        del columns["y"]  # a row of units
    t = microseconds("from_torch", "t", columns.pop("t"), scale)
    p = columns.pop("p", None)
    for name, values in columns.items():
        if not np.array_equal(values, np.floor(values)):  # NaN is not equal to itself
            raise ValueError(f"from_torch: {name} must be whole numbers, but some are not")
    places = {name: values.astype(np.int64) for name, values in columns.items()}
    if sensor is None and size is not None:
        sensor = (size[1], size[0]) if "y" in places else (size[0],)
    if sensor is None:
        sensor = tuple(int(places[name].max(initial=0)) + 1 for name in ("y", "x") if name in places)
    if len(sensor) != len(places):
        wanted = "(height, width)" if "y" in places else "(units,)"
        raise ValueError(f"from_torch: sensor must be {wanted}, but is {tuple(sensor)}")
    return Events(
        t,
        places["x"],
        places.get("y"),
        None if p is None else (p > 0).astype(np.uint8),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        labels.numpy(),
        tuple(sensor),
        None if groups is None else groups.numpy(),
    )


# ---- Frames


def joined_frames(parts: Sequence[Any], labels: Tensor, groups: Tensor | None, steps: int | None) -> Frames:
    """Return frames `[T, ...]` of all samples; those with fewer steps end in silence."""
    whole = [_whole(part, row) for row, part in enumerate(parts)]
    shapes = {tuple(part.shape[1:]) for part in whole}
    if len(shapes) > 1:
        raise ValueError(f"from_torch: frames must have one shape beside time, but have {sorted(shapes)[:4]}")
    shape = shapes.pop()
    cut = [part[:steps].flatten() for part in whole]
    index = [part.nonzero().flatten() for part in cut]
    lengths = torch.tensor([len(each) for each in index], device="cpu")
    count = torch.cat([part[at] for part, at in zip(cut, index, strict=True)])
    longest = steps or max(len(part) for part in whole)
    return frames(torch.cat(index).int(), count, lengths, labels, longest, shape, groups=groups)


def _whole(values: Any, row: int) -> Tensor:
    """Return one sample's frames as bytes; raise unless they are whole numbers 0 to 255."""
    counts = torch.as_tensor(values).cpu()
    if counts.ndim < 2 or not counts.numel():
        raise ValueError(
            f"from_torch: sample {row} must be frames [T, ...] or structured events, but is {list(counts.shape)}"
        )
    if counts.is_floating_point() and not bool((counts == counts.round()).all()):
        raise ValueError(
            f"from_torch: frames must be whole numbers 0 to {MOST_COUNT}, but sample {row} has fractions; images are "
            "bitspike.data.Images(values, labels)"
        )
    if counts.min() < 0 or counts.max() > MOST_COUNT:
        low, high = counts.min().item(), counts.max().item()
        raise ValueError(
            f"from_torch: frames must be whole numbers 0 to {MOST_COUNT}, but sample {row} goes over {low:g}..{high:g}"
        )
    return counts.to(torch.uint8)
