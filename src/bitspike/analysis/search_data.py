"""The trials of a search as plain arrays: what its pictures and tables are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Value = float | str | None  # a number, a choice in words, or None where the trial did not draw it


@dataclass(frozen=True, slots=True)
class SearchAxis:
    """One searched parameter: its range or choices, and its value in each trial."""

    name: str
    values: Sequence[Value]
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    choices: Sequence[str] = ()

    def place(self, value: Value) -> float | None:
        """Return where a value lies between the ends of its range, 0 to 1; choices lie at equal distances."""
        if value is None:
            return None
        if self.choices:
            return self.choices.index(str(value)) / max(len(self.choices) - 1, 1)
        at, low, high = (math.log(each) if self.log else each for each in (float(value), self.low, self.high))
        return (at - low) / (high - low)


@dataclass(frozen=True, slots=True)
class SearchObjective:
    """A figure that a search optimizes, and its value in each trial."""

    label: str  # such as "accuracy, %"
    values: Sequence[float]
    maximize: bool = True

    def better(self, one: float, other: float) -> bool:
        """Return whether one value is better than another."""
        return one > other if self.maximize else one < other


@dataclass(frozen=True, slots=True)
class SearchTrials:
    """The trials that have a value, in the order of their numbers."""

    title: str
    numbers: Sequence[int]
    pruned: Sequence[bool]
    objectives: Sequence[SearchObjective]
    axes: Sequence[SearchAxis]
    importances: Mapping[str, float] = field(default_factory=dict)

    def best_so_far(self) -> list[float]:
        """Return the best value of the first objective among the trials up to each one; pruned ones do not count.

        Examples:
            >>> from bitspike.analysis.search_data import SearchObjective, SearchTrials
            >>> accuracy = SearchObjective("accuracy, %", [50.0, 90.0, 80.0])
            >>> SearchTrials("a", [0, 1, 2], [False] * 3, [accuracy], []).best_so_far()
            [50.0, 90.0, 90.0]
        """
        objective, best, so_far = self.objectives[0], math.nan, []
        for value, pruned in zip(objective.values, self.pruned, strict=True):
            if not pruned and (math.isnan(best) or objective.better(value, best)):
                best = value
            so_far.append(best)
        return so_far

    def front(self) -> list[int]:
        """Return the rows of trials that no other one beats in all objectives; pruned trials are not among them."""
        rows = [row for row, pruned in enumerate(self.pruned) if not pruned]
        return [row for row in rows if not any(self._dominates(other, row) for other in rows)]

    def ranked(self) -> list[int]:
        """Return the rows of trials that were not pruned, the best of the first objective first."""
        objective = self.objectives[0]
        rows = [row for row, pruned in enumerate(self.pruned) if not pruned]
        return sorted(rows, key=lambda row: (-1 if objective.maximize else 1) * objective.values[row])

    def _dominates(self, one: int, other: int) -> bool:
        """Return whether one trial is better than another in an objective, and worse in none."""
        pairs = [(held, held.values[one], held.values[other]) for held in self.objectives]
        return any(held.better(a, b) for held, a, b in pairs) and not any(held.better(b, a) for held, a, b in pairs)
