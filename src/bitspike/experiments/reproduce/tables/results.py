"""The results of a table's cells: their complete trials, read from their folders."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitspike.experiments.reproduce.tables.table import BEST, PROTOCOLS, VARIANTS, PaperTable
from bitspike.experiments.schema import Experiment, read_run_experiment
from bitspike.train.run_folder import Row, RunFolder, trial_folders

Key = tuple[str, str, str]  # protocol, task, cell
# The fields that are read from a run's summary.json.
READ = (
    *("experiment", "data", "edition", "protocol", "seed", "accuracy", "accuracy_of", "paper", "epochs"),
    *("best_epoch", "ended", "spikes", "dead", "unlike_preset", "warnings", "command", "versions", "seconds"),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """A complete run: its folder, the content of its summary.json, and one row for each epoch."""

    folder: Path
    spec: Experiment
    summary: dict[str, Any]
    rows: list[Row]

    @property
    def chosen_on(self) -> str:
        """The samples that every epoch was judged by: "test" or "valid"."""
        return "test" if self.summary["protocol"] == "paper" else "valid"

    def accuracies(self) -> list[float]:
        """Return the accuracy of each epoch in percent, on the samples that the best epoch is chosen by."""
        return [100 * row[f"{self.chosen_on}_accuracy"] for row in self.rows]


@dataclass(frozen=True, slots=True)
class Result:
    """The complete trials of one cell, at least one."""

    protocol: str
    task: str
    name: str
    folder: Path
    trials: list[Trial]

    @property
    def is_variant(self) -> bool:
        """Return whether the cell is a row of the table, not an ablation."""
        return self.name in (*VARIANTS, BEST)

    def accuracies(self) -> list[float | None]:
        """Return each trial's test accuracy in percent; None where a trial ended before its first epoch."""
        found = (trial.summary["accuracy"] for trial in self.trials)
        return [None if accuracy is None else 100 * accuracy for accuracy in found]

    def best_trial(self) -> Trial | None:
        """Return the trial whose chosen epoch is the most accurate; None where no trial has an epoch."""
        able = [trial for trial in self.trials if trial.rows and RunFolder(trial.folder).best.is_file()]
        return max(able, key=lambda trial: trial.accuracies()[trial.summary["best_epoch"] - 1], default=None)


def read_results(table: PaperTable, out: Path) -> list[Result]:
    """Return all cells in `out` that have a complete trial, in the table's order, also those of earlier commands."""
    found = []
    for protocol in PROTOCOLS:
        for task in table.known_tasks:
            for name in table.rows:
                folder = out / protocol / task / name
                if trials := _read_trials(folder):
                    found.append(Result(protocol, task, name, folder, trials))
    return found


def _read_trials(folder: Path) -> list[Trial]:
    """Return the complete trials in a cell's folder; raise if one of them cannot be read."""
    trials = []
    for path in trial_folders(folder):
        files = RunFolder(path)
        if (summary := files.read_summary()) is not None:
            if missing := [key for key in READ if key not in summary]:
                raise ValueError(f"{path / 'summary.json'} lacks {missing[0]!r}: not the summary of a whole run")
            trials.append(Trial(path, read_run_experiment(files.experiment), summary, _read_rows(files.metrics)))
    return trials


def _read_rows(path: Path) -> list[Row]:
    """Return the rows of metrics.jsonl, one for each epoch."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a row of JSON a line: {error}") from None
