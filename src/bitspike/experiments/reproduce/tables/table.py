"""A table of the paper that is made of presets: its tasks, its rows, and ablations of its last row.

Nothing here loads torch or pydantic, so that the command line can offer the tables at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from bitspike.experiments.schema import Experiment

Protocol = Literal["paper", "holdout"]
PROTOCOLS: tuple[Protocol, ...] = ("paper", "holdout")
VARIANTS = ("float32", "theta1", "fixed", "annealed")  # the paper's rows: those of presets.py, which needs pydantic
BEST = "best"  # a row beside the paper's, trained when asked for
FIXED = "fixed"  # the row whose loss is drawn beside the annealed one's
BASE = "annealed"  # the row that ablations change


@dataclass(frozen=True, slots=True)
class Ablation:
    """One change of the annealed row."""

    name: str
    sentence: str  # what changes, in words
    settings: Callable[[Experiment], list[str]]  # the `--set` settings that make it; none where it does not apply


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of the paper: `bitspike reproduce NAME` trains all its cells and compares them with it."""

    name: str
    title: str  # for help: which table it is
    about: str  # for summary.json: which data it is on
    tasks: tuple[str, ...]  # the paper's, in order: presets are named by them
    # Tasks that the paper does not have, trained only when they are named: by task, what it stands in for.
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    ablations: Mapping[str, Ablation] = field(default_factory=dict)
    protocols: tuple[Protocol, ...] = ("paper",)  # that are trained unless others are asked for
    skips_missing: bool = False  # whether a task without data is left out; else the command ends
    dead_over_time: bool = False  # whether the report has dead neurons before, early in and after training
    # What the paper says of dead neurons: by task and row, the share of each layer in percent.
    dead: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)

    @property
    def known_tasks(self) -> tuple[str, ...]:
        """The names of all tasks that may be trained, in order: the paper's, then those that stand in for one."""
        return (*self.tasks, *self.stand_ins)

    @property
    def rows(self) -> tuple[str, ...]:
        """The names of all cells that a task may have, in order."""
        return (*VARIANTS, BEST, *self.ablations)
