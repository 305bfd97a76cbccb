"""A file that is being downloaded: it grows under a hidden name, can be resumed, and is moved when it is correct."""

from __future__ import annotations

import json
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any

from bitspike.data.http_network import (
    MirrorFailed,
    content_range,
    network_errors,
    opener,
    phrase,
    read_some,
    version_of,
    whole_number,
)
from bitspike.data.notes import read_json
from bitspike.data.progress import ByteProgress
from bitspike.files import digest

LIMIT = 32 << 30  # bytes, whatever a server says


class Meter:
    """A progress meter of a file; it goes back if the file has to be started again."""

    def __init__(self, stage: str, size: int | None, begin: ByteProgress) -> None:
        self._stage, self._size, self._begin = stage, size, begin
        self._advance: Callable[[int], None] | None = None
        self._at = 0

    def begin(self, total: int | None) -> None:
        """Start to show progress, unless that was done before."""
        if self._advance is None:
            self._advance = self._begin(self._stage, self._size if self._size is not None else total)

    def reach(self, position: int) -> None:
        """Show that so many bytes are here."""
        if self._advance is not None and position != self._at:
            self._advance(position - self._at)
            self._at = position


@dataclass(frozen=True, slots=True)
class _Origin:
    """The origin of a partial file's bytes: the address, the server's name of the version, and the full size."""

    url: str
    version: str | None
    total: int | None

    @staticmethod
    def read(path: Path) -> _Origin | None:
        """Return the origin that was noted in the file; None if there is none that can be understood."""
        content = read_json(path)
        try:
            origin = _Origin(**content)
        except TypeError:
            return None
        known = isinstance(origin.url, str) and isinstance(origin.version, str | None)
        return origin if known and (origin.total is None or type(origin.total) is int) else None


class PartialFile:
    """The hidden file that grows to become `to`, with a note beside it of where its bytes come from."""

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
        """The number of bytes received so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def complete(self) -> bool:
        """Return True if all bytes of the file have been received."""
        total = self.size if self.size is not None else self.origin and self.origin.total
        return total is not None and self.path.exists() and self.length == total

    def discard(self) -> None:
        """Delete the bytes received so far."""
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)
        self.origin, self.spliced = None, False

    def finish(self) -> None:
        """Move the file into place if its checksum is right, else delete it."""
        if self.checksum is not None:
            algorithm, expected = self.checksum
            found = digest(self.path, algorithm)
            if found != expected:
                spliced = self.spliced
                self.discard()
                raise MirrorFailed(f"the file has the {algorithm} {found}, not {expected}", again=spliced)
        with self.path.open("rb") as written:
            os.fsync(written.fileno())
        self.path.replace(self.to)
        self.note.unlink(missing_ok=True)

    def _resumable(self, url: str) -> bool:
        # Without a checksum, only the server's name of the version shows that the rest belongs to the start.
        same = self.origin is not None and self.origin.url == url and self.origin.version is not None
        return self.length > 0 and (same or self.checksum is not None)

    def receive(self, url: str, timeout_s: float, meter: Meter) -> None:
        """Append what the server sends, until the file has the size that the server says."""
        headers = {"User-Agent": "bitspike", "Accept-Encoding": "identity"}
        if start := self.length if self._resumable(url) else 0:
            headers["Range"] = f"bytes={start}-"
            if self.origin is not None and self.origin.url == url and self.origin.version is not None:
                headers["If-Range"] = self.origin.version
        try:
            with network_errors(timeout_s):
                response = opener().open(urllib.request.Request(url, headers=headers), timeout=timeout_s)
        except urllib.error.HTTPError as refusal:
            with closing(refusal):  # it may be closed already
                self._refused(refusal.code, refusal.headers)
            return
        with response:
            start, total = self._agree(response.status, response.headers, start, url)
            self._append(response, start, total, timeout_s, meter)

    def _refused(self, status: int, headers: Message) -> None:
        """Raise MirrorFailed, unless the server only says that all bytes are here already."""
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and (length := self.length):
            if headers.get("Content-Range", "").strip() == f"bytes */{length}" and self.size in (None, length):
                return
            self.discard()
            raise MirrorFailed("the server's file ends before what is here", again=True)
        if 300 <= status < 400:
            raise MirrorFailed("the server redirects in circles or to where it must not")
        passing = status in (408, 425, 429) or status >= 500
        raise MirrorFailed(f"the server answered {phrase(status)}", again=passing)

    def _agree(self, status: int, headers: Message, start: int, url: str) -> tuple[int, int | None]:
        """Return where in the file the answer's bytes start, and the file's size; note both before the first byte."""
        if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise MirrorFailed(f"the server answered {phrase(status)}")
        if headers.get_content_type() in ("text/html", "application/xhtml+xml") and "Content-Type" in headers:
            raise MirrorFailed("the server sent a web page, not the file")
        length = whole_number(headers.get("Content-Length"))
        version = version_of(headers)
        if status == HTTPStatus.PARTIAL_CONTENT:
            first, total = content_range(headers.get("Content-Range", ""))
            changed = self.origin is not None and self.origin.url == url and self.origin.version not in (None, version)
            if first != start or not start or changed:
                self.discard()
                raise MirrorFailed(
                    "the server sent another part of the file than asked, or of another version", again=True
                )
        else:  # the whole file: the server cannot resume, or its file is another one now
            start, total = 0, length
        if self.size is not None and total is not None and total != self.size:
            raise MirrorFailed(f"the server's file has {total} bytes, not {self.size}")
        if total is not None and total > LIMIT:
            raise MirrorFailed(f"the server's file has {total} bytes, more than the {LIMIT} that are downloaded")
        if total is not None and total - start > (free := shutil.disk_usage(self.to.parent).free):
            raise MirrorFailed(f"the server's file has {total} bytes, but only {free} are free in {self.to.parent}")
        if not start:
            self.discard()
            self.path.write_bytes(b"")
            self.origin = _Origin(url, version, total)
            self.note.write_text(json.dumps(asdict(self.origin)), encoding="utf-8")
        elif self.origin is None or self.origin.url != url:
            self.spliced = True
        return start, total

    def _append(self, body: Any, start: int, total: int | None, timeout_s: float, meter: Meter) -> None:
        limit = self.size if self.size is not None else min(LIMIT, LIMIT if total is None else total)
        meter.begin(total)
        meter.reach(start)
        refused = ""
        with self.path.open("ab", buffering=0) as out:
            while not refused and (block := read_some(body, timeout_s)):
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
            raise MirrorFailed(refused)
        expected = self.size if self.size is not None else total
        if expected is not None and start < expected:
            raise MirrorFailed(f"the connection ended after {start} of {expected} bytes", again=True)


def _write(out: IO[bytes], block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[out.write(view) :]
