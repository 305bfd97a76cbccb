"""Arrays in npz and HDF5 files. No file is trusted: sizes are checked before anything is read."""

from __future__ import annotations

import errno
import io
import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import numpy as np

from bitspike.text import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIMIT = 16 * 2**30
DEFLATE_BEST = 1032  # times what is packed; deflate cannot do better
MOST_MEMBERS = 4096
MOST_HEADER = 10_000  # characters, as numpy has it
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
TEXT_FILES = (".csv", ".tsv", ".txt", ".dat")
# The errors that zipfile, numpy and h5py raise for damaged files.
DAMAGE = (
    OSError,
    EOFError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    SyntaxError,
    tokenize.TokenError,
)


@dataclass(frozen=True, slots=True)
class Stored:
    """An array that is still in its file: the size and type from its header, and how to read it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], NDArray[Any]]


@contextmanager
def open_arrays(source: Path | BinaryIO, limit: int = LIMIT, name: str | None = None) -> Iterator[dict[str, Stored]]:
    """Open an npz or HDF5 file and give its arrays by name, not yet read; none may have more than `limit` bytes.

    A file, or a stream that errors call `name`.
    """
    if isinstance(source, Path):
        with source.open("rb") as stream, open_arrays(stream, limit, name or str(source)) as arrays:
            yield arrays
        return
    where = name or "stream"
    magic = source.read(len(HDF5_MAGIC))
    source.seek(0)
    file: Any
    arrays_of: Callable[..., dict[str, Stored]]
    with readable(where):
        if magic == HDF5_MAGIC:
            import h5py

            from bitspike.data.hdf5_files import hdf5_arrays

            file, arrays_of = h5py.File(source, "r"), partial(hdf5_arrays, stream=source)
        elif magic[:2] == b"PK":
            file, arrays_of = zipfile.ZipFile(source), _npz_arrays
        else:
            held = f"begins with {magic!r}" if magic else "is empty"
            remedy = "numpy.savez writes an npz file"
            if Path(where).suffix.lower() in TEXT_FILES:
                remedy += " (docs: how-to, write an event file from CSV)"
            raise Refused(f"must be an npz or HDF5 file, but {held}; {remedy}")
    with file:
        yield arrays_of(where, file, limit)


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Turn any error that a library raises about a damaged file into one line that begins with `where`.

    System errors (no such file, disk full), and lines that already begin with `where`, pass unchanged.
    """
    try:
        yield
    except Refused as error:
        raise ValueError(f"{where}: {error}") from error
    except DAMAGE as error:
        # EINVAL comes from seeking to a wrong place that a damaged file names.
        if getattr(error, "errno", None) not in (None, errno.EINVAL) or str(error).startswith(where):
            raise
        line = printable(" ".join(str(error).split()))[:200].rstrip(".") or type(error).__name__
        raise ValueError(f"{where}: {line}; the file is damaged or cut short, get it again") from error
    except MemoryError as error:
        raise ValueError(f"{where}: there is not enough memory to read it ({error})") from error


class Refused(ValueError):
    """The error for a file that can be read, but whose content is refused; `readable` adds the file's name."""


def _npz_arrays(where: str, file: zipfile.ZipFile, limit: int) -> dict[str, Stored]:
    arrays = {}
    with readable(where):
        if len(file.infolist()) > MOST_MEMBERS:
            raise Refused(f"must hold at most {MOST_MEMBERS} arrays, but holds {len(file.infolist())}")
    for info in file.infolist():
        if info.filename.endswith(".npy"):
            name = info.filename.removesuffix(".npy")
            here = f"{where}: {listed([name])}"
            with readable(here), _opened(file, info) as stream:
                shape, _, dtype = _npy_header(stream)
            arrays[name] = Stored(shape, dtype, partial(_read_member, here, file, info, limit))
    return arrays


def _opened(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others pack a gigabyte into a kilobyte
        raise Refused("must be stored or deflated, as numpy writes it, but is packed in another way")
    return file.open(info)


def _read_member(where: str, file: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> NDArray[Any]:
    with readable(where), _opened(file, info) as stream:
        return read_npy(stream, min(info.file_size, info.compress_size * DEFLATE_BEST), limit)


def read_npy(stream: IO[bytes], size: int, limit: int = LIMIT) -> NDArray[Any]:
    """Return the array of an npy stream of `size` bytes; it takes memory for bytes that come, not for claimed ones."""
    shape, fortran, dtype = _npy_header(stream)
    promised = require_plain(shape, dtype, min(limit, size))
    data = read_up_to(stream, promised)
    if len(data) < promised or stream.read(1):
        fewer = len(data) < promised
        raise ValueError(f"its header promises {promised} bytes, but {'fewer' if fewer else 'more'} follow")
    return np.frombuffer(data, np.uint8).view(dtype).reshape(shape, order="F" if fortran else "C")


def read_up_to(stream: IO[bytes] | io.BufferedIOBase, size: int) -> bytearray:
    """Return the next `size` bytes, or fewer if the stream ends; a size that is only claimed takes no memory."""
    data = bytearray()
    while len(data) < size and (block := stream.read(min(size - len(data), 2**20))):
        data += block
    return data


def _npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise Refused(f"must be an npy array of version 1 or 2, but is of version {version[0]}")
    width, code, read = (
        (2, "<H", np.lib.format.read_array_header_1_0)
        if version == (1, 0)
        else (4, "<I", np.lib.format.read_array_header_2_0)
    )
    length = stream.read(width)
    if len(length) < width or (long := struct.unpack(code, length)[0]) > MOST_HEADER:
        raise ValueError("its header is cut short" if len(length) < width else f"its header has {long} characters")
    header: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(io.BytesIO(length + stream.read(long)))
    return header


def require_plain(shape: tuple[int, ...], dtype: np.dtype[Any], limit: int) -> int:
    """Return the number of bytes of an array, from its header; refuse Python objects and more than `limit` bytes."""
    if dtype.hasobject:
        raise Refused(
            "must be plain numbers, but is Python objects (pickled), which are never read; text is written with "
            ".astype(str)"
        )
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or size > limit:
        raise Refused(f"its header promises {list(shape)} of {dtype}, {size} bytes, but at most {limit} are read")
    return size


def listed(names: Iterable[str]) -> str:
    """Return the first few of the names that a file holds, made safe to show."""
    return ", ".join(printable(name)[:100] for name in sorted(names)[:20]) or "no arrays"
