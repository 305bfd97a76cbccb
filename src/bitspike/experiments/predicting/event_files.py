"""Events as a network takes them: read from files or encoded from recordings, and binned as in its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bitspike.data.array_files import listed
from bitspike.data.binning import bin_events
from bitspike.data.event_files import read_event_file
from bitspike.data.event_times import times_from_first
from bitspike.data.events import Events
from bitspike.data.hdf5_files import hdf5_folders
from bitspike.data.pictures import SUFFIXES
from bitspike.data.shd import read_shd
from bitspike.data.speech.cochlea import encode_speech
from bitspike.data.speech.spike_files import UNITS, as_events
from bitspike.data.speech.wav import read_wav
from bitspike.experiments.model_input import binning_by
from bitspike.experiments.predicting.file_samples import (
    ARRAY_FILES,
    FileSamples,
    ReadOptions,
    arrays_in,
    labels_of,
    numbered,
    require_sizes,
)
from bitspike.experiments.predicting.trained_on import TrainedOn

MOST = 2**31 - 1  # no sensor is larger
SHORT = 0.01  # the share of the network's time in which all events of a sample come, if the unit of time is wrong
MOST_NOTES = 3  # of one kind about one file; the others are counted


def read_events(path: Path, trained_on: TrainedOn, options: ReadOptions) -> FileSamples:
    """Return the samples of an event file in the project's format or SHD's, or of a recording, binned."""
    expected: list[int | None] | None = None
    notes: list[str] = []
    in_doubt = ""
    if path.suffix.lower() not in ARRAY_FILES:
        _require_recording(path, trained_on)
        events, notes = _recording(path, trained_on, options)
    elif _has_layout_of_shd(path):
        require_hearing(path, trained_on)
        events = read_shd(path)  # in seconds
        expected, notes = numbered(path, events.labels.tolist(), trained_on)
    else:
        names = arrays_in(path)
        events = _own_events(path, names, trained_on, options)
        expected, notes = labels_of(path, trained_on, len(events), names)
        in_doubt = "are its t_us microseconds?" if "t_us" in names else "is the unit of t another (--time-unit)?"
    if trained_on.hears_recordings and expected is not None and not any(events.labels.tolist()):
        expected = None  # `bitspike encode` writes 0 where it is not told: no label at all
    found = binned(path, events, trained_on, expected, notes)
    notes += _silent_notes(path, events)
    if in_doubt and found.events is not None:
        notes += _short_notes(path, found.events, binning_by(trained_on.input).end_us, in_doubt)
    return found


def _silent_notes(path: Path, events: Events) -> list[str]:
    """Return a note for each sample without events, which the network answers all the same."""
    silent = np.flatnonzero(np.diff(events.offsets) == 0).tolist()
    return _about_samples(path, silent, "holds no events", "hold no events")


def _short_notes(path: Path, events: Events, end_us: int, asks: str) -> list[str]:
    """Return a note for each sample whose events all come at the start of the network's time; it `asks` why."""
    late = np.concatenate([[0], np.cumsum(events.t > SHORT * end_us)])[events.offsets]
    several = np.diff(events.offsets) > 1  # one event lasts no time in any unit
    short = np.flatnonzero(several & (np.diff(late) == 0)).tolist()
    what = f"all events within the first {SHORT:.0%} of the network's {end_us / 1000:g} ms; {asks}"
    return _about_samples(path, short, f"has {what}", f"have {what}")


def _about_samples(path: Path, rows: Sequence[int], one: str, more: str) -> list[str]:
    """Return a note on each of the first samples, and one that counts the others."""
    notes = [f"{path}, sample {row}: {one}" for row in rows[:MOST_NOTES]]
    rest = len(rows) - len(notes)
    return [*notes, f"{path}: {rest} more sample{'s' * (rest > 1)} {more if rest > 1 else one}"] if rest else notes


def binned(
    path: Path, events: Events, trained_on: TrainedOn, expected: list[int | None] | None, notes: list[str]
) -> FileSamples:
    """Return events, with the file's own times, as frames; the network's rule says from which time bins count."""
    if trained_on.input.origin == "first":
        events = replace(events, t=times_from_first(events.t, events.offsets), origin="first")
    binning = binning_by(trained_on.input)
    shape = binning.shape(events)
    having = f" ({'with' if events.p is not None else 'without'} polarities p)"
    require_sizes(path, shape, trained_on, having if len(shape) != len(trained_on.input_shape) else "")
    late = np.concatenate([[0], np.cumsum(events.t >= binning.end_us)])[events.offsets]
    missed = (np.diff(late) / np.maximum(np.diff(events.offsets), 1)).tolist()
    unknown: list[int | None] = [None] * len(events)
    return FileSamples(bin_events(events, binning), expected or unknown, notes, missed, events)


def require_hearing(path: Path, trained_on: TrainedOn) -> None:
    """Raise unless the network's input is what recordings become."""
    if not trained_on.hears_recordings:
        raise ValueError(f"{path}: the network was trained on {not_heard(trained_on)}")


def not_heard(trained_on: TrainedOn) -> str:
    """Return what a network was trained on, and why it cannot hear recordings."""
    return (
        f"{trained_on.title}, whose samples have the shape {list(trained_on.input_shape)}, but recordings become "
        f"spikes of {UNITS} units; predict takes a run on shd, or on files of bitspike encode"
    )


def _require_recording(path: Path, trained_on: TrainedOn) -> None:
    """Raise unless the file is a recording, by its name or its beginning."""
    if path.suffix.lower() == ".wav":
        return
    with path.open("rb") as stream:
        if stream.read(4) == b"RIFF":
            return
    pictures = ", and takes no pictures" if path.suffix.lower() in SUFFIXES else ""
    wav = "a recording (WAV), or " if trained_on.hears_recordings else ""
    raise ValueError(
        f"{path}: the network was trained on {trained_on.title}, which are events{pictures}; give {wav}an npz or HDF5 "
        "file of events"
    )


def _recording(path: Path, trained_on: TrainedOn, options: ReadOptions) -> tuple[Events, list[str]]:
    require_hearing(path, trained_on)
    sound = read_wav(path)
    mixed = [f"{path}: {sound.channels} channels were mixed to one"] if sound.channels > 1 else []
    spikes = encode_speech(sound.trimmed() if options.trim else sound, seed=options.seed, progress=options.progress)
    return as_events([spikes]), mixed


def _has_layout_of_shd(path: Path) -> bool:
    return path.suffix.lower() != ".npz" and {"times", "units"} <= set(hdf5_folders(path).get("spikes", ()))


def _own_events(path: Path, names: set[str], trained_on: TrainedOn, options: ReadOptions) -> Events:
    """Return the events of a file in the project's format, on the sensor of the network's training."""
    sensor = _sensor(trained_on)
    polarities = len(trained_on.input_shape) > len(sensor) and trained_on.input_shape[0] == 2
    missing = {"x", "offsets", *("p" * polarities)} - names | (set() if names & {"t", "t_us"} else {"t_us"})
    if missing:
        raise ValueError(
            f"{path}: holds {listed(names)}, but the network takes events: t_us or t [E], x [E], offsets [N+1], and y "
            f"and p as its sensor has them; {' and '.join(sorted(missing))} "
            f"{'is' if len(missing) == 1 else 'are'} missing"
        )
    if ("y" in names) != (len(sensor) == 2):
        has, wants = ("x and y", "a line of units") if "y" in names else ("x and no y", "a camera")
        raise ValueError(
            f"{path}: its events have {has}, but the network was trained on {trained_on.title}, events of {wants} "
            f"({_size(sensor)})"
        )
    unit = options.time_unit or (None if "t_us" in names else trained_on.time_unit)
    if unit not in (None, "us") and "t_us" in names:
        raise ValueError(f"{path}: its t_us is in microseconds, but --time-unit is {unit!r}; leave it out")
    if unit is None and "t_us" not in names:
        raise ValueError(f"{path}: what is t in? Give --time-unit s, ms or us, or write an array t_us")
    events = read_event_file(
        path,
        time_unit=unit,
        sensor=(MOST,) * len(sensor),
        from_first=trained_on.input.origin == "first",
        labelled=False,
        option="--time-unit",
    )
    if not len(events):
        raise ValueError(f"{path}: holds no sample: offsets has one entry, but N+1 are needed for N samples")
    for name, column, size in zip("yx"[-len(sensor) :], _places(events), sensor, strict=True):
        if len(column) and int(column.max()) >= size:
            raise ValueError(
                f"{path}: the largest {name} is {int(column.max())}, but the network was trained on "
                f"{trained_on.title}, a sensor of {_size(sensor)}, so that {name} is at most {size - 1}"
            )
    return replace(events, sensor=sensor)


def _places(events: Events) -> list[np.ndarray]:
    return [events.x] if events.y is None else [events.y, events.x]


def _sensor(trained_on: TrainedOn) -> tuple[int, ...]:
    """Return the sensor of training; where it is not known, the largest that gives frames of the network's input."""
    if trained_on.input.sensor is not None:
        return trained_on.input.sensor
    shape = trained_on.input_shape
    cells = shape[-2:] if len(shape) == 3 else shape[-1:]
    return tuple((size + 1) * trained_on.input.downsample - 1 for size in cells)


def _size(sensor: tuple[int, ...]) -> str:
    return f"{sensor[1]} x {sensor[0]} pixels" if len(sensor) == 2 else f"{sensor[0]} units"
