"""The table, the JSON file and the figure of fair_search.py."""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bitspike.experiments.provenance import versions
from bitspike.experiments.schema import as_values, read_experiment
from bitspike.files import write_atomically, write_text
from fair_search_settings import ASKED, CLASSES, EPOCHS, VARIANTS, Setting, best_settings, studies, unsearched

HEADING = """\
| variant | trials | setting | as a trial | seeds | validation | sigma | test | sigma | |
|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"""
NET = ("beta", "theta", "slope", "norm", "dropout")
TRAIN = ("lr", "optimizer", "momentum", "grad_clip", "weight_clip")


def report(given: argparse.Namespace) -> bool:
    """Print the table of what there is, write JSON and a figure; return whether the stages asked for are complete.

    All variants that have a study are reported, so that a call with `--only` leaves out none of the others.
    """
    found = studies(given, VARIANTS)
    rows = {
        variant: row_of(given, variant, best_settings(given, variant, seen), seen.standing.complete)
        for variant, seen in found.items()
    }
    if missing := [variant for variant in ASKED if variant not in found]:
        print(f"no study yet: {', '.join(missing)}")
    words = {"search": unsearched(given, found), "long": untrained(given, rows)}
    unfinished = [each for stage in words for each in words[stage]]
    if unfinished:
        print(f"not finished: {'; '.join(unfinished)}")
    if not rows:
        return False
    print("\n".join([HEADING, *(line for row in rows.values() for line in lines_of(row))]))
    result = {
        "command": shlex.join(["python", *sys.argv]), "task": given.task, "trials": given.trials,
        "epochs": [given.epochs or EPOCHS[given.task], given.long], "versions": versions(),
        "unfinished": unfinished, "variants": rows,
    }  # fmt: skip
    write_text(given.out / "fair-search.json", json.dumps(result, indent=1) + "\n")
    try:
        write_atomically(given.out / "fair-search.png", lambda to: draw(rows, to))
    except ImportError:
        print("no figure: matplotlib is not installed", file=sys.stderr)
    asked = set(given.stage or words) - {"report"} or set(words)  # the report alone looks at both
    return not any(words[stage] for stage in asked)


def row_of(given: argparse.Namespace, variant: str, settings: Sequence[Setting], trials: int) -> dict[str, Any]:
    """Return a variant's settings with their figures, and which of them validation samples choose."""
    results = [results_of(given, setting) for setting in settings]
    return {
        "title": VARIANTS[variant][0],
        "trials": min(trials, given.trials),  # those that count
        "trials_asked": given.trials,
        "settings": results,
        "chosen": chosen_of(results),
    }


def results_of(given: argparse.Namespace, setting: Setting) -> dict[str, Any]:
    """Return the figures of a setting's long trainings that have ended; one that diverged counts as chance."""
    ended = setting.ended(given.seeds)
    diverged = [seed for seed, run in ended.items() if run["ended"] == "nan" or run["valid_accuracy"] is None]
    chance = 1 / CLASSES[given.task]

    def percents(key: str) -> list[float]:
        return [round(100 * (chance if seed in diverged else run[key]), 2) for seed, run in ended.items()]

    values = as_values(read_experiment(setting.file, [])) if setting.file.is_file() else {"net": {}, "train": {}}
    return {
        "trial": setting.trial,
        "validation_of_the_trial": round(100 * setting.found, 2),
        "seeds": list(ended),
        "seeds_asked": given.seeds,
        "diverged": diverged,
        "validation": percents("valid_accuracy"),
        "test": percents("accuracy"),
        "epochs": [run["best_epoch"] for run in ended.values()],
        "net": {key: values["net"].get(key) for key in NET},
        "train": {key: values["train"].get(key) for key in TRAIN},
    }


def is_complete(result: dict[str, Any]) -> bool:
    """Return whether all seeds of a setting have ended."""
    return bool(len(result["seeds"]) == result["seeds_asked"])


def chosen_of(results: Sequence[dict[str, Any]]) -> int | None:
    """Return which setting has the best validation accuracy; others than complete ones only if there is none."""
    begun = [each for each in results if each["seeds"]]
    among = [each for each in begun if is_complete(each)] or begun
    return results.index(max(among, key=lambda each: statistics.mean(each["validation"]))) if among else None


def untrained(given: argparse.Namespace, rows: dict[str, Any]) -> list[str]:
    """Return words on each variant that was asked for and whose long trainings have not all ended."""
    words = []
    for variant, row in rows.items():
        complete = sum(map(is_complete, row["settings"]))
        if variant in given.only and complete < len(row["settings"]):
            words.append(f"{variant} has {complete} of {len(row['settings'])} settings trained long")
    return words


def lines_of(row: dict[str, Any]) -> list[str]:
    """Return a variant's lines of the table, one for each setting."""
    lines = []
    for index, each in enumerate(row["settings"]):
        cells = [row["title"], f"{row['trials']} of {row['trials_asked']}", f"trial {each['trial']}"]
        cells += [f"{each['validation_of_the_trial']:.1f}", f"{len(each['seeds'])} of {each['seeds_asked']}"]
        for part in ("validation", "test"):
            cells.append(f"{statistics.mean(each[part]):.2f}" if each[part] else "-")
            cells.append(f"{statistics.stdev(each[part]):.2f}" if len(each[part]) > 1 else "-")
        notes = ["**chosen**"] if index == row["chosen"] else []
        notes += [] if is_complete(each) else ["unfinished"]
        notes += [f"{len(each['diverged'])} diverged, counted as chance"] if each["diverged"] else []
        lines.append(f"| {' | '.join([*cells, ', '.join(notes)])} |")
    return lines


def draw(rows: dict[str, Any], path: Path) -> None:
    """Draw each seed's test accuracy, a column for each setting; a line marks the mean of the chosen one.

    Settings of which not all seeds have ended are hollow.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for x, row in enumerate(rows.values()):
        for rank, setting in enumerate(row["settings"]):
            chosen = rank == row["chosen"]
            color = "tab:blue" if chosen else "0.6"
            at = x + 0.22 * (rank - (len(row["settings"]) - 1) / 2)
            fill = color if is_complete(setting) else "none"
            axes.plot(
                [at] * len(setting["test"]), setting["test"], "o", color=color, markerfacecolor=fill, markersize=5
            )
            if chosen:
                axes.hlines(statistics.mean(setting["test"]), x - 0.4, x + 0.4, color="tab:blue", linewidth=1)
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_xticks(range(len(rows)), [textwrap.fill(row["title"], 12) for row in rows.values()])
    axes.set_ylabel("test accuracy, %")
    hollow = not all(is_complete(setting) for row in rows.values() for setting in row["settings"])
    title = "Every seed of the best settings; validation samples chose the blue ones"
    axes.set_title(title + ("; hollow: not all seeds have ended" if hollow else ""), fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
