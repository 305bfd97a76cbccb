"""The commands' common ground: the app, its bars, its one-line errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

app = typer.Typer(
    help="Train, explain and ship 1-bit spiking neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


Begin = Callable[[str, int], Callable[[], None]]
BeginBytes = Callable[[str, int | None], Callable[[int], None]]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def _version(wanted: bool) -> None:
    if wanted:
        from bitspike import __version__

        typer.echo(f"bitspike {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train, explain and ship 1-bit spiking neural networks."""


def say(message: str) -> None:
    """A line for the person, on stderr, so that --json leaves stdout to the result."""
    typer.echo(message, err=True)


@contextmanager
def bars() -> Iterator[Begin]:
    """How to begin a bar of so many steps; the bars vanish when they are done."""
    columns = (
        TextColumn("{task.description:<36}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:

        def begin(stage: str, steps: int) -> Callable[[], None]:
            task = shown.add_task(stage, total=steps)
            return lambda: shown.advance(task)

        yield begin


@contextmanager
def byte_bars() -> Iterator[BeginBytes]:
    """As `bars`, of bytes."""
    columns = (TextColumn("{task.description:<36}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:

        def begin(stage: str, total: int | None) -> Callable[[int], None]:
            task = shown.add_task(stage, total=total)
            return lambda count: shown.advance(task, count)

        yield begin
