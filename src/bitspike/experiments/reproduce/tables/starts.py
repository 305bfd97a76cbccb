"""The dead neurons of a cell's networks before their first iteration: measured once, kept in the cell's start.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bitspike.anneal import ThresholdAnnealing
from bitspike.data.datasets import open_dataset
from bitspike.data.samples import Dataset
from bitspike.experiments.assembly import RunOptions, build_network, make_task
from bitspike.experiments.comparison import settings_digest
from bitspike.experiments.reproduce.tables.results import Result, Trial
from bitspike.experiments.schema import Experiment
from bitspike.files import write_text
from bitspike.train.evaluation import evaluate, evaluation_batch
from bitspike.train.numerics import cast, dtype_of, reproducible


@dataclass(frozen=True, slots=True)
class Start:
    """A trial's network before training, with its first thresholds, on all test samples: by layer."""

    settings: str  # the digest of the trial's settings, which draw its weights
    dead: list[float]
    spikes: list[float]


def starts_of(result: Result, options: RunOptions) -> list[Start]:
    """Return the start of each trial, as kept or measured now."""
    kept = result.folder / "start.json"
    before = _read(kept)
    starts: list[Start] = []
    data: Dataset | None = None
    for trial in result.trials:
        settings = settings_digest(trial.spec)
        found = before.get(settings)
        if found is None:
            data = data or _open(trial, options)
            found = measure_start(trial.spec, data, options)
        starts.append(found)
    if {each.settings for each in starts} != before.keys():
        write_text(kept, json.dumps([asdict(each) for each in starts]) + "\n")
    return starts


def _open(trial: Trial, options: RunOptions) -> Dataset:
    return open_dataset(trial.spec.data, root=options.data_root, progress=options.progress, seed=trial.spec.seed)


def measure_start(spec: Experiment, data: Dataset, options: RunOptions) -> Start:
    """Build the network as a run of `spec` does, and evaluate it on the test samples before any training."""
    test = data.test.to(options.device)
    net = build_network(spec, data.shape).to(device=options.device, dtype=dtype_of(spec.train.precision))
    ThresholdAnnealing(net, spec.net.schedules(len(net.layers)))  # writes the thresholds of iteration 0
    batch = evaluation_batch(spec.train.evaluate_batch, test)
    tick = options.progress(f"start of {spec.name}", -(-len(test) // batch))
    with reproducible(spec.train.precision), cast(spec.train.precision, options.device):
        found = evaluate(net, test, make_task(spec, net), batch=batch, on_batch=tick)
    return Start(settings_digest(spec), found.dead, found.spikes)


def _read(path: Path) -> dict[str, Start]:
    """Return what was measured before, by the digest of settings; nothing if the file is missing or damaged."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        starts = [
            Start(str(each["settings"]), [float(v) for v in each["dead"]], [float(v) for v in each["spikes"]])
            for each in values
        ]
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {each.settings: each for each in starts}
