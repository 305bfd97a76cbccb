"""The command `bitspike reproduce static`, and that of any other table of the paper that is made of presets."""

# Annotations are read when a command is made, because a table's tasks are among them: no `annotations` of __future__.

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from bitspike.experiments.reproduce.tables.table import BEST, PROTOCOLS, VARIANTS, PaperTable
from bitspike.terminal import draw, screen, table

if TYPE_CHECKING:
    import torch

    from bitspike.experiments.assembly import RunOptions
    from bitspike.experiments.reproduce.tables.plan import Cell


def table_command(paper: PaperTable) -> Callable[..., None]:
    """Return the command that trains the cells of a table and compares them with the paper's figures."""

    a_protocol, a_variant = _choice("Protocol", PROTOCOLS), _choice("Variant", (*VARIANTS, BEST))
    a_task, an_ablation = _choice("Task", paper.known_tasks), _choice("Ablation", tuple(paper.ablations))
    usual = " and ".join(paper.protocols)

    def command(
        out: Annotated[Path, typer.Option(help="Folder for runs and report.")] = Path("runs") / paper.name,
        trials: Annotated[int, typer.Option(min=1, help="Networks trained for each cell.")] = 5,
        epochs: Annotated[
            int | None,
            typer.Option(
                min=1,
                help="At most so many epochs (default: the presets', for the paper's rows 500 with patience 100).",
            ),
        ] = None,
        protocol: Annotated[
            list[a_protocol] | None,  # type: ignore[valid-type]
            typer.Option(
                help=f"paper: the best test epoch; holdout: validation samples choose. Repeatable (default: {usual})."
            ),
        ] = None,
        task: Annotated[
            list[a_task] | None,  # type: ignore[valid-type]
            typer.Option(
                help="Only this data set; repeatable (default: all of the table"
                f"{' that are here' if paper.skips_missing else ''}){_instead(paper)}."
            ),
        ] = None,
        variant: Annotated[
            list[a_variant] | None,  # type: ignore[valid-type]
            typer.Option(help="Only this row; repeatable (default: the paper's four)."),
        ] = None,
        ablations: Annotated[bool, typer.Option("--ablations", help="Also changes of the annealed cells.")] = False,
        ablation: Annotated[
            list[an_ablation] | None,  # type: ignore[valid-type]
            typer.Option(help="Also this change of the annealed cells; repeatable."),
        ] = None,
        ablation_trials: Annotated[int, typer.Option(min=1, help="Networks trained for each ablation.")] = 3,
        report: Annotated[
            bool,
            typer.Option(
                "--report",
                help="Train nothing, whatever else is asked for: report on all complete trials in the folder.",
            ),
        ] = False,
        device: Device = "auto",
        set_: Set = None,
        as_json: AsJson = False,
    ) -> None:
        tune_process()
        from bitspike.analysis.traces import require_matplotlib
        from bitspike.experiments.assembly import RunOptions, pick_device
        from bitspike.experiments.reproduce.tables.available import available_tasks
        from bitspike.experiments.reproduce.tables.plan import plan
        from bitspike.experiments.reproduce.tables.report import write_report

        require_matplotlib()
        where, typed = pick_device(device), shlex.join(["bitspike", *sys.argv[1:]])
        if not report:
            cells = plan(
                paper,
                protocols=_chosen(protocol) if protocol else paper.protocols,
                tasks=_chosen(task) if task else available_tasks(paper),
                variants=_chosen(variant) if variant else VARIANTS,
                ablations=ablations or _chosen(ablation or []),
                trials=trials,
                ablation_trials=ablation_trials,
                settings=[*(set_ or []), *([] if epochs is None else [f"train.epochs={epochs}"])],
            )
            _train(paper, cells, out, where, typed)
        with bars() as begin:
            summary = write_report(paper, out, RunOptions(device=where, command=typed, progress=begin))
        echo_json(summary) if as_json else show_table(summary, out)

    command.__doc__ = (
        f"{paper.title}: train every cell, compare with the paper's figures, draw curves and spikes.\n\n"
        "Goes on by itself: cells in the folder that are complete are read, others are trained to their end."
    )
    return command


def _instead(paper: PaperTable) -> str:
    """Return the words of a help text that say which tasks are not in the paper; none where all are."""
    return f"; {' and '.join(paper.stand_ins)}: only when named, not in the paper" if paper.stand_ins else ""


def _choice(name: str, values: Sequence[str]) -> Any:
    """Return the type of an option that must be one of `values`."""
    return StrEnum(name, {value: value for value in values})


def _chosen(choices: Any) -> list[Any]:
    """Return the plain values of an option that may be repeated."""
    return [choice.value for choice in choices]


def _train(paper: PaperTable, cells: Sequence["Cell"], out: Path, where: "torch.device", typed: str) -> None:
    """Train the cells and show their progress; end the program if it is interrupted."""
    from bitspike.experiments.assembly import RunOptions
    from bitspike.experiments.reproduce.tables.training import train_table

    with catching_interrupts() as interrupted:

        @contextmanager
        def options_for(cell: "Cell") -> Iterator["RunOptions"]:
            with show_training(cell.spec) as shown:
                shown.runs = cell.trials if where.type == "cpu" else 1  # on a GPU they are trained side by side
                yield RunOptions(
                    device=where,
                    command=typed,
                    listener=shown.listener(interrupted),
                    progress=shown.begin,
                    started=shown.started,
                )

        whole = train_table(paper, cells, out, options_for)
    if not whole:
        say(f"bitspike: interrupted; saved in {out}, the same command goes on")
        raise typer.Exit(130)


def show_table(summary: Mapping[str, Any], out: Path) -> None:
    """Print a table for each task and protocol, the effects of ablations, and where the files are."""
    from bitspike.experiments.reproduce.tables.markdown import FAR, remarks
    from bitspike.experiments.reproduce.tables.report import FILES

    console = screen()
    for protocol, tasks in summary["cells"].items():
        for task, cells in tasks.items():
            draw(_cells_drawn(f"{task}, protocol {protocol}: test accuracy in percent, mean and sigma", cells), console)
            if any("dead_neurons" in cell for cell in cells.values()):
                draw(_dead_drawn(f"{task}, {protocol}: dead neurons, % by layer", cells), console)
            if changes := summary["ablations"].get(protocol, {}).get(task):
                draw(_changes_drawn(f"{task}, protocol {protocol}: changes of annealed, by seed", changes), console)
    console.print(f"away: in sigmas of the paper, ! beyond {FAR:g}; n: trials; dead: % of each layer", highlight=False)
    for remark in remarks(summary):
        console.print(remark, highlight=False)
    for title, name in zip(("numbers", "table", "curves", "spikes"), FILES, strict=True):
        if (out / name).is_file():
            console.print(f"{title:<9}{out / name}", soft_wrap=True, highlight=False)


def _cells_drawn(title: str, cells: Mapping[str, Any]) -> Table:
    """Return a table of our means beside the paper's, marked where they are far off."""
    from bitspike.experiments.reproduce.tables.markdown import dead_shares, far, number, span

    made = table(title, words=["cell"], numbers=["paper", "ours", "best", "away", "n", "epochs", "dead"])
    for name, cell in cells.items():
        away = number(cell["away"]["sigmas"] if cell["away"] else None, "+.1f") + (" !" if far(cell) else "")
        style = "bold red" if far(cell) else ""
        made.add_row(
            name,
            _spread(cell["paper"]) if cell["paper"] else "-",
            Text(_spread(cell), style),
            number(cell["best"]),
            Text(away, style),
            str(cell["trials"]),
            span(cell["epochs"]),
            dead_shares(cell),
        )
    return made


def _dead_drawn(title: str, cells: Mapping[str, Any]) -> Table:
    """Return a table of the shares of dead neurons: the paper's, and ours at three times in training."""
    from bitspike.experiments.reproduce.tables.markdown import dead_over_time

    made = table(title, words=["cell"], numbers=["paper", "start", "first epoch", "chosen epoch"])
    for name, cell in cells.items():
        if "dead_neurons" in cell:
            made.add_row(name, *dead_over_time(cell))
    return made


def _spread(figures: Mapping[str, Any]) -> str:
    """Return mean and sigma as text."""
    from bitspike.experiments.reproduce.tables.markdown import number

    return f"{number(figures['mean'])} {number(figures['sigma'])}"


def _changes_drawn(title: str, changes: Mapping[str, Any]) -> Table:
    """Return a table of what each ablation changes, by seed."""
    from bitspike.experiments.reproduce.tables.markdown import span

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
