"""Single samples of a PyTorch data set, read and checked: structured arrays of events, and dense frames."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bitspike.data.array_checks import whole
from bitspike.data.binning import MOST_COUNT
from bitspike.data.event_times import microseconds, require_different_times
from bitspike.data.events import Events
from bitspike.data.progress import Progress
from bitspike.data.samples import Frames, frames
from bitspike.data.sensors import sensor_size
from bitspike.data.splits import split_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_PLACE = 2**31 - 1
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # that PyTorch stores, but does not compare


@dataclass(frozen=True, slots=True)
class Unsplit:
    """A data set of PyTorch's kind that still holds its test samples, and how these are drawn."""

    dataset: Any
    share: float
    seed: int

    def split(self, labels: Tensor, groups: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the rows to train on and the rows to test on. How labels are numbered makes no difference."""
        places = labels.unique(return_inverse=True)[1]  # small, however large the labels are
        return split_labels(places, groups, self.share, self.seed)

    def training(self, labels: Tensor, groups: Tensor | None) -> Tensor:
        """Return `[N]`: whether each sample is one to train on."""
        kept = torch.zeros(len(labels), dtype=torch.bool, device="cpu")
        kept[self.split(labels, groups)[0]] = True
        return kept


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
        if not 0 <= label < 2**63:
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
    if size is not None and size[1] == 1:
        names.discard("y")  # a row of units
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    checked = [_columns(part, names, scale, row) for row, part in enumerate(parts)]
    columns = {name: np.concatenate([each[name] for each in checked]) for name in checked[0]}
    require_different_times("from_torch", "t", np.concatenate([part["t"] for part in parts]), scale, option="time_unit")
    if sensor is None and size is not None:
        sensor = (size[1], size[0]) if "y" in names else (size[0],)
    sensor = sensor_size("from_torch", columns, offsets, sensor, option="sensor")
    order = np.concatenate(
        [start + np.argsort(each["t"], kind="stable") for start, each in zip(offsets[:-1], checked, strict=True)]
    )
    columns = {name: values[order] for name, values in columns.items()}
    return Events(
        columns["t"],
        columns["x"],
        columns.get("y"),
        columns.get("p"),
        offsets,
        labels.numpy(),
        sensor,
        None if groups is None else groups.numpy(),
    )


def _columns(part: Any, names: set[str], scale: int, row: int) -> dict[str, NDArray[Any]]:
    """Return the fields of one sample as whole numbers, its times in microseconds; errors name the sample."""
    where = f"from_torch: sample {row}"
    columns: dict[str, NDArray[Any]] = {"t": microseconds(where, "t", part["t"], scale)}
    for name in ("y", "x"):
        if name in names:
            columns[name] = whole(where, name, part[name], 0, MOST_PLACE).astype("int64")
    if "p" in names:
        columns["p"] = (whole(where, "p", part["p"], -MOST_PLACE, MOST_PLACE) > 0).astype("uint8")
    return columns


# ---- Frames


def joined_frames(
    parts: Sequence[Any], labels: Tensor, groups: Tensor | None, steps: int | None, training: Tensor | None
) -> Frames:
    """Return frames `[T, ...]` of all samples; those with fewer steps end in silence, and longer ones are cut.

    Without `steps` T is that of the longest sample, of those where `training [N]` is true if it is given.
    """
    dense = [_whole(part, row) for row, part in enumerate(parts)]
    shapes = {tuple(part.shape[1:]) for part in dense}
    if len(shapes) > 1:
        raise ValueError(f"from_torch: frames must have one shape beside time, but have {sorted(shapes)[:4]}")
    shape = shapes.pop()
    if steps is None:
        steps = max(len(part) for row, part in enumerate(dense) if training is None or training[row])
    cut = [part[:steps].flatten() for part in dense]
    index = [part.nonzero().flatten() for part in cut]
    lengths = torch.tensor([len(each) for each in index], device="cpu")
    count = torch.cat([part[at] for part, at in zip(cut, index, strict=True)])
    return frames(torch.cat(index).int(), count, lengths, labels, steps, shape, groups=groups)


def _whole(values: Any, row: int) -> Tensor:
    """Return one sample's frames as bytes; raise unless they are whole numbers 0 to 255."""
    counts = _tensor(values, row)
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
        remedy = ""
        if counts.ndim == 2 and counts.shape[1] in (2, 3, 4):
            remedy = "; events are structured arrays with the fields t and x, perhaps y and p"
        raise ValueError(
            f"from_torch: frames must be whole numbers 0 to {MOST_COUNT}, but sample {row} goes over {low:g}..{high:g}"
            f"{remedy}"
        )
    return counts.to(torch.uint8)


def _tensor(values: Any, row: int) -> Tensor:
    """Return one sample's frames as a tensor on the CPU; raise unless they are an array of numbers."""
    import numpy as np

    if is_events(values):
        raise ValueError(f"from_torch: all samples must be frames as sample 0 is, but sample {row} is events")
    wanted = f"from_torch: sample {row} must be frames [T, ...], an array of whole numbers"
    try:
        if isinstance(values, np.ndarray):  # in the order of bytes and of places that PyTorch can read
            values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
        counts = torch.as_tensor(values).cpu()
    except (TypeError, ValueError, RuntimeError):
        held = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else type(values).__name__
        ragged = " whose rows differ in length or are no numbers" if isinstance(values, (tuple, list)) else ""
        raise ValueError(f"{wanted}, but is {held}{ragged}") from None
    if counts.layout != torch.strided:
        raise ValueError(f"{wanted}, but is sparse; give it as .to_dense()")
    if counts.is_complex() or counts.is_quantized:
        raise ValueError(f"{wanted}, but is {str(counts.dtype).removeprefix('torch.')}")
    return counts.to(torch.int64) if counts.dtype in UNSIGNED else counts
