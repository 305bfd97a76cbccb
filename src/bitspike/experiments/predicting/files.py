"""Files of any kind as samples of a network: images, events, recordings, or plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from bitspike.data.events import Events
from bitspike.data.joining import join_samples
from bitspike.data.progress import silent
from bitspike.data.samples import Images, Samples
from bitspike.experiments.predicting.event_files import read_events, require_hearing
from bitspike.experiments.predicting.file_samples import FileSamples, ReadOptions
from bitspike.experiments.predicting.image_files import read_images
from bitspike.experiments.predicting.trained_on import TrainedOn
from bitspike.experiments.predicting.value_files import read_values

# A reader for each kind of input.
READERS: dict[str, Callable[[Path, TrainedOn, ReadOptions], FileSamples]] = {
    "image": read_images,
    "events": read_events,
    "values": read_values,
}


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """The samples of some files, in order: `names`, `expected` and `missed` have an entry for each sample.

    A file with several samples gives names such as file.npz[3]. `events` has the events of each sample's file, and
    the sample's row among them, if it has any. `unread` holds files that could not be read, and why.
    """

    names: list[str]
    samples: Samples
    expected: list[int | None]
    notes: list[str]
    missed: list[float]
    events: list[tuple[Events, int] | None]
    unread: dict[Path, ValueError | OSError] = field(default_factory=dict)


def read_files(files: Sequence[Path], trained_on: TrainedOn, options: ReadOptions) -> Given:
    """Return the samples of files for a network that was trained on `trained_on`.

    Files that cannot be read are left out, and listed in `unread`; if that is all of them, the first error is raised.
    """
    _require_useful(options, files, trained_on)
    read = READERS[trained_on.input.kind]
    tick = options.progress("files", len(files))
    # a bar for each of many would fill the screen
    inner = options if len(files) == 1 else replace(options, progress=silent)
    parts: list[tuple[Path, FileSamples]] = []
    unread: dict[Path, ValueError | OSError] = {}
    for path in files:
        try:
            _require_readable(path, trained_on)
            parts.append((path, read(path, trained_on, inner)))
        except (ValueError, OSError) as error:
            unread[path] = error
        tick()
    if not parts:
        raise next(iter(unread.values()))
    return replace(_joined([part for _, part in parts], [path for path, _ in parts]), unread=unread)


def _require_readable(path: Path, trained_on: TrainedOn) -> None:
    """Raise unless `path` is a file that is there, and no recording for a network that does not hear."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    if is_recording(path):
        require_hearing(path, trained_on)


def is_recording(path: Path) -> bool:
    """Return whether a file is a recording, by its name."""
    return path.suffix.lower() == ".wav"


def _require_useful(options: ReadOptions, files: Sequence[Path], trained_on: TrainedOn) -> None:
    """Raise if an option would do nothing: none of the files, or no file of this network, is read with it."""
    kind, usual = trained_on.input.kind, ReadOptions()
    but = f"but the network was trained on {trained_on.title}; leave it out"
    if options.invert and kind != "image":
        raise ValueError(f"--invert is for images, {but}")
    if options.time_unit is not None and kind != "events":
        raise ValueError(f"--time-unit is for events, {but}")
    if options.time_unit is not None and all(map(is_recording, files)):
        raise ValueError("--time-unit is for files of events, but all files are recordings; leave it out")
    changed = {"--seed": options.seed != usual.seed, "--no-trim": options.trim != usual.trim}
    for option in (option for option, given in changed.items() if given):
        if not any(map(is_recording, files)):
            raise ValueError(f"{option} is for recordings (WAV), but none of the files is one; leave it out")


def _joined(parts: Sequence[FileSamples], files: Sequence[Path]) -> Given:
    given = Given([], _one_set(parts, files), [], [], [], [])
    for path, part in zip(files, parts, strict=True):
        count = len(part.samples)
        given.names.extend([str(path)] if count == 1 else [f"{path}[{i}]" for i in range(count)])
        given.expected.extend(part.expected)
        given.notes.extend(part.notes)
        given.missed.extend(part.missed or [0.0] * count)
        given.events.extend(None if part.events is None else (part.events, row) for row in range(count))
    return given


def _one_set(parts: Sequence[FileSamples], files: Sequence[Path]) -> Samples:
    """Return the samples of all files as one set; bytes become numbers in [0, 1] where some images are such numbers."""
    samples = [part.samples for part in parts]
    if len({each.values.dtype for each in samples if isinstance(each, Images)}) > 1:
        rows = [(each, torch.arange(len(each))) for each in samples]
        samples = [Images(each.batch(every)[0], each.labels) for each, every in rows]
    return join_samples(samples, files)
