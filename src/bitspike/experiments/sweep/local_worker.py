"""A worker process as its driver sees it: how it is started, what it tells, and how it is ended when it is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from bitspike.experiments.sweep.worker import Work, work

DEATHS_BEFORE_A_TRIAL = 5  # of a worker, one after another, before it took a trial
STARTS = 5  # of a worker, while the forkserver is killed each time
LOST = 255  # the status that multiprocessing makes up for a process whose forkserver was killed
GOES_ON = "is there enough memory? The same command goes on"


class SweepError(ValueError):
    """A sweep that cannot go on, in one line."""


@dataclass(slots=True, eq=False)
class LocalWorker:
    """A worker process as its driver sees it: what it last told, and how often it died since it took a trial."""

    process: Any
    messages: Connection
    deaths: int = 0
    doing: str = "starts"
    trials: dict[int, str] = field(default_factory=dict)  # what each trial of it has come to
    done: bool = False

    def heard(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield all that the worker has told; what it was telling when it died is lost."""
        try:
            while not self.messages.closed and self.messages.poll():
                yield self.messages.recv()
        except (EOFError, OSError):
            self.messages.close()

    def end_lost(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Kill a worker whose forkserver is dead, and yield what it told; nobody would see it end."""
        yield from self.heard()
        until = time.monotonic() + 5
        while not self.messages.closed and time.monotonic() < until:  # as long as it lives
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
            wait([self.messages], timeout=0.1)
            yield from self.heard()


@contextmanager
def forkserver_for_search(preload: Sequence[str]) -> Iterator[None]:
    """Start workers from a forkserver with these modules; one that was started in here is stopped in the end.

    A process has one forkserver. That of a search keeps Ctrl-C from what it starts, and holds all of PyTorch: what this
    process starts later, such as a notebook, must get another. `multiprocessing` has no public way to end one.
    """
    from multiprocessing import forkserver  # not on Windows

    server: Any = vars(forkserver)["_forkserver"]
    before, modules = server._forkserver_pid, server._preload_modules
    forkserver.set_forkserver_preload(list(preload))
    try:
        yield
    finally:
        forkserver.set_forkserver_preload(modules)
        if server._forkserver_pid != before:
            server._stop()


def start_worker(context: Any, task: Work) -> LocalWorker:
    """Start a worker; `context` is one of multiprocessing's."""
    for attempt in range(STARTS):
        time.sleep(0.1 * 2**attempt if attempt else 0)  # a process that is killed takes a moment to end
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(task, theirs), name="worker", daemon=True)
        try:
            with _without_interrupts():
                process.start()
        except (EOFError, ConnectionError):  # the forkserver was killed; the next start makes another
            ours.close()
            continue
        finally:
            theirs.close()
        return LocalWorker(process, ours)
    raise SweepError(f"the process that starts workers was killed {STARTS} times; {GOES_ON}")


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Keep Ctrl-C for later: processes started now inherit that, and it is the driver's to end them.

    Else those that still load their libraries would end with a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # multiprocessing starts it else, and lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
