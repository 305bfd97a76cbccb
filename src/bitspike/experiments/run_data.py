"""The data of a run: its dataset, and the splits of it on the run's device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bitspike.data.own_paths import shared_files
from bitspike.data.samples import Dataset, Samples
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.data_warnings import data_warnings
from bitspike.experiments.held_out import Split, splits
from bitspike.experiments.schema import Experiment


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """A dataset, and its training, validation and test samples on the device."""

    dataset: Dataset
    splits: Mapping[Split, Samples]

    @classmethod
    def on_device(cls, spec: Experiment, dataset: Dataset, options: RunOptions) -> RunData:
        """Split the dataset as the experiment says, and copy the samples to the device."""
        return cls(dataset, {name: samples.to(options.device) for name, samples in splits(spec, dataset).items()})

    @property
    def train(self) -> Samples:
        """The samples that the network is trained on."""
        return self.splits["train"]

    @property
    def test(self) -> Samples:
        """The samples that the result is measured on."""
        return self.splits["test"]

    def selection(self, spec: Experiment) -> Samples:
        """Return the samples that epochs are judged by: the held-out ones, or with protocol `paper` the test set."""
        return self.splits["test" if spec.train.protocol == "paper" else "valid"]

    def warnings(self, spec: Experiment) -> list[str]:
        """Return what a person should know about the samples: classes that are missing, samples without events."""
        if spec.train.loss == "trace":
            return []
        return [*shared_files(spec.data), *data_warnings(self.dataset, self.splits)]
