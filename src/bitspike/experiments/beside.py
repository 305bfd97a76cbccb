"""The baselines of a run's data, which are shown beside its accuracy."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from bitspike.analysis.baselines import Baselines, baselines, fit_count
from bitspike.data.catalog import labels_are_times
from bitspike.data.samples import Samples
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.schema import Experiment
from bitspike.files import write_text
from bitspike.train.run_folder import RunFolder


def require_classes(name: str | None) -> None:
    """Raise an error if the labels of the data set `name` are times: then there is nothing to classify."""
    if labels_are_times(name):
        raise ValueError(f"--baselines: they classify, but a label of {name} is a time; leave it out")


def run_baselines(spec: Experiment, train: Samples, judged: Samples, options: RunOptions) -> Baselines:
    """Return the baselines of the samples `judged`, learnt from the run's training samples, on the run's device."""
    require_classes(spec.data.name)
    tick = options.progress("logistic regression", fit_count(train))
    return baselines(train.to(options.device), judged.to(options.device), on_fit=tick)


def write_baselines(found: Baselines, train: Samples, test: Samples, out: Path) -> None:
    """Write baselines.json, those of the test samples, into the folder of a run or of trials."""
    values = {"split": "test", **asdict(found), "samples": {"train": len(train), "test": len(test)}}
    write_text(RunFolder(out).baselines, json.dumps(values, indent=2) + "\n")
