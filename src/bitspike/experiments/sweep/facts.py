"""The facts of a study that may never change, how two studies differ, and how a study stands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bitspike.config import shown
from bitspike.experiments.comparison import SAME_NUMBERS, differences
from bitspike.experiments.provenance import versions
from bitspike.experiments.schema import Experiment, as_values, experiment
from bitspike.text import number_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

FORMAT = 1
ATTRIBUTE = "bitspike"  # the study's user attribute that holds its facts


@dataclass(frozen=True, slots=True)
class Objective:
    """A figure of a trial that the study optimizes."""

    name: str
    direction: str  # "maximize" or "minimize"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFacts:
    """All that decides what a study searches; every process that works on it must agree."""

    source: str
    experiment: Mapping[str, Any]
    settings: Sequence[str]
    seed: int
    objectives: Sequence[Objective]
    space: Mapping[str, Any]
    sampler: str
    pruner: str
    versions: Mapping[str, str]
    created: str

    def as_json(self) -> dict[str, Any]:
        """Return the facts as a study keeps them."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, held: object, where: str) -> StudyFacts:
        """Return the facts that a study keeps; raise ValueError if they are not facts of this version."""
        if not isinstance(held, Mapping) or "format" not in held:
            raise ValueError(f"{where} was not made by `bitspike sweep run`; choose another --study or --out")
        if held["format"] != FORMAT:
            raise ValueError(
                f"{where} was made by another version of bitspike (format {held['format']!r}, here {FORMAT}); "
                "go on with that version, or choose another --study or --out"
            )
        try:
            values = {key: value for key, value in held.items() if key != "format"}
            return cls(**{**values, "objectives": tuple(Objective(**each) for each in held["objectives"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"{where} is damaged: {error}") from None

    def spec(self) -> Experiment:
        """Return the experiment that trials change."""
        return experiment(self.experiment, "the study's experiment")

    def differences(self, now: StudyFacts) -> list[str]:
        """List in words how a study that is asked for now differs from this one."""
        found = [] if self.seed == now.seed else [f"seed was {self.seed}, is {now.seed}"]
        found += differences(self.spec(), now.spec(), free=("seed", *SAME_NUMBERS))
        for name in ("objectives", "sampler", "pruner"):
            before, after = (_in_words(getattr(each, name)) for each in (self, now))
            found += [] if before == after else [f"{name} was {before}, is {after}"]
        return found + _space_differences(self.space, now.space)


def _in_words(value: object) -> str:
    return value if isinstance(value, str) else ", ".join(each.name for each in value)  # type: ignore[attr-defined]


def _space_differences(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "search") -> list[str]:
    found: list[str] = []
    for key in sorted(before.keys() | after.keys()):
        one, two = before.get(key), after.get(key)
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            found += _space_differences(one, two, f"{path}.{key}")
        elif one != two:
            found.append(f"{path}.{key} was {shown(one)}, is {shown(two)}")
    return found


def facts_of(
    source: str,
    spec: Experiment,
    settings: Sequence[str],
    space: Mapping[str, Any],
    objectives: Sequence[Objective],
    *,
    sampler: str,
    pruner: str,
) -> StudyFacts:
    """Return the facts of a study that begins now."""
    import optuna

    return StudyFacts(
        source=source,
        experiment=as_values(spec),
        settings=list(settings),
        seed=spec.seed,
        objectives=tuple(objectives),
        space=json.loads(json.dumps(space)),  # as it comes back from a storage: lists, and no tuples
        sampler=sampler,
        pruner=pruner,
        versions={**versions(), "optuna": optuna.__version__},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """How many trials of a study have ended, and how; `complete` counts pruned and diverged ones, too."""

    complete: int = 0
    pruned: int = 0
    diverged: int = 0
    failed: int = 0
    running: int = 0

    @classmethod
    def of(cls, trials: Sequence[FrozenTrial]) -> Standing:
        """Count the trials of a study."""
        states = [trial.state.name for trial in trials]
        pruned = states.count("PRUNED")
        return cls(
            complete=states.count("COMPLETE") + pruned,
            pruned=pruned,
            diverged=sum(bool(trial.user_attrs.get("result", {}).get("diverged")) for trial in trials),
            failed=sum(trial.state.name == "FAIL" and not is_surplus(trial) for trial in trials),
            running=states.count("RUNNING") + states.count("WAITING"),
        )

    def words(self) -> str:
        """Return the numbers of trials that have ended, in words.

        Examples:
            >>> from bitspike.experiments.sweep.facts import Standing
            >>> Standing(complete=3, pruned=1, failed=2).words()
            '3 trials complete (1 pruned); 2 failed'
        """
        of_them = [f"{count} {word}" for word in ("pruned", "diverged") if (count := getattr(self, word))]
        text = f"{number_of(self.complete, 'trial')} complete" + (f" ({', '.join(of_them)})" if of_them else "")
        return text + (f"; {self.failed} failed" if self.failed else "")


def is_surplus(trial: FrozenTrial) -> bool:
    """Return whether a trial was one too many and never trained; one whose worker died before it said so is trained."""
    return trial.state.name == "FAIL" and bool(trial.user_attrs.get("surplus"))
