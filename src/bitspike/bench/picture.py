"""Pictures of the results: for each case bars on a logarithmic scale, and curves for growth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bitspike._lazy import not_installed
from bitspike.bench.show import number
from bitspike.files import write_atomically

Result = dict[str, Any]
_COLORS = {
    "bitspike": "#d1495b",
    "snntorch": "#8d99ae",
    "spikingjelly": "#00798c",
    "norse": "#66a182",
    "spyx": "#edae49",
}


def draw(result: Result, folder: Path) -> list[Path]:
    """Draw bench.png, a panel for each case, and growth.png, a panel for each curve, where there are any."""
    cases = {name: case for name, case in result["cases"].items() if not case["group"]}
    groups: dict[str, list[Result]] = {}
    for case in result["cases"].values():
        if case["group"]:
            groups.setdefault(case["group"], []).append(case)
    machine = result["versions"].get("gpu") or result["versions"]["machine"]
    where = f"({machine}, torch {result['versions']['torch']})"
    drawn = []
    if cases:
        heights = [0.7 + 0.3 * len(case["rows"]) for case in cases.values()]
        figure, panels = _figure(f"One training step {where}", (8.5, sum(heights)), len(cases), 1, heights)
        for panel, (name, case) in zip(panels, cases.items(), strict=True):
            _bars(panel, name, case)
        drawn.append(_save(figure, folder / "bench.png"))
    if groups:
        columns = min(3, len(groups))
        rows = -(-len(groups) // columns)
        title = f"One training step, for each neuron and time step {where}"
        figure, panels = _figure(title, (4 * columns, 3.2 * rows), rows, columns, [1.0] * rows)
        for panel, (name, curve) in zip(panels, groups.items(), strict=False):
            _curve(panel, name, curve)
        for panel in panels[len(groups) :]:
            panel.set_axis_off()
        drawn.append(_save(figure, folder / "growth.png"))
    return drawn


def _figure(
    title: str, size: tuple[float, float], rows: int, columns: int, heights: Sequence[float]
) -> tuple[Any, list[Any]]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise not_installed("matplotlib", "bench: the picture needs matplotlib", extra="report") from None
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10)
    return figure, list(figure.subplots(rows, columns, squeeze=False, height_ratios=heights).flat)


def _save(figure: Any, path: Path) -> Path:
    return write_atomically(path, lambda to: figure.savefig(to, format="png", dpi=150))


def _bars(panel: Any, name: str, case: Result) -> None:
    rows = {label: row for label, row in case["rows"].items() if "ms" in row}
    times = [row["ms"]["median"] for row in rows.values()]
    below = [row["ms"]["median"] - row["ms"]["low"] for row in rows.values()]
    above = [row["ms"]["high"] - row["ms"]["median"] for row in rows.values()]
    colors = [_COLORS.get(row["library"], "#999999") for row in rows.values()]
    panel.barh(range(len(rows)), times, color=colors, xerr=[below, above], height=0.7, error_kw={"lw": 1})
    panel.set_yticks(
        range(len(rows)), [f"{label} {row['version'].split()[0]}" for label, row in rows.items()], fontsize=8
    )
    panel.invert_yaxis()
    panel.set_xscale("log")
    floor = case["floor"]["ms"]
    title = f"{name}: {case['title']}, T {case['steps']}, batch {case['batch']}; floor (dotted) {number(floor)} ms"
    panel.set_title(title, fontsize=9, loc="left")
    panel.set_xlabel("ms a step", fontsize=8)
    panel.tick_params(axis="x", labelsize=8)
    panel.axvline(floor, color="black", lw=0.8, ls=":")
    if times:
        panel.set_xlim(min(floor, *times) / 2, max(times) * 12)
    for place, (ms, row) in enumerate(zip(times, rows.values(), strict=True)):
        more = (row["times_ours"] or {}).get("median")
        ratio = f"   {number(more)} x" if more and row["library"] != "bitspike" else ""
        panel.annotate(
            f"{number(ms)} ms{ratio}",
            (row["ms"]["high"], place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )


def _curve(panel: Any, name: str, cases: Sequence[Result]) -> None:
    libraries: dict[str, list[tuple[int, Result]]] = {}
    for case in cases:
        for label, row in case["rows"].items():
            if "ms" in row:
                libraries.setdefault(label, []).append((case["grown_to"], row))
    for label, points in libraries.items():
        color = _COLORS.get(points[0][1]["library"], "#999999")
        where = [at for at, _ in points]
        panel.plot(where, [row["ns_per_neuron_step"] for _, row in points], "o-", color=color, ms=4, label=label)
        memory = [row["bytes_per_neuron_step"] for _, row in points]
        if None not in memory:
            panel.plot(where, memory, "s--", color=color, ms=3, lw=0.8, label=f"{label}, bytes")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_title(name, fontsize=9, loc="left")
    along = name.rpartition(", ")[2]
    panel.set_xlabel({"T": "time steps", "width": "neurons"}.get(along, along), fontsize=8)
    panel.set_ylabel("ns, bytes (dashed)", fontsize=8)
    places = sorted({case["grown_to"] for case in cases})
    panel.set_xticks(places, [f"{place:,}" for place in places], rotation=45)
    panel.set_xticks([], minor=True)
    panel.tick_params(labelsize=7)
    if libraries:
        panel.legend(fontsize=7)
