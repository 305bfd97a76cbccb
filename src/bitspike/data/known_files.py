"""The files of a data set: their names and forms, and their checksums."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from bitspike.files import digest

Checksum = tuple[str, str]  # algorithm, hexadecimal


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a file: its name, packed or not. For a folder, `members` are patterns of its files."""

    name: str
    checksum: Checksum | None = None
    size: int | None = None
    urls: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    def files(self, path: Path) -> list[Path]:
        """Return the plain files that `path` stands for, in order; none if it does not exist."""
        if not self.members:
            return [path] if path.is_file() else []
        return sorted({file for pattern in self.members for file in path.glob(pattern) if file.is_file()})


@dataclass(frozen=True, slots=True)
class File:
    """A file in any of its forms; the name of the first form is its name.

    `content` is (size, sha256) of the unpacked bytes: with it, a .gz that someone else compressed is accepted too, and
    so is a file that is not compressed.
    """

    forms: tuple[Form, ...]
    content: tuple[int, str] | None = None

    @property
    def name(self) -> str:
        """The catalog's name of the file, the same for all forms."""
        return self.forms[0].name


def fault(file: File, form: Form, path: Path) -> str | None:
    """Return what is wrong with the bytes of `path`, or None; also None if no checksum is known."""
    wrong = _form_fault(form, path)
    return _content_fault(path, *file.content) if wrong and file.content else wrong


def _form_fault(form: Form, path: Path) -> str | None:
    if form.checksum is None:
        return None
    if form.size not in (None, size := path.stat().st_size):
        return f"has {size} bytes, not {form.size}"
    algorithm, expected = form.checksum
    found = digest(path, algorithm)
    return None if found == expected else f"has the {algorithm} {found}, not {expected}"


def _content_fault(path: Path, size: int, sha256: str) -> str | None:
    """Return what is wrong with the unpacked bytes of `path`, or None; unpack no more than the expected size."""
    summed, seen = hashlib.sha256(), 0
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        try:
            while seen <= size and (block := stream.read(min(1 << 20, size + 1 - seen))):
                summed.update(block)
                seen += len(block)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            return f"is a damaged .gz file ({str(error).rstrip('.')})"
    if seen != size:
        return f"holds {'more' if seen > size else seen} bytes; its content must have {size}"
    return None if summed.hexdigest() == sha256 else f"holds content with the sha256 {summed.hexdigest()}, not {sha256}"


def files_without_mirror(*rows: tuple[str, int, str]) -> tuple[File, ...]:
    """Return files that have one form and no mirror, from rows of a name, a size and a sha256."""
    return tuple(File((Form(name, ("sha256", sha256), size),)) for name, size, sha256 in rows)
