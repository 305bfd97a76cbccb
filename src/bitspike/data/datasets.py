"""Opening of datasets, by name or the user's own: find, read, bin (or take from the cache) and check them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from bitspike.config import validated
from bitspike.data.binning import Binning
from bitspike.data.catalog import CATALOG, lookup
from bitspike.data.config import DataConfig
from bitspike.data.entry import Entry, EventSource, Found, ImageSource, SeedSource
from bitspike.data.locate import locate
from bitspike.data.progress import Progress, silent
from bitspike.data.roots import cache_folder, data_root
from bitspike.data.samples import Dataset, Samples
from bitspike.data.splits import limited, split_rows
from bitspike.data.thinning import thinned
from bitspike.files import digest

if TYPE_CHECKING:
    from bitspike.data.events import Events

_BINNING_FIELDS = ("bin_ms", "steps", "test_steps", "downsample", "polarity", "clip", "duration_ms")


def load_dataset(name: str, *, root: Path | None = None, progress: Progress | None = None, **options: Any) -> Dataset:
    """Return the dataset `name`, read with `options`; `bitspike.data.load` calls this."""
    config = validated(DataConfig, {"name": name, **options}, f"load({name!r})")
    return open_dataset(config, root=root, progress=progress or silent)


def open_dataset(
    config: DataConfig, *, root: Path | None = None, progress: Progress = silent, seed: int = 0
) -> Dataset:
    """Return the samples that `config` names; `seed` draws those of a synthetic task."""
    if config.file is not None:
        data = _own(config, root, progress)
    else:
        entry = lookup(str(config.name), CATALOG)
        if isinstance(entry.source, SeedSource):
            return _drawn(entry, entry.source, config, seed)
        data = _built_in(entry, config, root, progress)
    if not len(data.train) or not len(data.test):
        raise ValueError(f"data: {data.title} has no {'test' if len(data.train) else 'training'} samples")
    return Dataset(
        data.name,
        data.title,
        data.classes,
        _chosen(data.train, "train", config.train_limit, config),
        _chosen(data.test, "test", config.test_limit, config),
        edition=data.edition,
        group_names=data.group_names,
    )


def _chosen(samples: Samples, split: str, limit: int | None, config: DataConfig) -> Samples:
    """Return at most `limit` of the samples, thinned; the thinning of a sample does not depend on the limit."""
    rows = limited(len(samples), limit, config.split_seed)
    return thinned(samples, config.keep, config.split_seed, split).select(rows)


# ---- Datasets of the catalog


def _drawn(entry: Entry, source: SeedSource, config: DataConfig, seed: int) -> Dataset:
    because = f"the {entry.name} task is drawn from the seed, as it is"
    _refuse(config, (*_BINNING_FIELDS, "train_limit", "test_limit"), because)
    if config.keep < 1:
        raise ValueError(f"data.keep has no meaning here: {because}; leave it out")
    return source.draw(seed)


def _built_in(entry: Entry, config: DataConfig, root: Path | None, progress: Progress) -> Dataset:
    found = locate(entry.name, root)
    train: Samples
    test: Samples
    if isinstance(entry.source, ImageSource):
        _refuse(config, _BINNING_FIELDS, f"{found.title} holds images (net.steps is how long one is shown)")
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
    duration = None if config.duration_ms is None else round(config.duration_ms * 1000)
    return Binning(
        bin_us=round(bin_ms * 1000),
        steps=steps,
        downsample=chosen("downsample", 1),
        polarity=chosen("polarity", True),
        clip=config.clip,
        duration_us=duration,
    )


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
    from bitspike.data.event_files import kind_of, read_event_file

    path = None if config.file is None or not Path(config.file).is_file() else Path(config.file)
    if path is None or None not in (config.bin_ms, config.steps) or (config.kind or kind_of(path)) != "events":
        return config, ""
    events = read_event_file(path, time_unit=config.time_unit, sensor=config.sensor)
    given = None if config.bin_ms is None else round(config.bin_ms * 1000)
    found = default_bins(events, bin_us=given, steps=config.steps)
    return config.model_copy(update={"bin_ms": found.bin_us / 1000, "steps": found.steps}), found.source


def _own(config: DataConfig, root: Path | None, progress: Progress) -> Dataset:
    config, _ = with_bins(config)
    path = Path(str(config.file))
    train = _own_file(path, config, "train", root, progress)
    if config.test_file is not None:
        test = _own_file(Path(config.test_file), config, "test", root, progress)
        if test.shape != train.shape:
            raise ValueError(
                f"data: samples of {path.name} have the shape {train.shape}, but those of {config.test_file.name} "
                f"{test.shape}; give data.sensor if it was found from the events"
            )
    else:
        if config.test_steps is not None:
            raise ValueError("data.test_steps needs data.test_file: training and test samples come from one file here")
        kept, held = split_rows(train, config.test_share, config.split_seed)
        if not len(held):
            raise ValueError(
                f"data: {path.name} has {len(train)} samples and no two of one class, so that none can be held out for "
                "the test; give data.test_file, or more samples of a class"
                if train.groups is None
                else f"data: all samples of {path.name} are in one group, so that none can be held out for the test; "
                "give data.test_file, or samples of another group"
            )
        train, test = train.select(kept), train.select(held)
    classes = int(torch.cat((train.labels, test.labels)).max()) + 1
    names = "" if train.groups is None else "groups"
    return Dataset(path.stem, path.name, classes, train, test, edition=own_edition(config), group_names=names)


def own_edition(config: DataConfig) -> str:
    """Return the edition of the user's own files: their checksums."""
    return "sha256 " + " and ".join(digest(file)[:16] for file in (config.file, config.test_file) if file is not None)


def _own_file(path: Path, config: DataConfig, split: str, root: Path | None, progress: Progress) -> Samples:
    from bitspike.data.event_files import kind_of, read_event_file, read_image_file, read_spike_file
    from bitspike.data.frame_cache import cached_frames

    if not path.is_file():
        raise FileNotFoundError(f"data: {path} {'is not a file' if path.exists() else 'does not exist'}")
    kind = config.kind or kind_of(path)
    if kind == "images":
        _refuse(config, _BINNING_FIELDS, f"{path.name} holds images (net.steps is how long one is shown)")
        return read_image_file(path)
    if kind == "spikes":
        _refuse(config, _BINNING_FIELDS, f"{path.name} holds spikes that are binned already")
        return read_spike_file(path)
    binning = _binning(config, None, split)
    key = {
        "file": digest(path),
        "time_unit": str(config.time_unit),
        "sensor": str(config.sensor),
    }

    def read() -> Events:
        return read_event_file(path, time_unit=config.time_unit, sensor=config.sensor)

    return cached_frames(read, binning, key, cache_folder(root or data_root()), progress=progress)
