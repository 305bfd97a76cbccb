"""Random choices of samples from a seed: rows held out, by class or as whole groups, and a limited number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from bitspike.data.samples import Samples


def split_rows(samples: Samples, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return rows kept and rows held out, in order: of each class, or whole groups where the samples are in groups."""
    return split_labels(samples.labels, samples.groups, share, seed)


def split_labels(labels: Tensor, groups: Tensor | None, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return rows kept and rows held out, as `split_rows` does for samples with these labels and groups."""
    if groups is None:
        return held_out(labels, share, seed)
    return group_rows(groups, drawn_groups(labels, groups, share, seed))


def held_out(labels: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return rows kept and rows held out, in order; `share` of each class is held out, at least one if it has two."""
    generator = torch.Generator().manual_seed(seed)
    out = torch.zeros(len(labels), dtype=torch.bool, device="cpu")
    for label in labels.cpu().unique():
        rows = (labels.cpu() == label).nonzero().flatten()
        count = min(max(round(share * len(rows)), 1), len(rows) - 1) if share > 0 else 0
        out[rows[torch.randperm(len(rows), generator=generator, device="cpu")[:count]]] = True
    return (~out).nonzero().flatten(), out.nonzero().flatten()


def group_rows(groups: Tensor, held: list[int]) -> tuple[Tensor, Tensor]:
    """Return the rows of all other groups, and the rows of the groups `held`, in order."""
    out = torch.isin(groups.cpu(), torch.tensor(held, dtype=torch.int64, device="cpu"))
    return (~out).nonzero().flatten(), out.nonzero().flatten()


def drawn_groups(labels: Tensor, groups: Tensor, share: float, seed: int) -> list[int]:
    """Return whole groups that hold about `share` of the samples, drawn from the seed, at least one of two or more.

    Groups are looked at in a random order. One is taken if it brings the number of samples nearer to the share, or if
    it has a class that no group taken so far has. No group is taken that leaves a class without other samples, unless
    every group does.
    """
    names, of_row = groups.cpu().unique(return_inverse=True)
    if len(names) < 2 or share == 0:
        return []
    counts = torch.zeros(len(names), int(labels.max()) + 1, dtype=torch.int64, device="cpu")
    counts.index_put_((of_row, labels.cpu()), torch.ones(1, dtype=torch.int64, device="cpu"), accumulate=True)
    sizes, total, target = counts.sum(1).tolist(), counts.sum(0), share * len(groups)
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(seed), device="cpu").tolist()
    taken: list[int] = []

    def classes_stay(group: int) -> bool:
        return bool(((total - counts[[*taken, group]].sum(0) > 0) | (total == 0)).all())

    def is_nearer(group: int) -> bool:
        held = sum(sizes[each] for each in taken)
        return bool(abs(held + sizes[group] - target) < abs(held - target))

    def has_new_class(group: int) -> bool:
        return bool(((counts[group] > 0) & (counts[taken].sum(0) == 0)).any())

    for is_wanted in (is_nearer, has_new_class):
        for group in order:
            if group not in taken and is_wanted(group) and classes_stay(group):
                taken.append(group)
    return sorted(names[taken or [min(order, key=sizes.__getitem__)]].tolist())


def limited(samples: int, limit: int | None, seed: int) -> Tensor:
    """Return all rows, or `limit` of them drawn from the seed, in order."""
    if limit is None or limit >= samples:
        return torch.arange(samples, device="cpu")
    drawn = torch.randperm(samples, generator=torch.Generator().manual_seed(seed), device="cpu")[:limit]
    return drawn.sort().values


def limited_by_class(labels: Tensor, limit: int | None, seed: int) -> Tensor:
    """Return all rows, or `limit` of them drawn from the seed, in order, with about the same share of every class.

    Each class gets limit * its share of the rows, rounded down; what is left goes to the largest remainders. If the
    limit has room for all classes, none is without a row.
    """
    labels = labels.cpu()
    if limit is None or limit >= len(labels):
        return torch.arange(len(labels), device="cpu")
    classes, of_row, sizes = labels.unique(return_inverse=True, return_counts=True)
    least = 1 if limit >= len(classes) else 0
    quota = sizes.double() * limit / len(labels)
    counts = quota.floor().long().clamp(min=least)
    while (left := limit - int(counts.sum())) != 0:  # a class that lacks most gets one more, or one that has most less
        lacking = torch.where(counts > least, quota - counts, torch.inf) if left < 0 else counts - quota
        counts[int(lacking.argmin())] += 1 if left > 0 else -1
    generator = torch.Generator().manual_seed(seed)
    drawn = []
    for place, count in enumerate(counts.tolist()):
        rows = (of_row == place).nonzero().flatten()
        drawn.append(rows[torch.randperm(len(rows), generator=generator, device="cpu")[:count]])
    return torch.cat(drawn).sort().values
