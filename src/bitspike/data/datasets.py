"""Datasets by name, and the user's own: found, read, binned (from the cache where it can be), checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from bitspike.config import validated
from bitspike.data.binning import Binning
from bitspike.data.coding import coding_task
from bitspike.data.config import DataConfig
from bitspike.data.fetch import Found, locate
from bitspike.data.roots import data_root
from bitspike.data.samples import Dataset, Samples
from bitspike.data.splits import held_out, limited
from bitspike.data.thinning import thinned
from bitspike.files import digest

if TYPE_CHECKING:
    from bitspike.data.events import Events

Progress = Callable[[str, int], Callable[[], None]]

# How events become frames unless the experiment says otherwise.
_BINNING: dict[str, dict[str, Any]] = {
    "shd": {"bin_ms": 3.0, "steps": 333},  # the paper's binary networks
    "dvs128": {"bin_ms": 5.0, "steps": 100, "test_steps": 360, "downsample": 4, "polarity": True},  # the paper
    "nmnist-small": {"bin_ms": 3.0, "steps": 100, "polarity": True},
    "dvs-sign": {"bin_ms": 1000 / 30, "steps": 100, "downsample": 4, "polarity": True},  # a bin a frame of its video
}
_BINNING_FIELDS = ("bin_ms", "steps", "test_steps", "downsample", "polarity", "clip", "duration_ms")
_CLASSES = {"mnist": 10, "fashion": 10, "shd": 20, "dvs128": 11, "nmnist-small": 10, "dvs-sign": 15}


def _quiet(stage: str, steps: int) -> Callable[[], None]:
    return lambda: None


def load_dataset(name: str, *, root: Path | None = None, progress: Progress | None = None, **options: Any) -> Dataset:
    """`bitspike.data.load`."""
    config = validated(DataConfig, {"name": name, **options}, f"load({name!r})")
    return open_dataset(config, root=root, progress=progress or _quiet)


def open_dataset(
    config: DataConfig, *, root: Path | None = None, progress: Progress = _quiet, seed: int = 0
) -> Dataset:
    """The samples that `config` names; `seed` draws the synthetic ones."""
    if config.name == "coding":
        _refuse(config, (*_BINNING_FIELDS, "train_limit", "test_limit"), "the coding task is one input, as it is")
        if config.keep < 1:
            raise ValueError("data.keep has no meaning here: the coding task is one input, as it is; leave it out")
        return coding_task(seed)
    data = _own(config, root, progress) if config.file is not None else _built_in(config, root, progress)
    if not len(data.train) or not len(data.test):
        raise ValueError(f"data: {data.title} has no {'test' if len(data.train) else 'training'} samples")
    return Dataset(
        data.name,
        data.title,
        data.classes,
        _chosen(data.train, "train", config.train_limit, config),
        _chosen(data.test, "test", config.test_limit, config),
        edition=data.edition,
    )


def _chosen(samples: Samples, split: str, limit: int | None, config: DataConfig) -> Samples:
    """At most `limit` of the samples, thinned; what is left of a sample does not depend on the limit."""
    rows = limited(len(samples), limit, config.split_seed)
    return thinned(samples, config.keep, config.split_seed, split).select(rows)


def _built_in(config: DataConfig, root: Path | None, progress: Progress) -> Dataset:
    found = locate(str(config.name), root)
    read = _image_pair if config.name in ("mnist", "fashion") else _event_pair
    train, test = read(found, config, root, progress)
    return Dataset(found.name, found.title, _CLASSES[found.name], train, test, edition=found.edition)


def _image_pair(found: Found, config: DataConfig, root: Path | None, progress: Progress) -> tuple[Samples, Samples]:
    from bitspike.data.idx import read_images

    _refuse(config, _BINNING_FIELDS, f"{found.title} holds images (net.steps is how long one is shown)")
    files = {name.removesuffix(".gz"): path for name, path in found.files.items()}
    train = read_images(files["train-images-idx3-ubyte"], files["train-labels-idx1-ubyte"])
    return train, read_images(files["t10k-images-idx3-ubyte"], files["t10k-labels-idx1-ubyte"])


def _event_pair(found: Found, config: DataConfig, root: Path | None, progress: Progress) -> tuple[Samples, Samples]:
    from bitspike.data.frame_cache import cache_folder, cached_frames

    defaults = _BINNING[found.name]
    both: list[Events] = []  # a reader that gives both splits at once is asked once

    def events(split: int) -> Callable[[], Events]:
        def read() -> Events:
            if not both:
                both.extend(_read_events(found, progress))
            return both[split]

        return read

    folder = cache_folder(root or data_root())
    pair = []
    for split, name in enumerate(("train", "test")):
        key = {"dataset": found.name, "edition": found.edition, "split": name, "files": found.fingerprint}
        pair.append(cached_frames(events(split), _binning(config, defaults, name), key, folder, progress=progress))
    return pair[0], pair[1]


def _read_events(found: Found, progress: Progress) -> tuple[Events, Events]:
    if found.name == "dvs128":
        from bitspike.data.dvs_gesture import read_dvs_gesture

        return read_dvs_gesture(found.folder, progress)
    train, test = (next(path for name, path in found.files.items() if split in name) for split in ("train", "test"))
    if found.name == "shd":
        from bitspike.data.shd import read_shd, read_shd_compact

        read = read_shd_compact if train.suffix == ".xz" else read_shd
        return read(train), read(test)
    from bitspike.data.event_files import read_event_file

    def cameras(path: Path) -> Events:
        if found.name == "nmnist-small":
            return read_event_file(path, time_unit="us", sensor=(34, 34))
        return read_event_file(path, time_unit="s", sensor=(128, 128))

    return cameras(train), cameras(test)


def _binning(config: DataConfig, defaults: Mapping[str, Any], split: str) -> Binning:
    def chosen(field: str, otherwise: Any = None) -> Any:
        value = getattr(config, field)
        return defaults.get(field, otherwise) if value is None else value

    bin_ms, steps = chosen("bin_ms"), chosen("steps")
    if bin_ms is None or steps is None:
        raise ValueError("data: events need data.bin_ms, the width of a time bin, and data.steps, how many there are")
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


def _refuse(config: DataConfig, fields: Sequence[str], because: str) -> None:
    for field in fields:
        if getattr(config, field) is not None:
            raise ValueError(f"data.{field} has no meaning here: {because}; leave it out")


def _own(config: DataConfig, root: Path | None, progress: Progress) -> Dataset:
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
        kept, held = held_out(train.labels, config.test_share, config.split_seed)
        if not len(held):
            raise ValueError(
                f"data: {path.name} has {len(train)} samples and no two of one class, so that none can be held out for "
                "the test; give data.test_file, or more samples of a class"
            )
        train, test = train.select(kept), train.select(held)
    classes = int(torch.cat((train.labels, test.labels)).max()) + 1
    return Dataset(path.stem, path.name, classes, train, test, edition=own_edition(config))


def own_edition(config: DataConfig) -> str:
    """The edition of the user's own files: their checksums."""
    return "sha256 " + " and ".join(digest(file)[:16] for file in (config.file, config.test_file) if file is not None)


def _own_file(path: Path, config: DataConfig, split: str, root: Path | None, progress: Progress) -> Samples:
    from bitspike.data.event_files import kind_of, read_event_file, read_image_file, read_spike_file
    from bitspike.data.frame_cache import cache_folder, cached_frames

    if not path.is_file():
        raise FileNotFoundError(f"data: {path} {'is not a file' if path.exists() else 'does not exist'}")
    kind = config.kind or kind_of(path)
    if kind == "images":
        _refuse(config, _BINNING_FIELDS, f"{path.name} holds images (net.steps is how long one is shown)")
        return read_image_file(path)
    if kind == "spikes":
        _refuse(config, _BINNING_FIELDS, f"{path.name} holds spikes that are binned already")
        return read_spike_file(path)
    binning = _binning(config, {}, split)
    key = {
        "file": digest(path),
        "time_unit": str(config.time_unit),
        "sensor": str(config.sensor),
    }

    def read() -> Events:
        return read_event_file(path, time_unit=config.time_unit, sensor=config.sensor)

    return cached_frames(read, binning, key, cache_folder(root or data_root()), progress=progress)
