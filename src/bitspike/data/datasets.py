"""Opening of datasets, by name or the user's own: find, read, bin (or take from the cache) and check them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from bitspike.config import validated
from bitspike.data.binning import Binning
from bitspike.data.catalog import CATALOG, lookup
from bitspike.data.config import BINNING, DataConfig
from bitspike.data.data_tables import is_toml, read_data_config
from bitspike.data.entry import Entry, EventSource, Found, ImageSource, SeedSource
from bitspike.data.locate import locate
from bitspike.data.own_paths import called, digest_of, expanded, own_edition, own_paths
from bitspike.data.progress import Progress, silent
from bitspike.data.roots import cache_folder, data_root
from bitspike.data.sample_columns import Numbering, read_columns
from bitspike.data.samples import Dataset, Samples
from bitspike.data.splits import limited, limited_by_class, split_labels, split_rows
from bitspike.data.thinning import thinned

if TYPE_CHECKING:
    from bitspike.data.events import Events


def load_dataset(
    name: str | Path, *, root: Path | None = None, progress: Progress | None = None, **options: Any
) -> Dataset:
    """Return the dataset `name`, or that of a TOML file, read with `options`; `bitspike.data.load` calls this."""
    if is_toml(name):
        config = read_data_config(Path(name), options)
    else:
        config = validated(DataConfig, {"name": name, **options}, f"load({str(name)!r})")
    return open_dataset(config, root=root, progress=progress or silent)


def open_dataset(
    config: DataConfig, *, root: Path | None = None, progress: Progress = silent, seed: int = 0
) -> Dataset:
    """Return the samples that `config` names; `seed` draws those of a synthetic task."""
    if config.passed is not None:
        raise ValueError(
            f"data: the samples {config.passed!r} were passed from Python, and no file holds them; pass them again: "
            "bitspike.train_on(dataset, OUT) trains, bitspike.evaluate_on(dataset, RUN) evaluates"
        )
    if config.file is not None:
        data = _own(config, root, progress)
    else:
        entry = lookup(str(config.name), CATALOG)
        if isinstance(entry.source, SeedSource):
            return _drawn(entry, entry.source, config, seed)
        data = _built_in(entry, config, root, progress)
    if not len(data.train) or not len(data.test):
        raise ValueError(f"data: {data.title} has no {'test' if len(data.train) else 'training'} samples")
    return replace(
        data,
        train=_chosen(data.train, "train", config.train_limit, config),
        test=_chosen(data.test, "test", config.test_limit, config),
        valid=None if data.valid is None else _chosen(data.valid, "valid", None, config),
    )


def _chosen(samples: Samples, split: str, limit: int | None, config: DataConfig) -> Samples:
    """Return at most `limit` of the samples, thinned; the thinning of a sample does not depend on the limit."""
    if config.file is None:
        rows = limited(len(samples), limit, config.split_seed)
    else:
        rows = limited_by_class(samples.labels, limit, config.split_seed)
    return thinned(samples, config.keep, config.split_seed, split).select(rows)


# ---- Datasets of the catalog


def _drawn(entry: Entry, source: SeedSource, config: DataConfig, seed: int) -> Dataset:
    because = f"the {entry.name} task is drawn from the seed, as it is"
    _refuse(config, (*BINNING, "train_limit", "test_limit"), because)
    if config.keep < 1:
        raise ValueError(f"data.keep has no meaning here: {because}; leave it out")
    return source.draw(seed)


def _built_in(entry: Entry, config: DataConfig, root: Path | None, progress: Progress) -> Dataset:
    found = locate(entry.name, root)
    train: Samples
    test: Samples
    if isinstance(entry.source, ImageSource):
        _refuse(config, BINNING, f"{found.title} holds images (net.steps is how long one is shown)")
        train, test = entry.source.read(found)
    elif isinstance(entry.source, EventSource):
        train, test = _binned(entry.source, found, config, root, progress)
    else:
        raise TypeError(f"data: {entry.name} is drawn from a seed and has no files")
    return Dataset(
        found.name, found.title, entry.classes, train, test, edition=found.edition, group_names=entry.group_names
    )


def _binned(
    source: EventSource, found: Found, config: DataConfig, root: Path | None, progress: Progress
) -> tuple[Samples, Samples]:
    """Return the frames for training and testing; the events are read only if the cache does not have the frames."""
    from bitspike.data.frame_cache import cached_frames

    both: list[Events] = []  # the reader gives both splits at once, so it is called once

    def events(split: int) -> Callable[[], Events]:
        def read() -> Events:
            if not both:
                both.extend(source.read(found, progress))
            return both[split]

        return read

    folder = cache_folder(root or data_root())
    pair = []
    for split, name in enumerate(("train", "test")):
        key = {"dataset": found.name, "edition": found.edition, "split": name, "files": found.fingerprint}
        pair.append(cached_frames(events(split), _binning(config, source, name), key, folder, progress=progress))
    return pair[0], pair[1]


def _binning(config: DataConfig, defaults: EventSource | None, split: str) -> Binning:
    """Return the binning of a split: from `config`, or where it is silent from the dataset's `defaults`."""

    def chosen(field: str, otherwise: Any = None) -> Any:
        given = getattr(config, field)
        default = getattr(defaults, field, None)
        return given if given is not None else default if default is not None else otherwise

    bin_ms, steps = chosen("bin_ms"), chosen("steps")
    if bin_ms is None or steps is None:
        raise ValueError(
            "data: events need data.bin_ms, the width of a time bin, and data.steps, how many there are; an experiment "
            "file of your own events may leave them out, and its run has them"
        )
    if split == "test":
        # steps given without test_steps hold for both
        steps = config.test_steps or (config.steps if config.steps is not None else chosen("test_steps", steps))
    return Binning(
        bin_us=round(bin_ms * 1000),
        steps=steps,
        downsample=chosen("downsample", 1),
        polarity=chosen("polarity", True),
        clip=config.clip,
        duration_us=_duration_us(config),
    )


def _duration_us(config: DataConfig) -> int | None:
    return None if config.duration_ms is None else round(config.duration_ms * 1000)


def binning_of(config: DataConfig) -> Binning:
    """Return how a new sample is binned to be like the test samples of `config`, which must be events."""
    source = None if config.file is not None else lookup(str(config.name), CATALOG).source
    if source is not None and not isinstance(source, EventSource):
        raise ValueError(f"data: {config.name} has no events, so that nothing is binned")
    return _binning(config, source, "test")


def _refuse(config: DataConfig, fields: Sequence[str], because: str) -> None:
    for field in fields:
        if getattr(config, field) is not None:
            raise ValueError(f"data.{field} has no meaning here: {because}; leave it out")


# ---- The user's own files


def with_bins(config: DataConfig) -> tuple[DataConfig, str]:
    """Return `config` with the time bins that it leaves out, found from its own training events, and their source.

    A config that needs none comes back as it is, with an empty source.
    """
    from bitspike.data.default_bins import default_bins
    from bitspike.data.event_files import kind_of

    if config.file is None or None not in (config.bin_ms, config.steps):
        return config, ""
    paths = expanded(config.file)
    if (config.kind or kind_of(paths[0])) != "events":
        return config, ""
    given = None if config.bin_ms is None else round(config.bin_ms * 1000)
    found = default_bins(
        _training_events(paths, config), bin_us=given, steps=config.steps, duration_us=_duration_us(config)
    )
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


def _own(config: DataConfig, root: Path | None, progress: Progress) -> Dataset:
    """Return the samples of the user's files; labels are numbered over all of them together."""
    config, _ = with_bins(config)
    paths = own_paths(config)
    parts: dict[str, Samples] = {}
    for field, files in paths.items():
        parts[field] = _own_files(files, config, "test" if field == "test_file" else "train", root, progress)
        _require_alike(parts, field, paths)
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


def _require_alike(parts: Mapping[str, Samples], field: str, paths: Mapping[str, Sequence[Path]]) -> None:
    """Raise unless the samples of `field` have the shape of the training samples."""
    first, other = parts["file"], parts[field]
    if other.shape != first.shape or type(other) is not type(first):
        raise ValueError(
            f"data: samples of {called(paths['file'])} have the shape {first.shape}, but those of "
            f"{called(paths[field])} {other.shape}; give data.sensor if it was found from the events"
        )


def _own_files(paths: Sequence[Path], config: DataConfig, split: str, root: Path | None, progress: Progress) -> Samples:
    """Return the samples of one file or of several, in their order."""
    from bitspike.data.event_files import read_image_file, read_spike_file
    from bitspike.data.frame_cache import cached_frames
    from bitspike.data.joining import join_samples

    kind = own_kind(paths, config)
    if kind == "images":
        only_events = f"{called(paths)} holds images (net.steps is how long one is shown)"
        _refuse(config, (*BINNING, "time_origin"), only_events)
        return join_samples([read_image_file(path) for path in paths], paths)
    if kind == "spikes":
        _refuse(config, (*BINNING, "time_origin"), f"{called(paths)} holds spikes that are binned already")
        return join_samples([read_spike_file(path) for path in paths], paths)
    key = {"file": digest_of(paths), "time_unit": str(config.time_unit), "sensor": str(config.sensor)}
    if config.time_origin == "zero":
        key["time_origin"] = "zero"
    folder = cache_folder(root or data_root())
    binning = _binning(config, None, split)
    return cached_frames(lambda: read_own_events(paths, config), binning, key, folder, progress=progress)


def own_kind(paths: Sequence[Path], config: DataConfig) -> Literal["images", "events", "spikes"]:
    """Return the kind of samples in the user's files; raise if they are not of one kind."""
    from bitspike.data.event_files import kind_of

    kinds = {path: config.kind or kind_of(path) for path in paths}
    first = kinds[paths[0]]
    for path, kind in kinds.items():
        if kind != first:
            raise ValueError(f"data: {paths[0].name} holds {first}, but {path.name} {kind}; use one kind")
    return first


def read_own_events(paths: Sequence[Path], config: DataConfig) -> Events:
    """Return the events of the user's files, one file after another, with time as `config` says."""
    from bitspike.data.event_files import read_event_file
    from bitspike.data.joining import join_events

    from_first = config.time_origin != "zero"
    parts = [
        read_event_file(path, time_unit=config.time_unit, sensor=config.sensor, from_first=from_first) for path in paths
    ]
    return join_events(parts, paths)
