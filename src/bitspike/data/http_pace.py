"""HTTP handlers that give up on a server which keeps a connection open without sending the file."""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.request
from typing import Any

SLOWEST = 1024  # bytes a second, over two timeouts: a server that drips is as good as one that sends nothing


class _Pace(io.RawIOBase):
    """A stream that raises an error if its connection is slow: the head must come in one timeout, the file at SLOWEST.

    The connection's own timeout starts again with every byte. Only the file's bytes count (see `came`), because a
    server can also send headers, chunk sizes and trailers without end.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._raw = connection, connection.makefile("rb", buffering=0)
        self._timeout = connection.gettimeout() or 30.0
        self._since, self._span, self._bytes = time.monotonic(), self._timeout, 0

    def came(self, count: int) -> None:
        """Note that `count` bytes of the file have come."""
        now = time.monotonic()
        self._bytes += count
        if self._bytes >= SLOWEST * self._span:  # enough for this span: the next begins
            self._since, self._span, self._bytes = now, 2 * self._timeout, 0

    def begin_file(self) -> None:
        """Note that the head is here and the file begins."""
        self._since, self._span = time.monotonic(), 2 * self._timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        left = self._since + self._span - time.monotonic()
        if left <= 0:
            raise _Slow(self._span, self._bytes)
        self._connection.settimeout(min(self._timeout, left))
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            if self._timeout > left:
                raise _Slow(self._span, self._bytes) from None
            raise

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Slow(OSError):
    """The error for a file whose bytes come too slowly."""

    def __init__(self, span: float, count: int) -> None:
        super().__init__(f"the server is too slow: {count} bytes of the file came in {span:g} s")


class _Response(http.client.HTTPResponse):
    """A server's answer whose connection must be fast enough."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.pace = _Pace(sock)
        self.fp = io.BufferedReader(self.pace)

    def begin(self) -> None:
        super().begin()
        self.pace.begin_file()


class _Connection(http.client.HTTPConnection):
    response_class = _Response


class _SecureConnection(http.client.HTTPSConnection):
    response_class = _Response


class PacedHTTPHandler(urllib.request.HTTPHandler):
    """A handler of http addresses; report the file's bytes to the answer's `pace`, with `pace.came(count)`."""

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class PacedHTTPSHandler(urllib.request.HTTPSHandler):
    """A handler of https addresses; report the file's bytes to the answer's `pace`, with `pace.came(count)`."""

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req)
