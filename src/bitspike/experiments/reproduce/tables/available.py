"""The tasks of a table whose data is here."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from bitspike.data.locate import locate
from bitspike.experiments.reproduce.tables.table import PaperTable


def available_tasks(table: PaperTable, root: Path | None = None) -> tuple[str, ...]:
    """Return the tasks to train: all of them, or those whose data is here if the table may leave tasks out.

    If no data is here, the error says how to get that of the first task.
    """
    if not table.skips_missing:
        return table.tasks
    found = tuple(task for task in table.tasks if _is_here(task, root))
    if not found:
        locate(table.tasks[0], root)
    return found


def missing_tasks(table: PaperTable, reported: Collection[str], root: Path | None = None) -> list[str]:
    """Return the tasks that a report must call not available: without any result, and without data."""
    if not table.skips_missing:
        return []
    return [task for task in table.tasks if task not in reported and not _is_here(task, root)]


def _is_here(task: str, root: Path | None) -> bool:
    try:
        locate(task, root)
    except FileNotFoundError:
        return False
    return True
