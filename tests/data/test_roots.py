"""Where data is looked for, and where it is kept."""

import os
import stat
import sys
from pathlib import Path

import pytest

from bitspike.data import roots
from bitspike.data.roots import cache_folder, can_write, data_root, local_folders, read_folders


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


def test_only_the_first_folder_of_several_is_written_to(monkeypatch, tmp_path):
    for name in ("kept", "copies", "more"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv(
        "BITSPIKE_DATA", os.pathsep.join(str(tmp_path / name) for name in ("kept", "copies", "none", "more"))
    )
    assert data_root() == tmp_path / "kept"
    assert read_folders() == [tmp_path / "copies", tmp_path / "more"]
    (tmp_path / f"one{os.pathsep}folder").mkdir()
    monkeypatch.setenv("BITSPIKE_DATA", str(tmp_path / f"one{os.pathsep}folder"))
    assert (data_root(), read_folders()) == (tmp_path / f"one{os.pathsep}folder", [])
    monkeypatch.setenv("BITSPIKE_DATA", f"{tmp_path}{os.pathsep}")
    assert (data_root(), read_folders()) == (tmp_path, [])


def test_an_empty_first_folder_makes_no_other_one_the_root(monkeypatch, tmp_path):
    """As with BITSPIKE_DATA=$UNSET:/mnt/datasets, where the second folder is only to be read."""
    monkeypatch.setenv("BITSPIKE_DATA", f"{os.pathsep}{tmp_path}")
    with pytest.raises(ValueError, match=r"^BITSPIKE_DATA is .* the first folder, in which data is kept, is empty"):
        data_root()


def test_local_folders_are_those_that_exist(monkeypatch, tmp_path):
    (tmp_path / "shared" / "data").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(roots, "LOCAL", roots.LOCAL[:1])
    assert local_folders() == []  # a neighbour's folder is not looked into
    (tmp_path / "here" / "data").mkdir()
    assert local_folders() == [tmp_path / "here" / "data"]


def test_a_folder_that_does_not_exist_can_be_written_if_its_parent_can(tmp_path):
    assert can_write(tmp_path)
    assert can_write(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    assert not can_write(tmp_path / "file" / "b")


# ---- The cache


def test_frames_are_kept_in_the_data_root(tmp_path):
    assert cache_folder(tmp_path / "root") == tmp_path / "root" / "cache"


def test_with_an_unwritable_root_they_are_kept_in_a_folder_of_the_users_own(unwritable, tmp_path):
    folder = cache_folder(unwritable)
    assert folder == tmp_path / "users" / "bitspike"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert cache_folder(unwritable) == folder


def theirs(folder, monkeypatch):
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)


def open_to_all(folder, monkeypatch):
    folder.mkdir()
    folder.chmod(0o777)


def open_to_a_group(folder, monkeypatch):
    folder.mkdir()
    folder.chmod(0o770)


def a_link(folder, monkeypatch):
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


def a_file(folder, monkeypatch):
    folder.touch()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are of POSIX")
@pytest.mark.parametrize("make", [theirs, open_to_all, open_to_a_group, a_link, a_file])
def test_what_another_user_can_write_is_never_read_nor_written(unwritable, tmp_path, monkeypatch, make):
    (tmp_path / "users").mkdir()
    make(tmp_path / "users" / "bitspike", monkeypatch)
    assert cache_folder(unwritable) is None
