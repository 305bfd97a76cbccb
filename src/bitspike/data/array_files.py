"""Arrays in npz and HDF5 files, none of which is trusted: sizes are checked before anything is read."""

from __future__ import annotations

import lzma
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIMIT = 16 * 2**30
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# What zipfile, numpy and h5py raise over damaged files.
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
)


@dataclass(frozen=True, slots=True)
class Stored:
    """An array still in its file: what its header promises, and how to read it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[], NDArray[Any]]


@contextmanager
def open_arrays(source: Path | BinaryIO, limit: int = LIMIT, name: str | None = None) -> Iterator[dict[str, Stored]]:
    """The arrays of an npz or HDF5 file by name, none read yet; each of at most `limit` bytes.

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
    with readable(where):
        if magic == HDF5_MAGIC:
            import h5py

            file, listed = h5py.File(source, "r"), _hdf5_arrays
        elif magic[:2] == b"PK":
            file, listed = zipfile.ZipFile(source), _npz_arrays
        else:
            raise Refused(f"must be an npz or HDF5 file, but begins with {magic!r}")
    with file:
        yield listed(where, file, limit)


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Turn whatever a library raises over a damaged file into one line that begins with `where`.

    The system's own errors (no such file, disk full) and lines that begin so already pass.
    """
    try:
        yield
    except Refused as error:
        raise ValueError(f"{where}: {error}") from error
    except DAMAGE as error:
        if getattr(error, "errno", None) or str(error).startswith(where):
            raise
        line = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise ValueError(f"{where}: {line}; the file is damaged or cut short, get it again") from error
    except MemoryError as error:
        raise ValueError(f"{where}: there is not enough memory to read it ({error})") from error


class Refused(ValueError):
    """What a file holds can be read but is not taken; the message lacks the place."""


def _npz_arrays(where: str, file: zipfile.ZipFile, limit: int) -> dict[str, Stored]:
    arrays = {}
    for info in file.infolist():
        if info.filename.endswith(".npy"):
            name = info.filename.removesuffix(".npy")
            with readable(f"{where}: {name}"), file.open(info) as stream:
                shape, _, dtype = _npy_header(stream)
            read = partial(_read_member, f"{where}: {name}", file, info, limit)
            arrays[name] = Stored(shape, dtype, read)
    return arrays


def _read_member(where: str, file: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> NDArray[Any]:
    with readable(where), file.open(info) as stream:
        return read_npy(stream, info.file_size, limit)


def _hdf5_arrays(where: str, file: Any, limit: int) -> dict[str, Stored]:
    arrays = {}
    for name in file:
        with readable(where):
            _require_own(file, name)
            kind = file.get(name, getclass=True).__name__
        if kind == "Dataset":
            data = hdf5_dataset(where, file, name)
            arrays[name] = Stored(data.shape, data.dtype, partial(_read_hdf5, where, data, limit))
    return arrays


def _read_hdf5(where: str, data: Any, limit: int) -> NDArray[Any]:
    with readable(f"{where}: {data.name.strip('/')}"):
        _require_size(data.shape, data.dtype, limit)
        return np.asarray(data[()])


def hdf5_dataset(where: str, file: Any, name: str) -> Any:
    """The dataset `name`, unless it is missing or would be read from another file than this one."""
    import h5py

    with readable(where):
        _require_own(file, name)
        data = file.get(name)
        if not isinstance(data, h5py.Dataset) or data.shape is None:
            raise Refused(f"must hold an array {name}, but holds {', '.join(sorted(file)[:20]) or 'nothing'}")
        if data.is_virtual or data.external:
            raise Refused(f"{name} must be in the file itself, but is in another")
    return data


def _require_own(file: Any, name: str) -> None:
    """Every part of the path `name` must be a plain one: following a link opens whatever file it names."""
    import h5py

    parts = name.split("/")
    for end in range(1, len(parts) + 1):
        link = file.get("/".join(parts[:end]), getlink=True)
        if link is not None and not isinstance(link, h5py.HardLink):
            raise Refused(f"{name} must be in the file itself, but is a link")


def read_npy(stream: IO[bytes], size: int, limit: int = LIMIT) -> NDArray[Any]:
    """The array of an npy stream of `size` bytes; what its header promises is checked before it is allocated."""
    shape, fortran, dtype = _npy_header(stream)
    promised = _require_size(shape, dtype, min(limit, size))
    data, held = np.empty(promised, np.uint8), 0
    while held < promised and (chunk := stream.read(min(promised - held, 2**22))):
        data[held : held + len(chunk)] = np.frombuffer(chunk, np.uint8)
        held += len(chunk)
    if held < promised or stream.read(1):
        raise ValueError(f"its header promises {promised} bytes, but {'fewer' if held < promised else 'more'} follow")
    return data.view(dtype).reshape(shape, order="F" if fortran else "C")


def _npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise Refused(f"must be an npy array of version 1 or 2, but is of version {version[0]}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    header: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(stream)
    return header


def _require_size(shape: tuple[int, ...], dtype: np.dtype[Any], limit: int) -> int:
    """Bytes of such an array, if they are plain bytes and not too many."""
    if dtype.hasobject:
        raise Refused("must be plain numbers, but is Python objects (pickled), which are never read")
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or size > limit:
        raise Refused(f"its header promises {list(shape)} of {dtype}, {size} bytes, but at most {limit} are read")
    return size
