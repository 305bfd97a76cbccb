"""Warnings about samples that training would not notice: missing classes, silent samples, shared groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bitspike.data.samples import Dataset, Frames, Samples
from bitspike.experiments.held_out import Split

SPLITS: dict[Split, str] = {"train": "training", "valid": "validation", "test": "test"}
MOST_NAMES = 10


def data_warnings(data: Dataset, splits: Mapping[Split, Samples]) -> list[str]:
    """Return one line for each thing about the samples that makes a result worse or meaningless."""
    found = []
    for split, samples in splits.items():
        if line := _one_class(data, split, samples) or (_missing_classes(data, split, splits) * bool(data.file_labels)):
            found.append(line)
        if data.file_labels:
            found += filter(None, (_silent(split, samples), _shared_groups(data, split, splits)))
    return found


def _one_class(data: Dataset, split: Split, samples: Samples) -> str:
    labels = samples.labels.unique().tolist()
    if len(labels) != 1 or split == "valid":
        return ""
    return (
        f"all {len(samples):,} {SPLITS[split]} samples of {data.title} are of one class, label "
        f"{data.class_names[labels[0]]}: accuracy says nothing; look at the file's labels"
    )


def _missing_classes(data: Dataset, split: Split, splits: Mapping[Split, Samples]) -> str:
    """Return which classes have no sample in a split; of those to validate with, only classes that are trained."""
    present = set(splits[split].labels.unique().tolist())
    wanted = set(splits["train"].labels.unique().tolist()) if split == "valid" else set(range(data.classes))
    missing = [data.class_names[label] for label in sorted(wanted - present)]
    if not missing:
        return ""
    several = "class" if len(missing) == 1 else "classes"
    why = ", which the network can then not learn" if split == "train" else ""
    return f"no {SPLITS[split]} sample is of {several} {_listed(missing)}{why}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _silent(split: Split, samples: Samples) -> str:
    if not isinstance(samples, Frames) or not (count := int((samples.lengths == 0).sum())):
        return ""
    return f"{count:,} of {len(samples):,} {SPLITS[split]} samples have no event in their time bins"


def _shared_groups(data: Dataset, split: Split, splits: Mapping[Split, Samples]) -> str:
    """Return which groups a split has in common with the training samples, where a file of its own gives the split."""
    own, trained = splits[split].groups, splits["train"].groups
    if split == "train" or own is None or trained is None:
        return ""
    shared = sorted(set(own.unique().tolist()) & set(trained.unique().tolist()))
    if not shared:
        return ""
    names = [str(data.group_labels[group] if data.group_labels else group) for group in shared]
    return (
        f"{data.group_names} {_listed(names)} are among the training and the {SPLITS[split]} samples: the accuracy is "
        "not that of new ones"
    )
