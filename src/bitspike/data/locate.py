"""Data sets on this machine: functions to find, check and list them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bitspike.data.catalog import CATALOG, lookup
from bitspike.data.entry import Edition, Entry, Found
from bitspike.data.notes import Kept, Manifest, Memory
from bitspike.data.roots import can_write, data_root, local_folders, private_cache, read_folders, searched
from bitspike.data.search import Check, Item, foreign, search, unreadable


class Checked(NamedTuple):
    """A file and whether its bytes are right; `detail` says how that is known, or what is wrong."""

    file: Path
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Status:
    """A line of `data list`: `state` is "ready", "found in DIR", "absent" or "built in"."""

    name: str
    title: str
    state: str
    edition: str
    bytes: int


def locate(name: str, root: Path | None = None, *, catalog: Mapping[str, Entry] = CATALOG) -> Found:
    """Return the data set that was fetched into `root`, else a copy elsewhere, whose checksums are verified once."""
    entry, root = lookup(name, catalog), root or data_root()
    if not entry.editions:
        return built_in(entry, root)
    if found := ready(entry, root, full=False):
        return found
    complaints: list[str] = []
    memory = _memory(entry, root)
    hit = search(entry, places_of(entry, root), trusting(memory.fault, entry, root), complaints, read=False)
    memory.save()
    if hit is None:
        raise FileNotFoundError(_absent(entry, root, complaints))
    return found_set(entry, *hit)


def verify(name: str, root: Path | None = None, *, catalog: Mapping[str, Entry] = CATALOG) -> list[Checked]:
    """Read every file of the data set again and check it; raise FileNotFoundError if the set is not found."""
    entry, root = lookup(name, catalog), root or data_root()
    if not entry.editions:
        return []
    if manifest := _manifest(entry, root):
        edition, kept = manifest
        return [_checked(item, kept[item.file.name], None) for item in _kept_items(entry, edition, root, kept)]
    complaints: list[str] = []
    places = places_of(entry, root)
    # A copy without a fault is the one in use; where none is, the first that is complete is shown with its faults.
    hit = search(entry, places, trusting(Item.fault, entry, root), complaints, read=True)
    if hit is not None:
        return [_checked(item, None, None) for item in hit[1]]
    hit = search(entry, places, trusting(lambda item: None, entry, root), [], read=False)
    if hit is None:
        raise FileNotFoundError(_absent(entry, root, complaints))
    edition, items = hit
    wrong = unreadable(edition, items)
    return [_checked(item, None, wrong) for item in items]


def status(root: Path | None = None, *, catalog: Mapping[str, Entry] = CATALOG) -> list[Status]:
    """Return a line about every data set of the catalog: whether it is here, and where."""
    lines = []
    for name, entry in catalog.items():
        try:
            found = locate(name, root, catalog=catalog)
        except FileNotFoundError:
            lines.append(Status(name, entry.title, "absent", "", 0))
            continue
        in_root = found.folder == (root or data_root()) / name
        state = "built in" if not entry.editions else "ready" if in_root else f"found in {found.folder}"
        size = sum(file.stat().st_size for path in found.files.values() for file in _plain_files(path))
        lines.append(Status(name, found.title, state, found.edition, size))
    return lines


# ---- In the data root


def _manifest(entry: Entry, root: Path) -> tuple[Edition, Mapping[str, Kept]] | None:
    """Return the manifest's edition and files if the catalog knows them: only names from the catalog are followed."""
    manifest = Manifest.read(root / entry.name)
    if manifest is None:
        return None
    for edition in entry.editions:
        names = {file.name: {form.name for form in file.forms} for file in edition.files}
        known = manifest.edition == edition.name and manifest.files.keys() == names.keys()
        if known and all(kept.name in names[name] for name, kept in manifest.files.items()):
            return edition, manifest.files
    return None


def _kept_items(entry: Entry, edition: Edition, root: Path, kept: Mapping[str, Kept]) -> list[Item]:
    folder = root / entry.name
    forms = {form.name: form for file in edition.files for form in file.forms}
    return [Item(file, form := forms[kept[file.name].name], folder / form.name) for file in edition.files]


def ready(entry: Entry, root: Path, *, full: bool) -> Found | None:
    """Return the data set as its manifest in `root` describes it; compare sizes, with `full` every byte."""
    manifest = _manifest(entry, root)
    if manifest is None:
        return None
    edition, kept = manifest
    items = _kept_items(entry, edition, root, kept)
    if not all(item.present() and item.size() == kept[item.file.name].size for item in items):
        return None
    if full and not all(_checked(item, kept[item.file.name], None).ok for item in items):
        return None
    return found_set(entry, edition, items, kept)


def _checked(item: Item, kept: Kept | None, wrong: str | None) -> Checked:
    if not item.present():
        return Checked(item.path, False, "is missing")
    if wrong := item.fault() or wrong:
        return Checked(item.path, False, wrong)
    if item.form.checksum is not None:
        return Checked(item.path, True, "its checksum is right")
    if kept is None:
        return Checked(item.path, True, "read in full, checksum not known")
    same = item.sha256() == kept.sha256
    return Checked(item.path, same, "as it was fetched" if same else "has changed since it was fetched")


# ---- What was found, and where to look


def built_in(entry: Entry, root: Path) -> Found:
    """Return a data set without files, which is always available."""
    return Found(entry.name, entry.title, "built in", root / entry.name, {}, "")


def found_set(entry: Entry, edition: Edition, items: Sequence[Item], kept: Mapping[str, Kept] | None = None) -> Found:
    """Return a data set of these files; `kept` are the checksums that a fetch noted, if any."""
    marks = [_mark(item, kept[item.file.name].sha256 if kept else None) for item in items]
    fingerprint = hashlib.sha256(json.dumps(marks).encode()).hexdigest()
    files = {item.file.name: item.path for item in items}
    return Found(entry.name, edition.title or entry.title, edition.name, items[0].path.parent, files, fingerprint)


def _mark(item: Item, sha256: str | None) -> list[str | int]:
    """Return a value that changes with a file's content: its checksum, else its path, size and time of writing."""
    if item.file.content or item.form.checksum:
        return [item.file.content[1] if item.file.content else str(item.form.checksum)]
    if sha256:
        return [sha256]
    return [str(item.path), item.size(), max(file.stat().st_mtime_ns for file in item.form.files(item.path))]


def _plain_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def _memory(entry: Entry, root: Path) -> Memory:
    """Return the notes on files that are used in place; they are in the cache if `root` cannot be written."""
    folder = root / entry.name
    if not can_write(folder) and (private := private_cache()) is not None:  # never a folder that others can write
        return Memory(private / f"verified-{entry.name}.json")
    return Memory(folder / "verified.json")


def places_of(entry: Entry, root: Path) -> list[Path]:
    """Return the folders in which files of the data set may lie, the data set's own folder in `root` first."""
    return [*_named_places(entry, root), *below(entry, local_folders())]


def _named_places(entry: Entry, root: Path) -> list[Path]:
    """Return the data set's folders within `root` and within the other folders of BITSPIKE_DATA."""
    return list(dict.fromkeys((root / entry.name, *below(entry, (root, *read_folders())))))


def below(entry: Entry, bases: Iterable[Path]) -> list[Path]:
    """Return the folders within `bases` that may hold the data set, by the names its entry gives."""
    return [base / name for base in bases for name in entry.folders]


def trusting(check: Check, entry: Entry, root: Path) -> Check:
    """Return a check that trusts folders the user named; elsewhere it refuses files that another user could write."""
    named = set(_named_places(entry, root))
    return lambda item: (None if item.path.parent in named else foreign(item)) or check(item)


def _absent(entry: Entry, root: Path, complaints: Sequence[str]) -> str:
    why = f" ({'; '.join(complaints)})" if complaints else ""
    return (
        f"data set {entry.name!r} is not here{why}; run: bitspike data fetch {entry.name} "
        f"(or with a copy: bitspike data fetch {entry.name} --from DIR); looked in {searched(root)}"
    )
