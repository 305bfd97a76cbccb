"""A worker: a process that takes trials of a study, trains them and tells their results, until none is left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

import optuna
import torch

from bitspike.experiments.assembly import RunOptions, pick_device
from bitspike.experiments.sweep.claims import Claims
from bitspike.experiments.sweep.facts import StudyFacts
from bitspike.experiments.sweep.heartbeat import beating
from bitspike.experiments.sweep.own_trials import OwnTrials
from bitspike.experiments.sweep.space import Space
from bitspike.experiments.sweep.storage import StorageUnavailableError, until_answered
from bitspike.experiments.sweep.studies import join_study
from bitspike.experiments.sweep.training import TrialTrainer
from bitspike.ops.buffers import keep_freed_memory
from bitspike.text import one_line

LOOK = 0.5  # seconds between two looks for a trial whose worker died, when all are taken


@dataclass(frozen=True, slots=True)
class Work:
    """All that a worker needs to know; `address` may hold a password, so that it is not printed."""

    folder: Path
    name: str
    facts: Mapping[str, Any]
    trials: int
    address: str | None
    heartbeat: int
    device: str
    together: int
    workers: int  # of the same driver
    threads: int | None  # of PyTorch; None for its default
    known_failures: Sequence[int]
    command: str

    def __repr__(self) -> str:
        return f"Work({self.name!r}, {self.folder})"


def work(task: Work, messages: Connection) -> None:
    """Take and train trials until all have ended; exit with 0 then, with 1 after an error that is told in one line.

    A worker that was asked to stop ends by that signal, so that its driver does not take it for done.
    """
    _end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to pass on
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until there is something to save
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def tell(kind: str, told: Mapping[str, Any]) -> None:
        messages.send((kind, dict(told)))

    try:
        _work(task, tell)
    except (ValueError, OSError, ImportError, MemoryError, RuntimeError, KeyError, TypeError) as error:
        if os.environ.get("BITSPIKE_DEBUG"):
            raise
        tell("error", {"line": _line(error)})
        raise SystemExit(1) from None
    except _Stopped:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


class _Stopped(BaseException):
    """The worker was asked to stop before all trials had ended."""


class _Unanswered(_Stopped):
    """The same, while the storage did not answer."""


def _work(task: Work, tell: Callable[[str, Mapping[str, Any]], None]) -> None:
    if task.threads is not None:
        torch.set_num_threads(task.threads)
    facts = StudyFacts.from_json(task.facts, "the sweep")

    joined = until_answered(  # it did answer, when the driver asked
        lambda: join_study(task.folder, task.name, facts, task.address, task.heartbeat),
        lambda error: error if isinstance(error, StorageUnavailableError) else None,
        lambda why: tell("waits", {"why": why}),
    )
    stop = _stopping()

    def waits(why: str) -> None:
        tell("waits", {"why": why})
        if stop.is_set():  # whoever asks next takes its trials over
            raise _Unanswered

    joined.storage.hurry_if(stop.is_set)
    own = OwnTrials(joined, waiting=waits)
    space = Space.from_canonical(facts.space, facts.source)
    claims = Claims(joined, space, task.trials, own=own, known_failures=task.known_failures)

    def reads(stage: str, steps: int) -> Callable[[], None]:
        tell("reads", {"stage": stage})
        return lambda: None

    options = RunOptions(
        device=pick_device(task.device),
        command=task.command,
        progress=reads,
    )
    trainer = TrialTrainer(joined, own, options, tell, stop.is_set)
    keep_freed_memory()
    try:
        with beating(own.beat, joined.storage.heartbeat):
            while not stop.is_set():
                claimed = claims.take(task.together, task.workers)
                if claimed is None:
                    return
                if claimed:
                    trainer.train(claimed)
                else:
                    tell("idles", {})
                    stop.wait(LOOK)
            raise _Stopped
    except _Unanswered:
        own.held.clear()  # nobody can be told now; the trials' locks end with this process
        raise
    finally:
        own.release_all()


def _end_with_parent() -> None:
    """End this process as soon as the driver has ended, however that came about."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()  # on a pipe that the system closes
            os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _stopping() -> threading.Event:
    """Return an event that SIGTERM sets, so that the trials can be saved."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    return stop


def _line(error: BaseException) -> str:
    """Return an error in one line, as the command line prints it."""
    if type(error).__name__ == "OutOfMemoryError":
        return f"the GPU is out of memory; try a smaller --together, --workers or train.batch ({error})"
    return one_line(error)
