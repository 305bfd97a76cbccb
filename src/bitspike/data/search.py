"""The search for a data set's files in folders: which of them are there, complete and correct."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bitspike.data.entry import Edition, Entry
from bitspike.data.known_files import File, Form, fault
from bitspike.files import digest

SYSTEM = 0  # the user that can write everything anyway

Check = Callable[["Item"], str | None]  # what is wrong with an item, or None


class Item(NamedTuple):
    """A file of an edition, in the form found at `path`."""

    file: File
    form: Form
    path: Path

    def present(self) -> bool:
        """Return True if the file is there, or at least one file of the folder."""
        return bool(self.form.files(self.path))

    def size(self) -> int:
        """Return the number of bytes; for a folder, of all its files."""
        return sum(file.stat().st_size for file in self.form.files(self.path))

    def sha256(self) -> str:
        """Return the checksum of the file; for a folder, of the list of its files' names and checksums."""
        if not self.form.members:
            return digest(self.path)
        rows = [[file.relative_to(self.path).as_posix(), digest(file)] for file in self.form.files(self.path)]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def fault(self) -> str | None:
        """Return what is wrong with the bytes, or None."""
        try:
            return fault(self.file, self.form, self.path)
        except OSError as error:
            return f"cannot be read ({error.strerror or error})"


def foreign(item: Item) -> str | None:
    """Return why a file that nobody named is refused, or None: without a checksum, another user could have made it."""
    if item.form.checksum is not None or not hasattr(os, "geteuid"):
        return None
    for path in (item.path.parent, item.path, *item.form.files(item.path)):
        found = path.stat()
        if found.st_uid not in (SYSTEM, os.geteuid()) or (
            found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
        ):
            return (
                "has no known checksum and can be changed by another user; to take it anyway fetch it with --from DIR"
            )
    return None


def search(
    entry: Entry, places: Sequence[Path], check: Check, complaints: list[str], *, read: bool
) -> tuple[Edition, list[Item]] | None:
    """Return the first edition, in the order of preference, that is complete and correct in one of `places`.

    What does not count, and why, is added to `complaints`. With `read`, files without a checksum are read in full.
    """
    for edition in entry.editions:
        for place in places:
            items = _right_items(edition, place, check, complaints)
            if items is None:
                continue
            if not read or (wrong := unreadable(edition, items)) is None:
                return edition, items
            complaints.append(wrong)
    return None


def _right_items(edition: Edition, place: Path, check: Check, complaints: list[str]) -> list[Item] | None:
    """Return the files of `edition` in `place`, one correct form of each; None if one is missing or wrong."""
    present = {
        file.name: [i for f in file.forms if (i := Item(file, f, place / f.name)).present()] for file in edition.files
    }
    if missing := [name for name, forms in present.items() if not forms]:
        if len(missing) < len(present):
            complaints.append(f"{place} has no {' and no '.join(missing)}")
        return None
    right = []
    for forms in present.values():
        faults: list[str] = []
        for item in forms:
            if (wrong := check(item)) is None:
                right.append(item)
                break
            faults.append(f"{item.path} {wrong}")
        else:
            complaints.append(faults[0])
            return None
    return right


def unreadable(edition: Edition, items: Sequence[Item]) -> str | None:
    """Return why the reader of an edition without checksums refuses the files; None if it reads them."""
    if edition.read is None:
        return None
    try:
        edition.read({item.file.name: item.path for item in items})
    except (OSError, ValueError) as error:
        return str(error)
    return None
