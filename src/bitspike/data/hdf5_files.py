"""HDF5 files, whose few bytes can promise gigabytes: what an array would take is known before it is read."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from functools import partial
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
CHECKSUM = 4  # bytes that fletcher32 adds to a chunk


def hdf5_arrays(where: str, file: Any, limit: int) -> dict[str, Stored]:
    """The arrays of the file's first level by name, none read yet."""
    arrays = {}
    with readable(where):
        for name in file:
            _require_own(file, name)
            kind = file.get(name, getclass=True)
            if kind is None:
                raise Refused(f"{listed([name])} leads nowhere; the file is damaged")
            if kind.__name__ == "Dataset":
                data = hdf5_dataset(where, file, name)
                arrays[name] = Stored(data.shape, data.dtype, partial(_read, where, data, limit))
    return arrays


def _read(where: str, data: Any, limit: int) -> NDArray[Any]:
    with readable(f"{where}: {listed([data.name.strip('/')])}"):
        require_plain(data.shape, data.dtype, limit)
        require_stored(data)
        return np.asarray(data[()])


def hdf5_dataset(where: str, file: Any, name: str) -> Any:
    """The dataset `name`, unless it is missing or would be read from another file than this one."""
    import h5py

    with readable(where):
        _require_own(file, name)
        data = file.get(name)
        if not isinstance(data, h5py.Dataset) or data.shape is None:
            raise Refused(f"must hold an array {listed([name])}, but holds {listed(file)}")
        if data.is_virtual or data.external:
            raise Refused(f"{listed([name])} must be in the file itself, but is in another")
    return data


def _require_own(file: Any, name: str) -> None:
    """Every part of the path `name` must be a plain one: following a link opens whatever file it names."""
    import h5py

    parts = name.split("/")
    for end in range(1, len(parts) + 1):
        link = file.get("/".join(parts[:end]), getlink=True)
        if link is not None and not isinstance(link, h5py.HardLink):
            raise Refused(f"{listed([name])} must be in the file itself, but is a link")


# ---- What is promised against what is stored


def require_stored(data: Any) -> None:
    """Refuse an array that would take far more memory than its bytes in the file account for."""
    filters = _filters(data)
    size = math.prod(data.shape) * data.id.get_type().get_size()
    stored = min(data.id.get_storage_size(), data.file.id.get_filesize())
    ratio = DEFLATE_BEST if filters.keys() & PACKING.keys() else SPARSE
    if size > max(SMALL, ratio * stored):
        raise Refused(
            f"promises {list(data.shape)} of {data.dtype}, {size} bytes, but the file holds {stored} of them; "
            "an array so empty is not read, write it in full"
        )
    if data.chunks is not None:
        _require_chunks(data, filters, size)


def _filters(data: Any) -> dict[int, tuple[int, ...]]:
    """The numbers of the filters that pack its chunks, with their parameters, in the order of writing."""
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
    item = data.id.get_type().get_size()
    chunk = math.prod(data.chunks) * item
    count = math.prod(-(-length // step) for length, step in zip(data.shape, data.chunks, strict=True))
    if chunk > max(SMALL, size):
        raise Refused(f"is stored in chunks of {chunk} bytes, though it has only {size}")
    if count > max(MOST_CHUNKS, data.file.id.get_filesize() // CHUNK_ENTRY):
        raise Refused(f"is cut into {count} chunks, more than the file can hold; write it in larger ones")
    if SCALEOFFSET in filters and filters[SCALEOFFSET][2:5:2] != (math.prod(data.chunks), item):
        raise Refused("is packed with scaleoffset for chunks of another size; the file is damaged")
    if DEFLATE in filters:
        for mask, raw in _chunks(data):
            if len(raw) * DEFLATE_BEST > chunk + CHECKSUM and not _left_out(mask, filters, DEFLATE):
                _inflated(raw, chunk + CHECKSUM)


def _left_out(mask: int, filters: dict[int, tuple[int, ...]], code: int) -> bool:
    return bool(mask >> list(filters).index(code) & 1)


def _chunks(data: Any) -> Iterator[tuple[int, bytes]]:
    """The filters that were left out (a bit each) and the packed bytes of every stored chunk."""
    for number in range(data.id.get_num_chunks()):
        mask, raw = data.id.read_direct_chunk(data.id.get_chunk_info(number).chunk_offset)
        yield mask, bytes(raw)


def _inflated(raw: bytes, most: int) -> bytes:
    """A chunk unpacked, if it holds at most `most` bytes: HDF5 itself unpacks whatever a chunk turns out to hold."""
    found = zlib.decompressobj().decompress(raw, most + 1)
    if len(found) > most:
        raise Refused(f"has a chunk that unpacks to more than its {most - CHECKSUM} bytes; the file is damaged")
    return found


# ---- Lists of any length


def require_lists(data: Any, item: int) -> None:
    """Refuse lists (of numbers of `item` bytes) that claim more than the file holds, before one of them is read.

    A list is stored as its length and the heap in which its numbers lie. HDF5 takes memory for the length before it
    looks there, and runs in circles in a heap with an empty gap.
    """
    require_stored(data)
    made, held = data.file.id.get_create_plist(), data.file.id.get_filesize()
    if made.get_sizes() != (8, 8):
        raise Refused("must have addresses of 8 bytes, as h5py writes them")
    lists = np.concatenate([np.empty(0, LIST), *_lists(data)])
    claimed = int(lists["length"].sum(dtype=np.uint64)) * item
    if claimed > held:
        raise Refused(f"promises lists of {claimed} bytes, but the file has {held}")
    with Path(data.file.filename).open("rb") as stream:
        for heap in np.unique(lists["heap"][lists["length"] > 0]).tolist():
            _require_heap(stream, made.get_userblock() + heap, held)


def _lists(data: Any) -> Iterator[NDArray[np.void]]:
    """What stands for the lists of `data`, chunk by chunk, out of the file's own bytes."""
    if data.chunks is None:
        offset = data.id.get_offset()
        if offset is None:
            if data.id.get_storage_size():
                raise Refused("has its lists within the header; write them as h5py does")
            return
        with Path(data.file.filename).open("rb") as stream:
            stream.seek(offset)
            yield _whole_lists(stream.read(LIST.itemsize * len(data)))
        return
    filters = _filters(data)
    if filters.keys() & PACKING.keys() - {DEFLATE}:
        raise Refused("has its lists packed with another filter than gzip; write them unpacked")
    chunk = math.prod(data.chunks) * LIST.itemsize
    for mask, packed in _chunks(data):
        raw = packed
        if DEFLATE in filters and not _left_out(mask, filters, DEFLATE):
            raw = _inflated(raw, chunk + CHECKSUM)
        raw = raw[:chunk]
        if SHUFFLE in filters and not _left_out(mask, filters, SHUFFLE):
            raw = np.frombuffer(raw, np.uint8).reshape(LIST.itemsize, -1).T.tobytes()
        yield _whole_lists(raw)


def _whole_lists(raw: bytes) -> NDArray[np.void]:
    return np.frombuffer(raw[: len(raw) // LIST.itemsize * LIST.itemsize], LIST)


def _require_heap(stream: IO[bytes], at: int, held: int) -> None:
    """Walk over the objects of a heap: each must end after it begins, and within the heap."""
    stream.seek(min(at, held))
    head = stream.read(16)
    size = int.from_bytes(head[8:], "little")
    if head[:5] != b"GCOL\1" or not 16 <= size <= held - at:
        raise Refused(f"has lists in a heap at byte {at} that is none; the file is damaged")
    heap, place = stream.read(size - 16), 0
    while place + 16 <= len(heap):
        number, length = int.from_bytes(heap[place : place + 2], "little"), heap[place + 8 : place + 16]
        taken = int.from_bytes(length, "little")
        taken = (
            16 + -(-taken // 8) * 8 if number else taken
        )  # number 0 is the gap at the end, its own 16 bytes included
        if not 0 < taken <= len(heap) - place:
            raise Refused(f"has lists in a heap at byte {at} whose parts do not fit; the file is damaged")
        place += taken
