"""The effects of ablations: each is compared with the annealed cell, seed by seed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bitspike.experiments.comparison import FREE, differences
from bitspike.experiments.reproduce.tables.results import Key, Result
from bitspike.experiments.reproduce.tables.table import BASE, PaperTable
from bitspike.experiments.schema import with_values


@dataclass(frozen=True, slots=True)
class Effect:
    """An ablation compared with the annealed cell, seed by seed, each pair after equally many epochs (percent)."""

    seeds: list[int]
    epochs: list[int]
    base: list[float]
    here: list[float]
    chosen_on: str

    @property
    def differences(self) -> list[float]:
        """Return ablation - base for each seed."""
        return [here - base for here, base in zip(self.here, self.base, strict=True)]


def effect(base: Result, ablation: Result) -> Effect | None:
    """Return the best accuracies over the epochs that both trials of a seed have; None if no seed is in both cells.

    The accuracies are on the samples that choose the best epoch (test or validation): only these are known for every
    epoch.
    """
    bases = {trial.summary["seed"]: trial for trial in base.trials if trial.rows}
    pairs = [(bases[t.summary["seed"]], t) for t in ablation.trials if t.rows and t.summary["seed"] in bases]
    if not pairs:
        return None
    epochs = [min(len(one.rows), len(two.rows)) for one, two in pairs]
    return Effect(
        [two.summary["seed"] for _, two in pairs],
        epochs,
        [max(one.accuracies()[:n]) for (one, _), n in zip(pairs, epochs, strict=True)],
        [max(two.accuracies()[:n]) for (_, two), n in zip(pairs, epochs, strict=True)],
        ablation.trials[0].chosen_on,
    )


def effects(table: PaperTable, results: Mapping[Key, Result]) -> dict[Key, dict[str, Any]]:
    """Compare each ablation with the annealed cell of its task and protocol, by seed and after equally many epochs."""
    found = {}
    for (protocol, task, name), result in results.items():
        base = results.get((protocol, task, BASE))
        if base is None or name not in table.ablations or (pairs := effect(base, result)) is None:
            continue
        gains, spec, settings = (
            pairs.differences,
            base.trials[0].spec,
            table.ablations[name].settings(base.trials[0].spec),
        )
        meant = with_values(spec, settings)
        others = [differences(meant, trial.spec, free=(*FREE, "seed")) for trial in result.trials]
        found[protocol, task, name] = {
            "sentence": table.ablations[name].sentence,
            "settings": settings,
            "also": distinct(change for changes in others for change in changes),  # runs of other commands
            **asdict(pairs),
            "differences": gains,
            "mean_difference": statistics.mean(gains),
            "sigma_difference": statistics.stdev(gains) if len(gains) > 1 else None,
        }
    return found


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return the values in their order, each once; they need not be hashable."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found
