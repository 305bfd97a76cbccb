"""Readers for the files of a folder or a tar archive, one after another; an archive is never unpacked to disk."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, Self

from bitspike.data.unpacking import most_unpacked
from bitspike.text import printable

MOST_MEMBERS, LONGEST_NAME = 5_000, 2**12
EXTENSIONS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, *(b"x", b"g", b"X"))  # the last three are of pax


class Member(NamedTuple):
    """A file in a folder or archive; `open` works until the next file is asked for."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def members(path: Path) -> Iterator[Member]:
    """Yield the plain files of a folder or a tar archive, one after another."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and not file.is_symlink():
                yield Member(printable(file.relative_to(path).as_posix()), file.stat().st_size, partial(_opened, file))
        return
    with whole(path), path.open("rb") as raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        with _Bounded(gzip.GzipFile(fileobj=raw) if packed else raw, most_unpacked(path)) as stream:
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:
                for number, info in enumerate(archive):
                    if number == MOST_MEMBERS:
                        raise tarfile.ReadError(f"it holds more than {MOST_MEMBERS} files")
                    name = PurePosixPath(info.name)
                    if info.isreg() and not info.issparse() and not name.is_absolute() and ".." not in name.parts:
                        yield Member(printable(info.name), info.size, partial(_extracted, archive, info))
            while stream.read(2**20):  # the checksum is behind the last file
                pass


class _Bounded(io.BufferedIOBase):
    """A stream that raises an error if it gives more than `most` bytes."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, most: int) -> None:
        self._stream, self._most, self._seen = stream, most, 0

    def close(self) -> None:
        self._stream.close()
        super().close()

    def read(self, size: int | None = -1, /) -> bytes:
        data = self._stream.read(-1 if size is None else size)
        self._seen += len(data)
        if self._seen > self._most:
            raise tarfile.ReadError(f"it unpacks to more than {self._most} bytes")
        return data


class _Header(tarfile.TarInfo):
    """The header of a file in an archive; a header with too long extensions (such as long names) is refused."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0 or (header.type in EXTENSIONS and header.size > LONGEST_NAME):
            raise tarfile.ReadError("it has a header that is too long")
        return header


def _opened(file: Path) -> IO[bytes]:
    return file.open("rb")


def _extracted(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = archive.extractfile(info)
    if stream is None:
        raise tarfile.ReadError(f"{info.name} is not a plain file")
    return stream


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Turn any error about a damaged archive into an error of one line."""
    try:
        yield
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, RecursionError) as error:
        shown = printable(str(error))[:200]
        raise ValueError(f"{path}: not a whole .tar.gz archive ({shown}); get it again") from error
