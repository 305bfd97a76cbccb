"""The user's own data in npz or HDF5: images, events, or spikes in time steps. The names of arrays tell which."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from bitspike.data.array_checks import array, require_finite, require_flat, require_length, whole
from bitspike.data.array_files import LIMIT, Stored, listed, open_arrays
from bitspike.data.event_times import MICROSECONDS, microseconds, require_different_times, times_from_first
from bitspike.data.events import Events
from bitspike.data.hdf5_files import hdf5_folders
from bitspike.data.sample_columns import as_numbers, group_column, label_column
from bitspike.data.samples import Frames, Images, frames_from_dense
from bitspike.data.sensors import sensor_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["images", "events", "spikes"]
ARRAYS: dict[Kind, tuple[str, ...]] = {
    "images": ("images",),
    "events": ("t", "x", "offsets"),  # t may be t_us
    "spikes": ("spikes",),
}  # and labels
NEEDS = {
    "images": "images [N, H, W] or [N, C, H, W] and labels [N]",
    "events": "t or t_us [E], x [E], offsets [N+1] and labels [N]; y [E] and p [E] as the sensor has them",
    "spikes": "spikes [N, T, ...] and labels [N]",
}


def kind_of(path: Path, given: Kind | None = None) -> Kind:
    """Return the kind of samples in the file, by the names of its arrays; or the `given` kind, if it holds that."""
    with open_arrays(path) as arrays:
        names = set(arrays)
    if given is not None and (lacking := [*_lacking(given, names), *({"labels"} - names)]):
        raise ValueError(
            f"{path}: data.kind = {given!r} needs {NEEDS[given]}, but {listed(lacking)} "
            f"{'is' if len(lacking) == 1 else 'are'} missing: it holds {listed(names)}; write these, or leave "
            "data.kind out"
        )
    if given is not None:
        return given
    kinds = [kind for kind in ARRAYS if not _lacking(kind, names)]
    if len(kinds) == 1 and "labels" in names:
        return kinds[0]
    folders = hdf5_folders(path)
    if "labels" in names and {"times", "units"} <= set(folders.get("spikes", ())):
        raise ValueError(
            f"{path}: has the layout of SHD (lists spikes/times and spikes/units), which data.file does not read; "
            "write a .npz file (`bitspike encode` does with --out FILE.npz), or use data.name = 'shd' for SHD itself"
        )
    begun = _begun(names)
    needs = "; ".join(f"{kind}: {arrays}" for kind, arrays in NEEDS.items() if kind in (begun or NEEDS))
    raise ValueError(
        f"{path}: holds {listed(names)}, but must hold the arrays of one kind{_reason(kinds, names)} ({needs})"
        f"{_unread(folders)}"
    )


def _unread(folders: Mapping[str, Sequence[str]]) -> str:
    """Return that the arrays in an HDF5 file's own groups are not read; an empty text where it has none."""
    return (
        f"; arrays in its HDF5 groups ({listed(folders)}) are not read: put them on the first level" if folders else ""
    )


def _lacking(kind: Kind, names: set[str]) -> list[str]:
    """Return the arrays of a kind, other than labels, that are not among the names."""
    return [name for name in ARRAYS[kind] if not names & ({"t", "t_us"} if name == "t" else {name})]


def _begun(names: set[str]) -> list[Kind]:
    """Return the kinds of which at least one array is among the names."""
    return [kind for kind in ARRAYS if len(_lacking(kind, names)) < len(ARRAYS[kind])]


def _reason(kinds: Sequence[Kind], names: set[str]) -> str:
    """Return why the arrays are not those of one kind: several kinds are there, or some arrays are missing."""
    if len(kinds) > 1:
        return f"; those of {' and '.join(kinds)} are there: give data.kind"
    begun = _begun(names)
    missing = [*_lacking(begun[0], names), *({"labels"} - names)] if len(begun) == 1 else []
    if not missing:
        return ""
    return f"; {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing for {begun[0]}"


def read_image_file(path: Path, *, limit: int = LIMIT, labelled: bool = True) -> Images:
    """Read `images [N, H, W]` or `[N, C, H, W]`, uint8 or floats in [0, 1], with `labels [N]`.

    Unless they must be `labelled`, images of a file without labels have the label -1.
    """
    with open_arrays(path, limit) as arrays:
        values = array(path, arrays, "images")
        labels = _labels(path, arrays, None if labelled else len(values))
        groups = _groups(path, arrays, len(labels))
    if values.ndim not in (3, 4) or not all(values.shape):
        raise ValueError(
            f"{path}: images must be [N, H, W] or [N, C, H, W], none of them 0, but is {list(values.shape)}"
        )
    require_length(path, "images", len(values), len(labels))
    _require_channels_first(path, values.shape)
    if values.dtype.kind == "f":
        require_finite(path, "images", values)
        low, high = values.min(), values.max()
        if not (low >= 0 and high <= 1):
            remedy = "; divide by 255, or write them as uint8" if low >= 0 and 1 < high <= 255 else ""
            raise ValueError(
                f"{path}: floating point images must be in [0, 1], but range over {low:g}..{high:g}{remedy}"
            )
        values = values.astype(np.float32)
    elif values.dtype != np.uint8:
        bytes_ = values.dtype.kind in "iu" and values.min() >= 0 and values.max() <= 255
        remedy = '; write images.astype("uint8")' if bytes_ else ""
        raise ValueError(f"{path}: images must be uint8, or floating point in [0, 1], but are {values.dtype}{remedy}")
    if values.ndim == 3:
        values = values[:, None]
    return Images(torch.from_numpy(np.ascontiguousarray(values)), torch.from_numpy(labels), _tensor(groups))


def read_spike_file(path: Path, *, limit: int = LIMIT, labelled: bool = True) -> Frames:
    """Read `spikes [N, T, ...]`, whole numbers 0..255 of any type, with `labels [N]`; -1 as for images."""
    with open_arrays(path, limit) as arrays:
        values = array(path, arrays, "spikes")
        labels = _labels(path, arrays, None if labelled else len(values))
        groups = _groups(path, arrays, len(labels))
    if values.ndim < 3 or not all(values.shape):
        raise ValueError(f"{path}: spikes must be [N, T, ...], none of them 0, but is {list(values.shape)}")
    require_length(path, "spikes", len(values), len(labels))
    if math.prod(values.shape[1:]) >= 2**31:
        raise ValueError(f"{path}: a sample must have less than 2**31 bins, but has {list(values.shape[1:])}")
    values = whole(path, "spikes", values, 0, 255).astype(np.uint8)
    return frames_from_dense(torch.from_numpy(values), torch.from_numpy(labels), _tensor(groups))


def read_event_file(
    path: Path,
    *,
    time_unit: Literal["s", "ms", "us"] | None = None,
    sensor: tuple[int, ...] | None = None,
    limit: int = LIMIT,
    from_first: bool = True,
    labelled: bool = True,
    option: str = "data.time_unit",
) -> Events:
    """Read events: `t` in `time_unit` (or `t_us`), `x`, perhaps `y` and `p`, `offsets [N+1]` and `labels [N]`.

    Without `sensor` the largest coordinates give its size, which is too small if no event touched its border. Each
    sample is sorted by time, and unless `from_first` is False its time starts at its first event. `p` may be 0 and 1,
    -1 and 1, or truth values. Unless they must be `labelled`, samples of a file without labels have the label -1.
    Errors call the unit of time `option`.
    """
    with open_arrays(path, limit) as arrays:
        name, unit = _time(path, arrays, time_unit)
        given = array(path, arrays, name)
        t = microseconds(path, name, given, MICROSECONDS[unit])
        require_different_times(path, name, given, MICROSECONDS[unit], option=option)
        columns = {"x": _column(path, arrays, "x", len(t), 2**31 - 1)}
        if "y" in arrays:
            columns["y"] = _column(path, arrays, "y", len(t), 2**31 - 1)
        if "p" in arrays:
            columns["p"] = _polarity(path, arrays, len(t))
        labels = _labels(path, arrays, None if labelled else len(array(path, arrays, "offsets")) - 1)
        offsets = _offsets(path, arrays, len(t), len(labels))
        groups = _groups(path, arrays, len(labels))
    sensor = sensor_size(path, columns, offsets, sensor)
    _sort_samples(t, columns, offsets)
    if from_first:
        t = times_from_first(t, offsets)
    elif len(t) and t.min() < 0:
        raise ValueError(
            f"{path}: {name} must be at least 0 where time_origin is 'zero', but {int((t < 0).sum())} of {len(t)} are "
            "less; shift the times, or use time_origin = 'first'"
        )
    origin: Literal["first", "zero"] = "first" if from_first else "zero"
    return Events(t, columns["x"], columns.get("y"), columns.get("p"), offsets, labels, sensor, groups, origin)


# ---- Columns


def _time(path: Path, arrays: Mapping[str, Stored], unit: str | None) -> tuple[str, str]:
    if "t_us" in arrays:
        if unit not in (None, "us"):
            raise ValueError(f"{path}: t_us is in microseconds, but time_unit is {unit!r}; leave it out")
        return "t_us", "us"
    if unit not in MICROSECONDS:
        raise ValueError(
            f'{path}: time_unit must say what t is in, "s", "ms" or "us", but is '
            f"{'not given' if unit is None else repr(unit)} (an array t_us needs none)"
        )
    return "t", unit


def _column(path: Path, arrays: Mapping[str, Stored], name: str, length: int, most: int) -> NDArray[np.integer]:
    values = array(path, arrays, name)
    require_flat(path, name, values)
    require_length(path, name, len(values), length, of="t")
    return whole(path, name, values, 0, most)


def _polarity(path: Path, arrays: Mapping[str, Stored], length: int) -> NDArray[np.integer]:
    values = array(path, arrays, "p")
    require_flat(path, "p", values)
    require_length(path, "p", len(values), length, of="t")
    values = whole(path, "p", values, -1, 1)
    if len(values) and values.min() < 0:
        if not values.all():
            raise ValueError(f"{path}: p must be 0 and 1, or -1 and 1, but holds -1, 0 and perhaps 1")
        values = values > 0
    return values.astype(np.uint8)


def _labels(path: Path, arrays: Mapping[str, Stored], unlabelled: int | None = None) -> NDArray[np.int64]:
    """Return the labels as numbers; where there are none, -1 for each of `unlabelled` samples, if that is given."""
    if unlabelled is not None and "labels" not in arrays:
        return np.full(max(unlabelled, 0), -1, np.int64)
    return as_numbers(label_column(path, arrays))


def _groups(path: Path, arrays: Mapping[str, Stored], samples: int) -> NDArray[np.int64] | None:
    groups = group_column(path, arrays, samples)
    return None if groups is None else as_numbers(groups)


def _tensor(values: NDArray[np.int64] | None) -> torch.Tensor | None:
    return None if values is None else torch.from_numpy(values)


def _offsets(path: Path, arrays: Mapping[str, Stored], events: int, samples: int) -> NDArray[np.int64]:
    offsets = array(path, arrays, "offsets")
    require_flat(path, "offsets", offsets)
    offsets = whole(path, "offsets", offsets, 0, 2**62).astype(np.int64)
    if len(offsets) != samples + 1:
        raise ValueError(
            f"{path}: offsets must have one more than the {samples} labels, but has {len(offsets)}; sample i holds the "
            f"events offsets[i] to offsets[i+1], so the last is the number of events, {events}"
        )
    falls = np.flatnonzero(np.diff(offsets) < 0)
    if offsets[0] != 0 or offsets[-1] != events or len(falls):
        raise ValueError(
            f"{path}: offsets must rise from 0 to the number of events, {events}, but go from {offsets[0]} to "
            f"{offsets[-1]}{f' and fall in between (offsets[{falls[0] + 1}])' if len(falls) else ''}"
        )
    return offsets


def _sort_samples(t: NDArray[np.int64], columns: dict[str, NDArray[Any]], offsets: NDArray[np.int64]) -> None:
    """Sort, in place, the samples that are not in the order of time; events of the same time keep their order."""
    falls = np.flatnonzero(t[1:] < t[:-1]) + 1
    for sample in np.unique(np.searchsorted(offsets, falls[~np.isin(falls, offsets)], side="right") - 1):
        here = slice(int(offsets[sample]), int(offsets[sample + 1]))
        order = np.argsort(t[here], kind="stable")
        for values in (t, *columns.values()):
            values[here] = values[here][order]


def _require_channels_first(path: Path, shape: tuple[int, ...]) -> None:
    """Refuse images [N, H, W, C]: they would be read as H channels of W x C pixels, which a network accepts too.

    Known by an image's size and 1, 3 or 4 channels; a small or narrow array of sensors may well be H x 4.
    """
    if len(shape) != 4 or min(shape[1:3]) < 16:
        return
    if shape[3] in (3, 4) or (shape[3] == 1 and shape[1] == shape[2]):
        raise ValueError(
            f"{path}: images must be [N, C, H, W], but {list(shape)} looks like [N, H, W, C]; "
            "write images.transpose(0, 3, 1, 2)"
        )
