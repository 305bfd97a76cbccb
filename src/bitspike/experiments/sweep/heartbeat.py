"""Signs of life of a worker, from a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

RETRY = 1.0  # seconds after which a sign that did not arrive is given again


@contextmanager
def beating(beat: Callable[[], object], seconds: float | None) -> Iterator[None]:
    """Call `beat` every so many `seconds` (None: never); a storage that does not answer is tried again soon."""
    if seconds is None:
        yield
        return
    ended = threading.Event()

    def run() -> None:
        pause = seconds
        while not ended.wait(pause):
            pause = RETRY
            with suppress(Exception):
                beat()
                pause = seconds

    thread = threading.Thread(target=run, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=5)
