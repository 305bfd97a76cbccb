"""Joining of samples from several files, in the order of the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from bitspike.data.events import Events
from bitspike.data.samples import Frames, Images, Samples, frames


def join_samples(parts: Sequence[Samples], paths: Sequence[Path]) -> Samples:
    """Return the samples of all files as one set; `groups` are left to the caller."""
    first = parts[0]
    if len(parts) == 1:
        return first
    for part, path in zip(parts, paths, strict=True):
        if (part.shape, part.steps) != (first.shape, first.steps):
            raise ValueError(
                f"data: samples of {paths[0].name} are {_size(first)}, but those of {path.name} {_size(part)}; "
                "files of one list must have samples of one size"
            )
        if isinstance(part, Images) and isinstance(first, Images) and part.values.dtype != first.values.dtype:
            raise ValueError(
                f"data: images of {paths[0].name} are {_type(first)}, but those of {path.name} {_type(part)}; "
                "write all of them in one way"
            )
    labels = torch.cat([part.labels for part in parts])
    if isinstance(first, Images):
        return Images(torch.cat([part.values for part in parts if isinstance(part, Images)]), labels)
    return _joined_frames([part for part in parts if isinstance(part, Frames)], labels)


def _joined_frames(parts: Sequence[Frames], labels: torch.Tensor) -> Frames:
    held = [int(part.lengths.sum()) for part in parts]  # one more is stored where all samples are silent
    index, count = (
        torch.cat([getattr(part, name)[:size] for part, size in zip(parts, held, strict=True)])
        for name in ("index", "count")
    )
    lengths = torch.cat([part.lengths for part in parts])
    return frames(index, count, lengths, labels, parts[0].steps, parts[0].shape)


def _size(samples: Samples) -> str:
    steps = "" if samples.steps is None else f" in {samples.steps} time steps"
    return f"{tuple(samples.shape)}{steps}"


def _type(samples: Images) -> str:
    return "bytes" if samples.values.dtype == torch.uint8 else "floating point"


def join_events(parts: Sequence[Events], paths: Sequence[Path]) -> Events:
    """Return the events of all files as one set; the sensor is as large as the largest of theirs."""
    first = parts[0]
    if len(parts) == 1:
        return first
    for part, path in zip(parts, paths, strict=True):
        for name in ("y", "p"):
            if (getattr(part, name) is None) != (getattr(first, name) is None):
                having, lacking = (path, paths[0]) if getattr(first, name) is None else (paths[0], path)
                raise ValueError(f"data: {having.name} has an array {name}, but {lacking.name} has none; use one kind")
    offsets = np.cumsum([0, *(length for part in parts for length in np.diff(part.offsets).tolist())])
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("t", "x", "y", "p", "labels", "groups")
        if all(getattr(part, name) is not None for part in parts)
    }
    sensor = tuple(max(sizes) for sizes in zip(*(part.sensor for part in parts), strict=True))
    return replace(first, **{"groups": None, **joined}, offsets=offsets.astype(np.int64), sensor=sensor)
