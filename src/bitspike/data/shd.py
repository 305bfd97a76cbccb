"""The files of the Spiking Heidelberg Digits: HDF5 as published, and a compact form of the same spikes."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bitspike.data.array_files import Refused, open_arrays, readable
from bitspike.data.events import Events
from bitspike.data.hdf5_files import hdf5_dataset, optional_dataset, read_lists, require_stored
from bitspike.data.unpacking import most_unpacked, unpacked_hdf5, unpacked_xz

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNITS, CLASSES = 700, 20
MOST_BYTES = 8 * 2**30
MOST_SAMPLES, MOST_SPIKES = 2**20, 2**31
LONGEST_S, MOST_TICKS = 2**32, 2**24
SPEAKERS, MOST_SPEAKER = "extra/speaker", 2**16 - 1
BLOCK = 512  # samples whose spikes are sorted together
NUMBERS = 2**20  # numbers that are rounded together


def read_shd(path: Path, *, scratch: Path | None = None) -> Events:
    """Read a published file, .h5, .h5.gz or .h5.zip: `spikes/times` in seconds, `spikes/units`, `labels`.

    The speakers in `extra/speaker` are the groups of the samples; without that array there are none.
    A packed file is unpacked, for as long as it is read, into the folder `scratch` (default: the system's).
    """
    import h5py

    with unpacked_hdf5(path, scratch, MOST_BYTES) as plain:
        with readable(str(path)):
            file = h5py.File(plain, "r")
        with file:
            return _read_hdf5(path, file)


def _read_hdf5(path: Path, file: Any) -> Events:
    names = {"spikes/times": "f", "spikes/units": "ui", "labels": "ui"}
    times, units, labels = (hdf5_dataset(str(path), file, name) for name in names)
    speakers = optional_dataset(str(path), file, SPEAKERS)
    with readable(str(path)):
        if times.ndim != 1 or not times.shape == units.shape == labels.shape or not 0 < len(labels) <= MOST_SAMPLES:
            raise Refused(
                f"must hold as many labels as lists of times and units, 1 to {MOST_SAMPLES}, but their shapes are "
                f"{labels.shape}, {times.shape} and {units.shape}"
            )
        _require_types(names, (times, units, labels))
        require_stored(labels)
        t, t_counts = _joined(path, times, np.int64)
        x, x_counts = _joined(path, units, np.uint16)
        if not np.array_equal(t_counts, x_counts):
            sample = int(np.flatnonzero(t_counts != x_counts)[0])
            raise Refused(f"sample {sample} has {t_counts[sample]} times, but {x_counts[sample]} units")
        offsets = np.concatenate([[0], np.cumsum(t_counts)])
        groups = None
        if speakers is not None:
            require_stored(speakers)
            groups = _speakers(SPEAKERS, speakers[()], len(labels))
        return Events(t, x, None, None, offsets, _labels(labels[()]), (UNITS,), groups)


def _require_types(names: dict[str, str], datasets: tuple[Any, ...]) -> None:
    import h5py

    for (name, kinds), data in zip(names.items(), datasets, strict=True):
        dtype = data.dtype if name == "labels" else h5py.check_vlen_dtype(data.dtype)
        if getattr(dtype, "kind", None) not in tuple(kinds):
            wanted = "lists of floating point numbers" if kinds == "f" else "whole numbers"
            raise Refused(f"{name} must be {wanted}{' in lists' if name == 'spikes/units' else ''}, but is {dtype}")


def _joined(path: Path, data: Any, dtype: type[np.integer]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return all lists of `data` one after another, times as microseconds, and their lengths."""
    name = data.name.strip("/")
    with readable(f"{path}: {name}"):
        values, lengths = read_lists(data, MOST_SPIKES)
    if len(values):
        _require_range(name, values)
    whole = np.empty(len(values), dtype)
    for at in range(0, len(values), NUMBERS):
        part = values[at : at + NUMBERS]
        whole[at : at + NUMBERS] = np.rint(part * np.float64(1e6)) if part.dtype.kind == "f" else part
    return whole, lengths


def _require_range(name: str, values: NDArray[Any]) -> None:
    most = LONGEST_S if values.dtype.kind == "f" else UNITS - 1
    low, high = values.min().item(), values.max().item()
    if math.isnan(low):
        raise Refused(f"{name} must be in 0..{most}, but {int(np.isnan(values).sum())} are NaN")
    if not (low >= 0 and high <= most):
        raise Refused(f"{name} must be in 0..{most}, but range over {low}..{high}")


def _labels(values: NDArray[Any]) -> NDArray[np.int64]:
    if len(values) and not (values.min() >= 0 and values.max() < CLASSES):
        raise Refused(f"labels must be in 0..{CLASSES - 1}, but range over {values.min()}..{values.max()}")
    return values.astype(np.int64)


def _speakers(name: str, values: NDArray[Any], samples: int) -> NDArray[np.int64]:
    """Return the speaker of each sample; raise unless each sample has one, a small whole number."""
    if values.shape != (samples,) or values.dtype.kind not in "ui":
        raise Refused(
            f"{name} must be whole numbers, one for each of {samples} samples, but is {values.dtype} "
            f"{list(values.shape)}"
        )
    if values.min() < 0 or values.max() > MOST_SPEAKER:
        raise Refused(f"{name} must be in 0..{MOST_SPEAKER}, but range over {values.min()}..{values.max()}")
    return values.astype(np.int64)


# ---- The compact form


def read_shd_compact(path: Path) -> Events:
    """Read a .npz.xz: `counts [N, 700]` of spikes for each unit, and `isi`, the gaps between them in ticks.

    Its `speaker [N]` are the groups of the samples; without that array there are none.
    Equal to what `read_shd` gives for the HDF5 file with the same spikes: sorted by time, then by unit, and with times
    rounded to the float16 seconds of the published files.
    """
    where = str(path)
    with readable(where), path.open("rb") as stream:
        data = unpacked_xz(stream, most_unpacked(path, MOST_BYTES))
    with open_arrays(io.BytesIO(data), MOST_BYTES, where) as arrays, readable(where):
        missing = {"counts", "isi", "labels", "tick_ms"} - set(arrays)
        if missing:
            raise Refused(
                f"must hold the arrays counts, isi, labels and tick_ms, but has no {', '.join(sorted(missing))}"
            )
        counts, gaps, labels, tick_ms = (arrays[name].read() for name in ("counts", "isi", "labels", "tick_ms"))
        _require_compact(counts, gaps, labels, tick_ms)
        groups = _speakers("speaker", arrays["speaker"].read(), len(labels)) if "speaker" in arrays else None
        offsets = np.concatenate([[0], np.cumsum(counts.sum(1, dtype=np.int64))])
        if offsets[-1] != len(gaps):
            raise Refused(f"counts add up to {offsets[-1]} spikes, but isi has {len(gaps)}")
        ticks = np.empty(len(gaps), np.uint32)
        x = np.empty(len(gaps), np.uint16)
        for at in range(0, len(counts), BLOCK):
            block = slice(int(offsets[at]), int(offsets[min(at + BLOCK, len(counts))]))
            ticks[block], x[block] = _sorted_spikes(counts[at : at + BLOCK], gaps[block])
        t = _published_us(ticks, float(tick_ms))
        return Events(t, x, None, None, offsets, _labels(labels), (UNITS,), groups)


def _require_compact(counts: NDArray[Any], gaps: NDArray[Any], labels: NDArray[Any], tick_ms: NDArray[Any]) -> None:
    kinds = [array.dtype.kind for array in (counts, gaps, labels)]
    if kinds != ["u"] * 3 or counts.ndim != 2 or counts.shape[1] != UNITS or gaps.ndim != 1 or gaps.itemsize > 2:
        raise Refused(
            f"counts [N, {UNITS}], isi (at most 16 bits) and labels must be unsigned, but are {counts.dtype} "
            f"{list(counts.shape)}, {gaps.dtype} {list(gaps.shape)} and {labels.dtype} {list(labels.shape)}"
        )
    if labels.shape != counts.shape[:1] or not len(labels):
        raise Refused(f"labels must be as many as counts, {len(counts)}, and at least 1, but are {list(labels.shape)}")
    if tick_ms.shape != () or tick_ms.dtype.kind != "f" or not 0 < tick_ms <= 1000:
        raise Refused(f"tick_ms must be one number in (0, 1000], but is {tick_ms!r}")


def _sorted_spikes(counts: NDArray[Any], gaps: NDArray[Any]) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return ticks and units of a few samples, sorted by sample, tick and unit: all three are packed in one number."""
    trains = counts.ravel().astype(np.int64)
    running = np.cumsum(gaps, dtype=np.int64)
    before = np.concatenate([[0], running])[np.cumsum(trains) - trains]
    ticks = running - np.repeat(before, trains)
    if len(ticks) and ticks.max() >= MOST_TICKS:
        raise Refused(f"times must be less than {MOST_TICKS} ticks, but one is {ticks.max()}")
    train = np.repeat(np.arange(len(trains), dtype=np.int64), trains)
    number = np.sort((train // UNITS << 42) | (ticks << 10) | (train % UNITS))
    return (number >> 10).astype(np.uint32), (number & 1023).astype(np.uint16)


def _published_us(ticks: NDArray[np.uint32], tick_ms: float) -> NDArray[np.int64]:
    """Return ticks as microseconds, rounded to the float16 seconds of the published files."""
    most = int(ticks.max()) if len(ticks) else 0
    if most * tick_ms > 60_000_000:
        raise Refused(f"times must be at most 60000 s, the range of float16, but one is {most * tick_ms / 1000:g} s")
    seconds = (np.arange(most + 1) * (tick_ms / 1000.0)).astype(np.float16)
    return np.rint(seconds * np.float64(1e6)).astype(np.int64)[ticks]
