"""The output of commands: lines, JSON and progress bars.

Commands print with these functions and with `bitspike.terminal` only, so that no text from a file can steer a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from bitspike.terminal import Label, screen
from bitspike.text import printable, printable_lines

if TYPE_CHECKING:
    from bitspike.analysis.baselines import Baselines

Begin = Callable[[str, int], Callable[[], None]]
BeginBytes = Callable[[str, int | None], Callable[[int], None]]


def echo(message: str, err: bool = False) -> None:
    """Print one line of the result on stdout."""
    typer.echo(printable(message), err=err)


def say(message: str) -> None:
    """Print one line for a person on stderr, so that stdout holds only the result (for --json)."""
    echo(message, err=True)


def echo_json(value: Any) -> None:
    """Print the result for other programs, as JSON in ASCII."""
    typer.echo(json.dumps(value, indent=2))


def echo_lines(text: str) -> None:
    """Print a text of several lines on stdout, such as a whole TOML file."""
    typer.echo(printable_lines(text))


def titled(title: str, edition: str) -> str:
    """Return a data set's title, with the edition where it is not the published one."""
    return title if edition == "published" or edition in title else f"{title} ({edition})"


def baselines_in_words(found: Baselines) -> str:
    """Return the accuracies of simple classifiers in one line."""
    return f"most frequent class {found.majority:.2%}   logistic regression {found.logistic:.2%} (on {found.features})"


@contextmanager
def bars() -> Iterator[Begin]:
    """Give a function that starts a progress bar with a number of steps; bars vanish when they are done."""
    with _shown(MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()) as shown:

        def begin(stage: str, steps: int) -> Callable[[], None]:
            task = shown.add_task(stage, total=steps)
            return lambda: shown.advance(task)

        yield begin


@contextmanager
def byte_bars() -> Iterator[BeginBytes]:
    """Give a function that starts a progress bar with a number of bytes; bars vanish when they are done."""
    with _shown(DownloadColumn(), TransferSpeedColumn()) as shown:

        def begin(stage: str, total: int | None) -> Callable[[int], None]:
            task = shown.add_task(stage, total=total)
            return lambda count: shown.advance(task, count)

        yield begin


def _shown(*columns: ProgressColumn) -> Progress:
    """Return progress bars with these columns after each bar; without a terminal nothing is shown."""
    console = screen(stderr=True)
    return Progress(
        Label("{task.description:<36}"),
        BarColumn(),
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
