"""Unpacking of .gz, .zip and .xz files within limits, because a few bytes can unpack to gigabytes."""

from __future__ import annotations

import gzip
import lzma
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from bitspike.data.array_files import HDF5_MAGIC, Refused, readable
from bitspike.files import explained

# A packed file may unpack to SMALL bytes whatever its size, else to MOST_RATIO times its size: MNIST has five times,
# SHD three times.
SMALL, MOST_RATIO = 64 * 2**20, 64
MOST_DICTIONARY = 256 * 2**20  # bytes of memory that unpacking an .xz may ask for; xz -9 needs 65 MiB


def most_unpacked(path: Path, limit: int | None = None) -> int:
    """Return how many bytes the packed file may hold, at most `limit`."""
    most = max(SMALL, MOST_RATIO * path.stat().st_size)
    return most if limit is None else min(limit, most)


@contextmanager
def unpacked_hdf5(path: Path, scratch: Path | None, limit: int) -> Iterator[Path]:
    """Unpack an HDF5 file into the folder `scratch` (default: the system's) for as long as the context lasts.

    Yields the path of the plain file, which is `path` itself where it is not packed.
    """
    with path.open("rb") as raw:
        magic = raw.read(len(HDF5_MAGIC))
        raw.seek(0)
        if magic == HDF5_MAGIC:
            yield path
            return
        if scratch is not None:
            scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=scratch, prefix="hdf5-") as folder:
            plain = Path(folder) / "plain.h5"
            with readable(str(path)), explained(plain), _opened(raw, magic) as packed, plain.open("wb") as out:
                _copy(packed, out, most_unpacked(path, limit))
            yield plain


def _opened(raw: BinaryIO, magic: bytes) -> IO[bytes] | gzip.GzipFile:
    if magic[:2] == b"\x1f\x8b":
        return gzip.open(raw)
    if magic[:2] != b"PK":
        raise Refused(f"must be an HDF5 file, plain or as .gz or .zip, but begins with {magic!r}")
    archive = zipfile.ZipFile(raw)
    members = [info for info in archive.infolist() if info.filename.endswith(".h5")]
    if len(members) != 1:
        raise Refused(f"must hold one .h5 file, but holds {len(members)}")
    return archive.open(members[0])


def _copy(source: IO[bytes] | gzip.GzipFile, out: BinaryIO, most: int) -> None:
    size = 0
    while block := source.read(2**20):
        size += len(block)
        if size > most:
            raise Refused(f"must unpack to at most {most} bytes, but is longer")
        out.write(block)


def unpacked_xz(stream: BinaryIO, most: int) -> bytearray:
    """Return the content of an .xz, at most `most` bytes; `lzma.open` would take all the memory its header asks for."""
    decoder, data = lzma.LZMADecompressor(memlimit=MOST_DICTIONARY), bytearray()
    while not decoder.eof:
        packed = stream.read(2**16) if decoder.needs_input else b""
        if decoder.needs_input and not packed:
            raise EOFError("the .xz data ends too soon")
        data += decoder.decompress(packed, 2**20)
        if len(data) > most:
            raise Refused(f"must unpack to at most {most} bytes, but is longer")
    return data
