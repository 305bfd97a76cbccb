"""The cases of the temporal coding task: the paper's four, with two readings of the fourth, and ours that work.

Text and released code differ in the error's scale. The text sums it over time; the authors' notebook takes the mean,
which at the same learning rate is a step a hundred times smaller. The figure came from the notebook, so the mean is the
default here; `loss="sum"` gives the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bitspike.nn.initial import Init
from bitspike.nn.neurons import SurrogateCenter
from bitspike.schedules import Constant, Relax, Schedule

LEARNING_RATE = 1e-3  # the appendix' table of the temporal coding task


@dataclass(frozen=True, slots=True)
class Case:
    """One panel of the figure: a network, its thresholds, and the sum or mean of its error over time."""

    name: str
    title: str
    binary: bool
    beta: float
    theta: Schedule
    source: str
    surrogate_center: SurrogateCenter = "initial"
    init: Init = "torch"
    loss: Literal["mean", "sum"] = "mean"  # over time; the mean is the sum at a hundredth of the learning rate
    learning_rate: float = LEARNING_RATE


_TABLE = "appendix, table of the temporal coding task"

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case(
            "float32",
            "float32, theta = 1",
            binary=False,
            beta=0.6,
            theta=Constant(1.0),
            source="Fig. 4a and the released notebook; the appendix' table has theta = 2 (case float32-table)",
        ),
        Case(
            "theta1",
            "binary, theta = 1",
            binary=True,
            beta=0.15,
            theta=Constant(1.0),
            init="released",
            source=f"Fig. 4b; {_TABLE}",
        ),
        Case(
            "theta50",
            "binary, theta = 50",
            binary=True,
            beta=0.15,
            theta=Constant(50.0),
            init="released",
            source=f"Fig. 4c; {_TABLE}",
        ),
        Case(
            "annealed",
            "annealed 5 to 50, clamped surrogate",
            binary=True,
            beta=0.15,
            theta=Relax(5.0, 50.0, 5e-3),
            init="released",
            source=f"Fig. 4d; {_TABLE}; the surrogate stays at theta_0 as the text says",
        ),
        Case(
            "annealed-released",
            "annealed 5 to 50, moving surrogate",
            binary=True,
            beta=0.15,
            theta=Relax(5.0, 50.0, 5e-3),
            init="released",
            surrogate_center="current",
            source=f"Fig. 4d; {_TABLE}; the surrogate moves with theta as in the released notebook",
        ),
        Case(
            "annealed-25",
            "annealed 5 to 25, moving surrogate",
            binary=True,
            beta=0.15,
            theta=Relax(5.0, 25.0, 5e-3),
            init="released",
            surrogate_center="current",
            source="ours: the paper's rate with a final threshold that works, from benchmarks/coding_grid.py",
        ),
        Case(
            "fixed-25",
            "binary, theta = 25",
            binary=True,
            beta=0.15,
            theta=Constant(25.0),
            init="released",
            source="ours: the control of annealed-25, its final threshold from the start",
        ),
        Case(
            "float32-table",
            "float32, theta = 2",
            binary=False,
            beta=0.6,
            theta=Constant(2.0),
            source=_TABLE,
        ),
    )
}

DEFAULT = ("float32", "theta1", "theta50", "annealed", "annealed-released", "annealed-25", "fixed-25")


def select_cases(names: Sequence[str] | None, loss: Literal["mean", "sum"]) -> list[Case]:
    """Return the named cases (default: the paper's and ours), with the error summed or averaged over time."""
    chosen = list(names or DEFAULT)
    for name in chosen:
        if name not in CASES:
            raise ValueError(f"reproduce coding: no case is named {name!r}; known: {', '.join(CASES)}")
    return [replace(CASES[name], loss=loss) for name in dict.fromkeys(chosen)]
