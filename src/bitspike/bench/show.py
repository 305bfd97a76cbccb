"""Results as a table on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group
from rich.table import Table

Result = dict[str, Any]


def tables(result: Result) -> Group:
    """One table a case; growth groups have one each."""
    shown: list[Table] = []
    groups: dict[str, list[Result]] = {}
    for name, case in result["cases"].items():
        if case["group"]:
            groups.setdefault(case["group"], []).append(case)
        else:
            shown.append(_of_case(name, case))
    return Group(*shown, *(_of_group(name, cases) for name, cases in groups.items()))


def show(result: Result, console: Console) -> None:
    """Print all of it."""
    console.print(tables(result))


def _of_case(name: str, case: Result) -> Table:
    floor = case["floor"]
    table = Table(
        title=f"{name}: {case['title']}, batch {case['batch']}, T {case['steps']}; "
        f"floor {floor['ms']:.3g} ms, streamed {floor['ms_streamed']:.3g} ms",
        title_justify="left",
    )
    table.add_column("library", no_wrap=True)
    for heading in ("ms a step", "quartiles", "times ours", "peak MB", "kernels", "launches", "times floor"):
        table.add_column(heading, justify="right")
    table.add_column("setting", overflow="fold")
    for row_name, row in case["rows"].items():
        if "error" in row:
            table.add_row(row_name, *["-"] * 7, row["error"])
            continue
        ms, gpu = row["ms"], row["gpu"] or {}
        table.add_row(
            f"{row_name} {row['version']}",
            number(ms["median"]),
            f"{number(ms['low'])} .. {number(ms['high'])}",
            number((row["times_ours"] or {}).get("median")),
            number(row["peak_mb"]),
            number(gpu.get("kernels")),
            number(gpu.get("launches")),
            number(ms["median"] / floor["ms"]),
            row["setting"],
        )
    return table


def _of_group(name: str, cases: list[Result]) -> Table:
    table = Table(title=f"growth: {name}", title_justify="left")
    table.add_column(name.rpartition(", ")[2])
    for heading in ("library", "ms a step", "ns a neuron-step", "peak MB", "bytes a neuron-step", "times floor"):
        table.add_column(heading, justify="right")
    for case in cases:
        for row_name, row in case["rows"].items():
            if "error" in row:
                table.add_row(str(case["grown_to"]), row_name, row["error"])
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
