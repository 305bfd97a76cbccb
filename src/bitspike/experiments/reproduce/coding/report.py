"""`bitspike reproduce coding`: train the cases, test the paper's claims on them, write pictures and numbers."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from bitspike.analysis.traces import require_matplotlib
from bitspike.data.binning import Progress, silent
from bitspike.data.coding import TARGET_TIME
from bitspike.experiments.provenance import versions
from bitspike.experiments.reproduce.coding.cases import select_cases
from bitspike.experiments.reproduce.coding.claims import claims
from bitspike.experiments.reproduce.coding.outcome import LAST, describe
from bitspike.experiments.reproduce.coding.pictures import write_pictures
from bitspike.experiments.reproduce.coding.training import train_cases
from bitspike.files import write_text


def reproduce_coding(
    out: Path,
    *,
    seeds: int = 20,
    iterations: int = 1000,
    cases: Sequence[str] | None = None,
    loss: Literal["mean", "sum"] = "mean",
    animation: bool = True,
    command: str | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Train `seeds` networks of each case, write everything into `out`, and return what summary.json holds."""
    if seeds < 1 or iterations < 2:
        raise ValueError(
            f"reproduce coding: needs seeds >= 1 and iterations >= 2, but got {seeds!r} and {iterations!r}"
        )
    chosen = select_cases(cases, loss)
    require_matplotlib()
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    histories = train_cases(chosen, range(seeds), iterations, progress)
    summary = {
        "task": "temporal coding (Fig. 4)",
        "command": command or "bitspike.experiments.reproduce.coding.report.reproduce_coding",
        "seeds": list(range(seeds)),
        "iterations": iterations,
        "statistics_over": f"the last {min(LAST, iterations)} iterations, all seeds",
        "target_time": TARGET_TIME,
        "loss_over_time": loss,
        "versions": versions(),
        "seconds_training": round(time.perf_counter() - began, 1),
        "cases": {h.case.name: describe(h) for h in histories},
        "claims": claims({h.case.name: h for h in histories}),
    }
    write_pictures(histories, out, animation=animation, progress=progress)
    summary["seconds"] = round(time.perf_counter() - began, 1)
    write_text(out / "summary.json", json.dumps(summary, indent=2) + "\n")
    return summary
