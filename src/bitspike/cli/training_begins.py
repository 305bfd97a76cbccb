"""The moment at which a run begins to train: what is said of the data then, and the baselines computed then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bitspike.cli.console import baselines_in_words
from bitspike.cli.data_findings import finding_lines

if TYPE_CHECKING:
    from bitspike.analysis.baselines import Baselines
    from bitspike.cli.training_progress import ConsoleProgress
    from bitspike.data.samples import Dataset
    from bitspike.experiments.assembly import RunOptions
    from bitspike.experiments.schema import Experiment
    from bitspike.nn import SpikingNetwork


class TrainingBegins:
    """Called when a run begins. The first of several trials, which share their data, speaks of it for all of them.

    It says what looks like a mistake in the user's own data, and computes the baselines.

    `happened` says whether any run began: one that is complete does not. `found` are the baselines of the test samples,
    None unless they were asked for; they are kept in the folder `out`.
    """

    def __init__(self, progress: ConsoleProgress, options: RunOptions, out: Path, *, baselines: bool) -> None:
        self.progress, self.options, self.out = progress, options, out
        self.asked_for, self.happened = baselines, False
        self.found: Baselines | None = None

    def __call__(self, spec: Experiment, data: Dataset, net: SpikingNetwork, folder: Path) -> None:
        self.progress.started(spec, data, net, folder)
        if not self.happened and spec.data.file is not None:
            for line in finding_lines(spec, data):
                self.progress.say(line)
        self.happened = True
        if not self.asked_for or self.found is not None:
            return
        from bitspike.experiments.beside import run_baselines, write_baselines
        from bitspike.experiments.held_out import splits

        parts = splits(spec, data)
        self.found = run_baselines(spec, parts["train"], parts["test"], self.options)
        write_baselines(self.found, parts["train"], parts["test"], self.out)
        self.progress.say(f"baselines: {baselines_in_words(self.found)}")
