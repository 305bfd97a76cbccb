"""One listener for several trials that train at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from bitspike.train.progress import Listener
from bitspike.train.run_folder import Row


class TrialListeners:
    """Listeners for several trials that train at once; all of them report to one listener.

    Rows carry their `trial`, and warnings begin with it. Epochs and iterations are reported only for the leading trial:
    the one that was the first to begin the latest epoch.
    """

    def __init__(self, listener: Listener, trials: int) -> None:
        self.listener, self.trials = listener, trials
        self._leader, self._epoch, self._since_leader = 0, 0, 0
        self._noted: set[str] = set()

    def listener_for(self, trial: int) -> Listener:
        """Return the listener of one trial."""
        return replace(
            self.listener,
            epoch_begins=partial(self._epoch_begins, trial),
            iteration=partial(self._iteration, trial),
            epoch_ends=partial(self._epoch_ends, trial),
            warning=lambda message: self.listener.warning(f"trial {trial}: {message}"),
            note=self._note,
        )

    def _epoch_begins(self, trial: int, epoch: int, iterations: int, done: int) -> None:
        if trial == self._leader or epoch > self._epoch:
            self._leader, self._epoch, self._since_leader = trial, epoch, 0
            self.listener.epoch_begins(epoch, iterations, done)

    def _iteration(self, trial: int, watched: Mapping[str, Any] | None) -> None:
        if trial == self._leader:
            self._since_leader = 0
            self.listener.iteration(watched)
            return
        self._since_leader += 1
        if self._since_leader > self.trials:  # the leading trial has ended
            self._leader = trial

    def _epoch_ends(self, trial: int, row: Row) -> None:
        self.listener.epoch_ends({**row, "trial": trial})

    def _note(self, message: str) -> None:
        if message not in self._noted:
            self._noted.add(message)
            self.listener.note(message)
