"""A search space: which fields of an experiment a study draws, from which ranges, and the settings of a draw.

A parameter is named by the dotted name of the experiment's field that it sets, as `--set` takes it: `train.lr`,
`net.beta`, and with a layer's number (the first is 0) `net.dropout.1` and `net.theta.0.start`. One name is not a field:
`net.theta.0.rise` is the distance from `start` to `stop`, so that every draw anneals upwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bitspike.config import validated
from bitspike.experiments.sweep.parameter import NONE, Parameter

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

RISE = re.compile(r"net\.theta(\.\d+)?\.rise")


@dataclass(frozen=True)
class Space:
    """Parameters by name, in a fixed order, and the thresholds from which rises start that are not searched."""

    source: str  # the preset or the file
    parameters: Mapping[str, Parameter]
    starts: Mapping[str, float] = field(default_factory=dict)  # by the name of the rise

    def __post_init__(self) -> None:
        # Those that depend on others are drawn after them; the order of a file has no effect.
        ordered = sorted(self.parameters.items(), key=lambda item: (bool(item[1].when), _natural(item[0])))
        object.__setattr__(self, "parameters", dict(ordered))

    def suggest(self, trial: BaseTrial) -> dict[str, object]:
        """Draw every parameter that applies; return the values by name."""
        drawn: dict[str, object] = {}
        for name, parameter in self.parameters.items():
            if parameter.applies(drawn):
                drawn[name] = parameter.suggest(trial, name)
        return drawn

    def settings(self, parameters: Mapping[str, object]) -> dict[str, object]:
        """Return the experiment's fields, by dotted name, for drawn parameters; None for a field that is not set.

        Apply them as `--set` does: `with_values(spec, setting_lines(settings))`. A field whose condition is not met is
        not set: the experiment may have it for another choice, such as the momentum of another optimizer.
        """
        settings: dict[str, object] = {
            name: None for name, held in self.parameters.items() if held.when and name not in parameters
        }
        for name, value in parameters.items():
            if RISE.fullmatch(name):
                first = name.removesuffix("rise") + "start"
                start = parameters[first] if first in parameters else self.starts[name]
                settings[name.removesuffix("rise") + "stop"] = _number(start) + _number(value)
            else:
                settings[name] = None if value == NONE else value
        return settings

    def canonical(self) -> dict[str, object]:
        """Return everything that decides draws and settings, as JSON holds it; equal spaces have equal values."""
        return {
            name: {**parameter.canonical(), **({"start": self.starts[name]} if name in self.starts else {})}
            for name, parameter in self.parameters.items()
        }

    @classmethod
    def from_canonical(cls, held: Mapping[str, Any], source: str) -> Space:
        """Return the space of `canonical()`; `source` says in errors where it was kept."""
        tables = {name: {key: value for key, value in table.items() if key != "start"} for name, table in held.items()}
        starts = {name: _number(table["start"]) for name, table in held.items() if "start" in table}
        parameters = {name: validated(Parameter, table, f"{source}: {name}") for name, table in tables.items()}
        return cls(source, parameters, starts)

    def without(self, names: Collection[str]) -> Space:
        """Return the space without these parameters."""
        return replace(self, parameters={name: held for name, held in self.parameters.items() if name not in names})

    def words(self) -> dict[str, str]:
        """Return each parameter's range or choices in words, with the condition where it has one."""
        texts = {}
        for name, parameter in self.parameters.items():
            conditions = " and ".join(f"{key} is {value}" for key, value in parameter.when.items())
            texts[name] = parameter.words() + (f", where {conditions}" if conditions else "")
        return texts


def setting_lines(settings: Mapping[str, object]) -> list[str]:
    """Return settings as `--set` takes them, `key=value`; every number keeps all of its digits.

    Examples:
        >>> from bitspike.experiments.sweep.space import setting_lines
        >>> setting_lines({"train.lr": 0.1, "train.grad_clip": None, "net.norm": "step", "net.learn_beta": True})
        ['train.lr=0.1', 'train.grad_clip=none', 'net.norm="step"', 'net.learn_beta=true']
    """
    return [f"{key}={NONE if value is None else json.dumps(value)}" for key, value in settings.items()]


def space_of(source: str, settings: Collection[str] = ()) -> Space:
    """Return the space of a preset, such as "fashion/annealed", or of an experiment's TOML file.

    `settings` (`key=value`) are those of `--set`: a field that they set is not searched. What cannot be searched raises
    a ValueError of one line.
    """
    from bitspike.experiments.presets import preset_or_file
    from bitspike.experiments.sweep.space_checks import checked
    from bitspike.experiments.sweep.space_files import search_tables

    spec = preset_or_file(source, list(settings))
    return checked(search_tables(source, spec), source, spec, settings)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names with numbers by the numbers: layer 10 after layer 2."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in name.split(".")]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a threshold must be a number, but is {value!r}")
    return float(value)
