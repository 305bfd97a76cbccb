"""Data that several runs of one process share: read, split, copied to the device and fingerprinted once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from bitspike.data.catalog import drawn_from_seed
from bitspike.data.samples import Dataset
from bitspike.experiments.assembly import RunOptions
from bitspike.experiments.comparison import samples_digests
from bitspike.experiments.run_data import RunData, dataset_of
from bitspike.experiments.schema import Experiment


@dataclass(slots=True, eq=False)
class _Prepared:
    """A dataset, and what was made of it so far; `passed` keeps samples from Python alive, which name it."""

    dataset: Dataset
    passed: Dataset | None
    data: RunData | None = None
    digests: Mapping[str, str] | None = None


class PreparedData:
    """A store of prepared datasets: runs that take the same samples, split alike, share one copy on the device.

    A process that makes many runs passes one store to all of them, as `RunOptions(prepared=PreparedData())`. Each run
    then begins without reading files. Files are looked at once: a change to them is not noticed as long as the store
    lives. It keeps the `most` datasets that were asked for last.
    """

    def __init__(self, most: int = 2) -> None:
        self._most = most
        self._held: dict[str, _Prepared] = {}

    def dataset(self, spec: Experiment, options: RunOptions) -> Dataset:
        """Return the experiment's samples."""
        return self._entry(spec, options).dataset

    def on_device(self, spec: Experiment, options: RunOptions) -> RunData:
        """Return the splits of the experiment's samples on the device."""
        entry = self._entry(spec, options)
        if entry.data is None:
            entry.data = RunData.on_device(spec, entry.dataset, options)
        return entry.data

    def digests(self, spec: Experiment, options: RunOptions) -> Mapping[str, str]:
        """Return the digests of the samples, as `samples_digests` does."""
        entry = self._entry(spec, options)
        if entry.digests is None:
            entry.digests = samples_digests(spec, entry.dataset)
        return entry.digests

    def _entry(self, spec: Experiment, options: RunOptions) -> _Prepared:
        key = _key(spec, options)
        entry = self._held.pop(key, None) or _Prepared(dataset_of(spec, options), options.dataset)
        self._held[key] = entry  # the last asked for is at the end
        while len(self._held) > self._most:
            del self._held[next(iter(self._held))]
        return entry


def _key(spec: Experiment, options: RunOptions) -> str:
    """Return what decides the samples, their splits and their place."""
    seed = spec.seed if drawn_from_seed(spec.data.name) else None
    passed = None if options.dataset is None else id(options.dataset)
    where = [str(options.device), str(options.data_root), passed]
    return json.dumps([spec.data.model_dump(mode="json"), spec.train.protocol, seed, *where], sort_keys=True)
