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
    whole: bool = False
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
        """Return the rows of trials that no other one beats in both objectives; pruned trials are not among them.

        From the best one on, a trial is on the front if it is better in the second objective than all before it, or
        equal to one of the front in both.
        """
        first, second = self.objectives[:2]
        front: list[int] = []
        last: tuple[float, float] | None = None
        for row in self.ranked():
            point = (first.values[row], second.values[row])
            if last is None or point == last or second.better(point[1], last[1]):
                front.append(row)
                last = point
        return sorted(front)

    def ranked(self) -> list[int]:
        """Return the rows of trials that were not pruned, best first.

        The first objective ranks; among equals the second one, so that no trial beats the best one in both; then the
        lower number.

        Examples:
            >>> from bitspike.analysis.search_data import SearchObjective, SearchTrials
            >>> accuracy = SearchObjective("accuracy, %", [90.0, 90.0, 80.0])
            >>> spikes = SearchObjective("spikes", [300.0, 200.0, 100.0], maximize=False)
            >>> SearchTrials("a", [0, 1, 2], [False] * 3, [accuracy, spikes], []).ranked()
            [1, 0, 2]
        """

        def key(row: int) -> tuple[float, ...]:
            return tuple(-each.values[row] if each.maximize else each.values[row] for each in self.objectives)

        return sorted((row for row, pruned in enumerate(self.pruned) if not pruned), key=key)
