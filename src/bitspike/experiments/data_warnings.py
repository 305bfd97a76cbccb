"""Warnings about samples that training would not notice: missing classes, empty samples, shared groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from bitspike.data.class_mistakes import missing_finding, one_class_finding, shared_groups_finding
from bitspike.data.finding import Finding
from bitspike.data.profiles import count_empty, group_labels
from bitspike.data.sample_mistakes import empty_finding
from bitspike.data.samples import Dataset, Images, Samples
from bitspike.experiments.held_out import Split

# the causes of the findings that are warnings of a run
FINDINGS = ("one class", "missing classes", "empty samples", "shared groups")


def data_warnings(data: Dataset, splits: Mapping[Split, Samples]) -> list[str]:
    """Return one line for each thing about the samples that makes a result worse or meaningless."""
    return [str(finding) for split in splits for finding in _findings(data, split, splits)]


def _findings(data: Dataset, split: Split, splits: Mapping[Split, Samples]) -> Iterator[Finding]:
    """Yield the FINDINGS of one split, without the work of a whole profile; of a built-in set only the first."""
    samples = splits[split]
    own, trained = (_by_class(each, data.classes) for each in (samples, splits["train"]))
    if one := one_class_finding(split, own, data.title, data.class_names):
        yield one
    if not data.file_labels:
        return
    if not one and (missing := missing_finding(split, own, trained, data.class_names)):
        yield missing
    if empty := count_empty(samples):
        yield empty_finding(split, empty, len(samples), are_images=isinstance(samples, Images))
    groups = {str(name): group_labels(each, data) for name, each in splits.items()}
    if shared := shared_groups_finding(split, groups, data.group_names):
        yield shared


def _by_class(samples: Samples, classes: int) -> list[int]:
    """Return how many samples each class has."""
    counts: list[int] = torch.bincount(samples.labels.cpu(), minlength=classes).tolist()
    return counts
