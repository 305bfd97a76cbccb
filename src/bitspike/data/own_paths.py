"""The paths of the user's own files: one file, a list of files, or a pattern such as "rec-*.npz"."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from pathlib import Path

from bitspike.data.config import FILES, DataConfig
from bitspike.files import digest


def own_paths(config: DataConfig) -> dict[str, list[Path]]:
    """Return the files of each field of `config` that names some; raise if one does not exist or is there twice."""
    given = {field: getattr(config, field) for field in FILES}
    return {field: expanded(value, field) for field, value in given.items() if value is not None}


def expanded(given: Path | Sequence[Path], field: str = "file") -> list[Path]:
    """Return the files that a path, a pattern or a list of them stands for; those of a pattern sorted by name."""
    found: list[Path] = []
    for path in [given] if isinstance(given, Path) else given:
        for each in [path] if path.exists() else _matches(path, field):
            if not each.is_file():
                raise FileNotFoundError(f"data.{field}: {each} is not a file{_within(each)}")
            if each in found:
                raise ValueError(f"data.{field} names {each} twice; leave one out")
            found.append(each)
    return found


def _matches(pattern: Path, field: str) -> list[Path]:
    """Return the files that match a pattern; folders that exist are taken by their name, whatever signs it has."""
    base = Path(pattern.anchor)
    parts = list(pattern.parts[1:] if pattern.anchor else pattern.parts)
    while parts and (base / parts[0]).exists():
        base /= parts.pop(0)
    if not any(sign in part for part in parts for sign in "*?["):
        raise FileNotFoundError(f"data.{field}: {pattern} does not exist{_instead(pattern)}")
    found = sorted(path for path in base.glob("/".join(parts)) if path.is_file())
    if not found:
        raise FileNotFoundError(f"data.{field}: no file matches {pattern}; look at the folder and the pattern")
    return found


def _within(folder: Path) -> str:
    """Return advice to take the files in a folder, where it has some of the right kind."""
    kinds = [kind for kind in (".npz", ".h5", ".hdf5") if any(folder.glob(f"*{kind}"))] if folder.is_dir() else []
    return f"; give {str(folder / ('*' + kinds[0]))!r} for all such files in it" if kinds else ""


def _instead(path: Path) -> str:
    """Return which file was probably meant, or where paths begin."""
    names = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, 1)
    return f"; did you mean {near[0]}?" if near else "; paths are relative to the experiment file"


def digest_of(paths: Sequence[Path]) -> str:
    """Return the sha256 of a file; of several files, that of all their checksums in order."""
    if len(paths) == 1:
        return digest(paths[0])
    return hashlib.sha256("\n".join(map(digest, paths)).encode()).hexdigest()


def own_edition(config: DataConfig) -> str:
    """Return the edition of the user's own files: a checksum of those for each of training, test and validation."""
    found = {field: digest_of(paths)[:16] for field, paths in own_paths(config).items()}
    valid = found.pop("validation_file", "")
    return "sha256 " + " and ".join(found.values()) + (f", validation {valid}" if valid else "")


def called(paths: Sequence[Path]) -> str:
    """Return a short name for the files: the first one's, and how many more there are."""
    return paths[0].name if len(paths) == 1 else f"{paths[0].name} and {len(paths) - 1} more"


def shared_files(config: DataConfig) -> list[str]:
    """Return a line for each file that is both for training and for testing or validation."""
    paths = own_paths(config)
    return [
        f"{path.name} is both in data.file and in data.{field}: the accuracy is that of samples that were trained on"
        for field in FILES[1:]
        for path in paths.get(field, ())
        if path in paths["file"]
    ]
