"""AEDAT 3.1, the format of jAER and cAER for event cameras: a text header, then packets of events of one type each."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from bitspike.data.array_files import read_up_to
from bitspike.text import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIMIT = 2**29  # bytes; the published recordings have a tenth of it
LONGEST_HEADER = 2**16
VERSION = b"#!AER-DAT3.1"
END = b"#!END-HEADER"
POLARITY = 1
# Little-endian: type, source, size of an event, offset of its time stamp, overflows, capacity, events, valid events.
PACKET = struct.Struct("<hhiiiiii")
EVENT_SIZE, TIME_OFFSET = 8, 4


class PolarityEvents(NamedTuple):
    """Events of a camera, in the file's order.

    `t_us [E]` int64 microseconds, `x [E]` and `y [E]` int16, `p [E]` uint8 in {0, 1}.
    """

    t_us: NDArray[np.int64]
    x: NDArray[np.int16]
    y: NDArray[np.int16]
    p: NDArray[np.uint8]


def read_aedat(source: Path | IO[bytes], name: str | None = None) -> PolarityEvents:
    """Return the valid polarity events of a recording; packets of other types are skipped.

    A file, or a stream that errors call `name`. An event is a word (bit 0: valid, 1: polarity, 2-16: y, 17-31: x) and a
    time stamp of 31 bits, whose overflows the packet counts.
    """
    if isinstance(source, Path):
        with source.open("rb") as stream:
            return read_aedat(stream, name or str(source))
    where = name or str(getattr(source, "name", "recording"))
    data = bytes(read_up_to(source, LONGEST_HEADER))
    start = _end_of_header(where, data)  # before the rest is read: it may be anything
    data += read_up_to(source, LIMIT + 1 - len(data))
    if len(data) > LIMIT:
        raise ValueError(f"{where}: recordings of up to {LIMIT} bytes are read, but this one is longer")
    return _decode(_polarity_packets(where, data, start), where)


def _end_of_header(where: str, data: bytes) -> int:
    """Return the offset of the first packet."""
    at, first = 0, True
    while (end := data.find(b"\n", at, LONGEST_HEADER)) >= 0 and data[at : at + 1] == b"#":
        line, at = data[at:end].rstrip(b"\r"), end + 1
        if first and line != VERSION:
            raise ValueError(f"{where}: must be AEDAT 3.1 (first line {VERSION.decode()}), but begins {line[:40]!r}")
        first = False
        if line.startswith(b"#Format:") and line.partition(b":")[2].strip() != b"RAW":
            raise ValueError(
                f"{where}: the format must be RAW, but is {printable(line[8:60].decode('ascii', 'replace').strip())}"
            )
        if line == END:
            return at
    if first:
        raise ValueError(f"{where}: not an AEDAT file: it must begin with {VERSION.decode()}, not {data[:16]!r}")
    raise ValueError(f"{where}: the header has no line {END.decode()}; the file is damaged or cut short")


def _polarity_packets(where: str, data: bytes, at: int) -> list[tuple[int, NDArray[np.void]]]:
    """Return (overflows, events) of each polarity packet from the offset `at` on, without copying events."""
    event = np.dtype([("word", "<u4"), ("time", "<i4")])
    packets, number = [], 0
    while at < len(data):
        here = f"{where}: packet {number} at byte {at}"
        if at + PACKET.size > len(data):
            raise ValueError(f"{here} ends within its header: the file is cut short")
        kind, _, size, offset, overflows, capacity, count, _ = PACKET.unpack_from(data, at)
        if kind < 0 or size < 1 or overflows < 0 or not 0 <= count <= capacity:
            raise ValueError(
                f"{here} is damaged: type {kind}, size {size}, overflows {overflows}, {count} of {capacity} events"
            )
        at += PACKET.size
        # A packet takes the room of its capacity, though recorders write it full.
        if at + capacity * size > len(data):
            raise ValueError(f"{here} promises {capacity * size} bytes of events, but {len(data) - at} are left")
        if kind == POLARITY:
            if (size, offset) != (EVENT_SIZE, TIME_OFFSET):
                raise ValueError(
                    f"{here}: polarity events must have 8 bytes, the time from byte 4 on, but have {size} and {offset}"
                )
            packets.append((overflows, np.frombuffer(data, event, count, at)))
        at += capacity * size
        number += 1
    return packets


def _decode(packets: list[tuple[int, NDArray[np.void]]], where: str) -> PolarityEvents:
    counts = np.array([len(events) for _, events in packets], dtype=np.int64)
    overflows = np.array([overflows for overflows, _ in packets], dtype=np.int64)
    empty = np.empty(0, np.uint32)
    word = np.concatenate([events["word"] for _, events in packets]) if packets else empty
    time = np.concatenate([events["time"] for _, events in packets]) if packets else empty.astype(np.int32)
    if len(time) and time.min() < 0:
        packet = int(np.searchsorted(np.cumsum(counts), int(time.argmin()), side="right"))
        raise ValueError(f"{where}: polarity packet {packet} has a negative time stamp, {time.min()}")
    t_us = time.astype(np.int64) + np.repeat(overflows << 31, counts)
    valid = (word & 1) == 1
    if len(word) and not valid.any():
        raise ValueError(f"{where}: all {len(word)} polarity events are marked invalid (bit 0); get the file again")
    if not valid.all():
        word, t_us = word[valid], t_us[valid]
    x, y, p = word >> 17, (word >> 2) & 0x7FFF, (word >> 1) & 1
    return PolarityEvents(t_us, x.astype(np.int16), y.astype(np.int16), p.astype(np.uint8))
