"""The command `bitspike reproduce coding`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bitspike.cli.console import bars, echo_json, say
from bitspike.cli.options import AsJson
from bitspike.cli.process import tune_process
from bitspike.terminal import draw, screen, table


class Loss(StrEnum):
    """The sum or the mean of the error over time."""

    mean = "mean"
    sum = "sum"


def coding(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/coding"),
    seeds: Annotated[int, typer.Option(min=1, help="Networks trained for each case.")] = 20,
    iterations: Annotated[int, typer.Option(min=2, help="Training iterations.")] = 1000,
    case: Annotated[
        list[str] | None, typer.Option(help="Only this case; may be repeated. A wrong name lists the known ones.")
    ] = None,
    loss: Annotated[
        Loss, typer.Option(help="Error over time: its mean (released code) or its sum (the paper's text).")
    ] = Loss.mean,
    animation: Annotated[bool, typer.Option(help="Write the GIF.")] = True,
    as_json: AsJson = False,
) -> None:
    """The temporal coding task of Fig. 4: train, test its claims, and write figure, animation, page and numbers."""
    tune_process()
    from bitspike.experiments.reproduce.coding.report import reproduce_coding

    try:
        with bars() as begin:
            summary = reproduce_coding(
                out,
                seeds=seeds,
                iterations=iterations,
                cases=case,
                loss=loss.value,
                animation=animation,
                command=shlex.join(["bitspike", *sys.argv[1:]]),
                progress=begin,
            )
    except KeyboardInterrupt:
        say(f"bitspike: interrupted; no summary was written to {out}")
        raise typer.Exit(130) from None
    if as_json:
        echo_json(summary)
    else:
        show_coding(summary, out, animation)


def show_coding(summary: Mapping[str, Any], out: Path, animation: bool) -> None:
    """Print the outcome of each case, the paper's claims, and where the files are."""
    console = screen()
    cases = table(
        f"Temporal coding, {len(summary['seeds'])} seeds, {summary['statistics_over']}",
        words=["case"],
        numbers=["t=75", "t=75±1", "t=68-76", "active", "spikes", "dead", "loss"],
    )
    for name, case in summary["cases"].items():
        cases.add_row(
            name,
            *(f"{case[key]:.0%}" for key in ("exact", "near", "due", "active")),
            f"{case['spikes']:.1f}",
            f"{case['hidden_dead']:.0%}",
            _loss(case["final_loss_median"]),
        )
    draw(cases, console)
    console.print()
    claims = table("The paper's claims", words=["case", "claim", "here", "measured"])
    for claim in summary["claims"]:
        claims.add_row(claim["case"], claim["claim"], "holds" if claim["holds"] else "does not", claim["evidence"])
    draw(claims, console)
    console.print()
    console.print(f"figure     {out / 'coding.png'}", soft_wrap=True)
    if animation:
        console.print(f"animation  {out / 'coding.gif'}", soft_wrap=True)
    console.print(f"page       {out / 'coding.html'}  (open in a browser: a slider over training)", soft_wrap=True)
    console.print(f"numbers    {out / 'summary.json'}  ({summary['seconds']} s)", soft_wrap=True)


def _loss(value: float) -> str:
    """Return a loss as text: four digits, or more if there are more before the point, without an exponent."""
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
