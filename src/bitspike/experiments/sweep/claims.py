"""Who trains which trial: a slot is taken before it is trained, and a trial whose worker died is taken over.

A trial of the study is a slot, from the moment that Optuna creates it. All processes count and create trials only
within one lock (`StudyStorage.exclusive`), so that there are never more than the number asked for. Optuna numbers
trials one after another; should a server lose the lock in a restart, a trial that came too late sees it by its number.

A worker holds a lock on its trial from its claim until the result is told. A process that is killed lets go of it, at
any moment: whoever can take the lock of a trial that runs has found a dead one, and goes on with it. For a trial whose
folder is elsewhere heartbeats tell: stale at two looks, a heartbeat apart, so that after an outage of the server every
living worker had the time to give a sign. If a worker is taken for dead and is not, the first result counts; both
results are equal if threads and machines are.
"""

from __future__ import annotations

import os
import re
import socket
import time
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import optuna
from filelock import FileLock
from optuna.trial import FrozenTrial, TrialState

from bitspike.experiments.sweep.own_trials import Claim, OwnTrials
from bitspike.experiments.sweep.space import Space
from bitspike.experiments.sweep.studies import JoinedStudy
from bitspike.train.run_folder import RunFolder
from bitspike.train.seeds import mixed

DEATHS_OF_A_TRIAL = 10  # of workers of one trial, one after another, without a new checkpoint


class FailedTwiceError(ValueError):
    """The same error in two trials: more of them would only repeat it."""


class Claims:
    """The claims of one worker on the trials of a study, up to `target` trials in all."""

    def __init__(
        self,
        joined: JoinedStudy,
        space: Space,
        target: int,
        *,
        own: OwnTrials,
        known_failures: Collection[int] = (),
    ) -> None:
        self._joined, self._space, self._target, self._own = joined, space, target, own
        self._study, self._storage = joined.study, joined.storage
        self._known_failures = frozenset(known_failures)
        self._stale_since: dict[int, float] = {}

    def take(self, most: int, workers: int = 1) -> list[Claim] | None:
        """Take up to `most` trials; return an empty list if all are taken but not all have ended, None if all have.

        With several `workers` none takes more than its share of what is left.
        """
        return self._own.patiently(lambda: self._take(most, workers))

    def _take(self, most: int, workers: int) -> list[Claim] | None:
        taken: list[Claim] = []
        try:
            with self._storage.exclusive(self._study.study_name):
                trials = self._study.get_trials(deepcopy=False)
                self._require_no_failure_twice(trials)
                finished = sum(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in trials)
                if finished >= self._target:
                    return None
                if self._take_over(trials, most, taken):
                    trials = self._study.get_trials(deepcopy=False)
                    self._require_no_failure_twice(trials)
                slots = sum(map(_is_slot, trials))
                share = min(most - len(taken), -(-(self._target - slots) // workers))
                for _ in range(share):
                    if (claim := self._begin()) is None:
                        break
                    taken.append(claim)
        except BaseException:  # the server may be gone: whoever asks next takes these over
            for claim in taken:
                self._own.let_go(claim)
            raise
        return taken

    def _take_over(self, trials: Sequence[FrozenTrial], most: int, taken: list[Claim]) -> bool:
        """Take over trials whose workers are dead; return whether one failed, because it keeps killing its workers."""
        failed = False
        running = [t for t in trials if t.state == TrialState.RUNNING and t._trial_id not in self._own.held]
        stale = self._stale([trial for trial in running if not self._is_here(trial)])
        dead = self._locked(trial for trial in running if self._is_here(trial) or trial._trial_id in stale)
        # An earlier command may have asked for more trials, of which any may have ended.
        spare = max(sum(map(_is_slot, trials)) - self._target, 0)
        try:
            while dead and len(taken) < most and len(dead) > spare:
                trial, lock = dead.pop(0)
                with suppress(optuna.exceptions.UpdateFinishedTrialError):  # its worker lived, and was faster
                    claim = self._adopt(trial._trial_id, lock)
                    taken += [] if claim is None else [claim]
                    failed = failed or claim is None
        finally:
            for _, lock in dead:
                lock.release()
        return failed

    def _locked(self, trials: Iterable[FrozenTrial]) -> list[tuple[FrozenTrial, FileLock]]:
        """Return those of these trials whose locks were free, with the lock, which is held now."""
        found = ((trial, self._joined.trial_lock(trial.number)) for trial in trials)
        return [(trial, lock) for trial, lock in found if lock is not None]

    def _is_here(self, trial: FrozenTrial) -> bool:
        """Return whether the lock in this folder tells if a trial's worker lives.

        A trial without a claim is nobody's: its worker died within the lock that this process holds now. So is one that
        was let go.
        """
        claim = trial.user_attrs.get("claim")
        return claim is None or claim["owner"] is None or claim["place"] == self._joined.place

    def _stale(self, elsewhere: Sequence[FrozenTrial]) -> set[int]:
        """Return the trials of other folders whose workers gave no sign of life, at two looks a heartbeat apart."""
        if not elsewhere or self._storage.heartbeat is None:
            return set()
        now = time.monotonic()
        silent = self._storage.stale(self._study._study_id)
        self._stale_since = {each: self._stale_since.get(each, now) for each in silent}
        return {each for each, since in self._stale_since.items() if now - since >= self._storage.heartbeat}

    def _adopt(self, trial_id: int, lock: FileLock) -> Claim | None:
        """Claim a trial whose lock was free; None if it killed so many workers that it failed now.

        It is read again: its worker may have told the result, and let it go, since the trials were listed.
        """
        try:
            trial = self._storage.optuna.get_trial(trial_id)
            if trial.state.is_finished():
                raise optuna.exceptions.UpdateFinishedTrialError
            before = trial.user_attrs.get("claim") or {}
            died = before.get("owner") is not None
            stands = died and before.get("progress") == _progress(self._folder(trial.number))
            stuck = before.get("stuck", 0) + 1 if stands else 0
            if stuck >= DEATHS_OF_A_TRIAL:
                error = f"its worker died {stuck} times in a row before it came any further; is there enough memory?"
                self._storage.optuna.set_trial_user_attr(trial_id, "error", error)
                self._study.tell(trial.number, state=TrialState.FAIL)
                RunFolder(self._folder(trial.number)).discard_checkpoint()
                lock.release()
                return None
            return self._write_claim(optuna.Trial(self._study, trial_id), lock, before.get("attempts", 0), stuck)
        except BaseException:
            lock.release()
            raise

    def _begin(self) -> Claim | None:
        """Create a trial and claim it; None if others have taken the last slot in spite of the lock."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # heartbeats are given, though not by Optuna's own loop
            trial = self._study.ask()
        if _before(trial.number, self._study.get_trials(deepcopy=False)) >= self._target:
            trial.set_user_attr("surplus", True)
            self._study.tell(trial, state=TrialState.FAIL)
            return None
        lock = self._joined.trial_lock(trial.number)
        if lock is None:
            raise RuntimeError(f"trial {trial.number} is new, but its lock is held")
        try:
            return self._write_claim(trial, lock, 0, 0)
        except BaseException:
            lock.release()
            raise

    def _write_claim(self, trial: optuna.Trial, lock: FileLock, attempts: int, stuck: int) -> Claim:
        """Write down that the trial is this worker's. The claim comes last: without it a trial is nobody's."""
        self._storage.beat(trial._trial_id)
        held = trial.user_attrs
        settings = held.get("settings")
        if settings is None:
            settings = self._space.settings(self._space.suggest(trial))
            settings["seed"] = mixed(self._joined.facts.seed, "trial", trial.number) % 2**32
            trial.set_user_attr("settings", settings)
        folder = self._folder(trial.number)
        if "folder" not in held:
            trial.set_user_attr("folder", folder.relative_to(self._joined.folder).as_posix())
        trial.set_user_attr(
            "claim",
            {
                "owner": self._own.owner,
                "place": self._joined.place,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "attempts": attempts + 1,
                "stuck": stuck,
                "progress": _progress(folder),
            },
        )
        pruned = held.get("result") if held.get("result", {}).get("ended") == "pruned" else None
        claim = Claim(trial.number, trial._trial_id, settings, folder, attempts + 1, lock, pruned)
        self._own.held[trial._trial_id] = claim
        return claim

    def _folder(self, number: int) -> Path:
        return self._joined.trial_folder(number)

    def _require_no_failure_twice(self, trials: Sequence[FrozenTrial]) -> None:
        """Raise if two trials of this sweep failed in the same way."""
        errors = {
            trial.number: str(trial.user_attrs["error"])
            for trial in trials
            if trial.state == TrialState.FAIL and "error" in trial.user_attrs
            if trial.number not in self._known_failures
        }
        kinds = Counter(_without_numbers(error) for error in errors.values())
        for number, error in errors.items():
            if kinds[_without_numbers(error)] > 1:
                raise FailedTwiceError(f"two trials failed in the same way, such as trial {number}: {error}")


def _before(number: int, trials: Sequence[FrozenTrial]) -> int:
    """Return how many slots are taken by trials before this one."""
    return sum(map(_is_slot, (trial for trial in trials if trial.number < number)))


def _is_slot(trial: FrozenTrial) -> bool:
    """Return whether a trial takes a slot: not one that failed, nor one of Optuna's queue, which nobody took so far."""
    return trial.state not in (TrialState.FAIL, TrialState.WAITING)


def _without_numbers(text: str) -> str:
    """Return an error's text without its figures: other values may make the same mistake."""
    return re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", text)


def _progress(folder: Path) -> int | None:
    """Return a mark that changes with each checkpoint; None where there is none."""
    try:
        return RunFolder(folder).last.stat().st_mtime_ns
    except OSError:
        return None
