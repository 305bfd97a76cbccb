"""The command `bitspike reproduce coding`, one for each table of the paper that is made of presets, and all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitspike.cli.app import app
from bitspike.cli.options import Device
from bitspike.cli.reproduce_coding import coding
from bitspike.cli.reproduce_table import table_command
from bitspike.experiments.reproduce.catalog import TABLES

results = typer.Typer(
    help="Redo a result of the paper: train, compare with its claims and figures, write pictures and numbers.",
    no_args_is_help=True,
)
app.add_typer(results, name="reproduce")

results.command()(coding)
_commands = {table.name: table_command(table) for table in TABLES.values()}
for _name, _command in _commands.items():
    results.command(_name)(_command)


@results.command("all")
def everything(
    out: Annotated[Path, typer.Option(help="Folder of all results, each in a folder of its own.")] = Path("runs"),
    trials: Annotated[int, typer.Option(min=1, help="Networks trained for each cell of a table.")] = 5,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="At most so many epochs for each cell (default: the presets').")
    ] = None,
    device: Device = "auto",
) -> None:
    """All of them, one after the other: the temporal coding task, then every table with its usual options."""
    coding(out=out / "coding")
    for name, command in _commands.items():
        command(out=out / name, trials=trials, epochs=epochs, device=device)
