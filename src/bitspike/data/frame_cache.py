"""A cache of frames, so that events are read and binned only once. A file's name is the hash of its inputs."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bitspike.data.binning import Binning, EventRule, bin_events
from bitspike.data.progress import Progress, silent
from bitspike.data.samples import Frames, frames
from bitspike.data.tally import COLUMNS, Tally
from bitspike.files import locked, write_atomically

if TYPE_CHECKING:
    from bitspike.data.events import Events

FORMAT = 4  # version of the file and of binning; a new one does not touch old files
TYPES = {"index": torch.int32, "count": torch.uint8, "lengths": torch.int64, "labels": torch.int64}
GROUPS = "groups"  # int64 too; left out where the events have none
TALLY = "tally"  # int64 [columns, N]
MOST_WORKERS = 8


def cached_frames(
    read: Callable[[], Events],
    binning: Binning,
    key: Mapping[str, str],
    folder: Path | None,
    *,
    progress: Progress = silent,
    workers: int | None = None,
) -> Frames:
    """Return frames of the events that `read` gives; `read` is called only if the frames are not in `folder`.

    Without a folder nothing is kept. `key` identifies the events. One process builds the frames; others that need the
    same frames wait, and use its file. A damaged file is built again.
    """
    if folder is None:
        return bin_events(read(), binning, workers=_workers(workers), progress=progress)
    text = json.dumps({"binning": asdict(binning), "format": FORMAT, "key": dict(key)}, sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()
    path = folder / f"{name}.safetensors"
    found = _load(path, text, binning)
    if found is not None:
        return found
    waited: list[Callable[[], None]] = []
    with locked(
        folder / f"{name}.lock",
        lambda: waited.append(progress("waiting for another process that bins the same events", 1)),
    ):
        for step in waited:
            step()
        found = _load(path, text, binning)
        if found is not None:
            return found
        built = bin_events(read(), binning, workers=_workers(workers), progress=progress)
        write_atomically(path, lambda to: _save(to, built, text))
        return built


def _workers(given: int | None) -> int:
    return min(MOST_WORKERS, os.cpu_count() or 1) if given is None else given


def _save(path: Path, built: Frames, text: str) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors = {name: getattr(built, name) for name in TYPES}
    if built.groups is not None:
        tensors[GROUPS] = built.groups
    tensors[TALLY] = torch.stack([getattr(built.tally, name) for name in COLUMNS])
    try:
        metadata = {"made_from": text, "shape": json.dumps(built.shape)}
        if built.rule is not None:
            metadata |= {"sensor": json.dumps(built.rule.sensor), "origin": built.rule.origin}
        save_file(tensors, path, metadata=metadata)
    except SafetensorError as error:
        # The library reports a full disk as its own error, with the error's number in the text.
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def _load(path: Path, text: str, binning: Binning) -> Frames | None:
    """Return the frames in `path`; None if it is missing, damaged or made from something else."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("made_from") != text:
                return None
            shape = tuple(json.loads(metadata["shape"]))
            # a file of an earlier version has neither, and is built again
            sensor, origin = tuple(json.loads(metadata["sensor"])), metadata["origin"]
            table = file.get_tensor(TALLY)
            tensors = {name: file.get_tensor(name) for name in TYPES}
            groups = file.get_tensor(GROUPS) if GROUPS in file.keys() else None  # noqa: SIM118  (not a dict)
    except (SafetensorError, KeyError, ValueError, TypeError):
        return None
    if not all(isinstance(size, int) and size > 0 for size in (*shape, *sensor)) or origin not in ("first", "zero"):
        return None
    if any(tensors[name].dtype != dtype or tensors[name].ndim != 1 for name, dtype in TYPES.items()):
        return None
    if not _is_sound(**tensors, bins=binning.steps * math.prod(shape)):
        return None
    if table.dtype != torch.int64 or table.shape != (len(COLUMNS), len(tensors["labels"])) or int(table.min()) < 0:
        return None
    if groups is not None and (groups.dtype != torch.int64 or groups.shape != tensors["labels"].shape):
        return None
    tally = Tally(binning.bin_us, binning.end_us, binning.downsample, binning.duration_us, *table)
    return frames(
        **tensors, steps=binning.steps, shape=shape, tally=tally, groups=groups, rule=EventRule(binning, sensor, origin)
    )


def _is_sound(index: Tensor, count: Tensor, lengths: Tensor, labels: Tensor, bins: int) -> bool:
    """Return True if every sample's bins are in order, none twice or empty: batches rely on that."""
    if len(index) != len(count) or len(lengths) != len(labels) or not len(labels):
        return False
    if int(lengths.min()) < 0 or int(lengths.max()) > bins or int(labels.min()) < 0:
        return False
    held = int(lengths.sum())
    if held == 0:
        return len(index) == 1 and not int(index[0]) and not int(count[0])
    if held != len(index) or int(index.min()) < 0 or int(index.max()) >= bins or not int(count.min()):
        return False
    rises = index[1:] > index[:-1]
    edges = lengths.cumsum(0)[:-1] - 1
    rises[edges[(edges >= 0) & (edges < held - 1)]] = True
    return bool(rises.all())
