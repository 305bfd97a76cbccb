"""The splits of an experiment's data: which samples train, which are held out to judge epochs, and which test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from bitspike.data.finding import listed
from bitspike.data.samples import Dataset, Samples
from bitspike.data.splits import group_rows, split_rows
from bitspike.experiments.schema import Experiment

Split = Literal["train", "valid", "test"]
MOST_GROUPS = 20  # that a line names


def splits(spec: Experiment, data: Dataset) -> dict[Split, Samples]:
    """Return the samples by split: `paper` trains on all, `holdout` keeps some to choose the epoch by.

    Those are the samples of `data.validation_file`; without it, samples of each class, or whole groups where the
    samples are in groups.
    """
    rows, held = training_rows(spec, data)
    if data.valid is not None:
        return {"train": data.train, "valid": data.valid, "test": data.test}
    if held is None:
        return {"train": data.train, "test": data.test}
    return {"train": data.train.select(rows), "valid": data.train.select(held), "test": data.test}


def training_rows(spec: Experiment, data: Dataset) -> tuple[Tensor, Tensor | None]:
    """Return the rows of the training samples, and of those held out of them (None if none are)."""
    if data.valid is not None and spec.train.protocol == "paper":
        raise ValueError(
            "data.validation_file is for train.protocol = 'holdout', but the protocol is 'paper', which judges epochs "
            "by the test samples; leave the file out, or set the protocol to 'holdout'"
        )
    if spec.train.protocol == "paper" or data.valid is not None:
        return torch.arange(len(data.train), device="cpu"), None
    if spec.data.validation_groups is not None:
        return _named_rows(spec.data.validation_groups, data)
    if spec.data.validation_share == 0:
        raise ValueError(
            "data.validation_share is 0, but train.protocol = 'holdout' judges epochs by these samples; give it a "
            "share, or set train.protocol to 'paper'"
        )
    if data.group_names and data.train.groups is None:
        raise ValueError(
            f"train.protocol = 'holdout' holds out whole {data.group_names}, but the files of {data.title} do not name "
            "them; get the published files, or use train.protocol = 'paper'"
        )
    kept, held = split_rows(data.train, spec.data.validation_share, spec.data.split_seed)
    if not len(held):
        one = "two training samples of a class" if data.train.groups is None else f"two {data.group_names}"
        raise ValueError(
            f"train.protocol = 'holdout' needs {one} to hold one out, but {data.title} has {len(data.train)} training "
            f"samples{'' if data.train.groups is None else ' of one'}; use train.protocol = 'paper'"
        )
    return kept, held


def _named_rows(chosen: Sequence[int | str], data: Dataset) -> tuple[Tensor, Tensor]:
    """Return the rows to train on and those of the chosen groups; raise unless the data has these and others."""
    if data.train.groups is None:
        raise ValueError(
            f"data.validation_groups names groups, but those of {data.title} are not known; give the file an array "
            "`groups`, or leave the field out"
        )
    known = {_called(group, data): group for group in data.train.groups.unique().tolist()}
    if wrong := [group for group in chosen if group not in known]:
        raise ValueError(
            f"data.validation_groups: the training samples of {data.title} have no {data.group_names} {wrong[0]}; "
            f"they have {listed(list(known), MOST_GROUPS)}"
        )
    if set(chosen) == set(known):
        names = listed(list(known), MOST_GROUPS)
        raise ValueError(f"data.validation_groups holds out all {data.group_names} ({names}); leave one out")
    return group_rows(data.train.groups, [known[group] for group in chosen])


def held_out_groups(spec: Experiment, data: Dataset) -> list[int | str] | None:
    """Return the groups that are held out, by their numbers or names; None if samples are not held out as groups."""
    _, held = training_rows(spec, data)
    if held is None or data.train.groups is None:
        return None
    return [_called(group, data) for group in data.train.groups.cpu()[held].unique().tolist()]


def _called(group: int, data: Dataset) -> int | str:
    """Return the name of a group; its number where it has no name."""
    return data.group_labels[group] if data.group_labels else group


def held_out_in_words(spec: Experiment, data: Dataset) -> str:
    """Return which groups are held out, such as "speakers 3, 8 (700 of 8,156 samples)"; empty if none are."""
    groups = held_out_groups(spec, data)
    if groups is None:
        return ""
    _, held = training_rows(spec, data)
    count = 0 if held is None else len(held)
    return f"{data.group_names} {listed(groups, MOST_GROUPS)} ({count:,} of {len(data.train):,} samples)"
