"""A connection to a PostgreSQL server that takes no answer for ever: the server may be frozen, and its host alive.

Then no connection breaks: the host's kernel takes what is sent, and neither keepalives nor the server's own limits of
time notice. Only who asked can.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

import psycopg


class NoAnswerError(psycopg.OperationalError):
    """A server that took a question, and did not answer in time."""


class LimitedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server takes longer than `limit()` seconds for an answer."""

    limit: Callable[[], float] = staticmethod(lambda: float("inf"))

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **more: Any) -> Any:
        """Wait for an answer; raise NoAnswerError if it does not come in time."""
        try:
            return super().wait(_limited(gen, self.limit), *args, **more)
        except NoAnswerError:
            self.pgconn.finish()  # an answer that comes now would be taken for that to the next question
            raise


def _limited(gen: Generator[Any, Any, Any], limit: Callable[[], float]) -> Generator[Any, Any, Any]:
    """Do what psycopg's generator does; psycopg sends a 0 ten times a second while nothing has come."""
    began = time.monotonic()
    try:
        state = next(gen)
        while True:
            ready = yield state
            if ready == 0 and time.monotonic() - began > (seconds := limit()):
                raise NoAnswerError(f"the server has not answered for {seconds:g} s; is it frozen, or overloaded?")
            state = gen.send(ready)
    except StopIteration as end:
        return end.value
