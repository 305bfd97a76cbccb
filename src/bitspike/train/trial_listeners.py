"""How one listener hears of several trials at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from bitspike.train.progress import Listener
from bitspike.train.run_folder import Row


class TrialListeners:
    """Makes one listener hear of several trials that train at once.

    Rows carry their `trial`, and warnings begin with it. Of epochs and iterations only those of the leading trial are
    told: the one that was first to begin the latest epoch.
    """

    def __init__(self, listener: Listener, trials: int) -> None:
        self.listener, self.trials = listener, trials
        self._lead, self._epoch, self._quiet = 0, 0, 0
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
        if trial == self._lead or epoch > self._epoch:
            self._lead, self._epoch, self._quiet = trial, epoch, 0
            self.listener.epoch_begins(epoch, iterations, done)

    def _iteration(self, trial: int, watched: Mapping[str, Any] | None) -> None:
        if trial == self._lead:
            self._quiet = 0
            self.listener.iteration(watched)
            return
        self._quiet += 1
        if self._quiet > self.trials:  # the lead has ended
            self._lead = trial

    def _epoch_ends(self, trial: int, row: Row) -> None:
        self.listener.epoch_ends({**row, "trial": trial})

    def _note(self, message: str) -> None:
        if message not in self._noted:
            self._noted.add(message)
            self.listener.note(message)
