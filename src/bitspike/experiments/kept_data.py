"""Data that is opened once for all runs of a process whose data settings agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from bitspike.data.catalog import drawn_from_seed
from bitspike.data.samples import Dataset
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import samples_digests
from bitspike.experiments.run_data import RunData, dataset_of
from bitspike.experiments.schema import Experiment

MOST = 2  # data sets that are kept at a time: each may fill much of a GPU


@dataclass(slots=True, eq=False)
class _Kept:
    """A data set, and what is computed of it only once: its splits on the device, and the digests of its samples."""

    dataset: Dataset
    data: RunData | None = None
    digests: Mapping[str, str] | None = None


@dataclass(slots=True, eq=False)
class KeptData:
    """The data of several runs. Runs with the same data settings share one copy, unless the seed draws the samples."""

    _kept: dict[str, _Kept] = field(default_factory=dict)

    def dataset(self, spec: Experiment, options: RunOptions) -> Dataset:
        """Return the experiment's data set; it is read when the first run asks for it."""
        return self._of(spec, options).dataset

    def on_device(self, spec: Experiment, options: RunOptions) -> RunData:
        """Return the experiment's samples on the device."""
        kept = self._of(spec, options)
        if kept.data is None:
            kept.data = RunData.on_device(spec, kept.dataset, options)
        return kept.data

    def digests(self, spec: Experiment, options: RunOptions) -> Mapping[str, str]:
        """Return the digests of the samples, by split."""
        kept = self._of(spec, options)
        if kept.digests is None:
            kept.digests = samples_digests(spec, kept.dataset)
        return kept.digests

    def _of(self, spec: Experiment, options: RunOptions) -> _Kept:
        seed = spec.seed if drawn_from_seed(spec.data.name) else None
        key = json.dumps([spec.data.model_dump(mode="json"), spec.train.protocol, str(options.device), seed])
        if key not in self._kept:
            while len(self._kept) >= MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = _Kept(dataset_of(spec, options))
        return self._kept[key]
