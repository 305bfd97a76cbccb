"""The command `bitspike reproduce coding`, and one for each table of the paper that is made of presets."""

from __future__ import annotations

import typer

from bitspike.cli.app import app
from bitspike.cli.reproduce_coding import coding
from bitspike.cli.reproduce_table import table_command
from bitspike.experiments.reproduce.catalog import TABLES

results = typer.Typer(
    help="Redo a result of the paper: train, compare with its claims and figures, write pictures and numbers.",
    no_args_is_help=True,
)
app.add_typer(results, name="reproduce")

results.command()(coding)
for _table in TABLES.values():
    results.command(_table.name)(table_command(_table))
