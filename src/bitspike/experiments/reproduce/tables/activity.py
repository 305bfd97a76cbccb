"""The activity of a cell's best network on test samples: measured once, and kept in the cell's activity.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from bitspike.analysis.activity import LayerActivity, as_layer, measure_activity
from bitspike.data.datasets import open_dataset
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.reproduce.tables.results import Result, Trial
from bitspike.experiments.saved import load_run
from bitspike.files import digest, write_text
from bitspike.train.evaluation import evaluation_batch
from bitspike.train.numerics import as_input, cast, reproducible
from bitspike.train.run_folder import RunFolder

SAMPLES = 2000  # test samples at most, the first ones: enough for a histogram over neurons
BINS = 50


@dataclass(frozen=True, slots=True)
class Activity:
    """The activity of a trial's network, on `samples` samples of `steps` time steps."""

    trial: str  # the name of its folder
    weights: str  # their checksum
    asked: int  # the most samples that were wanted
    samples: int
    steps: int
    layers: list[LayerActivity]


def activity_of(result: Result, options: RunOptions) -> Activity | None:
    """Return the activity of the cell's best trial, as kept or measured now; None where there is no network.

    Weights are large, and may have been left behind where the cell was trained: then what was kept counts.
    """
    best = result.best_trial()
    kept = result.folder / "activity.json"
    if best is None:
        return _read(kept) if not any(RunFolder(trial.folder).best.is_file() for trial in result.trials) else None
    weights = digest(RunFolder(best.folder).best)
    before = _read(kept)
    if before is not None and (before.trial, before.weights, before.asked) == (best.folder.name, weights, SAMPLES):
        return before
    measured = _measure(best, weights, options)
    write_text(kept, json.dumps(asdict(measured)) + "\n")
    return measured


def _read(path: Path) -> Activity | None:
    """Return the activity that was measured before; None if the file is missing or damaged."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        layers = [as_layer(layer) for layer in values["layers"]]
        if any(len(layer.histogram) != BINS for layer in layers):
            return None
        return Activity(**{**values, "layers": layers})
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _measure(trial: Trial, weights: str, options: RunOptions) -> Activity:
    """Measure the activity of the trial's best network on the first test samples."""
    spec = trial.spec
    data = open_dataset(spec.data, root=options.data_root, progress=options.progress, seed=spec.seed)
    net = load_run(trial.folder, device=options.device)
    dtype = next(net.parameters()).dtype
    steps = data.test.steps or net.steps  # of a sequence, or of an image that is shown
    samples = min(SAMPLES, len(data.test))
    chosen = data.test.select(torch.arange(samples, device="cpu")).to(options.device)
    size = evaluation_batch(spec.train.evaluate_batch, chosen)
    tick = options.progress(f"spikes of {spec.name}", -(-samples // size))

    def batches() -> Iterator[Tensor]:
        for rows in torch.arange(samples, device=options.device).split(size):
            yield as_input(chosen.batch(rows)[0], dtype)
            tick()

    with reproducible(spec.train.precision), cast(spec.train.precision, options.device):
        layers = measure_activity(net, batches(), steps=steps, bins=BINS)
    return Activity(trial.folder.name, weights, SAMPLES, samples, steps, layers)
