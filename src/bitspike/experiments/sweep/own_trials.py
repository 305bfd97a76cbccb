"""The trials that a worker holds: signs of life, reports of epochs, results; and letting them go.

Everything here may be done twice, and may come too late: a worker that was taken for dead finds its trial taken over or
ended, and says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from filelock import FileLock
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from bitspike.experiments.sweep.studies import JoinedStudy
from bitspike.train.run_folder import RunFolder

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Claim:
    """A trial that this process trains; `lock` is held until it has ended."""

    number: int
    trial_id: int
    settings: Mapping[str, Any]
    folder: Path
    attempts: int
    lock: FileLock
    pruned: Mapping[str, Any] | None = None  # the result that a dead worker had already decided on


class OwnTrials:
    """The trials of one worker; while the storage does not answer, `waiting` is told why."""

    def __init__(self, joined: JoinedStudy, waiting: Callable[[str], object] = lambda why: None) -> None:
        self.owner = uuid4().hex
        self.held: dict[int, Claim] = {}
        self._study, self._storage, self._waiting = joined.study, joined.storage, waiting

    def patiently(self, call: Callable[[], T]) -> T:
        """Return what `call` returns, however long the storage does not answer."""
        return self._storage.patiently(call, waiting=self._waiting)

    def beat(self) -> None:
        """Give a sign of life for all trials of this worker."""
        for trial_id in list(self.held):
            self._storage.beat(trial_id)

    def report(self, claim: Claim, epoch: int, accuracy: float) -> bool:
        """Report the accuracy of an epoch; return whether the trial is to be pruned."""
        storage = self._storage.optuna

        def tell() -> bool:
            trial = storage.get_trial(claim.trial_id)
            if trial.state.is_finished():
                return True
            if epoch not in trial.intermediate_values:
                storage.set_trial_intermediate_value(claim.trial_id, epoch, accuracy)
                trial = storage.get_trial(claim.trial_id)
            return self._study.pruner.prune(self._study, trial)

        return self.patiently(tell)

    def note_pruned(self, claim: Claim, result: Mapping[str, Any]) -> None:
        """Write down that a trial is pruned before its training ends: if it is killed now, nobody must train it on."""
        self.patiently(lambda: self._set(claim, "result", result))

    def finish(self, claim: Claim, result: Mapping[str, Any], values: Sequence[float] | None) -> None:
        """Tell the result of a trial: its values, or None if it was pruned."""

        def tell() -> bool:
            self._set(claim, "result", result)
            return self._tell(claim, TrialState.PRUNED if values is None else TrialState.COMPLETE, values)

        self._end(claim, self.patiently(tell))

    def fail(self, claim: Claim, error: str) -> None:
        """Tell that a trial cannot be trained; another one will take its place."""

        def tell() -> bool:
            self._set(claim, "error", error)
            return self._tell(claim, TrialState.FAIL, None)

        self._end(claim, self.patiently(tell))

    def _end(self, claim: Claim, told: bool) -> None:
        """Let a trial go whose training has ended; its checkpoint is needed until the storage holds its result."""
        if told:
            RunFolder(claim.folder).discard_checkpoint()
        self.let_go(claim)

    def release(self, claim: Claim) -> None:
        """Let a trial go that was interrupted, for whoever asks next."""

        self.patiently(lambda: self._let_others(claim))
        self.let_go(claim)

    def _let_others(self, claim: Claim) -> None:
        trial = self._storage.optuna.get_trial(claim.trial_id)
        self._set(claim, "claim", {**trial.user_attrs["claim"], "owner": None})

    def release_all(self) -> None:
        """Let all trials go when the worker ends, as far as the storage answers; their locks end with it anyway."""
        for claim in list(self.held.values()):
            with suppress(Exception):
                self._let_others(claim)
            self.let_go(claim)

    def let_go(self, claim: Claim) -> None:
        """Free the lock of a trial."""
        self.held.pop(claim.trial_id, None)
        claim.lock.release()

    def _is_mine(self, claim: Claim) -> bool:
        """Return whether nobody else has taken the trial over, or ended it."""
        trial = self._storage.optuna.get_trial(claim.trial_id)
        return not trial.state.is_finished() and trial.user_attrs["claim"]["owner"] == self.owner

    def _set(self, claim: Claim, key: str, value: Any) -> None:
        if self._is_mine(claim):
            with suppress(UpdateFinishedTrialError):
                self._storage.optuna.set_trial_user_attr(claim.trial_id, key, value)

    def _tell(self, claim: Claim, state: TrialState, values: Sequence[float] | None) -> bool:
        """Tell how a trial ended if it is this worker's; return whether it has ended, by whoever told it."""
        if not self._is_mine(claim):
            return self._storage.optuna.get_trial(claim.trial_id).state.is_finished()
        with suppress(UpdateFinishedTrialError):
            told = None if values is None else list(values)
            self._study.tell(claim.number, told, state, skip_if_finished=True)
        return True
