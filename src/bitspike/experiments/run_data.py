"""The data of a run: its dataset, and the splits of it on the run's device."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bitspike.data.datasets import open_dataset
from bitspike.data.fingerprint import fingerprint
from bitspike.data.own_paths import shared_files
from bitspike.data.samples import Dataset, Samples
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.data_warnings import data_warnings
from bitspike.experiments.held_out import Split, splits
from bitspike.experiments.schema import Experiment


def dataset_of(spec: Experiment, options: RunOptions) -> Dataset:
    """Return the experiment's samples: those that were passed from Python, or those that it names."""
    passed = options.dataset
    if passed is None:
        return open_dataset(spec.data, root=options.data_root, progress=options.progress, seed=spec.seed)
    if spec.data.passed is None:
        named = spec.data.name or spec.data.file
        raise ValueError(
            f"data: the experiment names its samples, {named}, so that none can be passed from Python; `bitspike "
            "evaluate RUN` reads them"
        )
    require_sound(passed, "data")
    return replace(
        passed,
        edition=_edition(passed),
        file_labels=passed.file_labels or tuple(map(str, range(passed.classes))),
        group_names=passed.group_names or ("" if passed.train.groups is None else "groups"),
    )


def require_sound(dataset: Dataset, where: str) -> None:
    """Raise unless all splits of a dataset have samples of one kind and shape, and labels of its classes."""
    if not isinstance(dataset, Dataset):
        remedy = (
            "bitspike.data.load(FILE) reads one"
            if isinstance(dataset, (str, Path))
            else "bitspike.data.dataset_from_torch(train, test) makes one of PyTorch's datasets"
        )
        raise TypeError(
            f"{where}: the samples must be a bitspike.data.Dataset, but are a {type(dataset).__name__}; {remedy}"
        )
    first = dataset.train
    for split, samples in _parts(dataset).items():
        if not len(samples):
            raise ValueError(f"{where}: {dataset.title} has no {split} samples")
        if type(samples) is not type(first) or samples.shape != first.shape:
            raise ValueError(
                f"{where}: training samples of {dataset.title} are {_shaped(first)}, but {split} samples "
                f"{_shaped(samples)}"
            )
        low, high = int(samples.labels.min()), int(samples.labels.max())
        if low < 0 or high >= dataset.classes:
            raise ValueError(
                f"{where}: labels of {dataset.title} must be 0 to {dataset.classes - 1}, for {dataset.classes} "
                f"classes, but those of the {split} samples go over {low}..{high}"
            )


def _parts(dataset: Dataset) -> dict[str, Samples]:
    """Return the samples of a dataset by the words for their split."""
    valid = {} if dataset.valid is None else {"validation": dataset.valid}
    return {"training": dataset.train, "test": dataset.test, **valid}


def kind_of(samples: Samples) -> str:
    """Return the word for the kind of samples: images, or sequences."""
    return "images" if samples.steps is None else "sequences"


def _shaped(samples: Samples) -> str:
    return f"{kind_of(samples)} of the shape {samples.shape}"


def _edition(dataset: Dataset) -> str:
    """Return the edition of samples passed from Python: checksums of each split, and of the groups if there are any."""
    found = {split: fingerprint(samples)[:16] for split, samples in _parts(dataset).items()}
    if groups := groups_digest(dataset):
        found["groups"] = groups[:16]
    return ", ".join(f"{split} {digest}" for split, digest in found.items())


def groups_digest(dataset: Dataset) -> str:
    """Return the sha256 of the training samples' groups and their names; empty if they are in none.

    The groups decide which samples are held out.
    """
    if dataset.train.groups is None:
        return ""
    found = json.dumps([dataset.train.groups.tolist(), dataset.group_labels])
    return hashlib.sha256(found.encode()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """A dataset, and its training, validation and test samples on the device."""

    dataset: Dataset
    splits: Mapping[Split, Samples]

    @classmethod
    def on_device(cls, spec: Experiment, dataset: Dataset, options: RunOptions) -> RunData:
        """Split the dataset as the experiment says, and copy the samples to the device."""
        return cls(dataset, {name: samples.to(options.device) for name, samples in splits(spec, dataset).items()})

    @property
    def train(self) -> Samples:
        """The samples that the network is trained on."""
        return self.splits["train"]

    @property
    def test(self) -> Samples:
        """The samples that the result is measured on."""
        return self.splits["test"]

    def selection(self, spec: Experiment) -> Samples:
        """Return the samples that epochs are judged by: the held-out ones, or with protocol `paper` the test set."""
        return self.splits["test" if spec.train.protocol == "paper" else "valid"]

    def warnings(self, spec: Experiment) -> list[str]:
        """Return what a person should know about the samples: classes that are missing, samples without events."""
        if spec.train.loss == "trace":
            return []
        return [*shared_files(spec.data), *data_warnings(self.dataset, self.splits)]
