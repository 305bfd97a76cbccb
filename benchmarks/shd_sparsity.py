"""The cost of sparse firing: accuracy against hidden spikes a sample, for a ladder of `train.spike_cost`.

    python benchmarks/shd_sparsity.py --seeds 5 --out results/shd-sparsity.json
    python benchmarks/shd_sparsity.py --epochs 1 --limit 64 --seeds 2 --costs 0 1e-3 --out try.json --runs runs/try

Each cost trains the preset `shd/best` with seeds 0, 1, ... side by side, as `bitspike train --trials N --together`
does. A second call with the same folder `--runs` goes on where the first ended. Say "SHD regenerated" with the numbers
if the data was that: the file says which.

A cost is in units of the loss for one hidden spike of one sample. Without a cost `shd/best` ends with a loss near 1 and
7,200 hidden spikes a sample. So all spikes together weigh 0.02 of the loss at 3e-6, as much as the loss at 1.4e-4, and
seven times it at 1e-3: the ladder goes, in factors of 3, from a cost that cannot matter to one that must. (A first
try: 320 samples of SHD regenerated, 100 iterations, norms at a rate of 0.05 so that they get far enough. At 1e-5, 1e-4
and 1e-3 it ended with 12,100, 7,800 and 1,800 hidden spikes a sample.)
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bitspike.experiments.assembly import RunOptions, pick_device
from bitspike.experiments.presets import preset
from bitspike.experiments.runs import train_trials
from bitspike.experiments.schema import Experiment, with_values
from bitspike.files import write_text

COSTS = (0.0, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)
HEAD = "| cost | seeds | test accuracy, mean | sigma | hidden spikes a sample | by layer | silent neurons by layer |"


def train(spec: Experiment, cost: float, seeds: int, runs: Path, options: RunOptions) -> dict[str, Any] | None:
    """Train the trials of one cost; return their row, or None if they were interrupted."""
    folder = runs / f"cost-{cost:g}"
    summary = train_trials(with_values(spec, [f"train.spike_cost={cost!r}"]), folder, seeds, options, together=True)
    if summary is None:
        return None
    trials = [
        json.loads((folder / f"trial-{seed}" / "summary.json").read_text(encoding="utf-8")) for seed in range(seeds)
    ]
    spikes, dead = by_layer(trials, "spikes"), by_layer(trials, "dead")
    return {
        "cost": cost,
        "seeds": summary["seeds"],
        "accuracies": summary["accuracies"],
        "mean": summary["mean"],
        "sigma": summary["sigma"],
        "spikes": spikes,
        "hidden_spikes": None if spikes is None else sum(spikes),
        "dead": dead,
        "test_losses": [trial["test_loss"] for trial in trials],
        "validation_accuracies": [trial.get("valid_accuracy") for trial in trials],
        "endings": summary["endings"],
        "seconds": summary["seconds"],
        "data": summary["data"],
        "versions": summary["versions"],
    }


def by_layer(trials: Sequence[dict[str, Any]], name: str) -> list[float] | None:
    """Return the mean over trials of a number of each hidden layer; None if a trial has no network to judge."""
    if any(trial[name] is None for trial in trials):
        return None
    hidden = [list(trial[name].values())[:-1] for trial in trials]
    return [statistics.mean(values) for values in zip(*hidden, strict=True)]


def shown(row: dict[str, Any]) -> str:
    """Return a row of the table."""

    def numbers(values: Sequence[float | None] | None, form: str) -> str:
        return " + ".join("-" if value is None else format(value, form) for value in values or [None])

    cells = (
        f"{row['cost']:g}",
        str(len(row["seeds"])),
        numbers([row["mean"]], ".2%"),
        numbers([row["sigma"]], ".2%"),
        numbers([row["hidden_spikes"]], ",.0f"),
        numbers(row["spikes"], ",.0f"),
        numbers(row["dead"], ".1%"),
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=float, nargs="+", default=list(COSTS))
    parser.add_argument("--seeds", type=int, default=5, help="networks a cost")
    parser.add_argument("--preset", default="shd/best")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE, such as train.protocol=holdout")
    parser.add_argument("--epochs", type=int, help="instead of the preset's")
    parser.add_argument("--limit", type=int, help="only so many training and test samples, for a try")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--runs", type=Path, default=Path("runs/shd-sparsity"), help="folder of the runs")
    given = parser.parse_args()
    if given.seeds < 1 or not all(cost >= 0 and math.isfinite(cost) for cost in given.costs):
        parser.error("--seeds must be 1 or more, and --costs at least 0")
    settings = ["train.tensorboard=false", *given.set]
    settings += [f"train.epochs={given.epochs}"] if given.epochs else []
    settings += [f"data.{part}_limit={given.limit}" for part in ("train", "test")] if given.limit else []
    command = shlex.join(["python", "benchmarks/shd_sparsity.py", *sys.argv[1:]])
    rows: list[dict[str, Any]] = []
    try:
        spec = with_values(preset(given.preset), settings)
        options = RunOptions(device=pick_device(given.device), resume=True, command=command)
        for cost in given.costs:
            row = train(spec, cost, given.seeds, given.runs, options)
            if row is None:
                sys.exit(f"shd_sparsity: interrupted at cost {cost:g}; call again to go on")
            rows.append(row)
            print(
                *([HEAD, "|--:|--:|--:|--:|--:|--:|--:|"] if len(rows) == 1 else []), shown(row), sep="\n", flush=True
            )
            report = {"what": __doc__.splitlines()[0], "experiment": given.preset, "settings": settings}
            write_text(given.out, json.dumps({**report, "command": command, "rows": rows}, indent=1) + "\n")
    except (OSError, ValueError) as error:
        sys.exit(f"shd_sparsity: {error}")


if __name__ == "__main__":
    main()
