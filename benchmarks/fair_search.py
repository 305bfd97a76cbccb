"""Does annealing win when every variant is tuned alike? A search for each, its best trials trained long, one table.

    python benchmarks/fair_search.py fashion|shd --out DIR [--stage search|long|report] [--trials 500] [--epochs N]
        [--best 3] [--seeds 5] [--long 110] [--workers 4] [--together 10] [--processes 1] [--minutes M]
        [--only VARIANTS] [--set KEY=VALUE ...]

The variants are theta = 1, a fixed theta, annealed thresholds with the clamped surrogate, and with one that moves. Each
gets the same number of short trials in the paper's space, judged by validation samples. The learning rate's half period
is the length of a trial. The best trials of each are trained for `--long` epochs with several seeds; the learning
rate's period and the rates of the thresholds are stretched alike (`bitspike sweep best --epochs N --scale`). Validation
samples choose the epoch and, among a variant's settings, the one whose test accuracy counts. `--processes` searches, or
long trainings, run at once. Every stage goes on where it was stopped, by `--minutes` or otherwise. `report` writes
DIR/fair-search.json, and DIR/fair-search.png where matplotlib is installed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bitspike.experiments.provenance import versions
from bitspike.experiments.schema import as_values, read_experiment
from bitspike.experiments.sweep.overview import overview
from bitspike.experiments.sweep.studies import open_study
from bitspike.files import write_text

VARIANTS = {  # title, preset, settings
    "theta1": ("theta = 1", "theta1", ()),
    "fixed": ("fixed theta", "fixed", ()),
    "annealed": ("annealed, clamped", "annealed", ()),
    "moving": ("annealed, moving", "annealed", ("net.surrogate_center=current",)),
}
EPOCHS = {"fashion": 3, "shd": 5}  # of a trial; rates are stretched later, so that slow thresholds are searched, too
ITERATIONS = {"fashion": 422, "shd": 219}  # an epoch, without the validation samples


@dataclass(frozen=True, slots=True)
class Setting:
    """One of a variant's best trials: its experiment file and its long trainings."""

    variant: str
    rank: int
    trial: int
    found: float
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder.with_suffix(".toml")


class TimeIsUp(Exception):
    """The minutes that were given are over."""


def bitspike(*arguments: str, out: Path | None = None, ends: float = float("inf")) -> None:
    """Run a command of bitspike; its output goes into the file, or to the terminal.

    At `ends`, by the monotonic clock, it is asked to stop, and TimeIsUp is raised.
    """
    if time.monotonic() >= ends:
        raise TimeIsUp
    command = [sys.executable, "-m", "bitspike", *arguments]
    print(f"+ bitspike {shlex.join(arguments)}\n", end="", flush=True)  # in one piece: others print, too
    if out is not None:
        write_text(out, subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return
    process = subprocess.Popen(command)
    try:
        status = process.wait(None if ends == float("inf") else max(ends - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()
        raise TimeIsUp from None
    if status:
        raise subprocess.CalledProcessError(status, command)


def at_once(given: argparse.Namespace, calls: Sequence[Callable[[], None]]) -> None:
    """Make all calls, `given.processes` of them at once; the first error is raised when all have ended."""
    with ThreadPoolExecutor(given.processes) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


def search(given: argparse.Namespace) -> None:
    """Run the search of every variant, or go on with it."""
    at_once(given, [partial(search_variant, given, variant) for variant in given.only])


def search_variant(given: argparse.Namespace, variant: str) -> None:
    """Run the search of a variant, or go on with it."""
    epochs = given.epochs or EPOCHS[given.task]
    _, preset, settings = VARIANTS[variant]
    common = [f"train.half_period={epochs * ITERATIONS[given.task]}", *given.settings]
    sets = [word for setting in (*common, *settings) for word in ("--set", setting)]
    bitspike(
        "sweep", "run", f"{given.task}/{preset}", "--trials", str(given.trials), "--epochs", str(epochs),
        "--workers", str(given.workers), "--together", str(given.together), "--device", given.device,
        "--out", str(given.out / variant), "--study", f"{given.task}-{variant}", *sets, ends=given.ends,
    )  # fmt: skip


def best_settings(given: argparse.Namespace) -> Iterator[Setting]:
    """Yield the best trials of every study, the best first."""
    for variant in given.only:
        found = overview(open_study(given.out / variant))
        complete = [each for each in found.outcomes if each.state == "complete" and each.values]
        complete.sort(key=lambda each: (-each.values[0], each.number))
        for rank, each in enumerate(complete[: given.best]):
            folder = given.out / "long" / f"{variant}-{rank}"
            yield Setting(variant, rank, each.number, each.values[0], folder)


def train_long(given: argparse.Namespace) -> None:
    """Train the best settings of every variant with several seeds, or go on with them; the best of all come first."""
    settings = sorted(best_settings(given), key=lambda setting: setting.rank)
    at_once(given, [partial(train_setting, given, setting) for setting in settings])


def train_setting(given: argparse.Namespace, setting: Setting) -> None:
    """Train a setting with several seeds, or go on with it."""
    setting.folder.parent.mkdir(parents=True, exist_ok=True)
    if not setting.file.is_file():
        bitspike(
            "sweep", "best", str(given.out / setting.variant), "--trial", str(setting.trial),
            "--epochs", str(given.long), "--scale", out=setting.file, ends=given.ends,
        )  # fmt: skip
    together = ["--together"] if given.together > 1 else []
    bitspike(
        "train", str(setting.file), "--trials", str(given.seeds), *together, "--seed", "0", "--resume",
        "--device", given.device, "--out", str(setting.folder), "--set", "train.tensorboard=false", ends=given.ends,
    )  # fmt: skip


def results_of(setting: Setting) -> dict[str, Any]:
    """Return the figures of a setting's long trainings that have ended."""
    runs = [json.loads(path.read_text()) for path in sorted(setting.folder.glob("trial-*/summary.json"))]
    values = as_values(read_experiment(setting.file, []))
    return {
        "trial": setting.trial,
        "validation_of_the_trial": round(100 * setting.found, 2),
        "validation": [round(100 * run["valid_accuracy"], 2) for run in runs],
        "test": [round(100 * run["accuracy"], 2) for run in runs],
        "epochs": [run["best_epoch"] for run in runs],
        "net": {key: values["net"].get(key) for key in ("beta", "theta", "slope", "norm", "dropout")},
        "train": {key: values["train"].get(key) for key in ("lr", "optimizer", "momentum", "grad_clip", "weight_clip")},
    }


def report(given: argparse.Namespace) -> None:
    """Write the results as JSON and as a figure, and print the table."""
    found: dict[str, Any] = {}
    for setting in best_settings(given):
        found.setdefault(setting.variant, [])
        if setting.file.is_file():  # else its long trainings have not begun
            found[setting.variant].append(results_of(setting))
    rows = {}
    for variant, settings in found.items():
        ended = [each for each in settings if each["validation"]]
        if not ended:
            print(f"{variant}: no long training has ended")
            continue
        chosen = max(ended, key=lambda each: statistics.mean(each["validation"]))
        rows[variant] = {
            "title": VARIANTS[variant][0],
            "trials": overview(open_study(given.out / variant)).standing.complete,
            "settings": settings,
            "chosen": settings.index(chosen),
        }
    print("| variant | best trial | validation | sigma | test | sigma |\n|---|--:|--:|--:|--:|--:|")
    for row in rows.values():
        chosen = row["settings"][row["chosen"]]
        cells = [f"{chosen['validation_of_the_trial']:.1f}"]
        for part in ("validation", "test"):
            sigma = statistics.stdev(chosen[part]) if len(chosen[part]) > 1 else float("nan")
            cells += [f"{statistics.mean(chosen[part]):.2f}", f"{sigma:.2f}"]
        print(f"| {row['title']} | " + " | ".join(cells) + " |")
    result = {
        "command": shlex.join(["python", *sys.argv]), "task": given.task, "trials": given.trials,
        "epochs": [given.epochs or EPOCHS[given.task], given.long], "versions": versions(), "variants": rows,
    }  # fmt: skip
    write_text(given.out / "fair-search.json", json.dumps(result, indent=1) + "\n")
    try:
        draw(rows, given.out / "fair-search.png")
    except ImportError:
        print("no figure: matplotlib is not installed", file=sys.stderr)


def draw(rows: dict[str, Any], path: Path) -> None:
    """Draw each seed's test accuracy, a column for each setting; a line marks the mean of the chosen one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for x, row in enumerate(rows.values()):
        for rank, setting in enumerate(row["settings"]):
            chosen = rank == row["chosen"]
            at = [x + 0.22 * (rank - (len(row["settings"]) - 1) / 2)] * len(setting["test"])
            axes.plot(at, setting["test"], "o", color="tab:blue" if chosen else "0.7", markersize=5)
            if chosen and setting["test"]:
                axes.hlines(statistics.mean(setting["test"]), x - 0.4, x + 0.4, color="tab:blue", linewidth=1)
    axes.set_xticks(range(len(rows)), [row["title"] for row in rows.values()])
    axes.set_ylabel("test accuracy, %")
    axes.set_title("Every seed of the best settings; validation samples chose the blue ones", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the stages that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=list(EPOCHS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stage", choices=list(STAGES), action="append", help="default: all of them, in turn")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--epochs", type=int, help=f"of a trial (default: {EPOCHS})")
    parser.add_argument("--best", type=int, default=3, help="settings of a variant that are trained long")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--long", type=int, default=110, help="epochs of a long training")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--together", type=int, default=10, help="trials of a worker at once; 1: seeds, too")
    parser.add_argument("--processes", type=int, default=1, help="searches, or settings trained long, at once")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then stop; the same command goes on")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    given = parser.parse_args(arguments)
    given.ends = time.monotonic() + 60 * given.minutes
    for stage in given.stage or STAGES:
        try:
            STAGES[stage](given)
        except TimeIsUp:
            print(f"the {given.minutes:g} minutes are over; the same command goes on", file=sys.stderr)


STAGES = {"search": search, "long": train_long, "report": report}

if __name__ == "__main__":
    main()
