"""Files of spikes: npz, as `data.file` of an experiment takes it, or HDF5 in the layout of SHD."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bitspike.data.events import Events
from bitspike.files import write_atomically

if TYPE_CHECKING:
    from bitspike.data.speech.cochlea import Spikes

UNITS = 700
MOST_LABEL = 2**31 - 1
# The classes of the Spiking Heidelberg Digits, as its files name them.
ENGLISH = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
GERMAN = ("null", "eins", "zwei", "drei", "vier", "fuenf", "sechs", "sieben", "acht", "neun")
DIGITS = (*ENGLISH, *GERMAN)


def as_events(samples: Sequence[Spikes], labels: Sequence[int] | None = None) -> Events:
    """Return the spikes of some recordings as events of a line of 700 units; without `labels` all are 0."""
    import numpy as np

    offsets = np.concatenate([[0], np.cumsum([len(each) for each in samples])]).astype(np.int64)
    t, x = (np.concatenate([getattr(each, column) for each in samples]) for column in ("t", "unit"))
    return Events(t, x, None, None, offsets, np.array(labels or [0] * len(samples), dtype=np.int64), (UNITS,))


def require_spike_file(path: Path, labels: Sequence[int] = ()) -> None:
    """Raise an error unless the name of a file says in which format spikes are written, and labels fit into it."""
    if path.suffix not in (".npz", ".h5"):
        raise ValueError(f"encode: --out must end in .npz, or in .h5 for SHD's own layout, but is {path}")
    if max(labels, default=0) > MOST_LABEL:
        raise ValueError(f"encode: labels must be 0 to {MOST_LABEL}, but one is {max(labels)}")
    if path.suffix == ".h5" and max(labels, default=0) >= len(DIGITS):
        raise ValueError(f"encode: labels in SHD's own layout are 0 to 19, but one is {max(labels)}; write a .npz file")


def write_spikes(path: Path, events: Events) -> Path:
    """Write events of a line of units to a .npz file, or to a .h5 file as SHD is published; atomically."""
    require_spike_file(path, events.labels.tolist())
    return write_atomically(path, lambda to: (_write_hdf5 if path.suffix == ".h5" else _write_npz)(to, events))


def _write_npz(path: Path, events: Events) -> None:
    import numpy as np

    np.savez_compressed(path, t_us=events.t, x=events.x, offsets=events.offsets, labels=events.labels)


def _write_hdf5(path: Path, events: Events) -> None:
    import h5py
    import numpy as np

    with h5py.File(path, "w") as file:
        spikes, extra = file.create_group("spikes"), file.create_group("extra")
        columns = {"times": (events.t / 1e6).astype(np.float16), "units": events.x.astype(np.uint16)}
        for name, column in columns.items():
            lists = spikes.create_dataset(name, (len(events),), dtype=h5py.vlen_dtype(column.dtype))
            for i in range(len(events)):
                lists[i] = column[events.offsets[i] : events.offsets[i + 1]]
        file["labels"] = events.labels.astype(np.uint16)
        extra["speaker"] = np.zeros(len(events), np.uint16)
        extra["keys"] = np.array(DIGITS, dtype="S21")


def read_spikes(path: Path) -> Events:
    """Read a file that `write_spikes` wrote, or one of the Spiking Heidelberg Digits; times are as they were."""
    from bitspike.data.event_files import read_event_file
    from bitspike.data.shd import read_shd

    if path.suffix == ".h5":
        return read_shd(path)
    return read_event_file(path, sensor=(UNITS,), from_first=False)
