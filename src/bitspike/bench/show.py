"""The tables of results on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from bitspike.terminal import draw, table

Result = dict[str, Any]
HEADINGS = ("ms a step", "quartiles", "x ours", "x floor", "MB", "kernels")


def show(result: Result, console: Console) -> None:
    """Print one table for each case, with notes below it, and one for each group of growth."""
    groups: dict[str, list[Result]] = {}
    for name, case in result["cases"].items():
        if case["group"]:
            groups.setdefault(case["group"], []).append(case)
            continue
        draw(_of_case(name, case), console)
        for line in _notes(case):
            console.print(line, highlight=False, soft_wrap=True)
        console.print()
    for name, cases in groups.items():
        draw(_of_group(name, cases), console)
    if absent := result.get("not_installed"):
        how = "; ".join(f"{name} ({command})" for name, command in absent.items())
        console.print(f"not installed, so not measured: {how}", highlight=False, soft_wrap=True)


def _of_case(name: str, case: Result) -> Table:
    floor = case["floor"]
    cells = {name: {} if "error" in row else _cells(row, floor["ms"]) for name, row in case["rows"].items()}
    present = [h for h in HEADINGS if any(h in row for row in cells.values())]  # a CPU counts no kernels
    headings = present or ["ms a step"]
    made = table(
        f"{name}: {case['title']}, batch {case['batch']}, T {case['steps']}\n"
        f"floor {number(floor['ms'])} ms, streamed {number(floor['ms_streamed'])} ms",
        words=["library"],
        numbers=headings,
    )
    for name, row in cells.items():
        made.add_row(name, *([row.get(h, "-") for h in headings] if row else ["failed", *[""] * (len(headings) - 1)]))
    return made


def _cells(row: Result, floor: float) -> dict[str, str]:
    """Return the cells of a row, by heading."""
    ms, gpu = row["ms"], row["gpu"] or {}
    kernels, launches = gpu.get("kernels"), gpu.get("launches")
    values = (
        number(ms["median"]),
        f"{number(ms['low'])}-{number(ms['high'])}",
        number((row["times_ours"] or {}).get("median")),
        number(ms["median"] / floor),
        number(row["peak_mb"]),
        number(kernels) + (f" ({launches})" if launches != kernels else ""),  # 50 (1): fifty in one launch
    )
    return {heading: value for heading, value in zip(HEADINGS, values, strict=True) if value != "-"}


def _notes(case: Result) -> Iterator[str]:
    """Yield notes on each row: its settings, and how its mathematics differs from ours."""
    for name, row in case["rows"].items():
        if "error" in row:
            yield f"  {name}: {row['error']}"
        else:
            differs = f"; differs: {'; '.join(row['differs'])}" if row["differs"] else ""
            yield f"  {name} {row['version']}: {row['setting']}{differs}"


def _of_group(name: str, cases: list[Result]) -> Table:
    made = table(
        f"growth: {name}",
        words=["library"],
        numbers=[name.rpartition(", ")[2], "ms a step", "ns/neuron-step", "MB", "bytes/neuron-step", "x floor"],
    )
    for case in cases:
        for row_name, row in case["rows"].items():
            grown = str(case["grown_to"])
            if "error" in row:
                made.add_row(row_name, grown, "failed", *[""] * 4)
                continue
            values = (
                row["ms"]["median"],
                row["ns_per_neuron_step"],
                row["peak_mb"],
                row["bytes_per_neuron_step"],
                row["ms"]["median"] / case["floor"]["ms"],
            )
            made.add_row(row_name, grown, *map(number, values))
    return made


def number(value: float | None) -> str:
    """Return a number with three significant digits, without an exponent."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"
