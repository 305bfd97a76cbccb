"""Fields that experiments no longer have: their old defaults, and the message for a user who still sets one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bitspike.config import Problem, shown


@dataclass(frozen=True, slots=True)
class Removed:
    """A removed field: the default that it had, and why it was removed."""

    default: Any
    why: str


LAST_COMMIT = "301e3c7"  # that can still do what was removed

_TEACHER = "learning from a teacher brought nothing in our runs"

REMOVED = {
    "train.teacher": Removed(None, _TEACHER),
    "train.teacher_weight": Removed(0.5, _TEACHER),
    "train.temperature": Removed(1.0, _TEACHER),
    "train.average": Removed(None, "averaged weights were 0.7 points worse in our runs"),
    "train.mirror": Removed(False, "mirrored training images brought nothing in our runs"),
}


def is_at_default(key: str, value: object) -> bool:
    """Return whether `value` is the old default of the removed field `key`; then it can be ignored."""
    default = REMOVED[key].default
    return value == default and isinstance(value, bool) == isinstance(default, bool)


def removed_message(key: str, value: object) -> str:
    """Return a message that the field was removed, why, and what to do."""
    return (
        f"{key} was removed, but is {shown(value)}: {REMOVED[key].why} (docs/reports/static.md); "
        f"leave it out, or use commit {LAST_COMMIT} of bitspike, the last that has it"
    )


def _set_otherwise(values: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the removed fields that are set to something else than their old defaults, with what they are set to."""
    for key in REMOVED:
        table, _, field = key.partition(".")
        held = values.get(table)
        if isinstance(held, Mapping) and field in held and not is_at_default(key, held[field]):
            yield key, held[field]


def uses_removed(values: Mapping[str, Any]) -> bool:
    """Return whether a removed field is set to something else than its old default."""
    return any(True for _ in _set_otherwise(values))


def without_any_removed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` without any removed field, whatever it was set to."""
    kept = dict(values)
    for key in REMOVED:
        table, _, field = key.partition(".")
        if isinstance(held := kept.get(table), Mapping) and field in held:
            kept[table] = {name: value for name, value in held.items() if name != field}
    if isinstance(sources := kept.get("sources"), Mapping):
        kept["sources"] = {key: source for key, source in sources.items() if key not in REMOVED}
    return kept


def without_removed(values: Mapping[str, Any], where: Callable[[Problem], str]) -> dict[str, Any]:
    """Return `values` without removed fields that are at their old defaults; raise ValueError at any other value."""
    for key, value in _set_otherwise(values):
        problem = Problem(key, removed_message(key, value))
        raise ValueError(f"{where(problem)}: {problem.text}")
    return without_any_removed(values)
