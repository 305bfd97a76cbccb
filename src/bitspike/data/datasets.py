"""Opening of datasets, by name or the user's own: find, read, bin (or take from the cache) and check them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitspike.config import validated
from bitspike.data.binning_fields import binning_for, binning_of, refuse_fields
from bitspike.data.catalog import CATALOG, lookup
from bitspike.data.config import BINNING, DataConfig
from bitspike.data.data_tables import is_toml, read_data_config, toml_lines
from bitspike.data.entry import Entry, EventSource, Found, ImageSource, SeedSource
from bitspike.data.locate import locate
from bitspike.data.own_files import open_own, with_bins
from bitspike.data.own_paths import own_paths
from bitspike.data.progress import Progress, silent
from bitspike.data.roots import cache_folder, data_root
from bitspike.data.samples import Dataset, Samples
from bitspike.data.splits import limited, limited_by_class
from bitspike.data.thinning import thinned

if TYPE_CHECKING:
    from bitspike.data.events import Events

SAMPLE_FILES = (".npz", ".npy", ".h5", ".hdf5", ".hdf")  # whose names are taken for those of samples
__all__ = ["binning_of", "load_dataset", "open_dataset", "with_bins"]


def load_dataset(
    name: str | Path, *, root: Path | None = None, progress: Progress | None = None, **options: Any
) -> Dataset:
    """Return the dataset `name`, or that of a TOML file, read with `options`; `bitspike.data.load` calls this."""
    if is_toml(name):
        config = read_data_config(Path(name), options)
    elif Path(name).suffix.lower() in SAMPLE_FILES:
        raise ValueError(f"load: {name} is a file of samples, but load takes an experiment file; {toml_lines(name)}")
    else:
        config = validated(DataConfig, {"name": name, **options}, f"load({str(name)!r})")
    return open_dataset(config, root=root, progress=progress or silent)


def open_dataset(
    config: DataConfig, *, root: Path | None = None, progress: Progress = silent, seed: int = 0
) -> Dataset:
    """Return the samples that `config` names; `seed` draws those of a synthetic task."""
    if config.passed is not None:
        raise _passed_from_python(config.passed)
    if config.file is not None:
        data = open_own(config, root, progress)
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


def require_present(config: DataConfig, *, root: Path | None = None) -> None:
    """Raise as `open_dataset` does if the samples that `config` names are not on this machine; read none of them."""
    if config.passed is not None:
        raise _passed_from_python(config.passed)
    if config.file is not None:
        own_paths(config)
        return
    entry = lookup(str(config.name), CATALOG)
    if not isinstance(entry.source, SeedSource):
        locate(entry.name, root)


def _passed_from_python(name: str) -> ValueError:
    return ValueError(
        f"data: the samples {name!r} were passed from Python, and no file holds them; pass them again: "
        "bitspike.train_on(dataset, OUT) trains, bitspike.evaluate_on(dataset, RUN) evaluates"
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
    refuse_fields(config, (*BINNING, "train_limit", "test_limit"), because)
    if config.keep < 1:
        raise ValueError(f"data.keep has no meaning here: {because}; leave it out")
    return source.draw(seed)


def _built_in(entry: Entry, config: DataConfig, root: Path | None, progress: Progress) -> Dataset:
    found = locate(entry.name, root)
    train: Samples
    test: Samples
    if isinstance(entry.source, ImageSource):
        refuse_fields(config, BINNING, f"{found.title} holds images (net.steps is how long one is shown)")
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
        pair.append(cached_frames(events(split), binning_for(config, source, name), key, folder, progress=progress))
    return pair[0], pair[1]
