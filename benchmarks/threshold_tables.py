"""The tables of benchmarks/threshold_study.py: accuracy by level, and what each level loses to the best one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def tables(rows: Sequence[Row]) -> str:
    """Return Markdown: for each network the accuracy on each set by level and method, then the losses of levels."""
    parts = []
    for net in dict.fromkeys(row["net"] for row in rows):
        own = [row for row in rows if row["net"] == net]
        parts += [f"\n{net}: test accuracy in percent, mean and sigma over the seeds\n", _accuracies(own)]
        parts += [f"\n{net}: points behind the best level of the same set and method\n", _losses(own)]
    return "\n".join(parts)


def losses(rows: Sequence[Row]) -> dict[tuple[str, float], list[float]]:
    """Return by method and level: on each set, how many points its mean accuracy is behind the best level's."""
    means = {(row["set"], row["method"], row["level"]): statistics.mean(row["accuracy"]) for row in rows}
    best: dict[tuple[str, str], float] = {}
    for (name, method, _), mean in means.items():
        best[name, method] = max(mean, best.get((name, method), 0.0))
    found: dict[tuple[str, float], list[float]] = {}
    for (name, method, level), mean in means.items():
        found.setdefault((method, level), []).append(best[name, method] - mean)
    return found


def _accuracies(rows: Sequence[Row]) -> str:
    levels = sorted({row["level"] for row in rows})
    lines = [_line(["set", "method", *(f"{level:g} x" for level in levels)]), _line(["---"] * (2 + len(levels)))]
    for name, method in dict.fromkeys((row["set"], row["method"]) for row in rows):
        cells = {row["level"]: row["accuracy"] for row in rows if (row["set"], row["method"]) == (name, method)}
        lines.append(_line([name, method, *(_mean_and_sigma(cells.get(level, [])) for level in levels)]))
    return "\n".join(lines)


def _losses(rows: Sequence[Row]) -> str:
    found = losses(rows)
    levels = sorted({level for _, level in found})
    lines = [_line(["method", "", *(f"{level:g} x" for level in levels)]), _line(["---"] * (2 + len(levels)))]
    for method in dict.fromkeys(method for method, _ in found):
        for name, measure in (("mean", statistics.mean), ("worst set", max)):
            lines.append(_line([method, name, *(f"{measure(found[method, level]):.1f}" for level in levels)]))
    return "\n".join(lines)


def _mean_and_sigma(values: Sequence[float]) -> str:
    if not values:
        return "-"
    sigma = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.1f} +- {sigma:.1f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
