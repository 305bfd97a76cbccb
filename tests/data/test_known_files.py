"""How a right file is told from a wrong one, however it is packed."""

import gzip
import hashlib
import io
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bitspike.data.known_files import File, Form, fault

CONTENT = b"\0\0\x08\x01" + bytes(range(200))


def packed(content=CONTENT, level=9, name=""):
    stream = io.BytesIO()
    with gzip.GzipFile(name, "wb", level, stream, mtime=0) as out:
        out.write(content)
    return stream.getvalue()


def idx_file():
    published, sha256 = packed(), hashlib.sha256(CONTENT).hexdigest()
    gz = Form("x-idx1-ubyte.gz", ("md5", hashlib.md5(published).hexdigest()), len(published))
    return File((gz, Form("x-idx1-ubyte", ("sha256", sha256), len(CONTENT))), (len(CONTENT), sha256))


FILE = idx_file()


def wrong(tmp_path, data, form=0):
    path = tmp_path / "file"
    path.write_bytes(data)
    return fault(FILE, FILE.forms[form], path)


@pytest.mark.parametrize("form", [0, 1])
@pytest.mark.parametrize(
    "data", [packed(), packed(level=1, name="other"), CONTENT], ids=["published", "recompressed", "plain"]
)
def test_the_same_content_is_accepted_however_it_is_packed(tmp_path, data, form):
    assert wrong(tmp_path, data, form) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, len(CONTENT) - 1), bit=st.integers(0, 7), repack=st.booleans())
def test_a_flipped_bit_is_refused(tmp_path, place, bit, repack):
    flipped = bytearray(CONTENT)
    flipped[place] ^= 1 << bit
    assert "sha256" in wrong(tmp_path, packed(bytes(flipped)) if repack else bytes(flipped))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(10, len(packed()) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_of_the_packed_file_is_refused_unless_it_means_nothing(tmp_path, place, bit):
    flipped = bytearray(packed())
    flipped[place] ^= 1 << bit
    try:
        same = gzip.decompress(flipped) == CONTENT  # the format has bits for padding
    except (OSError, EOFError, zlib.error):
        same = False
    assert (wrong(tmp_path, bytes(flipped)) is None) == same


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (packed()[:-9], "damaged .gz"),
        (packed()[:30], "damaged .gz"),
        (packed(CONTENT + b"x"), "holds more bytes; its content must have 204"),
        (packed(CONTENT[:-1]), "holds 203 bytes; its content must have 204"),
        (b"", "holds 0 bytes"),
        (b"\x1f\x8b", "damaged .gz"),
    ],
)
def test_a_wrong_length_is_said(tmp_path, data, says):
    assert says in wrong(tmp_path, data)


def test_no_more_is_unpacked_than_the_content_may_have(tmp_path, monkeypatch):
    asked = []
    read = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda self, n=-1: asked.append(n) or read(self, n))
    assert "more bytes" in wrong(tmp_path, packed(bytes(20_000_000)))
    assert asked == [len(CONTENT) + 1]


def test_a_checksum_without_content_is_of_the_bytes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    right = Form("file", ("md5", "900150983cd24fb0d6963f7d28e17f72"))
    assert fault(File((right,)), right, path) is None
    path.write_bytes(b"abd")
    assert fault(File((right,)), right, path) == (
        "has the md5 4911e516e5aa21d327512e0c8b197616, not 900150983cd24fb0d6963f7d28e17f72"
    )
    sized = Form("file", ("md5", "900150983cd24fb0d6963f7d28e17f72"), 4)
    assert fault(File((sized,)), sized, path) == "has 3 bytes, not 4"


def test_a_folder_is_its_members_and_they_alone(tmp_path):
    form = Form("set", members=("*.csv", "*/*.npy"))
    for name in ("b.csv", "a.csv", "c.txt", "u/0.npy", "u/x.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [file.relative_to(tmp_path).as_posix() for file in form.files(tmp_path)] == ["a.csv", "b.csv", "u/0.npy"]
    assert form.files(tmp_path / "none") == []
