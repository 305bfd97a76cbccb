"""Commands of bitspike as processes: several at once, until the time is over or a signal comes; for fair_search.py."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from bitspike.files import write_text

LOOK = 0.2  # seconds between two looks at the clock
GRACE = 75.0  # seconds to save after it was asked to stop; a sweep gives its workers 60
STOPPED = (130, -signal.SIGTERM, -signal.SIGKILL)  # the status of a command that did what it was asked to

# A command ends with its parent, however that ended: then the system closes the other end of this pipe.
WATCH = """
import os, signal, sys, threading
def watch(pipe):
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=watch, args=(int(sys.argv.pop(1)),), daemon=True).start()
"""
BITSPIKE = "from bitspike.cli import main\nmain()\n"


class TimeIsUp(Exception):
    """The minutes that were given are over."""


class Interrupted(Exception):
    """SIGTERM or Ctrl-C came."""


class CommandError(Exception):
    """A command of bitspike failed; the message has a line for each that did."""


class Commands:
    """Runs commands until `ends`, by the monotonic clock, or until a signal comes; `processes` of them at once."""

    def __init__(self, ends: float = float("inf"), processes: int = 1) -> None:
        self._ends, self._processes = ends, processes
        self._signals = 0
        self._alive, self._open = os.pipe()  # a command that reads the first sees when the second is closed

    @property
    def interrupted(self) -> bool:
        """Whether SIGTERM or Ctrl-C came."""
        return self._signals > 0

    @contextmanager
    def catching_signals(self) -> Iterator[None]:
        """Within the block, SIGTERM and Ctrl-C ask all commands to save and stop; a second one kills them."""

        def note(number: int, frame: FrameType | None) -> None:
            self._signals += 1

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def all(self, calls: Sequence[Callable[[], None]]) -> None:
        """Make all calls, some of them at once, and raise when all have ended: a failure before the end of the time."""
        with ThreadPoolExecutor(self._processes) as pool:
            made = [pool.submit(call) for call in calls]
            errors = [error for each in made if (error := each.exception()) is not None]
        stops = [error for error in errors if isinstance(error, TimeIsUp | Interrupted)]
        lines = [str(error) for error in errors if isinstance(error, CommandError)]
        for error in errors:
            if not isinstance(error, TimeIsUp | Interrupted | CommandError):
                raise error
        if lines:
            raise CommandError("\n".join(lines))
        for error in sorted(stops, key=lambda each: isinstance(each, TimeIsUp)):
            raise error

    def run(self, *arguments: str, out: Path | None = None, good: Collection[int] = (0,)) -> None:
        """Run a command of bitspike; its output goes into the file, or to the terminal.

        A status that is not `good` is a CommandError. A command that had to stop raises TimeIsUp or Interrupted.
        """
        self._require_time()
        print(f"+ bitspike {shlex.join(arguments)}\n", end="", flush=True)  # in one piece: others print, too
        captured = None if out is None else subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, "-c", WATCH + BITSPIKE, str(self._alive), *arguments],
            stdout=captured, stderr=captured, text=True, pass_fds=[self._alive],
            process_group=0,  # Ctrl-C is ours to pass on: the second one would not let it save
        )  # fmt: skip
        output, message, asked = self._until_ended(process)
        if process.returncode in good:
            if out is not None:
                write_text(out, output)
        elif asked is not None and process.returncode in STOPPED:
            raise asked
        else:
            raise CommandError(_failure(arguments, process.returncode, message))

    def _until_ended(self, process: subprocess.Popen[str]) -> tuple[str, str, Exception | None]:
        """Wait for a command; return its output, its message, and why it was asked to stop, if it was."""
        asked, since = None, 0.0
        while True:
            try:
                output, message = process.communicate(timeout=LOOK)
            except subprocess.TimeoutExpired:
                pass
            else:
                return output or "", message or "", asked
            if asked is None and (asked := self._why_stop()) is not None:
                since = time.monotonic()
                process.terminate()
            elif self._signals > 1 or (asked is not None and time.monotonic() - since > GRACE):
                process.kill()

    def _why_stop(self) -> Exception | None:
        if self.interrupted:
            return Interrupted()
        return TimeIsUp() if time.monotonic() >= self._ends else None

    def _require_time(self) -> None:
        if (why := self._why_stop()) is not None:
            raise why


def _failure(arguments: Sequence[str], status: int, message: str) -> str:
    """Return the line about a command that failed; the last line of its message says why, where it was captured."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["its own message is above"]
    how = f"was killed by signal {-status}" if status < 0 else f"failed with status {status}: {lines[-1]}"
    return f"`bitspike {shlex.join(arguments)}` {how}"
