"""The figures that a study optimizes: accuracy on validation samples, and a second one if asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from bitspike.data.samples import Dataset
from bitspike.experiments.assembly import synapse_shapes
from bitspike.experiments.schema import Experiment
from bitspike.experiments.sweep.facts import Objective
from bitspike.nn.notation import count_neurons, parse
from bitspike.train.run_folder import RunFolder

ACCURACY = Objective("accuracy", "maximize")
SECOND: Mapping[str, Objective] = {
    "spikes": Objective("spikes", "minimize"),  # of all neurons, a sample
    "dead": Objective("dead", "minimize"),  # the share of neurons that never fire
    "bits": Objective("bits", "minimize"),  # of all synapses' weights
}


def require_validation(spec: Experiment) -> None:
    """Raise unless epochs are judged by validation samples: a search on test samples would fit them."""
    if spec.train.protocol != "holdout":
        raise ValueError(
            f"{spec.name}: a search needs train.protocol = 'holdout', which keeps validation samples, but it is "
            f"{spec.train.protocol!r}; add --set train.protocol=holdout"
        )
    if spec.train.loss == "trace":
        raise ValueError(
            f"{spec.name}: a search needs an accuracy, but train.loss = 'trace' learns times; use another experiment"
        )


def figures(spec: Experiment, data: Dataset, folder: RunFolder, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a run that has ended, from its summary and the row of its chosen epoch.

    A diverged run counts as chance accuracy, and as the worst of all else.
    """
    layers, _ = parse(spec.net.notation, data.shape)
    neurons = [count_neurons([layer]) for layer in layers]
    firing = len(layers) - (spec.net.readout == "membrane")
    bits = sum(math.prod(shape) for shape in synapse_shapes(spec, data.shape).values())
    bits *= 1 if spec.net.binary else 32
    diverged = summary["ended"] == "nan" or summary["valid_accuracy"] is None
    if diverged:
        steps = data.train.steps or spec.net.steps
        found = {"accuracy": 1 / data.classes, "spikes": float(steps * sum(neurons[:firing])), "dead": 1.0}
    else:
        row = _row_of(folder, int(summary["best_epoch"]))
        dead = zip(row["dead"][:firing], neurons[:firing], strict=True)
        found = {
            "accuracy": summary["valid_accuracy"],
            "spikes": float(sum(row["spikes"][:firing])),
            "dead": sum(share * count for share, count in dead) / max(sum(neurons[:firing]), 1),
        }
    return {"diverged": diverged, **found, "bits": bits}


def _row_of(folder: RunFolder, epoch: int) -> dict[str, Any]:
    rows = [json.loads(line) for line in folder.metrics.read_text(encoding="utf-8").splitlines()]
    row: dict[str, Any] = next(row for row in rows if row["epoch"] == epoch)
    return row


def values_of(found: Mapping[str, Any], objectives: Sequence[Objective]) -> list[float]:
    """Return the figures that the study optimizes, in its order."""
    return [float(found[objective.name]) for objective in objectives]
