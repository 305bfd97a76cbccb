"""A finding: one thing that looks like a mistake in data, and the words that findings share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

MOST_NAMES = 8  # that one line lists


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that looks like a mistake in the data.

    `cause` is a short fixed name, `where` the split, `evidence` the figures in words, `remedy` what to do.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> from bitspike.data.samples import frames_from_dense
        >>> samples = frames_from_dense(torch.ones(4, 10, 3), torch.arange(4) % 2)
        >>> shown = bitspike.data.profile(bitspike.data.Dataset("mine", "Mine", 2, samples, samples))
        >>> [finding.cause for finding in bitspike.data.findings(shown)]
        ['repeated samples']
    """

    cause: str
    where: str
    evidence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.evidence}; {self.remedy}"


def split_words(split: str) -> str:
    """Return the word for the samples of a split."""
    return {"train": "training", "valid": "validation"}.get(split, split)


def count_of(count: int, samples: int, split: str) -> str:
    """Return how many of a split's samples there are, such as "3 of 40 test samples"."""
    return f"{count:,} of {samples:,} {split_words(split)} samples"


def listed(names: Sequence[Any], most: int = MOST_NAMES, called: Callable[[Any], str] = str) -> str:
    """Return the first names as text, `most` of them, and how many more there are; `called` makes text of one."""
    return ", ".join(map(called, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
