"""The table [data] of an experiment's TOML file: read by itself, so that data can be seen before anything else is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bitspike.config import shown, validated
from bitspike.data.config import FILES, DataConfig
from bitspike.data.toml import IN_QUOTES, read_toml


def is_toml(name: str | Path) -> bool:
    """Return whether a name is that of a TOML file, and not of a data set."""
    return Path(name).suffix.lower() == ".toml"


def read_data_config(path: Path, options: Mapping[str, Any], where: str = "") -> DataConfig:
    """Return the settings of a file's table [data], with `options` in place of its fields.

    Paths in the file are relative to it, those in `options` to the current folder. Errors name the file, and `where`
    the options come from.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    table = read_toml(path).get("data")
    if isinstance(table, list):
        raise ValueError(f"{path}: data: must be a table, but is a list of tables; write [data], in single brackets")
    if not isinstance(table, dict):
        raise ValueError(
            f"{path}: has no table [data], which says where the samples are; write the line [data], and below it "
            "file = 'my.npz'"
        )
    for field in FILES:
        if field in table:
            table[field] = absolute(path.parent, table[field], f"{path}: data.{field}")
    return validated(DataConfig, {**table, **options}, f"{path}{where if options else ''}: [data]")


def toml_lines(name: str | Path) -> str:
    """Return advice to write an experiment file for a file of samples: the lines that it needs."""
    path = Path(name)
    return (
        f"write {path.with_suffix('.toml').name} beside it with the lines [data], file = {path.name!r} and, for events "
        "in t, time_unit = 'us' (or 'ms', 's'), and give that"
    )


def absolute(folder: Path, given: Any, where: str) -> Any:
    """Return a path, or each path of a list, as an absolute one; anything else as it is."""
    if isinstance(given, list):
        return [absolute(folder, each, where) for each in given]
    return str(_path(folder, given, where)) if isinstance(given, str) else given


def _path(folder: Path, given: str, where: str) -> Path:
    r"""Return an absolute path; raise if it does not exist and holds a line break, as "C:\new" does in TOML."""
    path = folder / given
    if not given.isprintable() and not path.exists():
        raise ValueError(f"{where}: {shown(given)} does not exist; {IN_QUOTES}")
    return path.resolve()
