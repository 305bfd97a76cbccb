"""One file from the first mirror that gives it whole: resumed, checked, moved into place at the end."""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import shutil
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from bitspike.data.http_pace import SLOWEST, PacedHTTPHandler, PacedHTTPSHandler
from bitspike.data.roots import read_json
from bitspike.files import digest, explained
from bitspike.text import printable

Begin = Callable[[str, int | None], Callable[[int], None]]  # (stage, bytes in all) -> advance(bytes)

ATTEMPTS = 3  # at a mirror, counted anew whenever it has sent something
PAUSE_S = 0.5  # before the second attempt, twice that before the third
LIMIT = 32 << 30  # bytes, whatever a server says
BLOCK = 1 << 16


class DownloadError(OSError):
    """No mirror gave the file; says why, mirror by mirror, on one line."""


class _Failed(Exception):
    """The mirror failed; `again` if another attempt may help."""

    def __init__(self, reason: str, *, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


def quiet(stage: str, total: int | None) -> Callable[[int], None]:
    """Shows no progress."""
    return lambda count: None


def download(
    urls: Sequence[str],
    to: Path,
    *,
    size: int | None = None,
    checksum: tuple[str, str] | None = None,
    timeout_s: float = 30,
    progress: Begin = quiet,
) -> Path:
    """`to`, with the bytes of the first of `urls` whose size and checksum (algorithm, hexadecimal) are right.

    What has come so far is kept beside it as `.NAME.part` and gone on with by the next call. `timeout_s` is how long a
    server may send nothing, and how long it may take to begin with the file.
    """
    to.parent.mkdir(parents=True, exist_ok=True)
    part = _Part(to, size, checksum)
    meter = _Meter(to.name, size, progress)
    reasons = []
    for url in urls:
        try:
            with explained(to):
                _from_mirror(url, part, timeout_s, meter)
            return to
        except _Failed as failure:
            reasons.append(f"{url}: {failure}")
        except OSError as error:  # of this machine: the network's are _Failed
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                part.discard()
            raise
    raise DownloadError(f"{to.name} could not be downloaded: {'; '.join(reasons) or 'it has no mirror'}")


def _from_mirror(url: str, part: _Part, timeout_s: float, meter: _Meter) -> None:
    if not _is_http(url):
        raise _Failed("only http and https addresses are downloaded")
    left, furthest = ATTEMPTS, part.length
    while True:
        began = time.monotonic()
        try:
            if not part.complete():
                part.receive(url, timeout_s, meter)
            return part.finish()
        except _Failed as failure:
            if part.length - furthest > SLOWEST * max(1, time.monotonic() - began):
                left, furthest = ATTEMPTS, part.length
            left -= 1
            if not failure.again or not left:
                raise
        time.sleep(PAUSE_S * 2 ** (ATTEMPTS - 1 - left))


@dataclass(frozen=True, slots=True)
class _Origin:
    """Whose bytes the part holds: the address, how the server names this version of the file, its size."""

    url: str
    version: str | None
    total: int | None

    @staticmethod
    def read(path: Path) -> _Origin | None:
        content = read_json(path)
        try:
            origin = _Origin(**content)
        except TypeError:
            return None
        known = isinstance(origin.url, str) and isinstance(origin.version, str | None)
        return origin if known and (origin.total is None or type(origin.total) is int) else None


class _Part:
    """The hidden file that grows to be `to`, and beside it a note of where its bytes are from."""

    def __init__(self, to: Path, size: int | None, checksum: tuple[str, str] | None) -> None:
        self.to, self.size, self.checksum = to, size, checksum
        self.path = to.with_name(f".{to.name}.part")
        self.note = to.with_name(f".{to.name}.part.json")
        self.origin = _Origin.read(self.note)
        self.spliced = self.length > 0  # bytes of an earlier call, perhaps of another mirror
        if self.size is not None and self.length > self.size:
            self.discard()

    @property
    def length(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def complete(self) -> bool:
        total = self.size if self.size is not None else self.origin and self.origin.total
        return total is not None and self.path.exists() and self.length == total

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)
        self.origin, self.spliced = None, False

    def finish(self) -> None:
        """Move it into place if it is right, else throw it away."""
        if self.checksum is not None:
            algorithm, expected = self.checksum
            found = digest(self.path, algorithm)
            if found != expected:
                spliced = self.spliced
                self.discard()
                raise _Failed(f"the file has the {algorithm} {found}, not {expected}", again=spliced)
        with self.path.open("rb") as written:
            os.fsync(written.fileno())
        self.path.replace(self.to)
        self.note.unlink(missing_ok=True)

    def _resumable(self, url: str) -> bool:
        # Without a checksum only the server's word for the version tells that the rest belongs to the start.
        same = self.origin is not None and self.origin.url == url and self.origin.version is not None
        return self.length > 0 and (same or self.checksum is not None)

    def receive(self, url: str, timeout_s: float, meter: _Meter) -> None:
        """Append what the server sends; returns when the file is whole, as far as the server says."""
        headers = {"User-Agent": "bitspike", "Accept-Encoding": "identity"}
        if start := self.length if self._resumable(url) else 0:
            headers["Range"] = f"bytes={start}-"
            if self.origin is not None and self.origin.url == url and self.origin.version is not None:
                headers["If-Range"] = self.origin.version
        try:
            with _network(timeout_s):
                response = _opener().open(urllib.request.Request(url, headers=headers), timeout=timeout_s)
        except urllib.error.HTTPError as refusal:
            with closing(refusal):  # it may be closed already
                self._refused(refusal.code, refusal.headers)
            return
        with response:
            start, total = self._agree(response.status, response.headers, start, url)
            self._append(response, start, total, timeout_s, meter)

    def _refused(self, status: int, headers: Message) -> None:
        """Raise, unless the server only says that it has no more to send than is here."""
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and (length := self.length):
            if headers.get("Content-Range", "").strip() == f"bytes */{length}" and self.size in (None, length):
                return
            self.discard()
            raise _Failed("the server's file ends before what is here", again=True)
        if 300 <= status < 400:
            raise _Failed("the server redirects in circles or to where it must not")
        passing = status in (408, 425, 429) or status >= 500
        raise _Failed(f"the server answered {_phrase(status)}", again=passing)

    def _agree(self, status: int, headers: Message, start: int, url: str) -> tuple[int, int | None]:
        """Where the body starts in the file and the file's size, from the answer; note them before the first byte."""
        if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise _Failed(f"the server answered {_phrase(status)}")
        if headers.get_content_type() in ("text/html", "application/xhtml+xml") and "Content-Type" in headers:
            raise _Failed("the server sent a web page, not the file")
        length = _whole_number(headers.get("Content-Length"))
        version = _version(headers)
        if status == HTTPStatus.PARTIAL_CONTENT:
            first, total = _content_range(headers.get("Content-Range", ""))
            changed = self.origin is not None and self.origin.url == url and self.origin.version not in (None, version)
            if first != start or not start or changed:
                self.discard()
                raise _Failed("the server sent another part of the file than asked, or of another version", again=True)
        else:  # the whole file: the server cannot resume, or its file is another one now
            start, total = 0, length
        if self.size is not None and total is not None and total != self.size:
            raise _Failed(f"the server's file has {total} bytes, not {self.size}")
        if total is not None and total > LIMIT:
            raise _Failed(f"the server's file has {total} bytes, more than the {LIMIT} that are downloaded")
        if total is not None and total - start > (free := shutil.disk_usage(self.to.parent).free):
            raise _Failed(f"the server's file has {total} bytes, but only {free} are free in {self.to.parent}")
        if not start:
            self.discard()
            self.path.write_bytes(b"")
            self.origin = _Origin(url, version, total)
            self.note.write_text(json.dumps(asdict(self.origin)), encoding="utf-8")
        elif self.origin is None or self.origin.url != url:
            self.spliced = True
        return start, total

    def _append(self, body: Any, start: int, total: int | None, timeout_s: float, meter: _Meter) -> None:
        limit = self.size if self.size is not None else min(LIMIT, LIMIT if total is None else total)
        meter.begin(total)
        meter.reach(start)
        refused = ""
        with self.path.open("ab", buffering=0) as out:
            while not refused and (block := _read(body, timeout_s)):
                if not start and block.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
                    refused = "the server sent a web page, not the file"
                elif start + len(block) > limit:
                    refused = f"the server sent more than {limit} bytes"
                else:
                    _write(out, block)
                    start += len(block)
                    body.pace.came(len(block))
                    meter.reach(start)
        if refused:
            self.discard()
            raise _Failed(refused)
        expected = self.size if self.size is not None else total
        if expected is not None and start < expected:
            raise _Failed(f"the connection ended after {start} of {expected} bytes", again=True)


class _Meter:
    """Progress that may also go back, where a file has to be started over."""

    def __init__(self, stage: str, size: int | None, begin: Begin) -> None:
        self._stage, self._size, self._begin = stage, size, begin
        self._advance: Callable[[int], None] | None = None
        self._at = 0

    def begin(self, total: int | None) -> None:
        if self._advance is None:
            self._advance = self._begin(self._stage, self._size if self._size is not None else total)

    def reach(self, position: int) -> None:
        if self._advance is not None and position != self._at:
            self._advance(position - self._at)
            self._at = position


# ---- The network


def _is_http(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not _is_http(newurl):
            fp.close()
            raise _Failed(f"the server points to an address that is not http or https ({newurl[:40]!r})")
        fp.close()  # the library would read the answer to its end, which may have none
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """As urllib's own, without what would open files and ftp."""
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
def _network(timeout_s: float) -> Iterator[None]:
    """Tell the network's errors, which another mirror may not have, from this machine's."""
    try:
        yield
    except urllib.error.HTTPError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, TimeoutError):
            raise _Failed(f"nothing came for {timeout_s:g} s", again=True) from error
        nameless = isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME  # offline, as a rule
        text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        raise _Failed(printable(" ".join(str(text).split()))[:200], again=not nameless) from error


def _read(body: http.client.HTTPResponse, timeout_s: float) -> bytes:
    with _network(timeout_s):
        return body.read1(BLOCK)  # what has come, not waiting for more


def _write(out: IO[bytes], block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[out.write(view) :]


def _phrase(status: int) -> str:
    known = status in HTTPStatus.__members__.values()
    return f"{status} {HTTPStatus(status).phrase.lower()}" if known else str(status)


def _whole_number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text.strip()) else None


def _content_range(text: str) -> tuple[int | None, int | None]:
    """First byte and size in all from `bytes 100-199/200`; a range that does not reach the end has no first byte."""
    match = re.fullmatch(r"bytes ([0-9]{1,18})-([0-9]{1,18})/(?:([0-9]{1,18})|\*)", text.strip())
    if match is None:
        return None, None
    first, last, total = int(match[1]), int(match[2]), int(match[3]) if match[3] else None
    return (first if total is None or last == total - 1 else None), total


def _version(headers: Message) -> str | None:
    """What If-Range takes: a strong ETag, else the date of the last change."""
    tag = str(headers.get("ETag", "")).strip()
    if re.fullmatch(r'"[\x21\x23-\x7e]{1,200}"', tag):
        return tag
    date = str(headers.get("Last-Modified", "")).strip()
    return date if re.fullmatch(r"[\x20-\x7e]{10,60}", date) else None
