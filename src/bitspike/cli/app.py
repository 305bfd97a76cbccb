"""The `bitspike` command itself; every other file in this folder adds a command to it."""

from __future__ import annotations

from typing import Annotated

import typer

from bitspike.cli.console import echo

app = typer.Typer(
    help="Train, explain and ship 1-bit spiking neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
