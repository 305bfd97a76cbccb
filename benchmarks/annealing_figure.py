"""The figure and the table of benchmarks/annealing.py."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]

COLORS = {"fixed": "tab:red", "annealed": "tab:blue", "moving": "tab:cyan", "start": "tab:gray"}
LABELS = {
    "fixed": r"fixed at $\theta_\infty$",
    "annealed": "annealed, surrogate clamped",
    "moving": "annealed, surrogate moving",
    "start": r"fixed at $\theta_0$",
}
NORMS = {"none": "no batch norm", "shared": "batch norm"}


def read(path: Path) -> list[Row]:
    """Return the finished cells; of those that were tuned, the best."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    best: dict[tuple[Any, ...], Row] = {}
    for row in lines[1:]:
        if "error" not in row and all(row["accuracy"]):
            key = tuple(row[name] for name in ("depth", "keep", "norm", "level", "method"))
            best[key] = max(row, best.get(key, row), key=lambda each: statistics.mean(final(each)))
    return list(best.values())


def final(row: Row) -> list[float]:
    """Return the accuracy of the last epoch, for each seed."""
    return [run[-1] for run in row["accuracy"]]


def dead(row: Row, when: str = "dead") -> list[float]:
    """Return the percent of hidden neurons that fire for no test image, averaged over layers, for each seed."""
    return [100 * statistics.mean(layers[:-1]) for layers in row[when]]


def quick(row: Row) -> list[float]:
    """Return the mean accuracy over the epochs, for each seed: the higher, the sooner it converged."""
    return [statistics.mean(run) for run in row["accuracy"]]


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Return the mean and the sample's sigma."""
    values = list(values)
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def columns(rows: list[Row]) -> list[tuple[int, float]]:
    """Return the panels: by depth with all pixels, then by sparsity."""
    return sorted({(row["depth"], row["keep"]) for row in rows}, key=lambda setting: (-setting[1], setting[0]))


def draw(path: Path, picture: Path) -> None:
    """Draw the last epoch's accuracy, and the dead share of hidden neurons, over the final threshold."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = read(path)
    panels, norms = columns(rows), [norm for norm in NORMS if any(row["norm"] == norm for row in rows)]
    figure, axes = pyplot.subplots(
        2 * len(norms), len(panels), figsize=(2.1 * len(panels) + 0.8, 3.6 * len(norms) + 0.9), sharex=True,
        sharey="row", squeeze=False,
    )  # fmt: skip
    for column, (depth, keep) in enumerate(panels):
        for i, norm in enumerate(norms):
            mine = [row for row in rows if (row["depth"], row["keep"], row["norm"]) == (depth, keep, norm)]
            for axis, measure in ((axes[2 * i][column], final), (axes[2 * i + 1][column], dead)):
                _panel(axis, mine, measure)
        axes[0][column].set_title(f"{depth} layers" if keep == 1 else f"{keep:.0%} of pixels", fontsize=10)
        axes[-1][column].set_xlabel(r"$\theta_\infty$ / drive")
    for i, norm in enumerate(norms):
        axes[2 * i][0].set_ylabel(f"{NORMS[norm]}\naccuracy, %")
        axes[2 * i + 1][0].set_ylabel(f"{NORMS[norm]}\ndead neurons, %")
    handles = {h.get_label(): h for axis in axes.flat for h in axis.get_legend_handles_labels()[0]}
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles), frameon=False)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)
    pyplot.close(figure)


def _panel(axis: Any, rows: list[Row], measure: Any) -> None:
    axis.set_xscale("log", base=2)
    axis.grid(alpha=0.3)
    for method, color in COLORS.items():
        mine = sorted((row for row in rows if row["method"] == method), key=lambda row: row["level"])
        if not mine:
            continue
        spreads = [spread(measure(row)) for row in mine]
        if method == "start":
            axis.axhline(spreads[0][0], color=color, linestyle=":", label=LABELS[method])
            continue
        levels, means = [row["level"] for row in mine], [mean for mean, _ in spreads]
        axis.plot(levels, means, "o-", color=color, markersize=3, label=LABELS[method])
        low, high = [mean - sigma for mean, sigma in spreads], [mean + sigma for mean, sigma in spreads]
        axis.fill_between(levels, low, high, color=color, alpha=0.2, linewidth=0)
    if levels := sorted({row["level"] for row in rows if row["level"]}):
        axis.set_xticks(levels, [f"{level:g}" for level in levels])


def table(path: Path) -> str:
    """Return a Markdown table: a line for each setting and level; accuracy, dead share and mean accuracy by method."""
    rows = read(path)
    lines = [
        "| layers | pixels | norm | level | " + " | ".join(COLORS) + " |",
        "|---|---|---|---|" + "---|" * len(COLORS),
    ]
    points = sorted({(r["norm"], -r["keep"], r["depth"], r["level"]) for r in rows if r["level"]})
    for norm, minus_keep, depth, level in points:
        mine = [r for r in rows if (r["norm"], -r["keep"], r["depth"]) == (norm, minus_keep, depth)]
        by_method = {r["method"]: r for r in mine if r["level"] in (level, 0.0)}
        entries = [_entry(by_method.get(method)) for method in COLORS]
        lines.append(f"| {depth} | {-minus_keep:g} | {norm} | {level:g} | " + " | ".join(entries) + " |")
    return "\n".join(
        [*lines, "", "accuracy +- sigma of the last epoch / mean over epochs / dead hidden neurons, percent"]
    )


def _entry(row: Row | None) -> str:
    if row is None:
        return ""
    mean, sigma = spread(final(row))
    return f"{mean:.1f} +- {sigma:.1f} / {spread(quick(row))[0]:.1f} / {spread(dead(row))[0]:.0f}"
