"""The user's own files as a dataset: read, binned, split, and with the time bins that their config leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from bitspike.data.binning_fields import binning_for, duration_us, refuse_fields
from bitspike.data.config import BINNING, DataConfig
from bitspike.data.own_paths import called, digest_of, expanded, own_edition, own_paths
from bitspike.data.progress import Progress
from bitspike.data.roots import cache_folder, data_root
from bitspike.data.sample_columns import Numbering, read_columns
from bitspike.data.samples import Dataset, Samples
from bitspike.data.splits import split_labels, split_rows

if TYPE_CHECKING:
    from bitspike.data.events import Events

_EVENT_FIELDS = ("time_unit", "time_origin", "sensor")


def with_bins(config: DataConfig) -> tuple[DataConfig, str]:
    """Return `config` with the time bins that it leaves out, found from its own training events, and their source.

    A config that needs none comes back as it is, with an empty source.
    """
    from bitspike.data.default_bins import default_bins
    from bitspike.data.event_files import kind_of

    if config.file is None or None not in (config.bin_ms, config.steps):
        return config, ""
    paths = expanded(config.file)
    _require_one_kind(own_paths(config), config)
    if kind_of(paths[0], config.kind) != "events":
        return config, ""
    given = None if config.bin_ms is None else round(config.bin_ms * 1000)
    events = _training_events(paths, config)
    if not len(events.t):
        raise ValueError(f"data: no training sample of {called(paths)} has an event; look at t and offsets in the file")
    found = default_bins(events, bin_us=given, steps=config.steps, duration_us=duration_us(config))
    return config.model_copy(update={"bin_ms": found.bin_us / 1000, "steps": found.steps}), found.source


def _training_events(paths: Sequence[Path], config: DataConfig) -> Events:
    """Return the events of the user's training samples: those of `paths` that are not held out for the test."""
    events = read_own_events(paths, config)
    if config.test_file is not None:
        return events
    columns = [read_columns(path) for path in paths]
    labels, groups = Numbering.of({"file": columns}, config.groups).numbers(columns)
    _, held = split_labels(labels, groups, config.test_share, config.split_seed)
    kept = torch.ones(len(labels), dtype=torch.bool, device="cpu")
    kept[held] = False
    return events.select(kept.numpy())


def open_own(config: DataConfig, root: Path | None, progress: Progress) -> Dataset:
    """Return the samples of the user's files; labels are numbered over all of them together."""
    paths = own_paths(config)
    _require_one_kind(paths, config)
    config, _ = with_bins(config)
    parts = _parts(paths, config, root, progress)
    columns = {field: [read_columns(path) for path in files] for field, files in paths.items()}
    numbering = Numbering.of(columns, config.groups)
    parts = {field: numbering.applied(part, columns[field]) for field, part in parts.items()}
    train, names = parts["file"], called(paths["file"])
    if "test_file" in parts:
        test = parts["test_file"]
    else:
        if config.test_steps is not None:
            raise ValueError("data.test_steps needs data.test_file: training and test samples come from one file here")
        kept, held = split_rows(train, config.test_share, config.split_seed)
        if not len(held):
            raise ValueError(
                f"data: {names} has {len(train)} samples and no two of one class, so that none can be held out for "
                "the test; give data.test_file, or more samples of a class"
                if train.groups is None
                else f"data: all samples of {names} are in one group, so that none can be held out for the test; "
                "give data.test_file, or samples of another group"
            )
        train, test = train.select(kept), train.select(held)
    return Dataset(
        paths["file"][0].stem,
        names,
        len(numbering.labels),
        train,
        test,
        edition=own_edition(config),
        group_names="" if train.groups is None else "files" if config.groups == "file" else "groups",
        class_names=numbering.class_names(config.class_names),
        valid=parts.get("validation_file"),
        file_labels=tuple(map(str, numbering.labels.tolist())),
        group_labels=numbering.group_labels,
    )


def _parts(
    paths: Mapping[str, Sequence[Path]], config: DataConfig, root: Path | None, progress: Progress
) -> dict[str, Samples]:
    """Return the samples of each field's files, all of one shape.

    A sensor that is found from the events is as large as the events of all files need, so that a channel may be silent
    in the test samples alone.
    """

    def read(config: DataConfig) -> dict[str, Samples]:
        return {
            field: _own_files(files, config, "test" if field == "test_file" else "train", root, progress)
            for field, files in paths.items()
        }

    parts = read(config)
    shapes = {part.shape for part in parts.values()}
    if len(shapes) > 1 and config.sensor is None and own_kind(paths["file"], config) == "events":
        sensors = [read_own_events(files, config).sensor for files in paths.values()]
        if len({len(sensor) for sensor in sensors}) == 1:
            parts = read(config.model_copy(update={"sensor": tuple(map(max, zip(*sensors, strict=True)))}))
    for field in parts:
        _require_alike(parts, field, paths)
    return parts


def _require_alike(parts: Mapping[str, Samples], field: str, paths: Mapping[str, Sequence[Path]]) -> None:
    """Raise unless the samples of `field` have the shape of the training samples."""
    first, other = parts["file"], parts[field]
    if other.shape != first.shape or type(other) is not type(first):
        raise ValueError(
            f"data: samples of {called(paths['file'])} have the shape {first.shape}, but those of "
            f"{called(paths[field])} {other.shape}; all files must hold samples of one kind and size"
        )


def _own_files(paths: Sequence[Path], config: DataConfig, split: str, root: Path | None, progress: Progress) -> Samples:
    """Return the samples of one file or of several, in their order."""
    from bitspike.data.event_files import read_image_file, read_spike_file
    from bitspike.data.frame_cache import cached_frames
    from bitspike.data.joining import join_samples

    kind = own_kind(paths, config)
    if kind == "images":
        only_events = f"{called(paths)} holds images (net.steps is how long one is shown)"
        refuse_fields(config, (*BINNING, *_EVENT_FIELDS), only_events)
        return join_samples([read_image_file(path) for path in paths], paths)
    if kind == "spikes":
        refuse_fields(config, (*BINNING, *_EVENT_FIELDS), f"{called(paths)} holds spikes that are binned already")
        return join_samples([read_spike_file(path) for path in paths], paths)
    key = {"file": digest_of(paths), "time_unit": str(config.time_unit), "sensor": str(config.sensor)}
    if config.time_origin == "zero":
        key["time_origin"] = "zero"
    folder = cache_folder(root or data_root())
    binning = binning_for(config, None, split)
    return cached_frames(lambda: read_own_events(paths, config), binning, key, folder, progress=progress)


def own_kind(paths: Sequence[Path], config: DataConfig) -> Literal["images", "events", "spikes"]:
    """Return the kind of samples in the user's files; raise if they are not of one kind."""
    from bitspike.data.event_files import kind_of

    kinds = {path: kind_of(path, config.kind) for path in paths}
    first = kinds[paths[0]]
    for path, kind in kinds.items():
        if kind != first:
            raise ValueError(f"data: {paths[0].name} holds {first}, but {path.name} {kind}; use one kind")
    return first


def _require_one_kind(paths: Mapping[str, Sequence[Path]], config: DataConfig) -> None:
    """Raise unless the files for training, testing and validation hold one kind of samples."""
    kind = own_kind(paths["file"], config)
    for field, files in paths.items():
        if (other := own_kind(files, config)) != kind:
            raise ValueError(
                f"data.{field}: {called(files)} holds {other}, but {called(paths['file'])} of data.file {kind}; all "
                "files must hold samples of one kind"
            )


def read_own_events(paths: Sequence[Path], config: DataConfig) -> Events:
    """Return the events of the user's files, one file after another, with time as `config` says."""
    from bitspike.data.event_files import read_event_file
    from bitspike.data.joining import join_events

    from_first = config.time_origin != "zero"
    parts = [
        read_event_file(path, time_unit=config.time_unit, sensor=config.sensor, from_first=from_first) for path in paths
    ]
    return join_events(parts, paths)
