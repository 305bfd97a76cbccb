"""Warnings about the samples of a run that training would not notice: missing classes, one class, silent samples."""

from __future__ import annotations

from collections.abc import Mapping

from bitspike.data.samples import Dataset, Frames, Samples

SPLITS = {"train": "training", "valid": "validation", "test": "test"}
MOST_NAMES = 10


def data_warnings(data: Dataset, splits: Mapping[str, Samples]) -> list[str]:
    """Return one line for each thing about the samples that makes a result worse or meaningless."""
    found = []
    for split, samples in splits.items():
        if line := _one_class(data, split, samples) or (_missing_classes(data, split, splits) * bool(data.file_labels)):
            found.append(line)
        if data.file_labels and (line := _silent(split, samples)):
            found.append(line)
    return found


def _one_class(data: Dataset, split: str, samples: Samples) -> str:
    labels = samples.labels.unique().tolist()
    if len(labels) != 1 or split == "valid":
        return ""
    return (
        f"all {len(samples):,} {SPLITS[split]} samples of {data.title} are of one class, label "
        f"{data.class_names[labels[0]]}: accuracy says nothing; look at the file's labels"
    )


def _missing_classes(data: Dataset, split: str, splits: Mapping[str, Samples]) -> str:
    """Return which classes have no sample in a split; of those to validate with, only classes that are trained."""
    present = set(splits[split].labels.unique().tolist())
    wanted = set(splits["train"].labels.unique().tolist()) if split == "valid" else set(range(data.classes))
    missing = [data.class_names[label] for label in sorted(wanted - present)]
    if not missing:
        return ""
    names = ", ".join(missing[:MOST_NAMES]) + (f" and {len(missing) - MOST_NAMES} more" * (len(missing) > MOST_NAMES))
    several = "class" if len(missing) == 1 else "classes"
    why = ", which the network can then not learn" if split == "train" else ""
    return f"no {SPLITS[split]} sample is of {several} {names}{why}"


def _silent(split: str, samples: Samples) -> str:
    if not isinstance(samples, Frames) or not (count := int((samples.lengths == 0).sum())):
        return ""
    return f"{count:,} of {len(samples):,} {SPLITS[split]} samples have no event in their time bins"
