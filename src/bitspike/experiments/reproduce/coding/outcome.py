"""The outcome of a case of the temporal coding task: when its output neuron fires, and the error of its trace."""

from __future__ import annotations

import math
from typing import Any

from bitspike.analysis.timing import TimingStatistics, timing_statistics
from bitspike.data.coding import OVERSHOOT, TARGET_TIME
from bitspike.experiments.reproduce.coding.training import History

LAST = 300  # iterations at the end of training that the statistics cover
# The trace reaches theta before its peak, so a membrane that follows it may rightly fire from here on.
CROSSING_TIME = math.ceil(TARGET_TIME / (1 + OVERSHOOT))


def describe(history: History) -> dict[str, Any]:
    """Return a case's parameters and its outcome, as plain values."""
    case = history.case
    last = min(LAST, len(history.theta))
    final = ((history.target[:, None] - history.membrane[-1]) ** 2).sum(0)
    silence = (history.target**2).sum().item()
    return {
        "title": case.title,
        "source": case.source,
        "binary": case.binary,
        "beta": case.beta,
        "theta": repr(case.theta),
        "surrogate_center": case.surrogate_center,
        "init": case.init,
        "learning_rate": case.learning_rate,
        **statistics_of(history).as_dict(),
        "hidden_dead": round(dead_share(history), 4),
        "theta_last": round(history.theta[-1].item(), 4),
        "final_loss_mean": round(final.mean().item(), 4),
        "final_loss_median": round(final.median().item(), 4),
        "final_loss_over_silence": round(final.median().item() / silence, 4),
        "per_seed": {
            "near": [round(v, 4) for v in _near_by_seed(history, last)],
            "final_loss": [round(v, 4) for v in final.tolist()],
        },
    }


def statistics_of(history: History, iterations: slice = slice(None)) -> TimingStatistics:
    """Return statistics of when the output neuron fires in the last iterations, of all or of a slice of them."""
    spikes = history.spikes[iterations]
    return timing_statistics(spikes, TARGET_TIME, min(LAST, len(spikes)), CROSSING_TIME)


def _near_by_seed(history: History, last: int) -> list[float]:
    """Return for each seed the share of the last iterations that fire within one step of the target."""
    near = history.spikes[-last:, TARGET_TIME - 1 : TARGET_TIME + 2].amax(1)
    return [float(v) for v in near.mean(0)]


def dead_share(history: History) -> float:
    """Return the share of hidden neurons without a spike, over the last iterations and all seeds."""
    return history.dead[-LAST:].mean().item()
