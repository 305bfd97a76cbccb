"""AEDAT 3.1: bits in their places, times over overflows, and what is wrong with a file by packet and byte."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data import aedat
from bitspike.data.aedat import read_aedat
from helpers.files import AEDAT_HEADER, aedat_bytes, aedat_packet

EVENT = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**15 - 1), st.integers(0, 1))


def read(data):
    return read_aedat(io.BytesIO(data), "made.aedat")


@given(st.lists(EVENT, max_size=30), st.integers(1, 7))
def test_what_is_written_is_read(rows, packet):
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    back = read(aedat_bytes(*columns, packet=packet))
    assert [column.tolist() for column in back] == columns.tolist()
    assert [str(column.dtype) for column in back] == ["int64", "int16", "int16", "uint8"]


def test_golden_bytes():
    # One event: x = 5, y = 9, ON, valid, at 1000 us after one overflow.
    header = bytes.fromhex("0100 0100 08000000 04000000 01000000 01000000 01000000 01000000")
    event = bytes.fromhex("27000a00 e8030000")
    t, x, y, p = read(AEDAT_HEADER + header + event)
    assert (t.tolist(), x.tolist(), y.tolist(), p.tolist()) == ([2**31 + 1000], [5], [9], [1])


@given(st.lists(st.tuples(EVENT, st.booleans()), max_size=20))
def test_invalid_events_are_left_out(rows):
    columns = np.array([event for event, _ in rows], dtype=np.int64).reshape(-1, 4).T
    valid = np.array([kept for _, kept in rows], dtype=bool)
    data = AEDAT_HEADER + aedat_packet(*columns, valid=valid)
    if len(rows) and not valid.any():
        with pytest.raises(ValueError, match=rf"made\.aedat: all {len(rows)} polarity events are marked invalid"):
            read(data)
        return
    assert [column.tolist() for column in read(data)] == columns[:, valid].tolist()


def test_other_packets_are_passed_over():
    special = aedat_packet([1], [2], [3], [1], kind=0)
    frames = struct.pack("<hhiiiiii", 2, 1, 36, 12, 0, 2, 2, 2) + bytes(72)
    data = AEDAT_HEADER + special + aedat_packet([7], [8], [9], [0]) + frames + aedat_packet([11], [12], [13], [1])
    assert [column.tolist() for column in read(data)] == [[7, 11], [8, 12], [9, 13], [0, 1]]


def test_a_packet_that_is_not_full_keeps_its_room():
    data = AEDAT_HEADER + aedat_packet([7], [8], [9], [1], capacity=5) + aedat_packet([10], [1], [2], [0])
    assert [column.tolist() for column in read(data)] == [[7, 10], [8, 1], [9, 2], [1, 0]]


def test_no_events_are_no_error():
    assert [len(column) for column in read(AEDAT_HEADER)] == [0] * 4


def test_a_file_is_named_by_its_path(tmp_path):
    path = tmp_path / "user01_led.aedat"
    path.write_bytes(aedat_bytes([1, 2], [3, 4], [5, 6], [0, 1]))
    assert read_aedat(path).t_us.tolist() == [1, 2]
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"user01_led\.aedat: not an AEDAT file"):
        read_aedat(path)


PACKET = aedat_packet([1, 2], [3, 4], [5, 6], [0, 1])
START = len(AEDAT_HEADER)


def broken(**fields):
    names = ("kind", "source", "size", "offset", "overflow", "capacity", "number", "valid")
    values = dict(zip(names, struct.unpack("<hhiiiiii", PACKET[:28]), strict=True)) | fields
    return AEDAT_HEADER + struct.pack("<hhiiiiii", *values.values()) + PACKET[28:]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not an AEDAT file"),
        (b"\x1f\x8b\x08", "not an AEDAT file"),
        (b"#!AER-DAT2.0\r\n# comment\r\n", "must be AEDAT 3.1"),
        (AEDAT_HEADER.replace(b"RAW", b"SerializedTS,PNGFrames"), "format must be RAW, but is SerializedTS,PNGFrames"),
        (AEDAT_HEADER[:-16] + PACKET, "no line #!END-HEADER"),
        (AEDAT_HEADER[:40], "no line #!END-HEADER"),
        (b"#!AER-DAT3.1\r\n" + b"#x\r\n" * 2**15 + b"#!END-HEADER\r\n", "no line #!END-HEADER"),
        (AEDAT_HEADER + PACKET + PACKET[:20], f"packet 1 at byte {START + len(PACKET)} ends within its header"),
        (AEDAT_HEADER + PACKET[:-1], f"packet 0 at byte {START} promises 16 bytes of events, but 15 are left"),
        (broken(capacity=2**31 - 1), "promises 17179869176 bytes of events, but 16 are left"),
        (broken(number=3), "packet 0 at byte .* is damaged: .* 3 of 2 events"),
        (broken(number=-1), "is damaged"),
        (broken(capacity=-1), "is damaged"),
        (broken(size=0), "is damaged: type 1, size 0"),
        (broken(size=-8), "is damaged"),
        (broken(kind=-32767), "is damaged: type -32767"),
        (broken(overflow=-1), "is damaged"),
        (broken(size=4), "must have 8 bytes, the time from byte 4 on, but have 4 and 4"),
        (broken(offset=0), "must have 8 bytes, the time from byte 4 on, but have 8 and 0"),
        (AEDAT_HEADER + PACKET + aedat_packet([2**31], [1], [1], [1]), "polarity packet 1 has a negative time stamp"),
    ],
)
def test_damage_is_named(data, says):
    with pytest.raises(ValueError, match=says) as caught:
        read(data)
    assert str(caught.value).startswith("made.aedat: ")


def test_a_recording_without_end_is_not_read_whole(monkeypatch):
    monkeypatch.setattr(aedat, "LIMIT", 1000)
    with pytest.raises(ValueError, match="up to 1000 bytes"):
        read(aedat_bytes(range(200), range(200), range(200), [1] * 200))
