"""The command `bitspike export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitspike.cli.app import app
from bitspike.cli.console import echo, echo_json, say
from bitspike.cli.options import AsJson
from bitspike.cli.process import tune_process

if TYPE_CHECKING:
    from bitspike.experiments.exports import Exported


@app.command()
def export(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run's folder, or one of trials. For c and html also a packed file or a pretrained name.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar="packed|c|html",
            help="packed: a file of one bit a weight; c: a folder of C99 with a Makefile; html: a page that runs it.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write (default: in this folder, by the experiment's name)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the best network of a run, or a packed one, as a file or a folder that runs without PyTorch."""
    tune_process()
    from bitspike.experiments.exports import export_run, lookup_export

    lookup_export(to)  # before a run is read
    done = export_run(run, to, out)
    for note in done.notes:
        say(f"note: {note}")
    if as_json:
        echo_json(_plain(done))
        return
    model = done.model
    echo(f"{model.metadata.get('experiment', model.notation)} ({done.run}): {model.notation}, {model.classes} classes")
    echo(f"weights  {model.weights:,} of one bit each: {done.weight_bytes:,} bytes")
    files = f" in {len(done.files)} files" if len(done.files) > 1 else ""
    echo(f"{done.out}  {done.bytes:,} bytes{files}")
    echo(f"next: {done.then}")


def _plain(done: Exported) -> dict[str, Any]:
    return {
        "run": str(done.run),
        "to": done.to,
        "out": str(done.out),
        "notation": done.model.notation,
        "weights": done.model.weights,
        "weight_bytes": done.weight_bytes,
        "bytes": done.bytes,
        "files": done.files,
        "metadata": done.model.metadata,
        "next": done.then,
    }
