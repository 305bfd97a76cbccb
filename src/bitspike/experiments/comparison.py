"""The comparison of experiments: which fields decide a run's numbers, as digests and as differences in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bitspike.data.config import PATHS
from bitspike.data.fingerprint import fingerprint
from bitspike.data.locate import locate
from bitspike.data.samples import Dataset
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.data_facts import facts_setting
from bitspike.experiments.held_out import held_out_groups
from bitspike.experiments.run_data import groups_digest, kind_of
from bitspike.experiments.schema import Experiment, as_values
from bitspike.train.learning_rates import RATES
from bitspike.train.origin import Origin
from bitspike.train.tricks import setting_for, tricks_for

# Fields that change no number: what a run shows, and how much memory it takes.
SAME_NUMBERS = (
    *("train.checkpoint_minutes", "train.tensorboard", "train.watch_every", "train.evaluate_batch"),
    *("data.class_names", "data.passed"),
)
# Fields that may differ when a run is resumed: those, and how long it trains.
FREE = ("train.epochs", "train.patience", *SAME_NUMBERS)


def free_fields(spec: Experiment) -> tuple[str, ...]:
    """Return the fields that may differ when a run is resumed; `epochs` only if no setting depends on all epochs."""
    return tuple(key for key in FREE if key != "train.epochs" or not _setting_over_all_epochs(spec))


def _setting_over_all_epochs(spec: Experiment) -> str:
    """Return the setting that depends on the number of epochs; an empty string if none does."""
    if RATES[spec.train.schedule].lasts_all_epochs:
        return f"train.schedule = {spec.train.schedule!r}"
    delayed = spec.net.longest_delay > 0
    lasting = (trick for trick in tricks_for(spec.train, delayed=delayed) if trick.lasts_all_epochs)
    return next((setting_for(trick, spec.train, delayed=delayed) for trick in lasting), "")


def identity(spec: Experiment, data: Dataset, *, paths: bool = False) -> str:
    """Return a digest of all that decides the numbers; `paths` adds the data's paths, as earlier versions did."""
    kept = list(PATHS) if paths else []
    # Earlier versions held out samples of a set whose groups are known now: their runs are not this one's beginning.
    whole = [] if held_out_groups(spec, data) is None else ["whole groups are held out"]
    return _digest([_deciding(spec, kept), data.edition, *whole, *_recurrence(spec)])


def _recurrence(spec: Experiment) -> list[str]:
    """Return how training with 1-bit recurrent weights differs from that of earlier versions with the same settings."""
    gradient = ["recurrent gradient / sqrt(neurons)"] if spec.net.recurrent and spec.net.binary else []  # it was whole
    return gradient + _scaled_recurrence(spec)


def _scaled_recurrence(spec: Experiment) -> list[str]:
    """Return how recurrent weights behind a batch norm differ from those of earlier versions, which were -1 and +1."""
    net = spec.net
    return ["recurrent weights / sqrt(neurons)"] if net.recurrent and net.binary and net.dense_norm else []


def settings_digest(spec: Experiment) -> str:
    """Return a digest of all settings that decide the numbers, without paths of files."""
    return _digest(_deciding(spec))


def network_digest(spec: Experiment) -> str:
    """Return a digest of the settings that decide what a network with given weights computes."""
    return _digest([_deciding(spec)["net"], spec.train.precision, *_scaled_recurrence(spec)])


def _deciding(spec: Experiment, kept: Sequence[str] = ()) -> dict[str, Any]:
    """Return the settings that decide the numbers and are not at their defaults.

    So a field that a later version adds does not change the digest of an old run.
    """
    values = _without_first(spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True))
    for key in (*free_fields(spec), *PATHS, "name", "title", "paper", "sources"):
        if key not in kept:
            table, _, name = key.rpartition(".")
            (values.get(table, {}) if table else values).pop(name, None)
    return values


def _without_first(values: dict[str, Any]) -> dict[str, Any]:
    """Return an experiment's values without a time origin of "first", which means the same as none."""
    data = {key: value for key, value in values["data"].items() if (key, value) != ("time_origin", "first")}
    return {**values, "data": data}


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def origin(spec: Experiment, data: Dataset, options: RunOptions, samples: Mapping[str, str]) -> Origin:
    """Return what a run's files keep: digests of settings and of `samples`, and how to use the network."""
    return Origin(
        settings={
            "experiment": settings_digest(spec),
            "network": network_digest(spec),
            **_passed_samples(spec, data),
            **facts_setting(spec, data),
        },
        samples=samples,
        where=lambda split: samples_in_words(spec, split, options.data_root),
        identity_before=identity(spec, data, paths=True),
        own_files=spec.data.file is not None,
        another_folder=options.another_folder,
    )


def _passed_samples(spec: Experiment, data: Dataset) -> dict[str, str]:
    """Return kind and labels of samples passed from Python, which no setting tells; nothing for other samples."""
    if spec.data.passed is None:
        return {}
    return {"samples": kind_of(data.train), "labels": json.dumps(data.file_labels)}


def samples_digests(spec: Experiment, data: Dataset) -> dict[str, str]:
    """Return digests of the training and the test samples, and of those that a file gives for validation.

    That of training samples passed from Python counts their groups, too: no file decides these.
    """
    own = {} if data.valid is None else {"valid": fingerprint(data.valid)}
    train, groups = fingerprint(data.train), "" if spec.data.passed is None else groups_digest(data)
    return {"train": _digest([train, groups]) if groups else train, "test": fingerprint(data.test), **own}


def samples_in_words(spec: Experiment, split: str, root: Path | None) -> str:
    """Return words that name the samples of a split, with their files."""
    files: Sequence[Path]
    what = {"train": "training", "valid": "validation"}.get(split, split)
    if spec.data.passed is not None:
        return f"the {what} samples{' or groups' if split == 'train' else ''} passed from Python"
    if spec.data.name is None:
        own = {"test": spec.data.test_file, "valid": spec.data.validation_file}.get(split) or spec.data.file
        files = [own] if isinstance(own, Path) else list(own or ())
    else:
        found = locate(spec.data.name, root).files
        marks = ("train",) if split == "train" else ("test", "t10k")
        files = [path for name, path in found.items() if any(mark in name.lower() for mark in marks)]
        files = files or list(found.values())
    named = " and ".join(str(path) for path in files)
    return f"the {what} samples{f' ({named})' if named else ''}"


def differences(a: Experiment, b: Experiment, free: Sequence[str] | None = None) -> list[str]:
    """List the fields that give two experiments different numbers; `free` ones (default: `free_fields(a)`) may differ.

    Paths of files do not count: `identity` compares their content.
    """

    def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        return found

    first, second = (
        flat({k: v for k, v in _without_first(as_values(x)).items() if k not in ("sources", "paper", "title", "name")})
        for x in (a, b)
    )
    may_differ = free_fields(a) if free is None else free
    return [
        f"{key} was {first.get(key)!r}, is {second.get(key)!r}{_why(a, key)}"
        for key in sorted(first.keys() | second.keys())
        if key not in may_differ and first.get(key) != second.get(key)
        if key not in PATHS or None in (first.get(key), second.get(key))
    ]


def _why(spec: Experiment, key: str) -> str:
    """Return why a field that is usually free counts here; an empty string if it is not such a field."""
    return (
        f" ({_setting_over_all_epochs(spec)} ends with it)"
        if key == "train.epochs" and _setting_over_all_epochs(spec)
        else ""
    )
