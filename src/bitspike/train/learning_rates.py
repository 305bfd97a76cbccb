"""Learning-rate schedules by their names in `train.schedule`; the formulas are in `bitspike.schedules`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bitspike.schedules import Constant, Cosine, WarmupCosine
from bitspike.train.config import TrainConfig

Rate = Callable[[int], float]  # from the run's iteration to its learning rate


@dataclass(frozen=True, slots=True)
class RateSchedule:
    """An entry of RATES: `make(config, iterations)` gives the rate; `iterations` are those of all epochs."""

    make: Callable[[TrainConfig, int], Rate]
    lasts_all_epochs: bool = False  # the rate depends on `iterations`: other epochs are another experiment


def _cosine(config: TrainConfig, iterations: int) -> Rate:
    return Constant(config.lr) if config.half_period is None else Cosine(config.lr, config.half_period)


RATES: dict[str, RateSchedule] = {
    "constant": RateSchedule(lambda config, iterations: Constant(config.lr)),
    "cosine": RateSchedule(_cosine),
    "decay": RateSchedule(
        lambda config, iterations: WarmupCosine(config.lr, config.warmup * iterations, iterations),
        lasts_all_epochs=True,
    ),
}


def make_rate(config: TrainConfig, iterations: int) -> Rate:
    """Return the learning rate as a function of the iteration, in a run of `iterations` in all epochs."""
    return RATES[config.schedule].make(config, iterations)


def group_rates(config: TrainConfig, starts: Sequence[float], iterations: int) -> list[Rate]:
    """Return a learning rate for each start: start * lr(k) / lr, where lr(k) is the schedule of `train.lr`."""
    return [make_rate(config.model_copy(update={"lr": start}), iterations) for start in starts]
