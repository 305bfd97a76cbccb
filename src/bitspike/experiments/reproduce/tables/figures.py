"""The figures of a cell over its trials, and how far they are from the paper's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Best, mean and sample sigma of accuracies; a single one has no sigma."""

    best: float | None
    mean: float | None
    sigma: float | None

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Figures:
        """Return the figures of the values that are known."""
        known = [value for value in values if value is not None]
        return cls(
            max(known, default=None),
            statistics.mean(known) if known else None,
            statistics.stdev(known) if len(known) > 1 else None,
        )


SIGMA_IS = (
    "(our mean - the paper's) / sigma; sigma is the paper's, and in `pooled` the root mean square of the paper's and "
    "ours, each a sample sigma over trials"
)


def distance(here: Figures, paper: dict[str, float] | None) -> dict[str, float | None] | None:
    """Return how many sigmas our mean is from the paper's; SIGMA_IS says of which."""
    if paper is None or here.mean is None:
        return None
    gap, sigma = here.mean - paper["mean"], paper["sigma"]
    pooled = None if here.sigma is None else math.sqrt((sigma**2 + here.sigma**2) / 2)
    return {
        "points": gap,
        "sigmas": gap / sigma if sigma else None,
        "pooled": gap / pooled if pooled else None,
    }
