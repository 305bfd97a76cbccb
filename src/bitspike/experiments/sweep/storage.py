"""Where a study is kept: a journal file in its folder, or a PostgreSQL server that machines share."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

T = TypeVar("T")
PATIENCE = 600.0  # seconds that a worker waits for a storage that does not answer


class StorageUnavailableError(ConnectionError):
    """A storage that does not answer, in one line without a password."""


class StudyStorage(ABC):
    """A storage of studies, and what Optuna's storages lack: a lock among all processes, and errors in one line."""

    optuna: BaseStorage
    shown: str  # its address, with *** for a password
    address: str | None = None  # the same without any password; None for a journal in the study's folder
    heartbeat: int | None = None  # seconds between the signs of life of a worker; None where a file's lock shows life

    @abstractmethod
    def exclusive(self, name: str) -> AbstractContextManager[object]:
        """Keep all other processes that use this storage out of `name`; a process that dies lets go."""

    def hurry_if(self, ending: Callable[[], bool]) -> None:  # noqa: B027  (a file answers at once)
        """Wait for answers only shortly once `ending()` is true: the process was asked to end."""

    def beat(self, trial_id: int) -> None:  # noqa: B027  (a storage without heartbeats has nothing to do)
        """Record a sign of life of the worker of a trial."""

    def stale(self, study_id: int) -> set[int]:
        """Return the trials whose workers have given no sign of life for three heartbeats."""
        return set()

    def trouble(self, error: BaseException) -> StorageUnavailableError | None:
        """Return the error in one line if it means that the storage does not answer; None if it is of another kind.

        What the storage refuses, and would refuse again, is raised in one line.
        """
        return None

    def patiently(self, call: Callable[[], T], *, waiting: Callable[[str], object]) -> T:
        """Return what `call` returns; while the storage does not answer, tell `waiting` why and try again.

        `call` may be done twice: an answer that is lost may come after the deed.
        """
        return until_answered(call, self.trouble, waiting)


def until_answered(
    call: Callable[[], T],
    trouble: Callable[[BaseException], StorageUnavailableError | None],
    waiting: Callable[[str], object],
) -> T:
    """Return what `call` returns, after as many tries as it takes; raise what is no `trouble`, or lasts too long."""
    began, pause = time.monotonic(), 0.2
    while True:
        try:
            return call()
        except Exception as error:
            found = trouble(error)
            if found is None:
                raise
            if time.monotonic() - began > PATIENCE:
                raise found from None
            waiting(str(found))
        time.sleep(pause)
        pause = min(2 * pause, 2.0)


def open_storage(address: str | None, folder: Path, heartbeat: int) -> StudyStorage:
    """Open the storage of an address, or the journal in the study's folder; raise one line if it does not answer."""
    if address is None:
        from bitspike.experiments.sweep.journal import JournalFile

        return JournalFile(folder / "journal.log")
    from bitspike.experiments.sweep.postgres import Postgres

    return Postgres(address, heartbeat)
