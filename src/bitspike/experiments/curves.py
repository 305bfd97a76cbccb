"""The picture curves.png in the folder of a run, or of trials: how they learnt, without TensorBoard."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from bitspike.analysis.learning_curves import FEWEST_EPOCHS, draw_learning_curves
from bitspike.experiments.saved import is_run, made_with, trials_of
from bitspike.train.run_folder import RunFolder


def draw_curves(out: Path) -> Path | None:
    """Draw curves.png of a complete run, or one for all trials in the folder.

    Return None where matplotlib is not installed, or where no curve has two epochs.
    """
    if importlib.util.find_spec("matplotlib") is None:
        return None
    runs = [out] if is_run(out) else trials_of(out)
    rows = {run: _rows(run) for run in runs}
    long_enough = [run for run in runs if len(rows[run]) >= FEWEST_EPOCHS]
    if not long_enough:
        return None
    summaries = [RunFolder(run).read_summary() or {} for run in long_enough]
    name = summaries[0].get("experiment", out.name)
    fires = made_with(long_enough[0]).net.readout == "spikes"
    if runs == [out]:
        chosen = int(summaries[0].get("best_epoch") or 0) or None
        title = f"{name}, seed {summaries[0].get('seed')}"
        return draw_learning_curves([rows[out]], RunFolder(out).curves, title, chosen, output_fires=fires)
    title = f"{name}, {len(long_enough)} trials; thick: their median"
    return draw_learning_curves([rows[run] for run in long_enough], RunFolder(out).curves, title, output_fires=fires)


def _rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in RunFolder(run).metrics.read_text(encoding="utf-8").splitlines()]
