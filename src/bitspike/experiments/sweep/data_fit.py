"""Whether the trials of a study will fit the data: what does not is found before the study is made."""

from __future__ import annotations

from bitspike.experiments.assembly import RunOptions, build_network, check_fit
from bitspike.experiments.held_out import training_rows
from bitspike.experiments.run_data import dataset_of
from bitspike.experiments.schema import Experiment
from bitspike.experiments.sweep.facts import StudyFacts
from bitspike.experiments.sweep.space import Space
from bitspike.experiments.sweep.space_checks import typical


def require_fit(spec: Experiment, facts: StudyFacts, options: RunOptions) -> None:
    """Raise as the training would if a typical trial, or one with any of the choices, does not fit the data.

    Where fields of the data are searched each trial has other samples, and is checked when it begins.
    """
    space = Space.from_canonical(facts.space, facts.source)
    if any(name.startswith("data.") for name in space.parameters):
        return
    dataset = dataset_of(spec, options)
    training_rows(spec, dataset)
    for trial in typical(space, spec):
        check_fit(trial, build_network(trial, dataset.shape), dataset)
