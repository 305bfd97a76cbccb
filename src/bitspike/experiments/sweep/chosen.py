"""A trial of a study as an experiment of its own: a complete TOML file that `bitspike train` takes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from bitspike.experiments.schema import Experiment, as_toml, as_values, experiment, with_values
from bitspike.experiments.sweep.overview import SHOWN, Outcome, Overview
from bitspike.experiments.sweep.space import setting_lines
from bitspike.experiments.sweep.stretch import stretched
from bitspike.text import number_of

MOST_LISTED = 12  # trials of a front that a line names


def chosen_outcome(found: Overview, number: int | None) -> Outcome:
    """Return the trial of this number, or the best one; two objectives have no best one, and the number is needed."""
    if number is not None:
        outcome = next((each for each in found.outcomes if each.number == number), None)
        if outcome is None:
            raise ValueError(f"--trial {number}: the study has {len(found.outcomes)} trials, numbered from 0")
        if outcome.state not in ("complete", "pruned"):
            told = f" ({outcome.error})" if outcome.error else ""
            raise ValueError(
                f"--trial {number}: it is {_STATES.get(outcome.state, outcome.state)}{told}; choose another"
            )
        return outcome
    if found.best is None:
        raise ValueError(f"{found.name} has no complete trial yet; wait for one, or look with bitspike sweep show")
    if len(found.objectives) > 1:
        listed = ", ".join(
            f"{each.number} ({', '.join(values_in_words(found, each))})" for each in found.front[:MOST_LISTED]
        )
        more = f" and {len(found.front) - MOST_LISTED} more" if len(found.front) > MOST_LISTED else ""
        raise ValueError(
            f"{found.name} has two objectives, so that no trial is the best; give --trial, one of {listed}{more}"
        )
    return found.best


_STATES = {"running": "still running", "waiting": "still waiting", "fail": "failed"}


def values_in_words(found: Overview, outcome: Outcome) -> list[str]:
    """Return a trial's value of each objective, with what it is."""
    pairs = zip(found.objectives, outcome.values or (), strict=False)
    return [SHOWN[objective["name"]].words(value) for objective, value in pairs]


def chosen_experiment(
    spec: Experiment, found: Overview, outcome: Outcome, *, epochs: int | None = None, scale: bool = False
) -> Experiment:
    """Return the experiment of a trial; with `epochs` another length, and with `scale` all that counts iterations too.

    `spec` is the study's experiment. The sources of searched fields say from which range they were drawn.
    """
    made = with_values(spec, setting_lines(outcome.settings))
    if epochs is not None:
        made = stretched(made, epochs) if scale else with_values(made, [f"train.epochs={epochs}"])
    values = as_values(made)
    values["name"] = f"{spec.name}-trial-{outcome.number}"
    searched = {".".join(name.split(".")[:2]) for name in found.space.parameters}
    kept = {field: source for field, source in made.sources.items() if field not in searched}
    values["sources"] = {**kept, **_sources(found, outcome)}
    return experiment(values, f"trial {outcome.number} of {found.name}")


def _sources(found: Overview, outcome: Outcome) -> dict[str, str]:
    """Return for each field that was searched the ranges of its parameters."""
    ranges: dict[str, list[str]] = {}
    for name, words in found.space.words().items():
        table, field, *part = name.split(".")
        if name in outcome.parameters:
            ranges.setdefault(f"{table}.{field}", []).append(
                f"{'.'.join(part)} from {words}".strip() if part else f"from {words}"
            )
    return {field: f"trial {outcome.number} of {found.name}: {'; '.join(texts)}" for field, texts in ranges.items()}


def chosen_toml(made: Experiment, found: Overview, outcome: Outcome, folder: Path, trained: int) -> str:
    """Return the experiment as TOML, with comments that say where it comes from and how to train it.

    `trained` are the epochs of the study's trials.
    """
    heading: Sequence[str] = (
        f"Trial {outcome.number} of the search {found.name} ({number_of(found.standing.complete, 'trial')} complete): "
        f"{', '.join(values_in_words(found, outcome))}.",
        f"Written by bitspike sweep best {shlex.quote(str(folder))} --trial {outcome.number}; "
        "train it with bitspike train FILE.toml",
        f"The search trained {number_of(trained, 'epoch')}; this file trains {made.train.epochs}. "
        "The table [sources] has the ranges of what was searched.",
    )
    return as_toml(made, "\n".join(heading))
