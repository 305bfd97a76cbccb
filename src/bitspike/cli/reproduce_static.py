"""`bitspike reproduce static`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from bitspike.cli.console import bars, echo_json, say
from bitspike.cli.interrupts import catching_interrupts
from bitspike.cli.options import AsJson, Device, Set
from bitspike.cli.process import tune_process
from bitspike.cli.training_progress import show_training
from bitspike.terminal import draw, screen, table

if TYPE_CHECKING:
    import torch

    from bitspike.experiments.assembly import Setting
    from bitspike.experiments.reproduce.static.cells import Cell


class Protocol(StrEnum):
    """Who chooses a trial's best epoch."""

    paper = "paper"
    holdout = "holdout"


class Task(StrEnum):
    """Which data set."""

    mnist = "mnist"
    fashion = "fashion"


class Variant(StrEnum):
    """Which row of the paper's table, or our best."""

    float32 = "float32"
    theta1 = "theta1"
    fixed = "fixed"
    annealed = "annealed"
    best = "best"


def static(
    out: Annotated[Path, typer.Option(help="Folder for runs and report.")] = Path("runs/static"),
    trials: Annotated[int, typer.Option(min=1, help="Networks trained for each cell.")] = 5,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1, help="At most so many epochs (default: the presets', for the paper's rows 500 with patience 100)."
        ),
    ] = None,
    protocol: Annotated[
        list[Protocol] | None,
        typer.Option(help="paper (default): the best test epoch; holdout: validation samples choose. Repeatable."),
    ] = None,
    task: Annotated[list[Task] | None, typer.Option(help="Only this data set; repeatable (default: both).")] = None,
    variant: Annotated[
        list[Variant] | None, typer.Option(help="Only this row; repeatable (default: the paper's four).")
    ] = None,
    ablations: Annotated[bool, typer.Option("--ablations", help="Also changes of the annealed cells.")] = False,
    ablation_trials: Annotated[int, typer.Option(min=1, help="Networks trained for each ablation.")] = 3,
    report: Annotated[
        bool,
        typer.Option(
            "--report", help="Train nothing, whatever else is asked for: report on all complete trials in the folder."
        ),
    ] = False,
    device: Device = "auto",
    set_: Set = None,
    as_json: AsJson = False,
) -> None:
    """The MNIST and FashionMNIST table: train every cell, compare with the paper's figures, draw curves and spikes.

    Goes on by itself: cells in the folder that are complete are read, others are trained to their end.
    """
    tune_process()
    from bitspike.analysis.traces import require_matplotlib
    from bitspike.experiments.assembly import Setting, choose_device
    from bitspike.experiments.presets import VARIANTS
    from bitspike.experiments.reproduce.static.cells import plan
    from bitspike.experiments.reproduce.static.report import write_report

    require_matplotlib()
    where, command = choose_device(device), shlex.join(["bitspike", *sys.argv[1:]])
    if not report:
        cells = plan(
            protocols=[each.value for each in protocol or [Protocol.paper]],
            tasks=[each.value for each in task or Task],
            variants=[each.value for each in variant] if variant else VARIANTS,
            ablations=ablations,
            trials=trials,
            ablation_trials=ablation_trials,
            settings=[*(set_ or []), *([] if epochs is None else [f"train.epochs={epochs}"])],
        )
        _train(cells, out, where, command)
    with bars() as begin:
        summary = write_report(out, Setting(device=where, command=command, progress=begin))
    echo_json(summary) if as_json else show(summary, out)


def _train(cells: Sequence[Cell], out: Path, where: torch.device, command: str) -> None:
    """All cells, with a report after each; ends the program if it is interrupted."""
    from bitspike.experiments.assembly import Setting
    from bitspike.experiments.reproduce.static.cells import train_cells
    from bitspike.experiments.reproduce.static.report import write_report
    from bitspike.experiments.reproduce.static.results import read_results

    with catching_interrupts() as interrupted:

        @contextmanager
        def told(cell: Cell) -> Iterator[Setting]:
            with show_training(cell.spec) as shown:
                shown.runs = cell.trials if where.type == "cpu" else 1  # there side by side
                yield Setting(
                    device=where,
                    command=command,
                    listener=shown.listener(interrupted),
                    progress=shown.begin,
                    started=shown.started,
                )

        read_results(out)  # what cannot be read must not end the command after hours of training
        whole = train_cells(cells, out, told, lambda setting: write_report(out, setting))
    if not whole:
        say(f"bitspike: interrupted; saved in {out}, the same command goes on")
        raise typer.Exit(130)


def show(summary: Mapping[str, Any], out: Path) -> None:
    """A table for each task and protocol, what ablations change, and where the files are."""
    from bitspike.experiments.reproduce.static.report import FILES
    from bitspike.experiments.reproduce.static.table import FAR, remarks

    console = screen()
    for protocol, tasks in summary["cells"].items():
        for task, cells in tasks.items():
            draw(_cells(f"{task}, protocol {protocol}: test accuracy in percent, mean and sigma", cells), console)
            if changes := summary["ablations"].get(protocol, {}).get(task):
                draw(_changes(f"{task}, protocol {protocol}: changes of annealed, by seed", changes), console)
    console.print(f"away: in sigmas of the paper, ! beyond {FAR:g}; n: trials; dead: % of each layer", highlight=False)
    for remark in remarks(summary):
        console.print(remark, highlight=False)
    for title, name in zip(("numbers", "table", "curves", "spikes"), FILES, strict=True):
        if (out / name).is_file():
            console.print(f"{title:<9}{out / name}", soft_wrap=True, highlight=False)


def _cells(title: str, cells: Mapping[str, Any]) -> Table:
    """Our mean beside the paper's; marked where it is far off."""
    from bitspike.experiments.reproduce.static.table import dead_shares, far, number, span

    made = table(title, words=["cell"], numbers=["paper", "ours", "best", "away", "n", "epochs", "dead"])
    for name, cell in cells.items():
        away = number(cell["away"]["sigmas"] if cell["away"] else None, "+.1f") + (" !" if far(cell) else "")
        style = "bold red" if far(cell) else ""
        made.add_row(
            name,
            _spread(cell["paper"] or {"mean": None, "sigma": None}),
            Text(_spread(cell), style),
            number(cell["best"]),
            Text(away, style),
            str(cell["trials"]),
            span(cell["epochs"]),
            dead_shares(cell),
        )
    return made


def _spread(figures: Mapping[str, float | None]) -> str:
    """Mean and sigma."""
    from bitspike.experiments.reproduce.static.table import number

    return f"{number(figures['mean'])} {number(figures['sigma'])}"


def _changes(title: str, changes: Mapping[str, Any]) -> Table:
    from bitspike.experiments.reproduce.static.table import span

    made = table(title, words=["change"], numbers=["annealed", "changed", "difference", "epochs", "by seed"])
    for name, found in changes.items():
        made.add_row(
            name,
            *(f"{sum(found[key]) / len(found[key]):.2f}" for key in ("base", "here")),
            f"{found['mean_difference']:+.2f}",
            span(found["epochs"]),
            " ".join(f"{value:+.2f}" for value in found["differences"]),
        )
    return made
