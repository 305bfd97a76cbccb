"""Readers of HDF5 files. A few bytes can claim gigabytes, so the size of an array is checked before it is read."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from bitspike.data.array_files import DEFLATE_BEST, Refused, Stored, listed, readable, require_plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

# An array may take so many bytes whatever is stored of it, else so many times what is: parts never written read as the
# fill value. Only packed ones may go up to what the packing can do.
SMALL, SPARSE = 16 * 2**20, 16
MOST_CHUNKS, CHUNK_ENTRY = 2**16, 16  # as many in any file; more in one that can hold the entries of all, bytes each
DEFLATE, SHUFFLE, FLETCHER32, SCALEOFFSET, LZF = 1, 2, 3, 6, 32000
PACKING = {DEFLATE: "gzip", LZF: "lzf", SCALEOFFSET: "scaleoffset"}
LIST = np.dtype([("length", "<u4"), ("heap", "<u8"), ("number", "<u4")])  # what stands for a list of any length
LONGEST_TEXT = 400  # bytes of an entry
CHECKSUM = 4  # bytes that fletcher32 adds to a chunk


def hdf5_arrays(where: str, file: Any, limit: int, stream: IO[bytes]) -> dict[str, Stored]:
    """Return the arrays of the file's first level by name, not yet read; `stream` has the file's bytes.

    Text of any length, as h5py writes lists of str, is read as an array of bytes.
    """
    import h5py

    arrays = {}
    with readable(where):
        for name in file:
            _require_own(file, name)
            kind = file.get(name, getclass=True)
            if kind is None:
                raise Refused(f"{listed([name])} leads nowhere; the file is damaged")
            if kind.__name__ == "Dataset":
                data = hdf5_dataset(where, file, name)
                text = h5py.check_string_dtype(data.dtype)
                if text is not None and text.length is None:
                    read = partial(_read_text, where, data, limit, stream)
                    arrays[name] = Stored(data.shape, np.dtype("S"), read)
                else:
                    arrays[name] = Stored(data.shape, data.dtype, partial(_read, where, data, limit))
        if not arrays and len(file):
            raise Refused(
                f"its arrays must be on the first level, but are in groups ({listed(file)}); write a file for each"
            )
    return arrays


def hdf5_folders(path: Path) -> dict[str, list[str]]:
    """Return the names in each HDF5 group on the first level of a file, by the group's name; of an npz file none."""
    import h5py

    if not h5py.is_hdf5(path):
        return {}
    with readable(str(path)), h5py.File(path, "r") as file:
        for name in file:
            _require_own(file, name)
        return {name: list(file[name]) for name in file if file.get(name, getclass=True) is h5py.Group}


def _read(where: str, data: Any, limit: int) -> NDArray[Any]:
    with readable(f"{where}: {listed([data.name.strip('/')])}"):
        require_plain(data.shape, data.dtype, limit)
        require_stored(data)
        return np.asarray(data[()])


def _read_text(where: str, data: Any, limit: int, stream: IO[bytes]) -> NDArray[np.bytes_]:
    with readable(f"{where}: {listed([data.name.strip('/')])}"):
        if data.ndim != 1:
            raise Refused(f"text must have one dimension, but has the shape {list(data.shape)}")
        values, lengths = _lists_from(data, np.dtype(np.uint8), limit, stream)
        longest, held = int(lengths.max(initial=0)), int(lengths.sum())
        if longest > LONGEST_TEXT:
            raise Refused(f"is text of up to {longest} bytes, but at most {LONGEST_TEXT} are read")
        most = min(limit, max(SMALL, SPARSE * held))
        if len(data) * longest > most:  # all entries take the memory of the longest
            raise Refused(
                f"is {len(data)} texts of up to {longest} bytes, {held} in all, that would take {len(data) * longest} "
                f"bytes in memory, but at most {most} are read; shorten the longest"
            )
        raw, ends = values.tobytes(), lengths.cumsum().tolist()
        starts = [0, *ends[:-1]]
        return np.array([raw[start:end] for start, end in zip(starts, ends, strict=True)], dtype=np.bytes_)


def hdf5_dataset(where: str, file: Any, name: str) -> Any:
    """Return the dataset `name`; refuse one that is missing, or that lies in another file."""
    import h5py

    with readable(where):
        _require_own(file, name)
        data = file.get(name)
        if not isinstance(data, h5py.Dataset) or data.shape is None:
            raise Refused(f"must hold an array {listed([name])}, but holds {listed(file)}")
        if data.is_virtual or data.external:
            raise Refused(f"{listed([name])} must be in the file itself, but is in another")
    return data


def optional_dataset(where: str, file: Any, name: str) -> Any | None:
    """Return the dataset `name`, as `hdf5_dataset` does; None if the file has none of that name."""
    with readable(where):
        _require_own(file, name)
        if file.get(name, getlink=True) is None:
            return None
    return hdf5_dataset(where, file, name)


def _require_own(file: Any, name: str) -> None:
    """Refuse a path with a link in it: following a link opens whatever file it names."""
    import h5py

    parts = name.split("/")
    for end in range(1, len(parts) + 1):
        link = file.get("/".join(parts[:end]), getlink=True)
        if link is not None and not isinstance(link, h5py.HardLink):
            raise Refused(f"{listed([name])} must be in the file itself, but is a link")


# ---- Claimed sizes and stored sizes


def require_stored(data: Any) -> None:
    """Refuse an array that would take far more memory than it has bytes in the file."""
    filters = _filters(data)
    size = math.prod(data.shape) * _item_size(data)
    stored = min(data.id.get_storage_size(), data.file.id.get_filesize())
    ratio = DEFLATE_BEST if filters.keys() & PACKING.keys() else SPARSE
    if size > max(SMALL, ratio * stored):
        raise Refused(
            f"promises {list(data.shape)} of {data.dtype}, {size} bytes, but the file holds {stored} of them; "
            "an array so empty is not read, write it in full"
        )
    if data.chunks is not None:
        _require_chunks(data, filters, size)


def _item_size(data: Any) -> int:
    """Return the bytes of an entry in the file; HDF5 itself says 8, an address in memory, for text of any length."""
    import h5py

    kind = data.id.get_type()
    of_any_length = isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str()
    return LIST.itemsize if of_any_length else int(kind.get_size())


def _filters(data: Any) -> dict[int, tuple[int, ...]]:
    """Return the numbers of the filters that pack the chunks, with their parameters, in the order of writing."""
    made = data.id.get_create_plist()
    filters: dict[int, tuple[int, ...]] = {}
    for number in range(made.get_nfilters()):
        code, _, values, name = made.get_filter(number)
        known = code in PACKING or code in (SHUFFLE, FLETCHER32)
        # Two packings multiply: gzip of gzip makes a gigabyte of a kilobyte.
        if not known or code in filters or (code in PACKING and filters.keys() & PACKING.keys()):
            packed = listed([*(PACKING.get(each, str(each)) for each in filters), name.decode("ascii", "replace")])
            raise Refused(f"is packed with {packed}; write it with gzip or lzf, once, or unpacked")
        filters[code] = values
    return filters


def _require_chunks(data: Any, filters: dict[int, tuple[int, ...]], size: int) -> None:
    item = _item_size(data)
    chunk = math.prod(data.chunks) * item
    count = math.prod(-(-length // step) for length, step in zip(data.shape, data.chunks, strict=True))
    if chunk > max(SMALL, size):
        raise Refused(f"is stored in chunks of {chunk} bytes, though it has only {size}")
    if count > max(MOST_CHUNKS, data.file.id.get_filesize() // CHUNK_ENTRY):
        raise Refused(f"is cut into {count} chunks, more than the file can hold; write it in larger ones")
    if SCALEOFFSET in filters and filters[SCALEOFFSET][2:5:2] != (math.prod(data.chunks), item):
        raise Refused("is packed with scaleoffset for chunks of another size; the file is damaged")
    if DEFLATE in filters:
        for _, mask, raw in _chunks(data):
            if len(raw) * DEFLATE_BEST > chunk + CHECKSUM and not _left_out(mask, filters, DEFLATE):
                _inflated(raw, chunk + CHECKSUM)


def _left_out(mask: int, filters: dict[int, tuple[int, ...]], code: int) -> bool:
    return bool(mask >> list(filters).index(code) & 1)


def _chunks(data: Any) -> Iterator[tuple[int, int, bytes]]:
    """Yield every stored chunk: its first row, the filters that were skipped (one bit each), and its packed bytes."""
    for number in range(data.id.get_num_chunks()):
        place = data.id.get_chunk_info(number).chunk_offset
        mask, raw = data.id.read_direct_chunk(place)
        yield place[0], mask, bytes(raw)


def _inflated(raw: bytes, most: int) -> bytes:
    """Unpack a chunk of at most `most` bytes; HDF5 itself would unpack a chunk of any size."""
    found = zlib.decompressobj().decompress(raw, most + 1)
    if len(found) > most:
        raise Refused(f"has a chunk that unpacks to more than its {most - CHECKSUM} bytes; the file is damaged")
    return found


# ---- Lists of any length


def read_lists(data: Any, most: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the lists of numbers in `data`, one after another, and their lengths; at most `most` numbers.

    Read from the file's own bytes: HDF5 takes memory for the length that a list claims before it looks where its
    numbers lie, and in a damaged heap it runs in circles or crashes.
    """
    import h5py

    dtype = h5py.check_vlen_dtype(data.dtype)
    if data.id.get_type().get_super().get_size() != dtype.itemsize:
        raise Refused("must be lists of numbers of a common format, as h5py writes them")
    with Path(data.file.filename).open("rb") as stream:
        return _lists_from(data, dtype, most, stream)


def _lists_from(
    data: Any, dtype: np.dtype[Any], most: int, stream: IO[bytes]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the lists of `data`, one after another, and their lengths; `stream` has the bytes of the file."""
    require_stored(data)
    made, held = data.file.id.get_create_plist(), data.file.id.get_filesize()
    if made.get_sizes() != (8, 8):
        raise Refused("must be lists with addresses of 8 bytes, as h5py writes them")
    lists = np.zeros(len(data), LIST)
    for row, part in _lists(data, stream):
        lists[row : row + len(part)] = part[: len(data) - row]
    lengths = lists["length"].astype(np.int64)
    total = int(lengths.sum())
    if total * dtype.itemsize > held:
        raise Refused(f"promises lists of {total * dtype.itemsize} bytes, but the file has {held}")
    if total > most:
        raise Refused(f"must be at most {most} numbers, but are more")
    values, starts = np.empty(total, dtype), lengths.cumsum() - lengths
    rows = np.flatnonzero(lengths)
    rows = rows[np.argsort(lists["heap"][rows], kind="stable")]
    for heap, members in groupby(rows.tolist(), lambda row: int(lists["heap"][row])):
        raw, objects = _heap(stream, made.get_userblock() + heap, held)
        for row in members:
            at, size = objects.get(int(lists["number"][row]), (0, -1))
            if size != lengths[row] * dtype.itemsize:
                raise Refused(f"list {row} does not have the length that it claims; the file is damaged")
            values[starts[row] : starts[row] + lengths[row]] = np.frombuffer(raw, dtype, lengths[row], at)
    return values, lengths


def _lists(data: Any, stream: IO[bytes]) -> Iterator[tuple[int, NDArray[np.void]]]:
    """Yield for each chunk its first row and the places of the lists of its rows."""
    if data.chunks is None:
        offset = data.id.get_offset()
        if offset is None:
            if data.id.get_storage_size():
                raise Refused("has its lists within the header; write them as h5py does")
            return
        stream.seek(offset)
        yield 0, _whole_lists(stream.read(LIST.itemsize * len(data)))
        return
    filters = _filters(data)
    if filters.keys() & PACKING.keys() - {DEFLATE}:
        raise Refused("has its lists packed with another filter than gzip; write them unpacked")
    chunk = math.prod(data.chunks) * LIST.itemsize
    for row, mask, packed in _chunks(data):
        raw = packed
        if DEFLATE in filters and not _left_out(mask, filters, DEFLATE):
            raw = _inflated(raw, chunk + CHECKSUM)
        raw = raw[:chunk]
        if SHUFFLE in filters and not _left_out(mask, filters, SHUFFLE):
            raw = np.frombuffer(raw, np.uint8).reshape(LIST.itemsize, -1).T.tobytes()
        yield row, _whole_lists(raw)


def _whole_lists(raw: bytes) -> NDArray[np.void]:
    return np.frombuffer(raw[: len(raw) // LIST.itemsize * LIST.itemsize], LIST)


def _heap(stream: IO[bytes], at: int, held: int) -> tuple[bytes, dict[int, tuple[int, int]]]:
    """Return the bytes of the heap at byte `at`, and start and length of each object in them, by its number."""
    stream.seek(min(at, held))
    head = stream.read(16)
    size = int.from_bytes(head[8:], "little")
    if head[:5] != b"GCOL\1" or not 16 <= size <= held - at:
        raise Refused(f"has lists in a heap at byte {at} that is none; the file is damaged")
    raw, place = stream.read(size - 16), 0
    objects: dict[int, tuple[int, int]] = {}
    while place + 16 <= len(raw):
        number, _, _, length = struct.unpack_from("<HHIQ", raw, place)
        taken = 16 + -(-length // 8) * 8
        if number == 0:  # the gap at the end
            break
        if taken > len(raw) - place:
            raise Refused(f"has lists in a heap at byte {at} whose parts do not fit; the file is damaged")
        objects[number] = (place + 16, length)
        place += taken
    return raw, objects
