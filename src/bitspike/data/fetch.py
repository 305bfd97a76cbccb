"""Data sets on this machine: fetch them, find them, check them, list them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bitspike.data.catalog import CATALOG, Edition, Entry, File, lookup
from bitspike.data.download import Begin, DownloadError, download, quiet
from bitspike.data.roots import Item, Kept, Manifest, Memory, data_root, foreign, local_folders, search, unreadable
from bitspike.files import explained, locked

Check = Callable[[Item], str | None]  # what is wrong with an item, or None


@dataclass(frozen=True, slots=True)
class Found:
    """A data set on this machine; `files` go by the catalog's names, whichever of their forms lies here.

    `fingerprint` changes whenever the files do.
    """

    name: str
    title: str
    edition: str
    folder: Path
    files: Mapping[str, Path]
    fingerprint: str


class Checked(NamedTuple):
    """A file and whether its bytes are right; `detail` says by what that is known, or what is wrong."""

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


def fetch(
    name: str,
    *,
    root: Path | None = None,
    source: Path | None = None,
    begin: Begin = quiet,
    catalog: Mapping[str, Entry] = CATALOG,
) -> Found:
    """The data set, put whole and verified into `root/name`: from the folder `source`, else a local copy, else mirrors.

    One process at a time; others wait and use what it has fetched.
    """
    entry = lookup(name, catalog)
    folder = (root or data_root()) / name
    if not entry.editions:
        return _built_in(entry, folder)
    if source is None and (found := _ready(entry, folder, full=True)):
        return found
    if source is not None:
        _require_folder(entry, source.expanduser())
    with (
        _writable(folder),
        locked(folder / ".lock", lambda: begin(f"{name}: waiting, another process is fetching it", None)),
    ):
        try:
            return _fetch(entry, folder, source, begin)
        except BaseException:
            _leave_nothing(folder)
            raise


def _require_folder(entry: Entry, source: Path) -> None:
    if not source.is_dir():
        what = "is a file" if source.exists() else "does not exist"
        raise FileNotFoundError(f"--from {source}: {what}; give the folder that holds {_needed(entry)}")


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Say what to do where the data root cannot be written."""
    try:
        yield
    except OSError as error:
        denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        misplaced = error.errno in (errno.ENOTDIR, errno.EEXIST, errno.ENOENT) and not folder.is_dir()
        if not (denied or misplaced) or isinstance(error, DownloadError):
            raise
        where = f"{error.filename or folder} cannot be opened" + (f" ({error.strerror})" if misplaced else "")
        raise PermissionError(
            error.errno, f"{where}; to keep data elsewhere set BITSPIKE_DATA to a folder of your own"
        ) from error


def _leave_nothing(folder: Path) -> None:
    """Remove the folder, and its lock, if a failed fetch has put nothing else there."""
    with suppress(OSError):
        if {path.name for path in folder.iterdir()} <= {".lock"}:
            (folder / ".lock").unlink(missing_ok=True)
            folder.rmdir()


def locate(name: str, root: Path | None = None, *, catalog: Mapping[str, Entry] = CATALOG) -> Found:
    """The data set in `root`, by names and sizes; else a local copy in place, its checksums verified once."""
    entry = lookup(name, catalog)
    folder = (root or data_root()) / name
    if not entry.editions:
        return _built_in(entry, folder)
    if found := _ready(entry, folder, full=False):
        return found
    complaints: list[str] = []
    memory = Memory(folder / "verified.json")
    hit = search(entry, _places(entry, folder), _safe(memory.fault, folder), complaints, read=False)
    memory.save()
    if hit is None:
        raise FileNotFoundError(_absent(entry, complaints))
    return _found(entry, *hit)


def verify(name: str, root: Path | None = None, *, catalog: Mapping[str, Entry] = CATALOG) -> list[Checked]:
    """Every file of the data set read again and compared; a set that is nowhere raises FileNotFoundError."""
    entry = lookup(name, catalog)
    folder = (root or data_root()) / name
    if not entry.editions:
        return []
    if manifest := _manifest(entry, folder):
        edition, kept = manifest
        return [_checked(item, kept[item.file.name], None) for item in _kept_items(edition, folder, kept)]
    complaints: list[str] = []
    places = _places(entry, folder)
    # A copy without a fault is the one in use; where none is, the first that is complete is shown with its faults.
    hit = search(entry, places, _safe(Item.fault, folder), complaints, read=True)
    if hit is not None:
        return [_checked(item, None, None) for item in hit[1]]
    hit = search(entry, places, _safe(lambda item: None, folder), [], read=False)
    if hit is None:
        raise FileNotFoundError(_absent(entry, complaints))
    edition, items = hit
    wrong = unreadable(edition, items)
    return [_checked(item, None, wrong) for item in items]


def status(root: Path | None = None, *, catalog: Mapping[str, Entry] = CATALOG) -> list[Status]:
    """Every data set of the catalog, and where it is."""
    lines = []
    for name, entry in catalog.items():
        try:
            found = locate(name, root, catalog=catalog)
        except FileNotFoundError:
            lines.append(Status(name, entry.title, "absent", "", 0))
            continue
        ready = found.folder == (root or data_root()) / name
        state = "built in" if not entry.editions else "ready" if ready else f"found in {found.folder}"
        size = sum(file.stat().st_size for path in found.files.values() for file in _plain_files(path))
        lines.append(Status(name, found.title, state, found.edition, size))
    return lines


# ---- Fetching, with the folder's lock held


def _fetch(entry: Entry, folder: Path, source: Path | None, begin: Begin) -> Found:
    present = _ready(entry, folder, full=True)  # another process may have fetched it meanwhile
    if source is None and present is not None:
        return present
    complaints: list[str] = []
    places = _places(entry, folder) if source is None else _below(entry, [source.expanduser().resolve()])
    check = _safe(Item.fault, folder) if source is None else Item.fault
    hit = search(entry, places, check, complaints, read=True)
    if hit is None and source is not None:
        raise FileNotFoundError(_not_in(entry, source, complaints))
    if hit is not None and present is not None and _rank(entry, present) <= entry.editions.index(hit[0]):
        return present
    (folder / "manifest.json").unlink(missing_ok=True)
    if hit is not None:
        edition, items = hit[0], [_copied(item, folder, begin) for item in hit[1]]
        origin = str(hit[1][0].path.parent)
    else:
        edition, items, origin = _downloaded(entry, folder, begin, complaints)
    kept = {item.file.name: Kept(item.form.name, item.size(), item.sha256()) for item in items}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    Manifest(edition.name, origin, now, kept).write(folder)
    _sweep(entry, folder)
    return _found(entry, edition, items, kept)


def _copied(item: Item, folder: Path, begin: Begin) -> Item:
    """The item, copied into `folder` unless it lies there; the copy is checked before it gets its name."""
    to = folder / item.form.name
    if item.path == to:
        return item
    partial = folder / f".{item.form.name}.copy"
    advance = begin(f"copying {item.form.name}", item.size())
    with explained(to):
        try:
            _remove(partial)
            for file in item.form.files(item.path):
                target = partial / file.relative_to(item.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                _copy(file, target, advance)
            copy = Item(item.file, item.form, partial)
            if (wrong := copy.fault()) is not None or copy.size() != item.size():
                raise OSError(f"{item.path} could not be copied: the copy {wrong or 'has another size'}")
            if item.form.members:
                _remove(to)  # a folder is not replaced, as a file is
            partial.replace(to)
        finally:
            _remove(partial)
    return Item(item.file, item.form, to)


def _copy(source: Path, to: Path, advance: Callable[[int], None]) -> None:
    with source.open("rb") as read, to.open("wb") as written:
        while block := read.read(1 << 20):
            written.write(block)
            advance(len(block))
        written.flush()
        os.fsync(written.fileno())


def _downloaded(entry: Entry, folder: Path, begin: Begin, complaints: list[str]) -> tuple[Edition, list[Item], str]:
    """The first edition that can be had from mirrors."""
    reasons: list[str] = []
    for edition in entry.editions:
        if not all(any(form.urls for form in file.forms) for file in edition.files):
            continue
        try:
            return edition, [_download(file, folder, begin) for file in edition.files], "download"
        except DownloadError as error:
            reasons.append(str(error))
    if not reasons:
        raise FileNotFoundError(_not_in(entry, None, complaints))
    by_hand = f"get it by hand from {entry.page} and" if entry.page else "if you have a copy,"
    raise DownloadError(f"{'; '.join(reasons)}; {by_hand} run: bitspike data fetch {entry.name} --from DIR")


def _download(file: File, folder: Path, begin: Begin) -> Item:
    """The file in the first of its forms that a mirror gives; one that is here already is kept."""
    items = [Item(file, form, folder / form.name) for form in file.forms]
    for item in items:
        if item.form.checksum is not None and item.fault() is None:
            return item
    reasons = []
    for item in items:
        if item.form.urls:
            try:
                download(item.form.urls, item.path, size=item.form.size, checksum=item.form.checksum, progress=begin)
                return item
            except DownloadError as error:
                reasons.append(str(error))
    raise DownloadError("; ".join(reasons))


def _sweep(entry: Entry, folder: Path) -> None:
    """Remove what interrupted fetches have left."""
    for form in (form for edition in entry.editions for file in edition.files for form in file.forms):
        for end in ("part", "part.json", "copy"):
            _remove(folder / f".{form.name}.{end}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# ---- In the root


def _manifest(entry: Entry, folder: Path) -> tuple[Edition, Mapping[str, Kept]] | None:
    """The manifest's edition and files, if the catalog knows them; only names from the catalog are followed."""
    manifest = Manifest.read(folder)
    if manifest is None:
        return None
    for edition in entry.editions:
        names = {file.name: {form.name for form in file.forms} for file in edition.files}
        known = manifest.edition == edition.name and manifest.files.keys() == names.keys()
        if known and all(kept.name in names[name] for name, kept in manifest.files.items()):
            return edition, manifest.files
    return None


def _kept_items(edition: Edition, folder: Path, kept: Mapping[str, Kept]) -> list[Item]:
    forms = {form.name: form for file in edition.files for form in file.forms}
    return [Item(file, form := forms[kept[file.name].name], folder / form.name) for file in edition.files]


def _ready(entry: Entry, folder: Path, *, full: bool) -> Found | None:
    """The data set in its own folder as the manifest says: sizes compared, with `full` every byte."""
    manifest = _manifest(entry, folder)
    if manifest is None:
        return None
    edition, kept = manifest
    items = _kept_items(edition, folder, kept)
    if not all(item.present() and item.size() == kept[item.file.name].size for item in items):
        return None
    if full and not all(_checked(item, kept[item.file.name], None).ok for item in items):
        return None
    return _found(entry, edition, items, kept)


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


# ---- Words and names


def _built_in(entry: Entry, folder: Path) -> Found:
    return Found(entry.name, entry.title, "built in", folder, {}, "")


def _found(entry: Entry, edition: Edition, items: Sequence[Item], kept: Mapping[str, Kept] | None = None) -> Found:
    marks = [_mark(item, kept[item.file.name].sha256 if kept else None) for item in items]
    fingerprint = hashlib.sha256(json.dumps(marks).encode()).hexdigest()
    files = {item.file.name: item.path for item in items}
    return Found(entry.name, edition.title or entry.title, edition.name, items[0].path.parent, files, fingerprint)


def _mark(item: Item, sha256: str | None) -> list[str | int]:
    """What tells a file's bytes from others: a checksum, else where and when it was written."""
    if item.file.content or item.form.checksum:
        return [item.file.content[1] if item.file.content else str(item.form.checksum)]
    if sha256:
        return [sha256]
    return [str(item.path), item.size(), max(file.stat().st_mtime_ns for file in item.form.files(item.path))]


def _plain_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def _places(entry: Entry, folder: Path) -> list[Path]:
    return [folder, *_below(entry, local_folders())]


def _safe(check: Check, folder: Path) -> Check:
    """`check`, which also refuses what lies outside the data set's own `folder` and may be another user's choice."""
    return lambda item: (None if item.path.parent == folder else foreign(item)) or check(item)


def _below(entry: Entry, bases: Iterable[Path]) -> list[Path]:
    return [base / name for base in bases for name in entry.folders]


def _rank(entry: Entry, found: Found) -> int:
    return [edition.name for edition in entry.editions].index(found.edition)


def _absent(entry: Entry, complaints: Sequence[str]) -> str:
    why = f" ({'; '.join(complaints)})" if complaints else ""
    return (
        f"data set {entry.name!r} is not here{why}; run: bitspike data fetch {entry.name} "
        f"(or with a copy: bitspike data fetch {entry.name} --from DIR)"
    )


def _needed(entry: Entry) -> str:
    """The names of its files, edition by edition."""
    return " or ".join(" and ".join(file.name for file in edition.files) for edition in entry.editions)


def _not_in(entry: Entry, source: Path | None, complaints: Sequence[str]) -> str:
    sets = _needed(entry)
    why = f" ({'; '.join(complaints)})" if complaints else ""
    if source is not None:
        return (
            f"data set {entry.name!r} is not in {source}{why}; it needs {sets}, there or in a folder {entry.folders[0]}"
        )
    return (
        f"data set {entry.name!r} has no mirror and no copy was found{why}; "
        f"run: bitspike data fetch {entry.name} --from DIR, a folder with {sets}"
    )
