"""HTTP connections: open web addresses, tell network errors from local errors, and read a server's answers."""

from __future__ import annotations

import http.client
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from bitspike.data.http_pace import PacedHTTPHandler, PacedHTTPSHandler
from bitspike.text import printable

BLOCK = 1 << 16


class MirrorFailed(Exception):
    """The error of a mirror; `again` is True if another attempt may help."""

    def __init__(self, reason: str, *, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


def is_http(url: str) -> bool:
    """Return True for an address that begins with http or https."""
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False


class _Redirects(urllib.request.HTTPRedirectHandler):
    """A handler that follows a redirect only to another web address."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not is_http(newurl):
            fp.close()
            raise MirrorFailed(f"the server points to an address that is not http or https ({newurl[:40]!r})")
        fp.close()  # the library would read the answer to its end, which may have none
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener() -> urllib.request.OpenerDirector:
    """Return an opener for web addresses only: unlike urllib's own, it opens no local files and no ftp."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        PacedHTTPHandler,
        PacedHTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        _Redirects,
    ):
        opener.add_handler(handler())
    return opener


@contextmanager
def network_errors(timeout_s: float) -> Iterator[None]:
    """Turn network errors into MirrorFailed, because another mirror may work; errors of this machine pass unchanged."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, TimeoutError):
            raise MirrorFailed(f"nothing came for {timeout_s:g} s", again=True) from error
        nameless = isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME  # offline, as a rule
        text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        raise MirrorFailed(printable(" ".join(str(text).split()))[:200], again=not nameless) from error


def read_some(body: http.client.HTTPResponse, timeout_s: float) -> bytes:
    """Return the bytes that have arrived, without waiting for more; no bytes at the end."""
    with network_errors(timeout_s):
        return body.read1(BLOCK)


def phrase(status: int) -> str:
    """Return a status in words, such as "404 not found"."""
    known = status in HTTPStatus.__members__.values()
    return f"{status} {HTTPStatus(status).phrase.lower()}" if known else str(status)


def whole_number(text: str | None) -> int | None:
    """Return the number that a header holds; None if it holds none."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text.strip()) else None


def content_range(text: str) -> tuple[int | None, int | None]:
    """Return the first byte and the full size from `bytes 100-199/200`.

    The first byte is None if the range does not reach the end of the file.
    """
    match = re.fullmatch(r"bytes ([0-9]{1,18})-([0-9]{1,18})/(?:([0-9]{1,18})|\*)", text.strip())
    if match is None:
        return None, None
    first, last, total = int(match[1]), int(match[2]), int(match[3]) if match[3] else None
    return (first if total is None or last == total - 1 else None), total


def version_of(headers: Message) -> str | None:
    """Return the version of the server's file for If-Range: a strong ETag, else the date of its last change."""
    tag = str(headers.get("ETag", "")).strip()
    if re.fullmatch(r'"[\x21\x23-\x7e]{1,200}"', tag):
        return tag
    date = str(headers.get("Last-Modified", "")).strip()
    return date if re.fullmatch(r"[\x20-\x7e]{10,60}", date) else None
