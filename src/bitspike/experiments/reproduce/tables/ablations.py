"""Changes of the annealed row that more than one table has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from bitspike.experiments.reproduce.tables.table import Ablation

if TYPE_CHECKING:
    from bitspike.experiments.net_config import Threshold
    from bitspike.experiments.schema import Experiment


def _thresholds(end: Literal["start", "stop"]) -> Callable[[Experiment], list[str]]:
    """Return settings that hold every annealed threshold at one of its ends."""

    def held(theta: Threshold) -> float:
        return theta if isinstance(theta, float) else float(getattr(theta, end))

    def settings(spec: Experiment) -> list[str]:
        theta = spec.net.theta
        return [f"net.theta={[held(each) for each in theta] if isinstance(theta, list) else held(theta)}"]

    return settings


MOVING = Ablation(
    "moving",
    "the surrogate moves with theta, as in the released code, instead of staying at theta_0",
    lambda spec: ["net.surrogate_center=current"],
)
AT_INF = Ablation("at-inf", "thresholds are theta_inf from the start", _thresholds("stop"))
AT_0 = Ablation("at-0", "thresholds stay at theta_0", _thresholds("start"))
