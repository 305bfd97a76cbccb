"""What the cells of `reproduce static` came to: their complete trials, read from their folders."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitspike.experiments.presets import VARIANTS
from bitspike.experiments.reproduce.static.cells import ABLATIONS, BEST, PROTOCOLS, TASKS
from bitspike.experiments.schema import Experiment, read_experiment
from bitspike.train.run_folder import Row, RunFolder, trial_folders

# What is read of a run's summary.json.
READ = (
    *(
        "experiment",
        "data",
        "edition",
        "protocol",
        "seed",
        "accuracy",
        "accuracy_of",
        "paper",
        "epochs",
        "best_epoch",
        "ended",
    ),
    *("spikes", "dead", "unlike_preset", "warnings", "command", "versions", "seconds"),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """A complete run: its folder, what its summary.json says, and a row an epoch."""

    folder: Path
    spec: Experiment
    summary: dict[str, Any]
    rows: list[Row]

    @property
    def chosen_on(self) -> str:
        """What every epoch was judged by: "test" or "valid"."""
        return "test" if self.summary["protocol"] == "paper" else "valid"

    def accuracies(self) -> list[float]:
        """By epoch, in percent, on what the best is chosen by."""
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
        """A row of the table, not an ablation."""
        return self.name in (*VARIANTS, BEST)

    def accuracies(self) -> list[float | None]:
        """Of each trial's chosen epoch on the test set, in percent; None where a trial ended before its first epoch."""
        found = (trial.summary["accuracy"] for trial in self.trials)
        return [None if accuracy is None else 100 * accuracy for accuracy in found]

    def best_trial(self) -> Trial | None:
        """The one whose chosen epoch is the most accurate; None where no trial has an epoch."""
        able = [trial for trial in self.trials if trial.rows and RunFolder(trial.folder).best.is_file()]
        return max(able, key=lambda trial: trial.accuracies()[trial.summary["best_epoch"] - 1], default=None)


def read_results(out: Path) -> list[Result]:
    """All cells in `out` that have a complete trial, in the table's order, whether asked for now or earlier."""
    found = []
    for protocol in PROTOCOLS:
        for task in TASKS:
            for name in (*VARIANTS, BEST, *ABLATIONS):
                folder = out / protocol / task / name
                if trials := _read_trials(folder):
                    found.append(Result(protocol, task, name, folder, trials))
    return found


def _read_trials(folder: Path) -> list[Trial]:
    trials = []
    for path in trial_folders(folder):
        files = RunFolder(path)
        if (summary := files.read_summary()) is not None:
            if missing := [key for key in READ if key not in summary]:
                raise ValueError(f"{path / 'summary.json'} lacks {missing[0]!r}: not the summary of a whole run")
            trials.append(Trial(path, read_experiment(files.experiment), summary, _read_rows(files.metrics)))
    return trials


def _read_rows(path: Path) -> list[Row]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a row of JSON a line: {error}") from None


@dataclass(frozen=True, slots=True)
class Figures:
    """Best, mean and sample sigma (None of a single value)."""

    best: float | None
    mean: float | None
    sigma: float | None

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Figures:
        """Of those that are known."""
        known = [value for value in values if value is not None]
        return cls(
            max(known, default=None),
            statistics.mean(known) if known else None,
            statistics.stdev(known) if len(known) > 1 else None,
        )


SIGMA_IS = (
    "(our mean - the paper's) / sigma; sigma is the paper's, and in `pooled` the root mean square of the paper's and "
    "ours, each a sample sigma over trials"
)


def distance(here: Figures, paper: dict[str, float] | None) -> dict[str, float | None] | None:
    """How many sigma our mean is from the paper's; see SIGMA_IS."""
    if paper is None or here.mean is None:
        return None
    gap, sigma = here.mean - paper["mean"], paper["sigma"]
    pooled = None if here.sigma is None else math.sqrt((sigma**2 + here.sigma**2) / 2)
    return {
        "points": gap,
        "sigmas": gap / sigma if sigma else None,
        "pooled": gap / pooled if pooled else None,
    }


@dataclass(frozen=True, slots=True)
class Effect:
    """An ablation against the annealed cell, seed by seed, each pair after the same number of epochs (percent)."""

    seeds: list[int]
    epochs: list[int]
    base: list[float]
    here: list[float]
    chosen_on: str

    @property
    def differences(self) -> list[float]:
        """Ablation - base of each seed."""
        return [here - base for here, base in zip(self.here, self.base, strict=True)]


def effect(base: Result, ablation: Result) -> Effect | None:
    """The best accuracy of the epochs that both trials of a seed have; None where no seed is in both.

    Taken on what the best epoch is chosen by (test or validation samples): only that is known of every epoch.
    """
    bases = {trial.summary["seed"]: trial for trial in base.trials if trial.rows}
    pairs = [(bases[t.summary["seed"]], t) for t in ablation.trials if t.rows and t.summary["seed"] in bases]
    if not pairs:
        return None
    epochs = [min(len(one.rows), len(two.rows)) for one, two in pairs]
    return Effect(
        [two.summary["seed"] for _, two in pairs],
        epochs,
        [max(one.accuracies()[:n]) for (one, _), n in zip(pairs, epochs, strict=True)],
        [max(two.accuracies()[:n]) for (_, two), n in zip(pairs, epochs, strict=True)],
        ablation.trials[0].chosen_on,
    )
