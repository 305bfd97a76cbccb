"""Fetching: from folders, from copies and from mirrors, whole and verified or not at all."""

import errno
import gzip
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bitspike.data import fetch as module
from bitspike.data import locate as locating
from bitspike.data.download import DownloadError
from bitspike.data.entry import UNKNOWN
from bitspike.data.fetch import fetch
from bitspike.data.locate import locate, verify
from bitspike.data.locate import status as listing
from helpers.files import random_trains, trains_as_lists, write_shd
from helpers.http import whole
from helpers.toy_set import (
    FETCHED,
    OLD_TRAIN,
    OWN,
    PUBLISHED,
    REGENERATED,
    TEST,
    TRAIN,
    gz,
    left,
    put,
    toys,
)

pytestmark = pytest.mark.usefixtures("alone")


# ---- From a folder


@pytest.mark.parametrize("folder", ["toy", "Toy/raw", "."])
def test_a_copy_is_taken_from_the_usual_folders(tmp_path, root, folder):
    source = put(tmp_path / "source" / folder, PUBLISHED)
    found = fetch("toy", source=tmp_path / "source", catalog=toys())
    assert (found.name, found.title, found.edition, found.folder) == ("toy", "Toy set", "published", root / "toy")
    assert found.files == {"train.gz": root / "toy/train.gz", "test.gz": root / "toy/test.gz"}
    assert {name: path.read_bytes() for name, path in found.files.items()} == PUBLISHED
    assert left(root) == FETCHED
    manifest = json.loads((root / "toy/manifest.json").read_text())
    assert manifest["edition"] == "published"
    assert manifest["source"] == str(source)
    kept = {"name": "train.gz", "size": len(gz(TRAIN)), "sha256": hashlib.sha256(gz(TRAIN)).hexdigest()}
    assert manifest["files"]["train.gz"] == kept
    assert locate("toy", catalog=toys()) == found


def test_the_folder_of_a_set_may_be_named_itself(tmp_path, root, monkeypatch):
    source = put(tmp_path / "source", {"Toy/u/0.npy": b"whole"}) / "Toy"
    assert fetch("toy", source=source, catalog=toys()).edition == "folder"
    assert left(root) == ["toy/Toy/u/0.npy", "toy/manifest.json"]
    monkeypatch.chdir(source)
    assert fetch("toy", source=Path(), catalog=toys()).edition == "folder"


@pytest.mark.parametrize(
    "files",
    [
        {"train": TRAIN, "test": TEST},
        {"train.gz": gz(TRAIN, 1), "test": TEST},
        {"train.gz": b"damaged", "train": TRAIN, "test.gz": gz(TEST)},
    ],
    ids=["plain", "recompressed and plain", "a damaged form beside a right one"],
)
def test_any_right_form_will_do_and_goes_by_the_first_ones_name(tmp_path, root, files):
    found = fetch("toy", source=put(tmp_path / "source", files), catalog=toys())
    assert found.edition == "published"
    assert list(found.files) == ["train.gz", "test.gz"]
    contents = [path.read_bytes() for path in found.files.values()]
    assert [gzip.decompress(c) if c[:2] == b"\x1f\x8b" else c for c in contents] == [TRAIN, TEST]
    assert found.fingerprint == fetch("toy", source=put(tmp_path / "s", PUBLISHED), catalog=toys()).fingerprint
    assert all(line.ok for line in verify("toy", catalog=toys()))


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"train.gz": gz(TRAIN)}, r"source/\. has no test\.gz|source has no test\.gz"),
        ({"train.gz": gz(TRAIN), "test.gz": gz(TEST[:-1] + b"x")}, r"test\.gz holds content with the sha256"),
        ({"train.gz": gz(TRAIN)[:-9], "test.gz": gz(TEST)}, r"train\.gz is a damaged \.gz file"),
        ({"train": TRAIN + b"x", "test.gz": gz(TEST)}, r"train holds more bytes"),
        ({"train.old": OLD_TRAIN, "test.old": OLD_TRAIN}, r"test\.old has the sha256"),
        ({"train.h5": b"a whole", "test.h5": b"half"}, r"test\.h5 is truncated"),
        ({"Toy/u/0.npy": b"half"}, r"0\.npy is truncated"),
        ({}, r"is not in .*source; it needs train\.gz and test\.gz or train\.h5 and test\.h5 or Toy or train\.old"),
    ],
)
def test_a_bad_copy_is_refused_by_name_and_nothing_is_written(tmp_path, root, files, says):
    (tmp_path / "source").mkdir()
    put(tmp_path / "source", files)
    with pytest.raises(FileNotFoundError, match=says) as refused:
        fetch("toy", source=tmp_path / "source", catalog=toys())
    assert "\n" not in str(refused.value)
    assert left(root) == []


def test_a_copy_that_comes_out_wrong_is_not_kept(tmp_path, root, monkeypatch):
    copy = module._copy
    monkeypatch.setattr(module, "_copy", lambda source, to, advance: copy(source, to, advance) or os.truncate(to, 5))
    with pytest.raises(OSError, match=r"train\.gz could not be copied: the copy"):
        fetch("toy", source=put(tmp_path / "source", PUBLISHED), catalog=toys())
    assert left(root) == []


def test_a_full_disk_while_copying_is_said_and_leaves_nothing_half_written(tmp_path, root, monkeypatch):
    def full(source, to, advance):
        to.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "_copy", full)
    with pytest.raises(OSError, match=r"train\.gz could not be written: no space left on device; free some"):
        fetch("toy", source=put(tmp_path / "source", PUBLISHED), catalog=toys())
    assert left(root) == []


def test_copying_shows_its_bytes(tmp_path):
    stages = {}

    def begin(stage, total):
        stages[stage] = [total]
        return stages[stage].append

    fetch("toy", source=put(tmp_path / "source", PUBLISHED), begin=begin, catalog=toys())
    assert list(stages) == ["copying train.gz", "copying test.gz"]
    assert all(sum(done) == total for total, *done in stages.values())


# ---- Editions


def test_published_files_are_preferred_wherever_they_lie(tmp_path, local):
    put(local / "toy", REGENERATED)
    put(local, PUBLISHED)
    assert locate("toy", catalog=toys()).edition == "published"


def test_regenerated_files_are_named_so(local):
    put(local / "toy", REGENERATED)
    found = fetch("toy", catalog=toys())
    assert (found.title, found.edition) == ("Toy again", "regenerated")
    assert listing(catalog=toys())[0].title == "Toy again"


def test_a_better_edition_replaces_a_worse_one_but_not_the_other_way_round(tmp_path):
    worse, better = put(tmp_path / "worse", REGENERATED), put(tmp_path / "better", PUBLISHED)
    assert fetch("toy", source=worse, catalog=toys()).edition == "regenerated"
    assert fetch("toy", source=better, catalog=toys()).edition == "published"
    assert fetch("toy", source=worse, catalog=toys()).edition == "published"
    assert locate("toy", catalog=toys()).edition == "published"


@pytest.mark.parametrize(
    ("files", "edition", "change"),
    [(OWN, UNKNOWN, "train.h5"), ({"Toy/u/0.npy": b"whole", "Toy/v/1.npy": b"whole"}, "folder", "Toy/u/0.npy")],
)
def test_files_without_a_checksum_are_read_and_then_held_to_what_they_were(tmp_path, root, files, edition, change):
    source = put(tmp_path / "source", {**files, "Toy/u/secret.txt": b"not a member"})
    found = fetch("toy", source=source, catalog=toys())
    assert found.edition == edition
    assert left(root) == sorted(["toy/manifest.json", *(f"toy/{name}" for name in files)])
    assert {line.detail for line in verify("toy", catalog=toys())} == {"as it was fetched"}
    (root / "toy" / change).write_bytes(b"WHOLE")
    assert [line.detail for line in verify("toy", catalog=toys()) if not line.ok] == [
        "has changed since it was fetched"
    ]
    # A size that differs is noticed without reading.
    (root / "toy" / change).write_bytes(b"another size, whole")
    assert locate("toy", catalog=toys()).fingerprint != found.fingerprint
    assert fetch("toy", source=source, catalog=toys()).fingerprint == found.fingerprint
    assert all(line.ok for line in verify("toy", catalog=toys()))


def test_in_place_they_are_read_by_verify(local):
    put(local, {"train.h5": b"a whole", "test.h5": b"half"})
    assert locate("toy", catalog=toys()).edition == UNKNOWN
    with pytest.raises(FileNotFoundError, match="truncated"):
        fetch("toy", source=local, catalog=toys())
    assert [line.ok for line in verify("toy", catalog=toys())] == [False, False]
    put(local, OWN)
    assert [line.ok for line in verify("toy", catalog=toys())] == [True, True]


def test_a_real_shd_file_is_read_before_it_is_accepted(tmp_path, root):
    source = tmp_path / "source"
    source.mkdir()
    for part in ("train", "test"):
        compact = random_trains()
        write_shd(source / f"shd_{part}.h5", trains_as_lists(compact), compact["labels"])
    assert fetch("shd", source=source).edition == UNKNOWN
    other = tmp_path / "other"
    put(other, {f"shd_{part}.h5": (source / f"shd_{part}.h5").read_bytes() for part in ("train", "test")})
    os.truncate(other / "shd_test.h5", 1500)
    with pytest.raises(FileNotFoundError, match=r"shd_test\.h5") as refused:
        fetch("shd", root=tmp_path / "second", source=other)
    assert "\n" not in str(refused.value)


# ---- From mirrors


def test_a_data_set_is_downloaded(server, root):
    for name, data in PUBLISHED.items():
        server.gives(whole(data), path=f"/{name}")
    found = fetch("toy", catalog=toys(server.url("")))
    assert {name: path.read_bytes() for name, path in found.files.items()} == PUBLISHED
    assert left(root) == FETCHED
    assert fetch("toy", catalog=toys(server.url(""))) == found
    assert len(server.seen) == 2


def test_what_is_there_is_not_downloaded_again(server, root):
    put(root / "toy", {"train": TRAIN, "test.gz": b"damaged"})
    server.gives(whole(gz(TEST)), path="/test.gz")
    fetch("toy", catalog=toys(server.url("")))
    assert [path for path, _ in server.seen] == ["/test.gz"]
    assert left(root) == ["toy/manifest.json", "toy/test.gz", "toy/train"]


def test_a_flipped_byte_is_found_and_mended(server, root):
    catalog = toys(server.url(""))
    for name, data in PUBLISHED.items():
        server.gives(whole(data), path=f"/{name}")
    fetch("toy", catalog=catalog)
    put(root / "toy", {"train.gz": gz(TRAIN)[:-1] + b"\xff"})
    bad, good = verify("toy", catalog=catalog)
    assert (bad.file, bad.ok, good.ok) == (root / "toy/train.gz", False, True)
    assert "damaged" in bad.detail
    fetch("toy", catalog=catalog)
    assert all(line.ok for line in verify("toy", catalog=catalog))
    assert len(server.seen) == 3


def test_a_local_copy_comes_before_mirrors(server, local):
    put(local / "toy", PUBLISHED)
    fetch("toy", catalog=toys(server.url("")))
    assert server.seen == []


def test_another_form_is_taken_where_the_first_cannot_be_had(server, root):
    server.gives(whole(gz(TRAIN)), path="/train.gz")
    server.gives(whole(TEST), path="/test")
    catalog = toys(server.url(""))
    published = catalog["toy"].editions[0]
    train, test = published.files
    plain = replace(test.forms[1], urls=(server.url("/test"),))
    edition = replace(published, files=(train, replace(test, forms=(test.forms[0], plain))))
    catalog["toy"] = replace(catalog["toy"], editions=(edition,))
    found = fetch("toy", catalog=catalog)
    assert found.files["test.gz"] == root / "toy/test"


def test_no_mirror_at_all_says_where_a_person_gets_it(server, root):
    server.gives(whole(gz(TRAIN)), path="/train.gz")
    with pytest.raises(DownloadError) as refused:
        fetch("toy", catalog=toys(server.url("")))
    assert str(refused.value) == (
        f"test.gz could not be downloaded: {server.url('/test.gz')}: the server answered 404 not found; "
        "get it by hand from https://toy.example/page and run: bitspike data fetch toy --from DIR"
    )
    with pytest.raises(FileNotFoundError):
        locate("toy", catalog=toys())
    server.gives(whole(gz(TEST)), path="/test.gz")
    fetch("toy", catalog=toys(server.url("")))
    assert [path for path, _ in server.seen] == ["/train.gz", "/test.gz", "/test.gz"]


def test_what_was_interrupted_is_swept(server, root):
    put(root / "toy", {".train.gz.copy": b"half", ".train.part": b"half", ".train.part.json": b"{}"})
    put(root / "toy", {".Toy.copy/u/0.npy": b"half"})
    for name, data in PUBLISHED.items():
        server.gives(whole(data), path=f"/{name}")
    fetch("toy", catalog=toys(server.url("")))
    assert left(root) == FETCHED


def test_what_was_interrupted_does_not_get_into_a_copy(tmp_path, root):
    put(root / "toy", {".Toy.copy/u/9.npy": b"half"})
    put(root / "toy", {"Toy/u/8.npy": b"half"})
    fetch("toy", source=put(tmp_path / "source", {"Toy/u/0.npy": b"whole"}), catalog=toys())
    assert left(root) == ["toy/Toy/u/0.npy", "toy/manifest.json"]


def test_a_data_set_without_mirrors_says_what_to_give(local):
    put(local, {"train.gz": gz(TRAIN)})
    with pytest.raises(
        FileNotFoundError, match=r"no mirror and no copy was found \(.* has no test\.gz\); run: bitspike"
    ):
        fetch("toy", catalog=toys())


CHILD = """
from pathlib import Path
from bitspike.data.entry import Edition, Entry, ImageSource
from bitspike.data.known_files import File, Form
from bitspike.data.fetch import fetch

def begin(stage, total):
    print(stage, flush=True)
    return id

fetch("toy", root=Path({root!r}), begin=begin, catalog={{"toy": {toy!r}}})
"""


def test_of_two_processes_one_waits_and_uses_what_the_other_fetched(server, root, tmp_path):
    def slow(handler):
        server.released.wait(60)
        whole(gz(TRAIN))(handler)

    server.gives(slow, path="/train.gz")
    server.gives(whole(gz(TEST)), path="/test.gz")
    toy = toys(server.url(""))["toy"]
    code = CHILD.format(root=str(root), toy=replace(toy, editions=toy.editions[:1]))
    log, deadline = tmp_path / "log", time.monotonic() + 60
    with log.open("ab") as out:
        children = [subprocess.Popen([sys.executable, "-c", code], stdout=out) for _ in range(2)]
    try:
        while time.monotonic() < deadline and "waiting" not in log.read_text():
            time.sleep(0.01)
        server.released.set()
        assert [child.wait(60) for child in children] == [0, 0]
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert log.read_text().splitlines() == ["toy: waiting, another process is fetching it", "train.gz", "test.gz"]
    assert sorted(path for path, _ in server.seen) == ["/test.gz", "/train.gz"]
    assert left(root) == FETCHED


# ---- In the root


def test_a_complete_root_needs_no_lock(tmp_path, monkeypatch):
    found = fetch("toy", source=put(tmp_path / "source", PUBLISHED), catalog=toys())
    monkeypatch.setattr(module, "locked", lambda *_: pytest.fail("a root that cannot be written has no lock"))
    assert fetch("toy", catalog=toys()) == found


def test_locate_looks_at_sizes_only(tmp_path, summed):
    fetch("toy", source=put(tmp_path / "source", PUBLISHED), catalog=toys())
    summed.clear()
    locate("toy", catalog=toys())
    assert summed == []


def changed(*keys, to):
    """A manifest with the value under `keys` replaced."""

    def change(text):
        manifest = inner = json.loads(text)
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to
        return json.dumps(manifest)

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text[:-9],
        lambda text: "[]",
        lambda text: "null",
        lambda text: "[" * 100_000,
        lambda text: "\xff" + text,
        lambda text: text + " " * (2 << 20),
        changed("format", to=2),
        changed("edition", to="other"),
        changed("edition", to=None),
        changed("date", to=5),
        changed("files", to=[]),
        changed("files", to={}),
        changed("files", "more", to={"name": "train.gz", "size": 1, "sha256": ""}),
        changed("files", "test.gz", to="test.gz"),
        changed("files", "test.gz", "path", to="/etc/passwd"),
        changed("files", "test.gz", "name", to="../../here/secret"),
        changed("files", "test.gz", "name", to="/etc/passwd"),
        changed("files", "test.gz", "name", to="train.gz"),
        changed("files", "test.gz", "name", to=["test.gz"]),
        changed("files", "test.gz", "size", to="1"),
        changed("files", "test.gz", "size", to=True),
    ],
    ids=range(22),
)
def test_a_manifest_that_is_not_understood_is_none(tmp_path, root, change):
    found = fetch("toy", source=put(tmp_path / "source", PUBLISHED), catalog=toys())
    manifest = root / "toy/manifest.json"
    assert locating._manifest(toys()["toy"], root) is not None
    manifest.write_text(change(manifest.read_text()), encoding="latin-1")
    assert locating._manifest(toys()["toy"], root) is None
    assert locate("toy", catalog=toys()) == found
    assert all(line.ok for line in verify("toy", catalog=toys()))
    assert fetch("toy", begin=lambda stage, _: pytest.fail(stage), catalog=toys()) == found
    assert json.loads(manifest.read_text())["edition"] == "published"


def test_files_that_a_manifest_names_but_are_not_right_are_not_taken(tmp_path, root):
    fetch("toy", source=put(tmp_path / "source", PUBLISHED), catalog=toys())
    put(root / "toy", {"train.gz": b"short"})
    with pytest.raises(
        FileNotFoundError, match=r"'toy' is not here \(.*train\.gz holds 5 bytes; its content must have"
    ):
        locate("toy", catalog=toys())
    (root / "toy/train.gz").unlink()
    assert [(line.ok, line.detail) for line in verify("toy", catalog=toys())] == [
        (False, "is missing"),
        (True, "its checksum is right"),
    ]


def test_what_could_not_be_mended_is_not_ready_any_more(tmp_path, root):
    fetch("toy", source=put(tmp_path / "source", PUBLISHED), catalog=toys())
    put(root / "toy", {"train.gz": gz(TRAIN)[:-1] + b"\xff"})
    for look in (fetch, locate):
        with pytest.raises(FileNotFoundError, match="damaged"):
            look("toy", catalog=toys())


def test_a_root_that_cannot_be_written_says_what_to_set(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied", "/there/toy/.lock")

    monkeypatch.setattr(module, "locked", refused)
    with pytest.raises(
        PermissionError, match=r"/there/toy/\.lock cannot be opened; to keep data elsewhere set BITSPIKE_DATA"
    ):
        fetch("toy", source=put(tmp_path / "source", PUBLISHED), catalog=toys())


def test_a_root_that_is_no_folder_says_what_to_set(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for place in ("file", "file/root"):
        monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / place))
        with pytest.raises(PermissionError, match=r"cannot be opened .*; to keep data elsewhere set BITSPIKE_DATA"):
            fetch("toy", source=put(tmp_path / "source", PUBLISHED), catalog=toys())


@pytest.mark.parametrize("way", ["nothing in it", "a bad file", "no mirror answers"])
def test_a_failed_fetch_leaves_no_folder(tmp_path, root, way):
    source = None
    if way != "no mirror answers":
        source = put(tmp_path / "source", {"train.gz": b"bad", "test.gz": b"bad"} if way == "a bad file" else {})
        source.mkdir(exist_ok=True)
    with pytest.raises((FileNotFoundError, DownloadError)):
        fetch("toy", source=source, catalog=toys("http://127.0.0.1:9/"))
    assert not (root / "toy").exists()
    assert fetch("toy", source=put(tmp_path / "good", PUBLISHED), catalog=toys()).folder == root / "toy"


def test_a_failed_fetch_leaves_what_was_there(tmp_path, root):
    put(root / "toy", {".train.gz.part": b"begun"})
    with pytest.raises(DownloadError):
        fetch("toy", catalog=toys("http://127.0.0.1:9/"))
    assert left(root) == ["toy/.train.gz.part"]


@pytest.mark.parametrize(("name", "what"), [("none/at/all", "does not exist"), ("file", "is a file")])
def test_a_source_that_is_no_folder_is_said_so(tmp_path, root, name, what):
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError) as refused:
        fetch("toy", source=tmp_path / name, catalog=toys())
    assert str(refused.value).startswith(
        f"--from {tmp_path / name}: {what}; give the folder that holds train.gz and test"
    )
    assert not root.exists()
