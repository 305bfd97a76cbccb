"""Fetching of data sets into the data root: from a folder, from a copy on this machine, or from mirrors."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from bitspike.data.catalog import CATALOG, lookup
from bitspike.data.download import DownloadError, download
from bitspike.data.entry import Edition, Entry, Found
from bitspike.data.known_files import File
from bitspike.data.locate import below, built_in, found_set, places_of, ready, trusting
from bitspike.data.notes import Kept, Manifest
from bitspike.data.progress import ByteProgress, silent
from bitspike.data.roots import data_root
from bitspike.data.search import Item, search
from bitspike.files import explained, locked


def fetch(
    name: str,
    *,
    root: Path | None = None,
    source: Path | None = None,
    begin: ByteProgress = silent,
    catalog: Mapping[str, Entry] = CATALOG,
) -> Found:
    """Put the data set, whole and verified, into `root/name`: from the folder `source`, else a copy, else mirrors.

    One process fetches at a time; others wait and use what it has fetched.
    """
    entry, root = lookup(name, catalog), root or data_root()
    folder = root / name
    if not entry.editions:
        return built_in(entry, root)
    if source is None and (found := ready(entry, root, full=True)):
        return found
    if source is not None:
        _require_folder(entry, source.expanduser())
    with (
        _writable(folder),
        locked(folder / ".lock", lambda: begin(f"{name}: waiting, another process is fetching it", None)),
    ):
        try:
            return _fetch(entry, root, source, begin)
        except BaseException:
            _leave_nothing(folder)
            raise


def _require_folder(entry: Entry, source: Path) -> None:
    if not source.is_dir():
        what = "is a file" if source.exists() else "does not exist"
        raise FileNotFoundError(f"--from {source}: {what}; give the folder that holds {_needed(entry)}")


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Turn the error of a data root that cannot be written into an error that says what to do."""
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


# ---- Fetching, with the folder's lock held


def _fetch(entry: Entry, root: Path, source: Path | None, begin: ByteProgress) -> Found:
    folder = root / entry.name
    present = ready(entry, root, full=True)  # another process may have fetched it meanwhile
    if source is None and present is not None:
        return present
    complaints: list[str] = []
    places = places_of(entry, root) if source is None else _places_in(entry, source.expanduser())
    check = trusting(Item.fault, entry, root) if source is None else Item.fault
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
    return found_set(entry, edition, items, kept)


def _places_in(entry: Entry, source: Path) -> list[Path]:
    """Return the folders below `source` that may hold the data set; `source` may be a folder that belongs to it."""
    folders = {form.name for edition in entry.editions for file in edition.files for form in file.forms if form.members}
    itself = [source.absolute().parent] if source.absolute().name in folders else []
    return [*below(entry, [source.resolve()]), *itself]


def _copied(item: Item, folder: Path, begin: ByteProgress) -> Item:
    """Copy the item into `folder` unless it is there already; the copy is checked before it gets its name."""
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


def _downloaded(
    entry: Entry, folder: Path, begin: ByteProgress, complaints: list[str]
) -> tuple[Edition, list[Item], str]:
    """Download the first edition that mirrors have; return it, its files and the word "download"."""
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


def _download(file: File, folder: Path, begin: ByteProgress) -> Item:
    """Download the file in the first form that a mirror has; a correct file that is here already is kept."""
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
    """Remove the files that interrupted fetches have left behind."""
    for form in (form for edition in entry.editions for file in edition.files for form in file.forms):
        for end in ("part", "part.json", "copy"):
            _remove(folder / f".{form.name}.{end}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _rank(entry: Entry, found: Found) -> int:
    return [edition.name for edition in entry.editions].index(found.edition)


def _needed(entry: Entry) -> str:
    """Return the names of the files that the data set needs, edition by edition."""
    return " or ".join(dict.fromkeys(" and ".join(file.name for file in edition.files) for edition in entry.editions))


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
