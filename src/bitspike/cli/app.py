"""The commands' common ground: the app, its bars, and the one way in which text reaches the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from bitspike.terminal import Label, screen
from bitspike.text import printable, printable_lines

app = typer.Typer(
    help="Train, explain and ship 1-bit spiking neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


Begin = Callable[[str, int], Callable[[], None]]
BeginBytes = Callable[[str, int | None], Callable[[int], None]]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def _a_device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,3})?", name):
        raise typer.BadParameter(f"must be auto, cpu, cuda or cuda:N, such as cuda:0, but is {name!r}")
    return name


Device = Annotated[
    str,
    typer.Option(
        metavar="auto|cpu|cuda|cuda:N",
        callback=_a_device,
        help="Where to compute: auto takes a GPU where there is one, cuda:1 the second.",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        from bitspike import __version__

        echo(f"bitspike {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train, explain and ship 1-bit spiking neural networks."""


# ---- What a person reads: commands print with these, and with `bitspike.terminal`, only (a test looks)


def echo(message: str, err: bool = False) -> None:
    """A line of the result, on stdout."""
    typer.echo(printable(message), err=err)


def say(message: str) -> None:
    """A line for the person, on stderr, so that --json leaves stdout to the result."""
    echo(message, err=True)


def echo_json(value: Any) -> None:
    """The result for other programs; JSON spells what is not ASCII."""
    typer.echo(json.dumps(value, indent=2))


def echo_lines(text: str) -> None:
    """A whole document."""
    typer.echo(printable_lines(text))


@contextmanager
def bars() -> Iterator[Begin]:
    """How to begin a bar of so many steps; the bars vanish when they are done."""
    columns = (
        Label("{task.description:<36}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = screen(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:

        def begin(stage: str, steps: int) -> Callable[[], None]:
            task = shown.add_task(stage, total=steps)
            return lambda: shown.advance(task)

        yield begin


@contextmanager
def byte_bars() -> Iterator[BeginBytes]:
    """As `bars`, of bytes."""
    columns = (Label("{task.description:<36}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = screen(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:

        def begin(stage: str, total: int | None) -> Callable[[int], None]:
            task = shown.add_task(stage, total=total)
            return lambda count: shown.advance(task, count)

        yield begin
