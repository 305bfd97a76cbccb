"""The folders of data: the one that is written to, those that are only read, and the cache."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from bitspike._lazy import not_installed

LOCAL = ("data", "/usr/share/datasets")  # the last is where Debian's dataset-* packages put theirs


def data_root() -> Path:
    """Return the folder that holds data: the first of BITSPIKE_DATA, else the platform's folder for user data."""
    if named := _named_folders():
        return named[0]
    try:
        import platformdirs
    except ModuleNotFoundError as error:
        raise not_installed(
            "platformdirs",
            "the place for data is not known: set BITSPIKE_DATA to a folder; the system's own place needs platformdirs",
        ) from error
    return platformdirs.user_data_path("bitspike", appauthor=False)


def read_folders() -> list[Path]:
    """Return the folders after the first in BITSPIKE_DATA: they hold copies, and are only read."""
    return [folder.resolve() for folder in _named_folders()[1:] if folder.is_dir()]


def local_folders() -> list[Path]:
    """Return the existing folders that are searched for copies even if nobody names them."""
    return [folder.resolve() for folder in map(Path, LOCAL) if folder.is_dir()]


def searched(root: Path) -> str:
    """Return the names of all folders in which data is looked for, to be shown in an error message."""
    return ", ".join(str(folder) for folder in (root, *_named_folders()[1:], *map(Path, LOCAL)))


def _named_folders() -> list[Path]:
    """Return the folders in BITSPIKE_DATA, which are separated as in PATH (by `:`, on Windows by `;`).

    A single folder may have such a character in its name, if it exists.
    """
    named = os.environ.get("BITSPIKE_DATA", "")
    parts = [named] if Path(named).expanduser().is_dir() else named.split(os.pathsep)
    if len(parts) > 1 and not parts[0]:
        raise ValueError(
            f"BITSPIKE_DATA is {named!r}: the first folder, in which data is kept, is empty; name it, "
            "or leave the others out"
        )
    return [Path(part).expanduser() for part in parts if part]


def cache_folder(root: Path) -> Path | None:
    """Return a folder for cached files: in the data root, else a private one; None if there is neither.

    The one in the data root is trusted like the data there. A private one belongs to this user, and no other user can
    write into it: whoever can write there decides what is trained on.
    """
    folder = root / "cache"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if folder.is_dir() and os.access(folder, os.W_OK):
        return folder
    return private_cache()


def private_cache() -> Path | None:
    """Return this user's cache folder if nobody else can write into it; None if there is none."""
    with suppress(OSError, ModuleNotFoundError):
        folder = _users_cache()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_private(folder):
            return folder
    return None


def _users_cache() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("bitspike", appauthor=False)


def _is_private(folder: Path) -> bool:
    """Return True for a folder of this user, not a link to one, into which nobody else can write."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or not os.access(folder, os.W_OK):
        return False
    # Windows has neither owners nor modes here; a user's cache lies in a profile that others cannot write.
    return not hasattr(os, "geteuid") or (found.st_uid == os.geteuid() and not found.st_mode & 0o022)


def can_write(folder: Path) -> bool:
    """Return True if files can be written into `folder`, which need not exist yet."""
    nearest = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)
