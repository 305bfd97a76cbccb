"""Warnings about samples that training would not notice: missing classes, empty samples, shared groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from bitspike.data.finding import Finding, listed, split_words
from bitspike.data.profiles import count_empty
from bitspike.data.sample_mistakes import empty_finding, missing_finding
from bitspike.data.samples import Dataset, Images, Samples
from bitspike.experiments.held_out import Split

FINDINGS = ("missing classes", "empty samples")  # the causes of the findings that are warnings of a run


def data_warnings(data: Dataset, splits: Mapping[Split, Samples]) -> list[str]:
    """Return one line for each thing about the samples that makes a result worse or meaningless."""
    found = []
    for split, samples in splits.items():
        one_class = _one_class(data, split, samples)
        found += [one_class] if one_class else []
        if data.file_labels:
            findings = _findings(data, split, splits)
            found += [str(each) for each in findings if not (one_class and each.cause == "missing classes")]
            found += filter(None, [_shared_groups(data, split, splits)])
    return found


def _one_class(data: Dataset, split: Split, samples: Samples) -> str:
    labels = samples.labels.unique().tolist()
    if len(labels) != 1 or split == "valid":
        return ""
    return (
        f"all {len(samples):,} {split_words(split)} samples of {data.title} are of one class, label "
        f"{data.class_names[labels[0]]}: accuracy says nothing; look at the file's labels"
    )


def _findings(data: Dataset, split: Split, splits: Mapping[Split, Samples]) -> Iterator[Finding]:
    """Yield the FINDINGS of one split, without the work of a whole profile."""
    samples = splits[split]
    own, trained = (_by_class(each, data.classes) for each in (samples, splits["train"]))
    if finding := missing_finding(split, own, trained, data.class_names):
        yield finding
    if empty := count_empty(samples):
        yield empty_finding(split, empty, len(samples), are_images=isinstance(samples, Images))


def _by_class(samples: Samples, classes: int) -> list[int]:
    """Return how many samples each class has."""
    counts: list[int] = torch.bincount(samples.labels.cpu(), minlength=classes).tolist()
    return counts


def _shared_groups(data: Dataset, split: Split, splits: Mapping[Split, Samples]) -> str:
    """Return which groups a split has in common with the training samples, where a file of its own gives the split."""
    own, trained = splits[split].groups, splits["train"].groups
    if split == "train" or own is None or trained is None:
        return ""
    shared = sorted(set(own.unique().tolist()) & set(trained.unique().tolist()))
    if not shared:
        return ""
    names = [data.group_labels[group] if data.group_labels else group for group in shared]
    return (
        f"{data.group_names} {listed(names)} are among the training and the {split_words(split)} samples: the accuracy "
        "is not that of new ones"
    )
