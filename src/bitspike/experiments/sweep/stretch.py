"""An experiment made longer or shorter: what counts iterations is scaled with the number of epochs."""

from __future__ import annotations

import math
from typing import Any

from bitspike.experiments.schema import Experiment, as_values, experiment


def stretched(spec: Experiment, epochs: int) -> Experiment:
    """Return the experiment with another number of epochs, and its course over time scaled alike.

    The half period of a cosine schedule and the ways of annealed thresholds take the same share of all iterations as
    before: with twice the epochs a threshold relaxes at half the speed, (1 - rate') ** 2 = 1 - rate.
    """
    factor = epochs / spec.train.epochs
    values = as_values(spec)
    values["train"]["epochs"] = epochs
    if spec.train.half_period is not None:
        values["train"]["half_period"] = max(1, round(spec.train.half_period * factor))
    theta = values["net"]["theta"]
    values["net"]["theta"] = (
        [_threshold(each, factor) for each in theta] if isinstance(theta, list) else _threshold(theta, factor)
    )
    return experiment(values, spec.name)


def _threshold(theta: Any, factor: float) -> Any:
    """Return a threshold that takes `factor` times as many iterations."""
    if not isinstance(theta, dict):
        return theta
    made = dict(theta)
    if "rate" in made:
        made["rate"] = scaled_rate(made["rate"], factor)
    if "tau" in made:
        made["tau"] *= factor
    if "steps" in made:
        made["steps"] = max(1, round(made["steps"] * factor))
    return made


def scaled_rate(rate: float, factor: float) -> float:
    """Return the rate that goes as far in `factor` iterations as `rate` goes in one.

    Examples:
        >>> from bitspike.experiments.sweep.stretch import scaled_rate
        >>> scaled_rate(0.75, 2), scaled_rate(1.0, 10)
        (0.5, 1.0)
    """
    return 1.0 if rate == 1 else -math.expm1(math.log1p(-rate) / factor)
