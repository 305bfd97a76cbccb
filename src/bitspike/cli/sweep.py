"""The commands `bitspike sweep ...`."""

from __future__ import annotations

import typer

from bitspike.cli.app import app
from bitspike.cli.sweep_best import best
from bitspike.cli.sweep_run import run
from bitspike.cli.sweep_show import show

sweeps = typer.Typer(help="Search for hyperparameters: run many trials, show what they found.", no_args_is_help=True)
app.add_typer(sweeps, name="sweep")
sweeps.command()(run)
sweeps.command()(show)
sweeps.command()(best)
