"""What stands beside a run's accuracy: the baselines of its data."""

from __future__ import annotations

from bitspike.analysis.baselines import FITS, Baselines, baselines
from bitspike.data.catalog import labels_are_times
from bitspike.data.samples import Samples
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.schema import Experiment


def run_baselines(spec: Experiment, train: Samples, judged: Samples, options: RunOptions) -> Baselines:
    """Return the baselines of the samples `judged`, learnt from the run's training samples, on the run's device."""
    if labels_are_times(spec.data.name):
        raise ValueError(f"--baselines: they classify, but a label of {spec.data.name} is a time; leave it out")
    tick = options.progress("logistic regression", FITS)
    return baselines(train.to(options.device), judged.to(options.device), on_fit=tick)
