"""Handling of Ctrl-C during a training: the run is saved before it ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from bitspike.cli.console import say


@contextmanager
def catching_interrupts() -> Iterator[list[bool]]:
    """Give a list that is empty until Ctrl-C or SIGTERM, so that the run can save; a second Ctrl-C ends it at once."""
    asked: list[bool] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(True)
        say("bitspike: saving after this iteration; once more to stop at once")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
