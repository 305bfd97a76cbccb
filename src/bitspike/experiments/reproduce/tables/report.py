"""The report of `reproduce static`: what the complete trials in a folder came to, beside the paper's figures."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bitspike.analysis.static_figures import Descent, Fired, Group, Line, draw_curves, draw_spikes
from bitspike.experiments.assembly import FREE, Setting, differences
from bitspike.experiments.provenance import versions
from bitspike.experiments.reproduce.static.activity import Activity, activity_of
from bitspike.experiments.reproduce.static.cells import ABLATIONS, BASE, PROTOCOLS, TASKS
from bitspike.experiments.reproduce.static.results import SIGMA_IS, Figures, Result, distance, effect, read_results
from bitspike.experiments.reproduce.static.table import table
from bitspike.experiments.schema import with_values
from bitspike.files import write_text

FILES = ("summary.json", "table.md", "curves.png", "spikes.png")  # to look at; curves.json is to draw with
Key = tuple[str, str, str]  # protocol, task, cell


def write_report(out: Path, setting: Setting) -> dict[str, Any]:
    """summary.json, table.md, curves and spikes of all complete trials in `out`; gives the summary."""
    results = {(each.protocol, each.task, each.name): each for each in read_results(out)}
    if not results:
        raise ValueError(f"reproduce static: {out} holds no complete trial to report on")
    activity = {key: activity_of(each, setting) for key, each in results.items() if each.is_variant}
    summary: dict[str, Any] = {
        "task": "static data: test accuracy in percent, over trials",
        "reported_by": {"command": setting.command, "versions": versions()},  # each cell has those it was trained by
        "sigmas_are": SIGMA_IS,
        "seconds_training": round(sum(_seconds(each) for each in results.values()), 1),
        "cells": _nested({key: describe(each, activity.get(key)) for key, each in results.items()}),
        "ablations": _nested(effects(results)),
    }
    write_text(out / "summary.json", json.dumps(summary, indent=2) + "\n")
    write_text(out / "table.md", table(summary))
    write_text(out / "curves.json", json.dumps(_nested({key: curves(each) for key, each in results.items()})) + "\n")
    groups = _groups(results, activity)
    draw_curves(groups, out / "curves.png")
    if fired := [group for group in groups if group.activity]:
        draw_spikes(fired, out / "spikes.png")
    return summary


def describe(result: Result, activity: Activity | None = None) -> dict[str, Any]:
    """One cell in plain values."""
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
        "unlike_preset": _distinct(change for each in summaries for change in each["unlike_preset"]),
        "warnings": list(dict.fromkeys(warning for each in summaries for warning in each["warnings"])),
        "commands": list(dict.fromkeys(each["command"] for each in summaries)),
        "versions": _distinct(each["versions"] for each in summaries),
        "seconds": round(_seconds(result), 1),
        "activity": _brief(activity) if activity else None,
    }


def curves(result: Result) -> list[dict[str, Any]]:
    """Of each trial: its seed, and by epoch the accuracy it is chosen by and in training (percent), and the loss."""
    return [
        {
            "seed": trial.summary["seed"],
            f"{trial.chosen_on}_accuracy": [round(each, 2) for each in trial.accuracies()],
            "train_accuracy": [round(100 * row["train_accuracy"], 2) for row in trial.rows],
            "train_loss": [round(row["train_loss"], 5) for row in trial.rows],
        }
        for trial in result.trials
    ]


def _brief(activity: Activity) -> dict[str, Any]:
    """Without histograms, which are in activity.json."""
    values = asdict(activity)
    for layer in values["layers"]:
        del layer["histogram"]
    return values


def _by_layer(summaries: Sequence[Mapping[str, Any]], what: str) -> dict[str, float] | None:
    """Mean over trials, of each one's chosen epoch on the test set."""
    known = [each[what] for each in summaries if each[what] is not None]
    return {name: statistics.mean(each[name] for each in known) for name in known[0]} if known else None


def _distinct(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _seconds(result: Result) -> float:
    """Of trials that were trained side by side each has the seconds of all."""
    alone, joint = 0.0, dict[str, float]()
    for summary in (trial.summary for trial in result.trials):
        if "together" in summary:
            session = str(summary.get("together_since"))
            joint[session] = max(joint.get(session, 0.0), float(summary["seconds"]))
        else:
            alone += float(summary["seconds"])
    return alone + sum(joint.values())


def effects(results: Mapping[Key, Result]) -> dict[Key, dict[str, Any]]:
    """Each ablation against the annealed cell of its task and protocol: by seed, after equally many epochs."""
    found = {}
    for (protocol, task, name), result in results.items():
        base = results.get((protocol, task, BASE))
        if base is None or name not in ABLATIONS or (pairs := effect(base, result)) is None:
            continue
        gains, spec, settings = pairs.differences, base.trials[0].spec, ABLATIONS[name].settings(base.trials[0].spec)
        meant = with_values(spec, settings)
        others = [differences(meant, trial.spec, free=(*FREE, "seed")) for trial in result.trials]
        found[protocol, task, name] = {
            "sentence": ABLATIONS[name].sentence,
            "settings": settings,
            "also": _distinct(change for changes in others for change in changes),  # runs of other commands
            **asdict(pairs),
            "differences": gains,
            "mean_difference": statistics.mean(gains),
            "sigma_difference": statistics.stdev(gains) if len(gains) > 1 else None,
        }
    return found


def _nested(cells: Mapping[Key, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """By protocol, then task, then cell."""
    tree: dict[str, dict[str, dict[str, Any]]] = {}
    for (protocol, task, name), value in cells.items():
        tree.setdefault(protocol, {}).setdefault(task, {})[name] = value
    return tree


def _groups(results: Mapping[Key, Result], activity: Mapping[Key, Activity | None]) -> list[Group]:
    """A row of panels for each task under each protocol."""
    groups = []
    for protocol, task in ((protocol, task) for protocol in PROTOCOLS for task in TASKS):
        cells = {name: each for (p, t, name), each in results.items() if (p, t) == (protocol, task)}
        if not cells:
            continue
        some = next(iter(cells.values()))
        lines = {name: _line(each) for name, each in cells.items()}
        base = cells.get(BASE)
        fired = {name: found for name in cells if (found := activity.get((protocol, task, name))) is not None}
        groups.append(
            Group(
                title=f"{some.trials[0].summary['data']}, {protocol}",
                accuracy_on="test" if protocol == "paper" else "validation",
                variants=[line for name, line in lines.items() if cells[name].is_variant],
                ablations=[line for name, line in lines.items() if name == BASE or not cells[name].is_variant],
                descent=_descent(base) if base and any(trial.rows for trial in base.trials) else None,
                activity={name: Fired(found.layers, found.steps) for name, found in fired.items()},
            )
        )
    return groups


def _line(result: Result) -> Line:
    paper = result.trials[0].summary["paper"]
    return Line(result.name, [t.accuracies() for t in result.trials if t.rows], paper["mean"] if paper else None)


def _descent(base: Result) -> Descent:
    trials = [trial for trial in base.trials if trial.rows]
    last = max(trial.rows[-1]["step"] for trial in trials)
    first = trials[0]
    theta = first.spec.net.schedules(len(first.rows[0]["theta"]))[-1]
    steps = sorted({round(last ** (i / 200)) for i in range(201)})  # evenly spread on a logarithmic axis
    return Descent(
        [[row["step"] for row in trial.rows] for trial in trials],
        [[row["train_loss"] for row in trial.rows] for trial in trials],
        steps,
        [theta(step) for step in steps],
    )
