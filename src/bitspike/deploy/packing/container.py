"""The safetensors container of a packed network: its bytes are checked before anything is made of them.

Reading needs NumPy and no library for safetensors: eight bytes with the length of a JSON header, the header, and then
the arrays, one behind the other.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitspike._lazy import not_installed
from bitspike.deploy.packing import limits
from bitspike.deploy.packing.fields import Fields, Invalid, parse_json, require_list, require_whole, shown

ENTRY = "bitspike"  # the one entry of the header's metadata
DTYPES: dict[str, np.dtype[Any]] = {"U8": np.dtype("u1"), "U16": np.dtype("<u2"), "F32": np.dtype("<f4")}
_OPENING = '{"sha256":"'  # of the entry's text; the digits follow
_DIGITS = 64
_IN_HEADER = _OPENING.replace('"', '\\"').encode()  # a text within the header's JSON


@dataclass(frozen=True, slots=True)
class Entry:
    """The place of an array in a file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int  # in bytes of the whole file

    @property
    def end(self) -> int:
        """The first byte behind the array."""
        return self.begin + math.prod(self.shape) * DTYPES[self.dtype].itemsize


@dataclass(frozen=True, slots=True)
class Container:
    """A file's bytes, the text of its metadata, and where its arrays lie."""

    content: bytes
    text: str
    entries: dict[str, Entry]

    def array(self, name: str) -> NDArray[Any]:
        """Return a copy of an array's values."""
        entry = self.entries[name]
        dtype = DTYPES[entry.dtype]
        values = np.frombuffer(self.content, dtype, math.prod(entry.shape), entry.begin)
        return values.reshape(entry.shape).astype(dtype.newbyteorder("="))

    def require_checksum(self, digits: object) -> None:
        """Raise unless `digits`, which the metadata begins with, are the checksum of the file."""
        place = _digits_at(self.content)
        written = self.content[place : place + _DIGITS]
        if written != str(digits).encode("utf-8", "replace"):
            raise Invalid("its metadata does not begin with a checksum of 64 digits")
        if _digest(self.content, place) != written:
            raise Invalid("its content does not have the checksum that it was written with")


def write_container(arrays: dict[str, NDArray[Any]], text: str) -> bytes:
    """Return a safetensors file with these arrays and one metadata entry: `text`, a JSON object, and its checksum."""
    try:
        from safetensors.numpy import save
    except ModuleNotFoundError:
        raise not_installed("safetensors", "packed networks are written with safetensors") from None

    signed = f'{_OPENING}{"0" * _DIGITS}",{text[1:]}'
    content = save(arrays, metadata={ENTRY: signed})
    place = _digits_at(content)
    return content[:place] + _digest(content, place) + content[place + _DIGITS :]


def open_container(content: bytes) -> Container:
    """Return a file's metadata and the places of its arrays, all within the file; raise Invalid otherwise."""
    if len(content) < 8:
        raise Invalid(f"it has {len(content)} bytes, too few for a header")
    if len(content) > limits.MOST_FILE_BYTES:
        raise Invalid(f"it has {len(content)} bytes, more than {limits.MOST_FILE_BYTES}")
    length = int.from_bytes(content[:8], "little")
    if length > min(limits.MOST_HEADER_BYTES, len(content) - 8):
        raise Invalid(f"its header has {shown(length)} bytes, more than the file, or than {limits.MOST_HEADER_BYTES}")
    raw = content[8 : 8 + length]
    if sum(map(raw.count, b"[{,")) > limits.MOST_HEADER_ITEMS:
        raise Invalid(f"its header has more than {limits.MOST_HEADER_ITEMS} values")
    try:
        header = parse_json(raw.decode())
    except UnicodeDecodeError:
        raise Invalid("its header is not UTF-8") from None
    fields = Fields(header, "its header")
    notes = Fields(fields.take("__metadata__"), "its metadata")
    text = notes.take(ENTRY)
    notes.finish()
    if not isinstance(text, str) or not text.startswith(_OPENING):
        raise Invalid("its metadata does not begin with a checksum")
    entries = {name: _entry(name, value, 8 + length) for name, value in header.items() if name != "__metadata__"}
    _require_tiled(entries, 8 + length, len(content))
    return Container(content, text, entries)


def _entry(name: str, value: object, start: int) -> Entry:
    fields = Fields(value, f"array {shown(name)}")
    dtype = fields.choice("dtype", tuple(DTYPES))
    sizes, offsets = fields.items("shape", 4), require_list(fields.where, fields.take("data_offsets"), 2)
    fields.finish()
    shape = tuple(require_whole(fields.where, size, 1, limits.MOST_FILE_BYTES) for size in sizes)
    if not shape or len(offsets) != 2:
        raise Invalid(f"{fields.where} has no shape or no place")
    begin, end = (require_whole(fields.where, place, 0, limits.MOST_FILE_BYTES) for place in offsets)
    entry = Entry(dtype, shape, start + begin)
    if entry.end != start + end:
        raise Invalid(f"{fields.where} has {end - begin} bytes, but its shape needs {entry.end - entry.begin}")
    return entry


def _require_tiled(entries: dict[str, Entry], start: int, size: int) -> None:
    """Raise unless the arrays fill the file behind the header, without gaps and without overlaps."""
    place = start
    for entry in sorted(entries.values(), key=lambda entry: entry.begin):
        if entry.begin != place:
            raise Invalid("its arrays overlap, or leave a gap")
        place = entry.end
    if place != size:
        raise Invalid(f"its arrays end at byte {place}, but it has {size}")


def _digits_at(content: bytes) -> int:
    """Return where the digits of the checksum begin."""
    place = content.find(_IN_HEADER, 8, 8 + int.from_bytes(content[:8], "little"))
    if place < 0:
        raise Invalid("its metadata does not begin with a checksum")
    return place + len(_IN_HEADER)


def _digest(content: bytes, place: int) -> bytes:
    """Return the sha256, in hexadecimal, of a file whose 64 digits of the checksum are read as 0."""
    summed = hashlib.sha256(memoryview(content)[:place])
    summed.update(b"0" * _DIGITS)
    summed.update(memoryview(content)[place + _DIGITS :])
    return summed.hexdigest().encode()
