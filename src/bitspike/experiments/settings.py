"""The option `--set key=value`: parse settings, apply them to fields, and find the setting that causes an error."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bitspike.config import Config, Problem, known_keys, shown, tables_of, unknown_key, unknown_table
from bitspike.data.toml import parse_toml
from bitspike.experiments.removed import REMOVED

_BY_HAND = "set by hand; before: "


def parse_setting(setting: str) -> tuple[str, Any]:
    """Return the key and the value of `key=value`; the value is read as TOML, or else as a word."""
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"--set {setting!r}: write key=value, such as train.epochs=5")
    return key.strip(), _value(text.strip())


def _value(text: str) -> Any:
    """Return the value that a TOML file would hold; a word needs no quotes here, and `none` means no value."""
    if text.lower() == "none":
        return None
    try:
        table = parse_toml(f"value = {text}")
    except ValueError:
        return text
    return table["value"] if len(table) == 1 else text


def place(values: dict[str, Any], key: str, value: Any, setting: str, model: type[Config]) -> None:
    """Put `value` in place of the field `key` in `values`, the plain tables of a `model`.

    Raise a ValueError that begins with `--set` if the model has no such field. If `values` hold something else instead
    of a table, leave it there: the setting is not the mistake, and validation reports it.
    """
    require_field(key, f"--set {setting}", model)
    *path, last = key.split(".")
    table: Any = values
    for depth, part in enumerate(path):
        if isinstance(table, list) and part.isdecimal() and int(part) < len(table):
            table = table[int(part)]
        elif isinstance(table, dict):
            table = table.setdefault(part, {})
            if depth == 0 and part in tables_of(model) and not isinstance(table, dict):
                return
        else:
            raise ValueError(f"--set {setting}: {key!r} leads nowhere; {'.'.join(path[:depth])} is {shown(table)}")
    if isinstance(table, list) and last.isdecimal() and int(last) < len(table):
        before, table[int(last)] = table[int(last)], value
    elif not isinstance(table, dict):
        raise ValueError(f"--set {setting}: {key!r} leads nowhere; {'.'.join(path)} is {shown(table)}")
    elif value is None:
        before = table.pop(last, None)  # every field that may be none is none by default
    else:
        before, table[last] = table.get(last), value
    if before != value:
        _mark_source(values, key)


def require_field(key: str, where: str, model: type[Config]) -> None:
    """Raise unless the model has the field, or a field that it is a part of.

    The error begins with `where`, and names the field or table that was probably meant.
    """
    known = known_keys(model)
    inside = [name for name in known if name.startswith(f"{key}.")]
    if inside:
        raise ValueError(f"{where}: {key!r} is a table; set its fields, such as {inside[0]}")
    if any(key == name or key.startswith(f"{name}.") for name in (*known, *REMOVED)):
        return
    table, dot, field = key.partition(".")
    if dot and table not in tables_of(model) and not any(name.rpartition(".")[2] == field for name in known):
        raise ValueError(f"{where}: {unknown_table(table, model)}")
    raise ValueError(f"{where}: {unknown_key(key, [*known, *REMOVED])}")


def _mark_source(values: Mapping[str, Any], key: str) -> None:
    """Note in `sources` that a value was set by hand and no longer comes from its source."""
    sources = values.get("sources")
    if not isinstance(sources, dict):
        return
    for name, source in sources.items():
        if (key == name or key.startswith(f"{name}.")) and isinstance(source, str):
            sources[name] = _BY_HAND + source.removeprefix(_BY_HAND)


def blamed(problem: Problem, given: Mapping[str, str], before: Collection[Problem]) -> str:
    """Return `--set ...` with the settings that cause a problem, or "" if none of them does.

    `given` holds the settings by their keys. `before` are the problems without any of these settings.
    """
    to_blame = _to_blame(problem, given, before)
    return f"--set {' '.join(to_blame)}" if to_blame else ""


def _to_blame(problem: Problem, given: Mapping[str, str], before: Collection[Problem]) -> Sequence[str]:
    """Return the settings of the problem's field; if fields contradict each other, the settings that it names."""
    field = problem.key
    of_it = [setting for key, setting in given.items() if field == key or field.startswith(f"{key}.")]
    if of_it or problem in before:
        return of_it
    table = field.partition(".")[0]
    if field != table and (within := [setting for key, setting in given.items() if key.startswith(f"{field}.")]):
        return within
    # fields that do not go together: the text names them
    related = {key: setting for key, setting in given.items() if table in ("", key.partition(".")[0])}
    named = [setting for key, setting in related.items() if re.search(rf"(?<![\w.]){re.escape(key)}\b", problem.text)]
    was_valid = not any(table in ("", other.key.partition(".")[0]) for other in before)
    return named or (list(related.values()) if was_valid else [])
