"""Training of a table's cells, one after the other; complete cells are left as they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import differences
from bitspike.experiments.reproduce.tables.plan import Cell
from bitspike.experiments.reproduce.tables.report import write_report
from bitspike.experiments.reproduce.tables.results import read_results
from bitspike.experiments.reproduce.tables.table import PaperTable
from bitspike.experiments.runs import train_trials
from bitspike.experiments.schema import Experiment, read_run_experiment


def train_table(
    table: PaperTable,
    cells: Sequence[Cell],
    out: Path,
    options_for: Callable[[Cell], AbstractContextManager[RunOptions]],
) -> bool:
    """Train the cells that are not complete, and write the report again after each; return False if interrupted.

    `options_for` gives a cell's options while that cell trains.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(f"reproduce {table.name} trains in one process, but torchrun started several; run it without")
    require_same_experiments(cells, out)
    read_results(table, out)  # an unreadable result must end the command now, not after hours of training
    return train_cells(cells, out, options_for, lambda options: write_report(table, out, options))


def train_cells(
    cells: Sequence[Cell],
    out: Path,
    options_for: Callable[[Cell], AbstractContextManager[RunOptions]],
    after: Callable[[RunOptions], object] = lambda options: None,
) -> bool:
    """Train the cells that are not complete, in order; return False if interrupted: the same call then continues.

    `after` is called after each cell in which something was trained. On a GPU all trials of a cell are trained at the
    same time.
    """
    for cell in cells:
        with options_for(cell) as options:
            begun: list[Path] = []
            watched = replace(options, resume=True, started=_noting(options, begun))
            together = options.device.type == "cuda" and cell.trials > 1
            if train_trials(cell.spec, cell.folder(out), cell.trials, watched, together=together) is None:
                return False
            if begun:
                after(options)
            if options.listener.interrupted() and cell is not cells[-1]:
                return False
    return True


def require_same_experiments(cells: Sequence[Cell], out: Path) -> None:
    """Raise before anything trains if a cell's folder holds runs of another experiment."""
    for cell in cells:
        for trial in range(cell.trials):
            made = cell.folder(out) / f"trial-{trial}" / "experiment.toml"
            if not made.is_file():
                continue
            asked = cell.spec.model_copy(update={"seed": cell.spec.seed + trial})
            if changed := differences(read_run_experiment(made), asked):
                raise ValueError(
                    f"{made.parent} holds another experiment: {'; '.join(changed[:4])}; choose another --out, "
                    "or repeat the --set it was made with"
                )


def _noting(options: RunOptions, begun: list[Path]) -> Callable[..., object]:
    """Return the callback for the start of a run: it adds the run's folder to `begun`, and tells the user."""

    def started(spec: Experiment, data: Any, net: Any, out: Path) -> None:
        begun.append(out)
        options.started(spec, data, net, out)

    return started
