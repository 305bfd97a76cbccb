"""The command line: parses, calls, prints; nothing else."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

app = typer.Typer(
    help="Train, explain and ship 1-bit spiking neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


Begin = Callable[[str, int], Callable[[], None]]


class Reproducible(StrEnum):
    """What `reproduce` can redo."""

    coding = "coding"


class Loss(StrEnum):
    """How the error is taken over time."""

    mean = "mean"
    sum = "sum"


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


@app.command()
def reproduce(
    what: Annotated[Reproducible, typer.Argument(help="coding: the temporal coding task of Fig. 4.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results (default: runs/WHAT).")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Networks trained for each case.")] = 20,
    iterations: Annotated[int, typer.Option(min=2, help="Training iterations.")] = 1000,
    case: Annotated[
        list[str] | None, typer.Option(help="Only this case; may be repeated. A wrong name lists the known ones.")
    ] = None,
    loss: Annotated[
        Loss, typer.Option(help="Error over time: its mean (released code) or its sum (the paper's text).")
    ] = Loss.mean,
    animation: Annotated[bool, typer.Option(help="Write the GIF.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Redo a result of the paper: train, test its claims, and write figure, animation, page and numbers."""
    from bitspike.experiments.coding_report import reproduce_coding
    from bitspike.ops.buffers import keep_freed_memory

    keep_freed_memory()
    out = out or Path("runs") / what.value
    try:
        summary = _with_bars(
            lambda begin: reproduce_coding(
                out,
                seeds=seeds,
                iterations=iterations,
                cases=case,
                loss=loss.value,
                animation=animation,
                command=shlex.join(["bitspike", *sys.argv[1:]]),
                progress=begin,
            )
        )
    except KeyboardInterrupt:
        typer.echo(f"bitspike: interrupted; no summary was written to {out}", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _show_coding(summary, out, animation)


def _with_bars(job: Callable[[Begin], dict[str, Any]]) -> dict[str, Any]:
    """Run a job that is given how to begin a bar; they go to stderr, so that --json leaves stdout to the result."""
    columns = (
        TextColumn("{task.description:<36}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        def begin(stage: str, steps: int) -> Callable[[], None]:
            task = bars.add_task(stage, total=steps)
            return lambda: bars.advance(task)

        return job(begin)


def _show_coding(summary: dict[str, Any], out: Path, animation: bool) -> None:
    console = Console()
    table = Table(
        title=f"Temporal coding, {len(summary['seeds'])} seeds, {summary['statistics_over']}", title_justify="left"
    )
    table.add_column("case", no_wrap=True)
    for heading in ("t=75", "within 1", "t=68-76", "active", "spikes", "dead", "loss"):
        table.add_column(heading, justify="right")
    for name, case in summary["cases"].items():
        table.add_row(
            name,
            *(f"{case[key]:.0%}" for key in ("exact", "near", "due", "active")),
            f"{case['spikes']:.1f}",
            f"{case['hidden_dead']:.0%}",
            f"{case['final_loss_median']:.4g}",
        )
    console.print(table)
    claims = Table(title="The paper's claims", title_justify="left")
    for heading in ("case", "claim", "here", "measured"):
        claims.add_column(heading, overflow="fold")
    for claim in summary["claims"]:
        claims.add_row(claim["case"], claim["claim"], "holds" if claim["holds"] else "does not", claim["evidence"])
    console.print(claims)
    console.print(f"figure     {out / 'coding.png'}", soft_wrap=True)
    if animation:
        console.print(f"animation  {out / 'coding.gif'}", soft_wrap=True)
    console.print(f"page       {out / 'coding.html'}  (open in a browser: a slider over training)", soft_wrap=True)
    console.print(f"numbers    {out / 'summary.json'}  ({summary['seconds']} s)", soft_wrap=True)


def main() -> None:
    """The `bitspike` command: errors end in one line; BITSPIKE_DEBUG=1 shows where they come from."""
    try:
        app()
    except (ValueError, TypeError, KeyError, OSError, ImportError, MemoryError) as error:
        if os.environ.get("BITSPIKE_DEBUG"):
            raise
        message = error.args[0] if isinstance(error, KeyError) and error.args else error
        typer.echo(f"bitspike: {message}", err=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
