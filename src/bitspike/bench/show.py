"""Results as a table on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

Result = dict[str, Any]
HEADINGS = ("ms a step", "quartiles", "x ours", "x floor", "MB", "kernels")


def show(result: Result, console: Console) -> None:
    """A table a case with what belongs to its rows below it; groups of growth have one each."""
    groups: dict[str, list[Result]] = {}
    for name, case in result["cases"].items():
        if case["group"]:
            groups.setdefault(case["group"], []).append(case)
            continue
        console.print(_of_case(name, case))
        for line in _notes(case):
            console.print(line, highlight=False, soft_wrap=True)
        console.print()
    for name, cases in groups.items():
        console.print(_of_group(name, cases))


def _of_case(name: str, case: Result) -> Table:
    floor = case["floor"]
    table = Table(
        title=f"{name}: {case['title']}, batch {case['batch']}, T {case['steps']}\n"
        f"floor {number(floor['ms'])} ms, streamed {number(floor['ms_streamed'])} ms",
        title_justify="left",
    )
    cells = {name: {} if "error" in row else _cells(row, floor["ms"]) for name, row in case["rows"].items()}
    headings = [h for h in HEADINGS if any(h in row for row in cells.values())] or [
        "ms a step"
    ]  # a CPU counts no kernels
    table.add_column("library", overflow="fold", min_width=9)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))
    for name, row in cells.items():
        table.add_row(name, *([row.get(h, "-") for h in headings] if row else ["failed"]))
    return table


def _cells(row: Result, floor: float) -> dict[str, str]:
    """What a row tells, by heading."""
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
    """What each row is, and how its mathematics differs."""
    for name, row in case["rows"].items():
        if "error" in row:
            yield f"  {name}: {row['error']}"
        else:
            differs = f"; differs: {'; '.join(row['differs'])}" if row["differs"] else ""
            yield f"  {name} {row['version']}: {row['setting']}{differs}"


def _of_group(name: str, cases: list[Result]) -> Table:
    table = Table(title=f"growth: {name}", title_justify="left")
    table.add_column(name.rpartition(", ")[2])
    for heading in ("library", "ms a step", "ns/neuron-step", "MB", "bytes/neuron-step", "x floor"):
        table.add_column(heading, justify="right")
    for case in cases:
        for row_name, row in case["rows"].items():
            if "error" in row:
                table.add_row(str(case["grown_to"]), row_name, "failed")
                continue
            table.add_row(
                str(case["grown_to"]),
                row_name,
                *(
                    number(value)
                    for value in (
                        row["ms"]["median"],
                        row["ns_per_neuron_step"],
                        row["peak_mb"],
                        row["bytes_per_neuron_step"],
                        row["ms"]["median"] / case["floor"]["ms"],
                    )
                ),
            )
    return table


def number(value: float | None) -> str:
    """Three significant digits, without an exponent."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"
