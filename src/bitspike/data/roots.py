"""Where data lies: the data root, folders with copies of one's own, and what is written down beside the files."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bitspike.data.catalog import Edition, Entry, File, Form, fault
from bitspike.files import digest, write_text

LOCAL = ("../shared/data", "data", "/usr/share/datasets")  # the last is where Debian's dataset-* packages put theirs
SYSTEM = 0  # the user that can write everything anyway
NOTES_LIMIT = 1 << 20  # bytes; a manifest or memory above this is not ours


def data_root() -> Path:
    """BITSPIKE_DATA, else the platform's folder for a user's data."""
    if chosen := os.environ.get("BITSPIKE_DATA"):
        return Path(chosen).expanduser()
    try:
        import platformdirs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the place for data is not known: set BITSPIKE_DATA to a folder, "
            "or for the system's own place run: pip install 'bitspike[train]'"
        ) from error
    return platformdirs.user_data_path("bitspike", appauthor=False)


def local_folders() -> list[Path]:
    """Folders in which copies are found by themselves, those that exist."""
    return [folder.resolve() for folder in map(Path, LOCAL) if folder.is_dir()]


# ---- Finding


class Item(NamedTuple):
    """A file of an edition, in the form in which it lies at `path`."""

    file: File
    form: Form
    path: Path

    def present(self) -> bool:
        return bool(self.form.files(self.path))

    def size(self) -> int:
        """Bytes; of a folder, those of its files."""
        return sum(file.stat().st_size for file in self.form.files(self.path))

    def sha256(self) -> str:
        """Of a folder, that of the list of its files' names and checksums."""
        if not self.form.members:
            return digest(self.path)
        rows = [[file.relative_to(self.path).as_posix(), digest(file)] for file in self.form.files(self.path)]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    def fault(self) -> str | None:
        """What is wrong with its bytes, or None."""
        try:
            return fault(self.file, self.form, self.path)
        except OSError as error:
            return f"cannot be read ({error.strerror or error})"


def foreign(item: Item) -> str | None:
    """Why a file without a known checksum is not taken where it was found by itself: another user may choose it."""
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
    entry: Entry, places: Sequence[Path], check: Callable[[Item], str | None], complaints: list[str], *, read: bool
) -> tuple[Edition, list[Item]] | None:
    """The first edition, in the order of preference, that lies whole and right in one of `places`.

    `complaints` gets what does not count, and why. With `read`, files without a checksum are read in full.
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


def _right_items(
    edition: Edition, place: Path, check: Callable[[Item], str | None], complaints: list[str]
) -> list[Item] | None:
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
    """What the reader of an edition without checksums says against the files; None if it reads them."""
    if edition.read is None:
        return None
    try:
        edition.read({item.file.name: item.path for item in items})
    except (OSError, ValueError) as error:
        return str(error)
    return None


# ---- What is written down


def read_json(path: Path) -> Any:
    """What the file holds, or None where it is missing, too large or not JSON."""
    try:
        if path.stat().st_size > NOTES_LIMIT:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of a data set in the root: its name there, bytes, sha256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`manifest.json`: what a fetch has put in its folder; written last, so that it speaks of whole files only."""

    edition: str
    source: str
    date: str
    files: Mapping[str, Kept]  # by the catalog's names

    def write(self, folder: Path) -> None:
        write_text(folder / "manifest.json", json.dumps({"format": 1, **asdict(self)}, indent=2) + "\n")

    @staticmethod
    def read(folder: Path) -> Manifest | None:
        """None where there is none that can be understood."""
        content = read_json(folder / "manifest.json")
        try:
            files = {name: Kept(**kept) for name, kept in content["files"].items()}
            manifest = Manifest(content["edition"], content["source"], content["date"], files)
            texts = [manifest.edition, manifest.source, manifest.date]
            texts += [text for kept in files.values() for text in (kept.name, kept.sha256)]
        except (TypeError, KeyError, AttributeError):
            return None
        understood = content.get("format") == 1 and all(isinstance(text, str) for text in texts)
        return manifest if understood and all(type(kept.size) is int for kept in files.values()) else None


class Memory:
    """`verified.json`: what was wrong with files used in place (null: nothing), so that they are read once only.

    A file counts as the same while its path, size and times of change are (its owner can set one of the two, not both),
    and it is compared with the same checksum.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        known = read_json(path)
        self._known: dict[str, Any] = known if isinstance(known, dict) else {}
        self._changed = False

    def fault(self, item: Item) -> str | None:
        """As the item's own, or what that was the last time."""
        if item.form.checksum is None:
            return None
        found, wanted = item.path.stat(), item.form.checksum[1]
        same = {"size": found.st_size, "mtime_ns": found.st_mtime_ns, "ctime_ns": found.st_ctime_ns, "wanted": wanted}
        known = self._known.get(str(item.path))
        if isinstance(known, dict) and {**same, "fault": known.get("fault", ...)} == known:
            return None if known["fault"] is None else str(known["fault"])
        try:
            wrong = fault(item.file, item.form, item.path)
        except OSError:
            return item.fault()  # may pass, so it is not remembered
        self._known[str(item.path)] = {**same, "fault": wrong}
        self._changed = True
        return wrong

    def save(self) -> None:
        """Write it down; where the root cannot be written, files are read again the next time."""
        if self._changed:
            with suppress(OSError):
                write_text(self._path, json.dumps(self._known, indent=1) + "\n")
            self._changed = False
