"""The catalog's own consistency, how a right file is known, and where data is looked for."""

import gzip
import hashlib
import io
import re
import sys
import zlib
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bitspike.data import roots
from bitspike.data.catalog import CATALOG, UNKNOWN, File, Form, fault, lookup
from bitspike.data.roots import data_root, local_folders

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


# ---- The list


def test_these_are_the_data_sets():
    assert list(CATALOG) == ["mnist", "fashion", "shd", "dvs128", "nmnist-small", "dvs-sign", "coding"]
    assert all(name == entry.name and entry.title and entry.what and entry.licence for name, entry in CATALOG.items())


@pytest.mark.parametrize("entry", CATALOG.values(), ids=CATALOG)
def test_names_are_plain_and_checksums_well_formed(entry):
    names = [edition.name for edition in entry.editions]
    assert len(set(names)) == len(names)
    assert all(not PurePosixPath(folder).is_absolute() and ".." not in folder for folder in entry.folders)
    for edition in entry.editions:
        assert len({file.name for file in edition.files}) == len(edition.files)
        forms = [form for file in edition.files for form in file.forms]
        for form in forms:
            assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", form.name)
            assert all(urlsplit(url).scheme in ("http", "https") for url in form.urls)
            if form.checksum is not None:
                algorithm, value = form.checksum
                assert re.fullmatch(r"[0-9a-f]+", value)
                assert len(value) == 2 * hashlib.new(algorithm).digest_size
        # What has no checksum is read in full, and is never downloaded.
        assert all(form.checksum for form in forms) == (edition.read is None)
        assert all(form.checksum for form in forms if form.urls)


def test_the_regenerated_shd_goes_by_its_own_name_and_comes_last():
    editions = {edition.name: edition for edition in CATALOG["shd"].editions}
    assert list(editions) == ["published", UNKNOWN, "regenerated"]
    assert editions["regenerated"].title == "SHD regenerated"
    assert not any(form.urls for file in editions["regenerated"].files for form in file.forms)


def test_image_files_are_as_long_as_their_header_and_samples():
    lengths = [file.content[0] for file in CATALOG["mnist"].editions[0].files]
    assert lengths == [16 + 60_000 * 28 * 28, 8 + 60_000, 16 + 10_000 * 28 * 28, 8 + 10_000]
    sums = [file.content[1] for name in ("mnist", "fashion") for file in CATALOG[name].editions[0].files]
    assert len(set(sums)) == 8


def test_an_unknown_name_is_answered_with_the_nearest_and_all():
    with pytest.raises(
        ValueError, match=r"^unknown data set 'mnits': did you mean 'mnist'\? known are mnist, fashion, shd"
    ):
        lookup("mnits", CATALOG)
    with pytest.raises(ValueError, match=r"^unknown data set '\?': known are mnist, "):
        lookup("?", CATALOG)


# ---- A right file


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


# ---- Where data lies


def test_the_root_is_the_environments(monkeypatch, tmp_path):
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path))
    assert data_root() == tmp_path
    monkeypatch.setenv("BITSPIKE_DATA", "~/there")
    assert data_root() == Path.home() / "there"


@pytest.mark.parametrize("value", [None, ""])
def test_else_the_platforms(monkeypatch, value):
    import platformdirs

    monkeypatch.delenv("BITSPIKE_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("BITSPIKE_DATA", value)
    assert data_root() == platformdirs.user_data_path("bitspike", appauthor=False)


def test_without_platformdirs_it_says_what_to_install(monkeypatch):
    monkeypatch.delenv("BITSPIKE_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(ModuleNotFoundError, match=r"run: pip install 'bitspike\[train\]'$"):
        data_root()


def test_local_folders_are_those_that_exist(monkeypatch, tmp_path):
    (tmp_path / "shared" / "data").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(roots, "LOCAL", roots.LOCAL[:2])
    assert local_folders() == [tmp_path / "shared" / "data"]
    (tmp_path / "here" / "data").mkdir()
    assert local_folders() == [tmp_path / "shared" / "data", tmp_path / "here" / "data"]
