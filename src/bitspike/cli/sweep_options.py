"""Options that the commands on studies share."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bitspike.experiments.sweep.overview import Overview

Study = Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of a search, the --out of sweep run.")]

Storage = Annotated[
    str | None,
    typer.Option(
        metavar="postgresql://...",
        envvar="BITSPIKE_STORAGE",
        help="The server that keeps the study, where the folder's note of it does not suffice: it has no password. "
        "PGPASSWORD may hold it, too.",
    ),
]


def require_optuna() -> None:
    """Raise an error that says what to install if Optuna is missing."""
    from importlib.util import find_spec

    from bitspike._lazy import not_installed

    if find_spec("optuna") is None:
        raise not_installed("optuna", "a search needs Optuna", extra="search")


def best_command(study: Path, found: Overview) -> str:
    """Return the command that writes the best trial's experiment; of two objectives, the most accurate one's."""
    which = f" --trial {found.best.number}" if found.best is not None and found.front else ""
    return f"bitspike sweep best {shlex.quote(str(study))}{which} > my.toml"
