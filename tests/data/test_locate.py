"""Finding data sets where they lie: which copies count, what is remembered of them, and what is listed."""

import errno
import os

import pytest

from bitspike.data import known_files, roots
from bitspike.data import search as searching
from bitspike.data.catalog import CATALOG
from bitspike.data.download import DownloadError
from bitspike.data.entry import UNKNOWN
from bitspike.data.fetch import fetch
from bitspike.data.locate import locate, verify
from bitspike.data.locate import status as listing
from helpers.toy_set import (
    OWN,
    PUBLISHED,
    TEST,
    TRAIN,
    gz,
    left,
    put,
    toys,
)

pytestmark = pytest.mark.usefixtures("alone")


# ---- In place


def test_a_local_copy_is_used_where_it_is_and_read_once(local, root, summed):
    put(local / "toy", PUBLISHED)
    found = locate("toy", catalog=toys())
    assert found.folder == local / "toy"
    assert left(root) == ["toy/verified.json"]
    assert summed == ["train.gz", "test.gz"]
    assert locate("toy", catalog=toys()) == found
    assert len(summed) == 2
    os.utime(local / "toy/train.gz", ns=(1, 1))
    locate("toy", catalog=toys())
    assert summed == ["train.gz", "test.gz", "train.gz"]


def test_a_wrong_local_copy_is_remembered_as_wrong_until_it_changes(local, summed):
    put(local / "toy", {"train.gz": gz(TRAIN), "test.gz": gz(TEST)[:-1] + b"\xff"})
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match=r"test\.gz is a damaged \.gz file"):
            locate("toy", catalog=toys())
    assert len(summed) == 2
    put(local / "toy", {"test.gz": gz(TEST)})
    os.utime(local / "toy/test.gz", ns=(1, 1))
    assert locate("toy", catalog=toys()).edition == "published"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are of POSIX")
@pytest.mark.parametrize("call", [locate, fetch])
def test_what_has_no_checksum_and_may_be_another_users_is_not_taken_by_itself(local, monkeypatch, call):
    put(local / "toy", OWN)
    assert locate("toy", catalog=toys()).edition == UNKNOWN
    says = r"train\.h5 has no known checksum and can be changed by another user; to take it anyway fetch it with --from"
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: (local / "toy").stat().st_uid + 1)
        patch.setattr(searching, "SYSTEM", -1)
        with pytest.raises((FileNotFoundError, DownloadError), match=says):
            call("toy", catalog=toys())
    (local / "toy").chmod(0o777)
    with pytest.raises((FileNotFoundError, DownloadError), match=says):
        call("toy", catalog=toys())
    assert fetch("toy", source=local, catalog=toys()).edition == UNKNOWN


def test_bytes_changed_behind_the_same_time_are_read_again(local):
    put(local / "toy", PUBLISHED)
    locate("toy", catalog=toys())
    path = local / "toy" / "train.gz"
    then = path.stat()
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))
    with pytest.raises(FileNotFoundError, match=r"train\.gz"):
        locate("toy", catalog=toys())


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '{"PATH": 1}', '{"PATH": {"fault": null}}', '{"PATH": {"fault": [], "size": 1}}']
)
def test_a_damaged_memory_is_none(local, root, summed, text):
    put(local / "toy", PUBLISHED)
    put(root / "toy", {"verified.json": text.replace("PATH", str(local / "toy/train.gz")).encode()})
    locate("toy", catalog=toys())
    assert summed == ["train.gz", "test.gz"]


def test_what_cannot_be_read_now_is_not_remembered(local, monkeypatch):
    put(local / "toy", PUBLISHED)

    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(known_files, "digest", broken)
        with pytest.raises(FileNotFoundError, match=r"train\.gz cannot be read \(Input/output error\)"):
            locate("toy", catalog=toys())
    assert locate("toy", catalog=toys()).folder == local / "toy"


def test_where_the_root_cannot_be_written_the_users_cache_remembers(local, root, summed, monkeypatch, tmp_path):
    monkeypatch.setattr(roots, "_users_cache", lambda: tmp_path / "users")
    put(local / "toy", PUBLISHED)
    root.write_text("a file where the root should be")
    for _ in range(2):
        assert locate("toy", catalog=toys()).folder == local / "toy"
    assert len(summed) == 2
    assert [path.name for path in (tmp_path / "users").iterdir()] == ["verified-toy.json"]


def test_a_memory_in_a_folder_that_others_can_write_is_not_believed(local, root, monkeypatch, tmp_path):
    """Where the set's own folder cannot be written, `root/cache` may still be writable by everybody."""
    (root / "cache").mkdir(parents=True)
    monkeypatch.setattr("bitspike.data.locate.can_write", lambda folder: False)
    monkeypatch.setattr(roots, "_users_cache", lambda: tmp_path / "private")
    put(local / "toy", PUBLISHED)
    locate("toy", catalog=toys())
    assert not list((root / "cache").iterdir())
    assert (tmp_path / "private" / "verified-toy.json").is_file()


def test_where_nothing_can_be_remembered_it_is_read_each_time(local, root, summed, monkeypatch):
    monkeypatch.setattr(roots, "_users_cache", lambda: root / "none")
    put(local / "toy", PUBLISHED)
    root.write_text("a file where the root should be")
    for _ in range(2):
        assert locate("toy", catalog=toys()).folder == local / "toy"
    assert len(summed) == 4


def test_verify_does_not_believe_the_memory(local):
    put(local / "toy", PUBLISHED)
    locate("toy", catalog=toys())
    before = (local / "toy/test.gz").stat()
    put(local / "toy", {"test.gz": gz(TEST)[:-1] + b"\xff"})
    os.utime(local / "toy/test.gz", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [line.ok for line in verify("toy", catalog=toys())] == [True, False]


# ---- Names and lists


@pytest.mark.parametrize("folder", ["toy", "Toy/raw", "."])
def test_a_folder_after_the_first_of_the_environment_is_read_and_never_written(root, tmp_path, monkeypatch, folder):
    copies = put(tmp_path / "copies" / folder, PUBLISHED)
    before = sorted((tmp_path / "copies").rglob("*"))
    monkeypatch.setenv("BITSPIKE_DATA", os.pathsep.join((str(root), str(tmp_path / "copies"))))
    assert locate("toy", catalog=toys()).folder == copies
    assert all(checked.ok for checked in verify("toy", catalog=toys()))
    assert sorted((tmp_path / "copies").rglob("*")) == before
    assert left(root) == ["toy/verified.json"]
    assert fetch("toy", catalog=toys()).folder == root / "toy"
    assert locate("toy", catalog=toys()).folder == root / "toy"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners are of POSIX")
@pytest.mark.parametrize("named", [True, False])
def test_what_has_no_checksum_is_taken_from_a_named_folder_whoever_owns_it(root, tmp_path, monkeypatch, local, named):
    copies = put(tmp_path / "copies" / "toy", OWN) if named else put(local / "toy", OWN)
    monkeypatch.setenv("BITSPIKE_DATA", os.pathsep.join((str(root), str(tmp_path / "copies"))))
    monkeypatch.setattr(os, "geteuid", lambda: copies.stat().st_uid + 1)
    monkeypatch.setattr(searching, "SYSTEM", -1)
    if named:
        assert locate("toy", catalog=toys()).edition == UNKNOWN
    else:
        with pytest.raises(FileNotFoundError, match="can be changed by another user"):
            locate("toy", catalog=toys())


def test_the_root_itself_may_hold_copies_under_other_names(root):
    put(root / "Toy" / "raw", PUBLISHED)
    assert locate("toy", catalog=toys()).folder == root / "Toy" / "raw"


def test_what_is_nowhere_says_how_to_get_it(root):
    for look in (locate, verify):
        with pytest.raises(FileNotFoundError) as refused:
            look("shd")
        assert str(refused.value) == (
            "data set 'shd' is not here; run: bitspike data fetch shd "
            f"(or with a copy: bitspike data fetch shd --from DIR); looked in {root}, data"
        )


@pytest.mark.parametrize("call", [fetch, locate, verify])
def test_an_unknown_name_is_refused(call):
    with pytest.raises(ValueError, match="did you mean 'mnist'"):
        call("minst")


def test_what_is_built_in_is_there(root):
    found = fetch("made", catalog=toys())
    assert (found.edition, found.files) == ("built in", {})
    assert locate("made", catalog=toys()) == found
    assert verify("made", catalog=toys()) == []
    assert not root.exists()


def test_the_list_says_where_everything_is(tmp_path, local, root):
    size = len(gz(TRAIN)) + len(gz(TEST))
    made = ("made", "Made up", "built in", "built in", 0)

    def lines():
        return [(line.name, line.title, line.state, line.edition, line.bytes) for line in listing(catalog=toys())]

    assert lines() == [("toy", "Toy set", "absent", "", 0), made]
    put(local, PUBLISHED)
    assert lines() == [("toy", "Toy set", f"found in {local}", "published", size), made]
    fetch("toy", catalog=toys())
    assert lines() == [("toy", "Toy set", "ready", "published", size), made]
    assert [line.name for line in listing()] == list(CATALOG)
