"""How a cell's best network fires on test samples, measured once and kept in the cell's activity.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from bitspike.analysis.activity import LayerActivity, as_layer, measure_activity
from bitspike.data.datasets import open_dataset
from bitspike.experiments.assembly import Setting
from bitspike.experiments.reproduce.static.results import Result, Trial
from bitspike.experiments.saved import load_run
from bitspike.files import digest, write_text
from bitspike.train.evaluation import evaluation_batch
from bitspike.train.numerics import as_input, cast, reproducible
from bitspike.train.run_folder import RunFolder

SAMPLES = 2000  # test samples at most, the first ones: enough for a histogram over neurons
BINS = 50


@dataclass(frozen=True, slots=True)
class Activity:
    """Of the network whose weights have the checksum `weights`, on `samples` samples shown for `steps`."""

    trial: str
    weights: str
    asked: int
    samples: int
    steps: int
    layers: list[LayerActivity]


def activity_of(result: Result, setting: Setting) -> Activity | None:
    """Of the cell's best trial: read if it was measured before, else measured now; None where there is no network."""
    best = result.best_trial()
    if best is None:
        return None
    kept = result.folder / "activity.json"
    weights = digest(RunFolder(best.folder).best)
    before = _read(kept)
    if before is not None and (before.trial, before.weights, before.asked) == (best.folder.name, weights, SAMPLES):
        return before
    measured = _measure(best, weights, setting)
    write_text(kept, json.dumps(asdict(measured)) + "\n")
    return measured


def _read(path: Path) -> Activity | None:
    """What was measured before; a file that is damaged is made again."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        layers = [as_layer(layer) for layer in values["layers"]]
        if any(len(layer.histogram) != BINS for layer in layers):
            return None
        return Activity(**{**values, "layers": layers})
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _measure(trial: Trial, weights: str, setting: Setting) -> Activity:
    spec = trial.spec
    data = open_dataset(spec.data, root=setting.data_root, progress=setting.progress, seed=spec.seed)
    net = load_run(trial.folder, device=setting.device)
    dtype = next(net.parameters()).dtype
    samples = min(SAMPLES, len(data.test))
    chosen = data.test.select(torch.arange(samples, device="cpu")).to(setting.device)
    size = evaluation_batch(spec.train.evaluate_batch, chosen)
    tick = setting.progress(f"spikes of {spec.name}", -(-samples // size))

    def batches() -> Iterator[Tensor]:
        for rows in torch.arange(samples, device=setting.device).split(size):
            yield as_input(chosen.batch(rows)[0], dtype)
            tick()

    with reproducible(spec.train.precision), cast(spec.train.precision, setting.device):
        layers = measure_activity(net, batches(), steps=net.steps, bins=BINS)
    return Activity(trial.folder.name, weights, SAMPLES, samples, net.steps, layers)
