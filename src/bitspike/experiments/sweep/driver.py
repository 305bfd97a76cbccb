"""The driver of a sweep: it starts workers, replaces those that die, and knows how the study stands."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any

from optuna.trial import FrozenTrial

from bitspike.experiments.sweep.facts import Standing
from bitspike.experiments.sweep.local_worker import (
    DEATHS_BEFORE_A_TRIAL,
    GOES_ON,
    LOST,
    LocalWorker,
    SweepError,
    forkserver_for_search,
    start_worker,
)
from bitspike.experiments.sweep.storage import StorageUnavailableError
from bitspike.experiments.sweep.studies import JoinedStudy
from bitspike.experiments.sweep.worker import Work
from bitspike.train.run_folder import RunFolder

# What a worker loads before its first iteration, in seconds.
PRELOADED = ["bitspike.experiments.sweep.worker", "torch._dynamo", "torch._inductor.config", "safetensors.torch"]
PRELOADED_FOR_SERVERS = ["optuna.storages._rdb.models", "sqlalchemy.dialects.postgresql", "psycopg", "alembic.command"]
LOOK = 1.0  # seconds between two looks at the study
_GOES_ON_FROM = {  # by what the folder of a trial that was taken over holds
    "result": "its training had ended, and its result is told now",
    "checkpoint": "it goes on from its last checkpoint",
    "nothing": "it starts anew, as this folder has no checkpoint of it",
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How a sweep stands at a moment: for a display."""

    standing: Standing
    target: int
    trials: Sequence[FrozenTrial]
    workers: Sequence[LocalWorker]
    began: float
    complete_before: int
    trouble: str  # why the storage does not answer; empty if it does
    more_objectives: Sequence[str]  # beside accuracy

    def rate(self) -> float | None:
        """Return the trials a second since this driver began, of all drivers; None while none has ended."""
        ended = self.standing.complete - self.complete_before
        return ended / max(time.monotonic() - self.began, 1e-9) if ended > 0 else None

    def seconds_left(self) -> float | None:
        """Return the time that the rest will take at this rate; None while it is not known."""
        rate = self.rate()
        return None if rate is None else max(self.target - self.standing.complete, 0) / rate


class Driver:
    """Runs workers until the study has `task.trials` trials that ended; workers take the `devices` in turn."""

    def __init__(
        self,
        joined: JoinedStudy,
        task: Work,
        devices: Sequence[str],
        *,
        show: Callable[[Snapshot], object],
        say: Callable[[str], object],
        interrupted: Callable[[], bool],
    ) -> None:
        self._joined, self._task, self._devices = joined, task, devices
        self._show, self._say, self._interrupted = show, say, interrupted
        # A forked worker has all libraries at once; but CUDA does not outlive a fork.
        self._context: Any = multiprocessing.get_context("forkserver" if task.device == "cpu" else "spawn")
        self._lost = LOST if task.device == "cpu" else None
        joined.storage.hurry_if(interrupted)
        self._trials: Sequence[FrozenTrial] = joined.storage.patiently(
            lambda: joined.study.get_trials(deepcopy=False), waiting=self._require_not_interrupted
        )
        self._complete_before = Standing.of(self._trials).complete
        failed = tuple(trial.number for trial in self._trials if trial.state.name == "FAIL")
        self._task = replace(task, known_failures=failed)
        self._began, self._looked_at, self._trouble = time.monotonic(), 0.0, ""
        self._error = ""

    @property
    def seconds(self) -> float:
        """The time since this driver was made."""
        return time.monotonic() - self._began

    def run(self) -> bool:
        """Run until all trials have ended, and return True; False if it was interrupted and can go on later."""
        self._discard_checkpoints()
        if self._complete_before >= self._task.trials:
            return True
        if self._task.device != "cpu":
            return self._run()
        with forkserver_for_search(PRELOADED + (PRELOADED_FOR_SERVERS if self._task.address else [])):
            return self._run()

    def _run(self) -> bool:
        count = min(self._task.workers, self._task.trials - self._complete_before)
        workers = [self._start(i) for i in range(count)]
        try:
            while not all(worker.done for worker in workers):
                self._wait(workers)
                for worker in workers:
                    self._hear(worker)
                if self._error:
                    raise SweepError(self._error)
                if self._interrupted():
                    return False
                self._replace_dead(workers)
                self._look(workers)
        except KeyboardInterrupt:  # the second one, while the storage kept this process: its workers wait there, too
            for worker in workers:
                worker.process.kill()
            raise
        finally:
            self._end(workers)
        self._looked_at = 0.0
        self._look(workers)
        self._discard_checkpoints()
        return True

    def _require_not_interrupted(self, why: str) -> None:
        if self._interrupted():
            raise StorageUnavailableError(why)

    def _discard_checkpoints(self) -> None:
        """Delete the checkpoints of trials that have ended, whose workers died before they did so themselves."""
        for trial in self._trials:
            folder = RunFolder(self._joined.trial_folder(trial.number))
            if not trial.state.is_finished() or not folder.checkpoints():
                continue
            lock = self._joined.trial_lock(trial.number)
            if lock is not None:  # else a worker that was taken for dead still writes there
                folder.discard_checkpoint()
                lock.release()

    def _start(self, number: int) -> LocalWorker:
        task = replace(self._task, device=self._devices[number % len(self._devices)])
        return start_worker(self._context, task)

    def _wait(self, workers: Sequence[LocalWorker]) -> None:
        alive = [worker for worker in workers if not worker.done]
        pipes = [worker.messages for worker in alive if not worker.messages.closed]
        wait([*pipes, *(worker.process.sentinel for worker in alive)], timeout=0.25)

    def _hear(self, worker: LocalWorker) -> None:
        for kind, told in worker.heard():
            self._note(worker, kind, told)

    def _note(self, worker: LocalWorker, kind: str, told: Mapping[str, Any]) -> None:
        number = told.get("trial")
        if kind == "begins":
            worker.deaths, worker.doing = 0, "takes a trial"
            worker.trials[told["trial"]] = "begins"
            if told["attempt"] > 1:
                self._say(f"trial {number} had begun; {_GOES_ON_FROM[told['folder_holds']]}")
        elif kind == "epoch":
            worker.trials[told["trial"]] = f"epoch {told['epoch']}/{told['epochs']}, {told['accuracy']:.2%}"
        elif kind == "ends":
            worker.trials.pop(told["trial"], None)
            self._looked_at = 0.0
        elif kind == "fails":
            worker.trials.pop(told["trial"], None)
            self._say(f"trial {number} failed, another takes its place: {told['error']}")
        elif kind == "waits":
            worker.doing = "waits for the storage"
        elif kind == "idles":
            worker.doing = "waits for the others' trials"
        elif kind == "reads":
            worker.doing = f"reads {told['stage']}"
        elif kind == "error":
            self._error = self._error or str(told["line"])

    def _replace_dead(self, workers: list[LocalWorker]) -> None:
        for worker in workers:
            if not worker.done and worker.process.exitcode == self._lost and self._lost is not None:
                for kind, told in worker.end_lost():
                    self._note(worker, kind, told)
        for i, worker in enumerate(workers):
            code = worker.process.exitcode
            if worker.done or code is None:
                continue
            self._hear(worker)
            worker.process.join()
            if code == 0:
                worker.done, worker.doing = True, "done"
                continue
            if self._error or 0 < code != self._lost:
                why = f"a worker ended with status {code}; BITSPIKE_DEBUG=1 shows why; the same command goes on"
                raise SweepError(self._error or why)
            how = "with the process that starts workers" if code == self._lost else f"signal {-code}"
            if worker.deaths + 1 >= DEATHS_BEFORE_A_TRIAL:
                raise SweepError(
                    f"a worker was killed {DEATHS_BEFORE_A_TRIAL} times before it took a trial ({how}); {GOES_ON}"
                )
            self._say(f"a worker was killed ({how}); another takes its place")
            workers[i] = self._start(i)
            workers[i].deaths = worker.deaths + 1

    def _look(self, workers: Sequence[LocalWorker]) -> None:
        """Look at the study, once a second, and show how it stands."""
        if time.monotonic() - self._looked_at >= LOOK:
            try:
                self._trials = self._joined.study.get_trials(deepcopy=False)
                self._trouble = ""
            except Exception as error:
                trouble = self._joined.storage.trouble(error)
                if trouble is None:
                    raise
                self._note_trouble(trouble)
            self._looked_at = time.monotonic()
        self._show(
            Snapshot(
                Standing.of(self._trials),
                self._task.trials,
                self._trials,
                workers,
                self._began,
                self._complete_before,
                self._trouble,
                [each.name for each in self._joined.facts.objectives[1:]],
            )
        )

    def _note_trouble(self, trouble: StorageUnavailableError) -> None:
        if not self._trouble:
            self._say(f"waiting for the storage: {trouble}")
        self._trouble = str(trouble)

    def _end(self, workers: Sequence[LocalWorker]) -> None:
        """End all workers: each saves its trials and lets them go; one that takes too long is killed.

        A second Ctrl-C kills them at once.
        """
        alive = [worker for worker in workers if worker.process.is_alive()]
        try:
            for worker in alive:
                worker.process.terminate()
            until = time.monotonic() + 60
            while any(worker.process.is_alive() for worker in alive) and time.monotonic() < until:
                for worker in alive:
                    self._hear(worker)  # a full pipe would block it
                time.sleep(0.02)
        finally:
            for worker in alive:
                if worker.process.is_alive():
                    worker.process.kill()
                worker.process.join()
