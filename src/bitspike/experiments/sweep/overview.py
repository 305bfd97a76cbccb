"""The findings of a study: its trials, the best of them, how much each parameter matters; for people and for JSON."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bitspike.analysis.search_data import SearchAxis, SearchObjective, SearchTrials
from bitspike.experiments.sweep.facts import Standing, is_surplus
from bitspike.experiments.sweep.parameter import value_in_words
from bitspike.experiments.sweep.space import Space

if TYPE_CHECKING:
    import optuna

    from bitspike.experiments.sweep.studies import OpenStudy


@dataclass(frozen=True, slots=True)
class Shown:
    """How an objective is shown to people: its label, the factor of its values, and their format."""

    label: str
    factor: float
    format: str

    def number(self, value: float) -> str:
        """Return a value as a table shows it."""
        return format(self.factor * value, self.format)

    def words(self, value: float) -> str:
        """Return a value with what it is: "validation accuracy 87.92 %", "1,234.5 spikes a sample"."""
        what, _, unit = self.label.partition(", ")
        return f"{what} {self.number(value)} {unit}" if unit else f"{self.number(value)} {what}"


SHOWN = {
    "accuracy": Shown("validation accuracy, %", 100.0, ".2f"),
    "spikes": Shown("spikes a sample", 1.0, ",.1f"),
    "dead": Shown("silent neurons, %", 100.0, ".2f"),
    "bits": Shown("bits of weights", 1.0, ",.0f"),
}
FEWEST = 20  # trials from which importances are computed
METHOD = "PED-ANOVA"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One trial of a study."""

    number: int
    state: str  # complete, pruned, running, waiting or fail
    values: tuple[float, ...] | None  # by objective
    parameters: Mapping[str, Any]
    settings: Mapping[str, Any]
    result: Mapping[str, Any]
    folder: str
    error: str


@dataclass(frozen=True, slots=True)
class Overview:
    """A study as it stands."""

    name: str
    source: str
    objectives: Sequence[Mapping[str, str]]
    standing: Standing
    space: Space
    outcomes: Sequence[Outcome]
    trials: SearchTrials
    best: Outcome | None  # of the first objective
    front: Sequence[Outcome]  # of two objectives, from the best of the first one on
    why_no_importances: str

    @property
    def best_is(self) -> str:
        """The word for `best`: of two objectives it is only the most accurate one."""
        return "most accurate" if self.front else "best"

    def as_json(self) -> dict[str, Any]:
        """Return everything for other programs."""
        return {
            "study": self.name,
            "source": self.source,
            **asdict(self.standing),
            "objectives": [dict(each) for each in self.objectives],
            "best": None if self.best is None else {**asdict(self.best), "value": (self.best.values or (None,))[0]},
            "front": [asdict(each) for each in self.front],
            "importances": dict(self.trials.importances),
            "importances_by": METHOD if self.trials.importances else None,
            "space": self.space.canonical(),
            "history": [
                {"number": number, "best": best / SHOWN["accuracy"].factor}
                for number, best in zip(self.trials.numbers, self.trials.best_so_far(), strict=True)
                if not math.isnan(best)
            ],
            "trials": [asdict(each) for each in self.outcomes],
        }


def overview(opened: OpenStudy) -> Overview:
    """Return what a study has found so far."""
    facts = opened.facts
    held = opened.study.get_trials(deepcopy=False)
    outcomes = [_outcome(trial) for trial in held if not is_surplus(trial)]
    space = Space.from_canonical(facts.space, f"the study {opened.study.study_name}")
    importances, why = _importances(opened.study, outcomes)
    with_value = [each for each in outcomes if each.values is not None]
    trials = SearchTrials(
        title=opened.study.study_name,
        numbers=[each.number for each in with_value],
        pruned=[each.state == "pruned" for each in with_value],
        objectives=[
            SearchObjective(
                SHOWN[objective.name].label,
                [SHOWN[objective.name].factor * each.values[index] for each in with_value if each.values],
                objective.direction == "maximize",
            )
            for index, objective in enumerate(facts.objectives)
        ],
        axes=[_axis(name, space, with_value) for name in space.parameters],
        importances=importances,
    )
    ranked = trials.ranked()
    front = set(trials.front()) if len(facts.objectives) > 1 else set()
    return Overview(
        name=opened.study.study_name,
        source=facts.source,
        objectives=[asdict(each) for each in facts.objectives],
        standing=Standing.of(held),
        space=space,
        outcomes=outcomes,
        trials=trials,
        best=with_value[ranked[0]] if ranked else None,
        front=[with_value[row] for row in ranked if row in front],
        why_no_importances=why,
    )


def _outcome(trial: optuna.trial.FrozenTrial) -> Outcome:
    attributes = trial.user_attrs
    values = None if trial.values is None or trial.state.name not in ("COMPLETE", "PRUNED") else tuple(trial.values)
    return Outcome(
        number=trial.number,
        state=trial.state.name.lower(),
        values=values,
        parameters=dict(trial.params),
        settings=attributes.get("settings", {}),
        result=attributes.get("result", {}),
        folder=attributes.get("folder", ""),
        error=attributes.get("error", ""),
    )


def _axis(name: str, space: Space, outcomes: Sequence[Outcome]) -> SearchAxis:
    """Return a parameter with its values in the trials."""
    parameter = space.parameters[name]
    drawn = [each.parameters.get(name) for each in outcomes]
    if parameter.choices is not None:
        words = [None if value is None else value_in_words(value) for value in drawn]
        return SearchAxis(name, words, choices=[value_in_words(each) for each in parameter.choices])
    low, high = parameter.low or 0.0, parameter.high or 0.0
    return SearchAxis(name, drawn, low, high, log=parameter.log, whole=parameter.integer)


def _importances(study: optuna.Study, outcomes: Sequence[Outcome]) -> tuple[dict[str, float], str]:
    """Return what each parameter matters for the first objective, as shares; or why that is not known.

    Optuna's fANOVA needs scikit-learn, its PED-ANOVA does not. Parameters that only some trials draw are left out.
    """
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    complete = [each for each in outcomes if each.state == "complete" and each.values is not None]
    if len(complete) < FEWEST:
        return {}, f"importances need {FEWEST} trials that were trained to their end, but there are {len(complete)}"
    if len({each.values[0] for each in complete if each.values}) < 2:
        return {}, "all trials have the same value, so that no parameter matters"
    sign = -1 if study.directions[0] == optuna.study.StudyDirection.MAXIMIZE else 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", ".*low `target` values")  # that is why there is a sign
        evaluator = PedAnovaImportanceEvaluator(evaluate_on_local=False)
        found = get_param_importances(study, evaluator=evaluator, target=lambda trial: sign * trial.values[0])
    if not found or not any(found.values()):
        return {}, "no parameter is drawn by all trials"
    return {name: float(share) for name, share in found.items()}, ""
