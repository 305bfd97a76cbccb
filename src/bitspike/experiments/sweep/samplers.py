"""Optuna's samplers and pruners; every draw follows from the study's seed, the trial's number and the parameter's name.

So it makes no difference which process draws, or whether the one before it died between two parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler

from bitspike.train.seeds import mixed

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.study import Study
    from optuna.trial import FrozenTrial, TrialState


def _tpe(seed: int) -> BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # Trials that still run count as bad ones, so that workers do not draw the same. One worker alone sees none.
        return TPESampler(seed=seed, constant_liar=True)


SAMPLERS: Mapping[str, Callable[[int], BaseSampler]] = {
    "tpe": _tpe,
    "nsga2": lambda seed: NSGAIISampler(seed=seed),
    "random": lambda seed: RandomSampler(seed=seed),
}


class NumberedSampler(BaseSampler):
    """A sampler of the given kind that is made anew, with a seed of its own, for each trial and parameter."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self.seed = kind, seed

    def _sampler(self, trial: FrozenTrial, parameter: str = "") -> BaseSampler:
        return SAMPLERS[self.kind](mixed(self.seed, f"sampler/{parameter}", trial.number) % 2**32)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._sampler(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._sampler(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._sampler(trial, param_name).sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._sampler(trial).before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        self._sampler(trial).after_trial(study, trial, state, values)


def make_pruner(name: str, epochs: int) -> BasePruner:
    """Return the pruner that ends bad trials early; "none" ends none of them."""
    if name == "none":
        return optuna.pruners.NopPruner()
    if name == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1)
    return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=epochs, reduction_factor=3)
