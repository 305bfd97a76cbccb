"""Safe writing of files: atomic writes, checksums, one writer at a time."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a file beside `path`, then move it there, so that `path` is never half written.

    The bytes are on the disk before the move, so that not even a power cut leaves an empty file under the name.
    """
    if path.exists() and not path.is_file():  # a folder, or a device, which a file would take the place of
        raise OSError(f"{path} is not a file that can be written; choose another name")
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    partial = Path(name)
    try:
        with explained(path):
            write(partial)
            partial.chmod(0o644)
            with partial.open("rb") as written:
                os.fsync(written.fileno())
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def write_text(path: Path, text: str) -> Path:
    """Write `text` as UTF-8, atomically."""
    return write_atomically(path, lambda to: to.write_text(text, encoding="utf-8"))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors about a full disk or a read-only folder into errors that name the file and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise OSError(
                error.errno,
                f"{path} could not be written: {os.strerror(error.errno).lower()}; "
                "free some space and run it again (`train` with --resume); what was written before is whole",
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            why = os.strerror(error.errno).lower()
            raise OSError(error.errno, f"{path} could not be written: {why}; is its folder yours?") from error
        raise


def require_folder(path: Path, remedy: str, *, written: bool = True) -> None:
    """Raise an error unless `path` is a folder or can become one; with `written`, one that can be written into."""
    nearest = next(each for each in (path, *path.absolute().parents) if os.path.lexists(each))
    if not nearest.is_dir():
        raise NotADirectoryError(f"{nearest} is a file, but a folder is needed; {remedy}")
    if written and not os.access(nearest, os.W_OK | os.X_OK):
        raise PermissionError(f"{nearest} cannot be written into; {remedy}, or make it writable")


def digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the file's checksum in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


@contextmanager
def locked(path: Path, on_wait: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold `path` as a lock among processes; call `on_wait` once if another holds it. A killed process frees it."""
    from filelock import FileLock, Timeout  # torch depends on it

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
