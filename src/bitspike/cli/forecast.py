"""A forecast of how long a training will take: one line after its first iterations, since a log has no bar."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bitspike.data.samples import Dataset
    from bitspike.experiments.schema import Experiment

ENOUGH = 20  # iterations to measure, or fewer that take SECONDS together
FEWEST, SECONDS = 3, 5.0
LONG = 30 * 60  # seconds on a CPU above which the line names a shorter way
SHARE = 1 / 3  # of a training sample's time: that of a sample in an evaluation
FIRST_LOOK = "mnist/quick"


class Forecast:
    """A forecast of the time that a training takes, from measurements of its first iterations.

    Each method returns a line to print, or an empty text. `runs` is how many trainings follow each other. On a GPU the
    host runs ahead of the device, and waits for it only when the figures of an iteration are read: only times between
    two such reads count, and only after the first ones, in which kernels are compiled and a CUDA graph is recorded.
    """

    def __init__(self, spec: Experiment, data: Dataset, device: str, runs: int = 1) -> None:
        from bitspike.experiments.held_out import training_rows

        self.epochs, self.batch, self.device, self.runs = spec.train.epochs, spec.train.batch, device, runs
        rows, held = training_rows(spec, data)
        judged = held if data.valid is None else data.valid.labels
        judged = data.test.labels if judged is None else judged
        self.evaluation = SHARE * len(judged) / max(len(rows) * spec.data.repeat, 1)  # of an epoch's time
        self._left = 0  # iterations, of this run
        self._seen = 0
        self._skipped = 1 if device == "cpu" else 2  # marks before the clock starts
        self._began: tuple[int, float] | None = None
        self._reported = False
        self._iterations = self._ended = 0

    def begins(self, epoch: int, iterations: int, done: int) -> str:
        """Return a line for the start of an epoch: before the first one, how many epochs there are."""
        first, self._iterations = not self._iterations, iterations
        self._left = (self.epochs - epoch + 1) * iterations - done
        if not first:
            return ""
        which = f", from epoch {epoch} on" if epoch > 1 or done else ""
        several = f", {self.runs} runs" if self.runs > 1 else ""
        return f"{_count(self.epochs, 'epoch')} of {_count(iterations, 'iteration')}{which}{several}"

    def iteration(self, looked: bool) -> str:
        """Return the time that is left, once, after an iteration. `looked` is True if its figures were read."""
        self._seen += 1
        self._left -= 1
        if self._reported or self._left <= 0:
            return ""
        if self.device != "cpu" and not looked:
            return ""
        now = time.monotonic()
        if self._began is None:
            self._skipped -= 1
            if self._skipped <= 0:
                self._began = self._seen, now
            return ""
        count, spent = self._seen - self._began[0], now - self._began[1]
        if count < ENOUGH and (count < FEWEST or spent < SECONDS):
            return ""
        self._reported = True
        return self._line(spent / count * self._iterations * (1 + self.evaluation))

    def epoch_ends(self, seconds: float) -> str:
        """Return a line after an epoch of `seconds`, if its iterations were too few to measure.

        The first epoch on a GPU does not count, as kernels are compiled in it.
        """
        self._ended += 1
        self._began, self._skipped = None, 1  # the time between two epochs is not part of an iteration
        starting = self._ended == 1 and (seconds < SECONDS or self.device != "cpu")
        if self._reported or starting or self._left <= 0:
            return ""
        self._reported = True
        return self._line(seconds)

    def _line(self, epoch: float) -> str:
        """Return the line about the time that is left, from the seconds of an epoch."""
        left = epoch * (self._left / self._iterations + (self.runs - 1) * self.epochs)
        line = f"about {duration(left)} to go, {duration(epoch)} an epoch"
        if self.device != "cpu" or left < LONG:
            return line
        few = max(int(LONG / 3 / epoch), 1)
        fewer = f", or --epochs {few} ({duration(few * epoch)})" if epoch < LONG else ""
        return f"{line} on this CPU; a GPU takes far less; for a first look: bitspike train {FIRST_LOOK}{fewer}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a time in words, in the largest unit that gives at least 2."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"
