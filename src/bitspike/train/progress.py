"""The progress of a run, and the callbacks that report it."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from bitspike.train.run_folder import Row

T = TypeVar("T")
Ending = Literal["epochs", "patience", "dead", "nan", "interrupted"]


@dataclass(frozen=True, slots=True)
class Listener:
    """Callbacks that a run calls to report its progress; each does nothing unless given."""

    epoch_begins: Callable[[int, int, int], object] = lambda epoch, iterations, done: None
    iteration: Callable[[Mapping[str, Any] | None], object] = lambda watched: None
    evaluation_begins: Callable[[int], Callable[[], object]] = lambda batches: lambda: None
    epoch_ends: Callable[[Row], object] = lambda row: None
    warning: Callable[[str], object] = lambda message: None
    note: Callable[[str], object] = lambda message: None  # nothing is wrong, but slower than it could be
    interrupted: Callable[[], bool] = lambda: False


@dataclass(slots=True)
class Progress:
    """The progress of a run: its epoch, iteration, best epoch and so on. A checkpoint holds all of it."""

    epoch: int = 0  # finished
    iteration: int = 0  # of the current epoch
    step: int = 0  # iterations so far
    best_epoch: int = 0  # the most accurate, among equals that of the smallest loss; or the last (train.choose)
    best_accuracy: float = -1.0
    best_loss: float = math.inf
    best_digest: str = ""  # of best.safetensors; none in a checkpoint of an earlier version
    improved_epoch: int = 0  # the last with a better accuracy: what patience counts from
    seconds: float = 0.0
    rows: list[Row] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    warned_at: list[int] = field(default_factory=list)  # each warning's step; 0 in a checkpoint of an earlier version


def drive(run: Generator[None, None, T], step: Callable[[], object]) -> T:
    """Call `step` each time `run` yields, and return what `run` returns; an error of `step` is thrown into `run`."""
    try:
        while True:
            next(run)
            try:
                step()
            except BaseException as error:
                run.throw(error)
    except StopIteration as end:
        value: T = end.value
        return value
