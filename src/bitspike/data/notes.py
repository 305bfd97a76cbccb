"""Notes beside the files of a data set, so that the files need not be read and checked again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bitspike.data.known_files import fault
from bitspike.data.search import Item
from bitspike.files import write_text

NOTES_LIMIT = 1 << 20  # bytes; a manifest or memory above this is not ours


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; None if it is missing, too large or not JSON."""
    try:
        if path.stat().st_size > NOTES_LIMIT:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of a data set in the data root: its name there, its number of bytes and its sha256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The file `manifest.json`: what a fetch has put into its folder. It is written last, after all other files."""

    edition: str
    source: str
    date: str
    files: Mapping[str, Kept]  # by the catalog's names

    def write(self, folder: Path) -> None:
        """Write `manifest.json` into the folder."""
        write_text(folder / "manifest.json", json.dumps({"format": 1, **asdict(self)}, indent=2) + "\n")

    @staticmethod
    def read(folder: Path) -> Manifest | None:
        """Return the manifest in the folder; None if there is none that can be understood."""
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
    """The file `verified.json`: the faults of files that are used in place (null: no fault).

    It makes sure that such files are read only once. A file counts as the same while its path, its size, its two times
    of change (the owner of a file can set only one of them) and the expected checksum are the same.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        known = read_json(path)
        self._known: dict[str, Any] = known if isinstance(known, dict) else {}
        self._changed = False

    def fault(self, item: Item) -> str | None:
        """Return what is wrong with the item's bytes, or None; a file that has not changed is not read again."""
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
        """Write the notes to the file; if that fails, files are read again the next time."""
        if self._changed:
            with suppress(OSError):
                write_text(self._path, json.dumps(self._known, indent=1) + "\n")
            self._changed = False
