"""A journal file that may lose its writer at any moment: its lock ends with the process, and half a line is cut off."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from bitspike.experiments.sweep.storage import StudyStorage
from bitspike.files import explained, locked


class _Lock(JournalFileOpenLock):
    """Optuna's locks are files that a killed process leaves behind, for 30 seconds; the system frees this one at once.

    Whoever gets it cuts off what a killed writer left of its last line: the next one would be written behind it, and
    nobody could read either.
    """

    def __init__(self, journal: Path) -> None:
        super().__init__(str(journal))
        self._journal, self._lock = journal, FileLock(journal.with_name(f".{journal.name}.lock"), thread_local=False)

    def acquire(self) -> bool:
        self._lock.acquire(poll_interval=0.005)
        try:
            cut_half_line(self._journal)
        except BaseException:
            self._lock.release()
            raise
        return True

    def release(self) -> None:
        self._lock.release()


def cut_half_line(journal: Path) -> None:
    """Cut off what follows the last line's end; the caller must hold the journal's lock."""
    with journal.open("rb+") as file:
        end = at = file.seek(0, os.SEEK_END)
        while at:
            start = max(at - 4096, 0)
            file.seek(start)
            found = file.read(at - start).rfind(b"\n")
            if found >= 0:
                at = start + found + 1
                break
            at = start
        if at < end:
            file.truncate(at)


class _Backend(JournalFileBackend):
    """Optuna takes a last line that it cannot read for one that is still written, and stumbles over it later.

    Its errors of a full disk do not name the file.
    """

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with explained(Path(self._file_path)):
            super().append_logs(logs)

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        try:
            yield from super().read_logs(log_number_from)
        except ValueError as error:
            raise _damaged(Path(self._file_path), error) from None


class DamagedJournalError(ValueError):
    """A journal file with lines that Optuna did not write, in one line."""


def _damaged(journal: Path, error: Exception) -> DamagedJournalError:
    what = str(error) or "a line is not what it should be"
    return DamagedJournalError(f"{journal} is damaged: {what}; choose another --out")


class JournalFile(StudyStorage):
    """A study in a file of its folder; all workers are on machines that share the folder."""

    def __init__(self, path: Path) -> None:
        self.shown = path.name
        self._locks = path.parent
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.optuna = JournalStorage(_Backend(str(path), _Lock(path)))
        except DamagedJournalError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:  # in Optuna's replay
            raise _damaged(path, error) from None

    def exclusive(self, name: str) -> AbstractContextManager[object]:
        """Keep all other processes out; the folder holds one study, so that the name makes no difference."""
        return self._exclusive()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with locked(self._locks / ".claims.lock"):
            yield
