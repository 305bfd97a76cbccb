"""The report on a table: the results of the complete trials in a folder, beside the paper's figures."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bitspike.analysis.static_figures import draw_curves, draw_spikes
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.provenance import versions
from bitspike.experiments.reproduce.tables.activity import Activity, activity_of
from bitspike.experiments.reproduce.tables.available import missing_tasks
from bitspike.experiments.reproduce.tables.effects import distinct, effects
from bitspike.experiments.reproduce.tables.figures import SIGMA_IS, Figures, distance
from bitspike.experiments.reproduce.tables.markdown import markdown
from bitspike.experiments.reproduce.tables.pictures import panels
from bitspike.experiments.reproduce.tables.results import Key, Result, read_results
from bitspike.experiments.reproduce.tables.starts import Start, starts_of
from bitspike.experiments.reproduce.tables.table import PaperTable
from bitspike.files import write_text

FILES = ("summary.json", "table.md", "curves.png", "spikes.png")  # to look at; curves.json is to draw with


def write_report(table: PaperTable, out: Path, options: RunOptions) -> dict[str, Any]:
    """Write summary.json, table.md, curves and spikes of all complete trials in `out`; return the summary."""
    results = {(each.protocol, each.task, each.name): each for each in read_results(table, out)}
    if not results:
        raise ValueError(f"reproduce {table.name}: {out} holds no complete trial to report on")
    activity = {key: activity_of(each, options) for key, each in results.items() if each.is_variant}
    cells = {key: describe(each, activity.get(key)) for key, each in results.items()}
    for key, each in results.items():
        if table.dead_over_time and each.is_variant:
            cells[key]["dead_neurons"] = dead_neurons(table, each, starts_of(each, options))
    summary: dict[str, Any] = {
        "task": f"{table.about}: test accuracy in percent, over trials",
        "reported_by": {"command": options.command, "versions": versions()},  # a cell has its own versions
        "sigmas_are": SIGMA_IS,
        "seconds_training": round(sum(training_seconds(each) for each in results.values()), 1),
        "cells": _nested(cells),
        "ablations": _nested(effects(table, results)),
    }
    for key, each in results.items():
        if held := each.trials[0].summary.get("held_out"):
            cells[key]["held_out"] = held
    reported = {task for _, task, _ in results}
    if instead := {task: what for task, what in table.stand_ins.items() if task in reported}:
        summary["stand_ins"] = instead
    if missing := missing_tasks(table, reported, options.data_root):
        summary["not_available"] = missing
    write_text(out / "summary.json", json.dumps(summary, indent=2) + "\n")
    write_text(out / "table.md", markdown(summary))
    write_text(out / "curves.json", json.dumps(_nested({key: curves(each) for key, each in results.items()})) + "\n")
    groups = panels(table, results, activity)
    draw_curves(groups, out / "curves.png")
    if fired := [group for group in groups if group.activity]:
        draw_spikes(fired, out / "spikes.png")
    return summary


def describe(result: Result, activity: Activity | None = None) -> dict[str, Any]:
    """Return one cell as plain values."""
    trials = result.trials
    summaries = [trial.summary for trial in trials]
    accuracies = result.accuracies()
    here, paper = Figures.of(accuracies), summaries[0]["paper"]
    return {
        "experiment": summaries[0]["experiment"],
        "data": summaries[0]["data"],
        "edition": summaries[0]["edition"],
        "trials": len(trials),
        "seeds": [each["seed"] for each in summaries],
        **asdict(here),
        "accuracies": accuracies,
        "accuracy_of": summaries[0]["accuracy_of"],
        "paper": paper,
        "away": distance(here, paper),
        "epochs": [each["epochs"] for each in summaries],
        "best_epochs": [each["best_epoch"] for each in summaries],
        "endings": [each["ended"] for each in summaries],
        "spikes": _by_layer(summaries, "spikes"),
        "dead": _by_layer(summaries, "dead"),
        "unlike_preset": distinct(change for each in summaries for change in each["unlike_preset"]),
        "warnings": list(dict.fromkeys(warning for each in summaries for warning in each["warnings"])),
        "commands": list(dict.fromkeys(without_folder(each["command"]) for each in summaries)),
        "versions": distinct(each["versions"] for each in summaries),
        "seconds": round(training_seconds(result), 1),
        "activity": _brief(activity) if activity else None,
    }


def dead_neurons(table: PaperTable, result: Result, starts: Sequence[Start]) -> dict[str, Any]:
    """Return the shares of dead neurons by layer in percent, the mean over trials, at three times in training.

    `start` (before the first iteration) and `chosen` (the chosen epoch) are on the test samples, `first_epoch` (after
    it) on those that judge epochs.
    """
    first = [trial.rows[0]["dead"] for trial in result.trials if trial.rows]
    chosen = [list(each["dead"].values()) for trial in result.trials if (each := trial.summary)["dead"] is not None]
    paper = table.dead.get(result.task, {}).get(result.name)
    return {
        "paper": None if paper is None else list(paper),
        "start": _mean_percent([each.dead for each in starts]),
        "first_epoch": _mean_percent(first),
        "chosen": _mean_percent(chosen),
    }


def _mean_percent(shares: Sequence[Sequence[float]]) -> list[float] | None:
    """Return the mean share of each layer in percent; None if there is nothing to take the mean of."""
    return [100 * statistics.mean(layer) for layer in zip(*shares, strict=True)] if shares else None


def without_folder(command: str) -> str:
    """Return a command without its `--out DIR`: a cell may be moved, and its numbers do not depend on the folder."""
    return re.sub(r" --out[ =]('[^']*'|\"[^\"]*\"|\S)+", "", command)


def curves(result: Result) -> list[dict[str, Any]]:
    """Return each trial's seed and, by epoch, what was measured in it.

    Accuracies on the samples that choose and on those of training, and shares of dead neurons, are in percent.
    Thresholds and shares of dead neurons are lists by layer.
    """
    return [
        {
            "seed": trial.summary["seed"],
            f"{trial.chosen_on}_accuracy": [round(each, 2) for each in trial.accuracies()],
            "train_accuracy": [round(100 * row["train_accuracy"], 2) for row in trial.rows],
            "train_loss": [round(row["train_loss"], 5) for row in trial.rows],
            "theta": _by_epoch([[round(theta, 4) for theta in row["theta"]] for row in trial.rows]),
            "dead": _by_epoch([[round(100 * share, 2) for share in row["dead"]] for row in trial.rows]),
        }
        for trial in result.trials
    ]


def _by_epoch(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return a list of epochs for each layer, from a list of layers for each epoch."""
    return [list(layer) for layer in zip(*rows, strict=True)]


def _brief(activity: Activity) -> dict[str, Any]:
    """Return the activity without its histograms, which are in activity.json."""
    values = asdict(activity)
    for layer in values["layers"]:
        del layer["histogram"]
    return values


def _by_layer(summaries: Sequence[Mapping[str, Any]], what: str) -> dict[str, float] | None:
    """Return the mean of a layer's figure over trials, each at its chosen epoch on the test set."""
    known = [each[what] for each in summaries if each[what] is not None]
    return {name: statistics.mean(each[name] for each in known) for name in known[0]} if known else None


def training_seconds(result: Result) -> float:
    """Return the cell's training time; trials that were trained together share one time."""
    alone, joint = 0.0, dict[str, float]()
    for summary in (trial.summary for trial in result.trials):
        if "together" in summary:
            session = str(summary.get("together_since"))
            joint[session] = max(joint.get(session, 0.0), float(summary["seconds"]))
        else:
            alone += float(summary["seconds"])
    return alone + sum(joint.values())


def _nested(cells: Mapping[Key, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the values as tables in tables: by protocol, then task, then cell."""
    tree: dict[str, dict[str, dict[str, Any]]] = {}
    for (protocol, task, name), value in cells.items():
        tree.setdefault(protocol, {}).setdefault(task, {})[name] = value
    return tree
