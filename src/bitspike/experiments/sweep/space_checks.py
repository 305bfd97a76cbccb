"""Checks of a search space when it is read: names, ranges, and whether the experiment takes every corner."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from itertools import combinations, product
from typing import Any

from bitspike.config import known_keys, shown, validated
from bitspike.data.config import FILES
from bitspike.experiments.removed import REMOVED
from bitspike.experiments.schema import Experiment, as_values, with_values
from bitspike.experiments.settings import parse_setting, place, require_field
from bitspike.experiments.sweep.parameter import NONE, Choice, Parameter
from bitspike.experiments.sweep.space import RISE, Space, setting_lines

_SAME_SAMPLES = "all trials are judged by the same samples"
_LIMITS = ("train_limit", "test_limit", "validation_share", "validation_groups", "test_share", "split_seed")
# fields that no search may draw, and why
REFUSED = {
    **dict.fromkeys(("name", "title", "base", "paper", "sources"), "it is not a number of the training"),
    "seed": "a network that a lucky seed makes is no better one; the study draws each trial's",
    "train.protocol": "trials are judged by validation samples, never by the test set",
    **dict.fromkeys(
        [f"data.{field}" for field in (*FILES, "name", "passed", "kind", "groups", "class_names", *_LIMITS)],
        _SAME_SAMPLES,
    ),
    **{field: f"it was removed: {removed.why}" for field, removed in REMOVED.items()},
}


def checked(tables: Mapping[str, Any], source: str, spec: Experiment, settings: Collection[str] = ()) -> Space:
    """Return the space of these tables for an experiment; raise a ValueError of one line if it cannot be searched.

    Parameters of fields that `settings` (`key=value`) set are left out.
    """
    where = f"{source}: [search]"
    for name in tables:
        _require_searchable(name, where)
    parameters = {name: validated(Parameter, table, f"{where} {name}") for name, table in tables.items()}
    _require_apart(parameters, where)
    parameters = _without_settings(parameters, settings)
    parameters = _resolved(parameters, spec, where)
    if not parameters:
        raise ValueError(f"{where} has nothing left to search; give it a parameter")
    starts = {name: _start(name, spec, where) for name in parameters if RISE.fullmatch(name)}
    _require_numbers(parameters, where)
    starts = {name: start for name, start in starts.items() if f"{name.removesuffix('rise')}start" not in parameters}
    space = Space(source, parameters, starts)
    for _ in corners(space, spec):  # each is validated
        pass
    return space


def corners(space: Space, spec: Experiment) -> Iterator[Experiment]:
    """Yield the experiments at the ends of every parameter and inside of it, and at the ends of every two parameters.

    So a rule between two fields is met. An end that the experiment refuses raises a ValueError of one line.
    """
    tried = {name: parameter.extremes() for name, parameter in space.parameters.items()}
    ends = {name: tried[name] if held.choices else tried[name][:2] for name, held in space.parameters.items()}
    lows, highs = ({name: values[index] for name, values in ends.items()} for index in (0, -1))
    draws = [lows, highs, *(lows | {name: value} for name, values in tried.items() for value in values)]
    for pair in combinations(ends, 2):
        draws += [lows | dict(zip(pair, values, strict=True)) for values in product(*(ends[name] for name in pair))]
    plain = as_values(spec)
    seen: set[tuple[tuple[str, Choice], ...]] = set()
    for draw in draws:
        drawn = {name: value for name, value in draw.items() if space.parameters[name].applies(draw)}
        if (key := tuple(drawn.items())) not in seen:
            seen.add(key)
            yield _experiment(space, spec, plain, drawn)


def typical(space: Space, spec: Experiment) -> Iterator[Experiment]:
    """Yield an experiment for each choice of every parameter, with the others somewhere in their ranges.

    An end of a range may be a special case, such as 0, that no trial draws; `corners` tries it.
    """
    tried = {name: parameter.extremes() for name, parameter in space.parameters.items()}
    usual = {name: values[-1] for name, values in tried.items()}
    choices = [{name: value} for name, held in space.parameters.items() if held.choices for value in tried[name][:-1]]
    plain = as_values(spec)
    for draw in [usual, *(usual | choice for choice in choices)]:
        drawn = {name: value for name, value in draw.items() if space.parameters[name].applies(draw)}
        yield _experiment(space, spec, plain, drawn)


def _experiment(space: Space, spec: Experiment, plain: Mapping[str, Any], drawn: Mapping[str, Choice]) -> Experiment:
    """Return the experiment, of which `plain` are the values, with drawn parameters; an error names them."""
    settings = space.settings(drawn)
    values = deepcopy(dict(plain))
    try:
        for key, value in settings.items():
            place(values, key, value, key, Experiment)
        return Experiment.model_validate(values)
    except ValueError:
        pass
    try:  # with words that name what is to blame
        return with_values(spec, setting_lines(settings))
    except ValueError as error:
        text = str(error)
        hint = "; add integer = true" if "must be a whole number" in text else ""
        raise ValueError(f"{space.source}: [search] {text.removeprefix('--set ')}{hint}") from None


def _require_searchable(name: str, where: str) -> None:
    """Raise unless the name is that of a field which may be searched."""
    if RISE.fullmatch(name):
        return
    require_field(name, where, Experiment)
    known = (*known_keys(Experiment), *REMOVED)
    field = next(key for key in known if name == key or name.startswith(f"{key}."))
    if field in REFUSED:
        raise ValueError(f"{where} {name} cannot be searched: {REFUSED[field]}")


def _require_apart(parameters: Mapping[str, Parameter], where: str) -> None:
    """Raise if two parameters set the same field."""
    for name in parameters:
        inside = next((other for other in parameters if other.startswith(f"{name}.")), None)
        if inside is not None:
            raise ValueError(f"{where} {inside} is a part of {name}, which is searched, too; leave one of them out")
        if RISE.fullmatch(name) and (stop := f"{name.removesuffix('rise')}stop") in parameters:
            raise ValueError(f"{where} {name} and {stop} set the same threshold; leave one of them out")


def _require_numbers(parameters: Mapping[str, Parameter], where: str) -> None:
    """Raise if a rise, or the threshold that it starts from, may be drawn as something else than a number."""
    for name in parameters:
        for each in (name, f"{name.removesuffix('rise')}start") if RISE.fullmatch(name) else ():
            choices = parameters[each].choices if each in parameters else None
            for choice in choices or ():
                if isinstance(choice, bool | str):
                    raise ValueError(
                        f"{where} {each}: choices: a threshold must be a number, but one is {shown(choice)}"
                    )


def _without_settings(parameters: Mapping[str, Parameter], settings: Collection[str]) -> dict[str, Parameter]:
    """Return the parameters whose fields are not set by hand."""
    kept = dict(parameters)
    for setting in settings:
        key, _ = parse_setting(setting)
        outer = next((name for name in parameters if key.startswith(f"{name}.")), None)
        if outer is not None:
            raise ValueError(f"--set {setting}: {key} is a part of {outer}, which is searched; set all of {outer}")
        for name in parameters:
            held = f"{name.removesuffix('rise')}stop" if RISE.fullmatch(name) else name
            if held == key or held.startswith(f"{key}."):
                del kept[name]
    return kept


def _resolved(parameters: Mapping[str, Parameter], spec: Experiment, where: str) -> dict[str, Parameter]:
    """Return the parameters whose conditions can be true, without conditions on fields that are not searched."""
    kept: dict[str, Parameter] = {}
    for name, parameter in parameters.items():
        open_: dict[str, Any] = {}
        possible = True
        for key, wanted in parameter.when.items():
            if key in parameters:
                _require_condition(name, key, wanted, parameters[key], where)
                open_[key] = wanted
                continue
            require_field(key, f"{where} {name}: when", Experiment)
            possible &= _field(spec, key) in (wanted if isinstance(wanted, list) else [wanted])
        if possible:
            kept[name] = parameter.model_copy(update={"when": open_})
    return kept


def _require_condition(name: str, key: str, wanted: Any, on: Parameter, where: str) -> None:
    """Raise unless the condition can be met by one of the choices of the parameter that it depends on."""
    place = f"{where} {name}: when {key} = {shown(wanted)}"
    if on.choices is None or on.when:
        raise ValueError(f"{place}: {key} must have choices and no condition of its own")
    for each in wanted if isinstance(wanted, list) else [wanted]:
        if each not in on.choices:
            raise ValueError(f"{place}: {key} is one of {shown(on.choices)}")


def _field(spec: Experiment, key: str) -> Any:
    """Return an experiment's value of a field, as TOML holds it; "none" where it is not set."""
    held: Any = as_values(spec)
    for part in key.split("."):
        if isinstance(held, list) and part.isdecimal() and int(part) < len(held):
            held = held[int(part)]
        elif isinstance(held, Mapping) and part in held:
            held = held[part]
        else:
            return NONE
    return held


def _start(name: str, spec: Experiment, where: str) -> float:
    """Return the experiment's threshold from which a rise starts; raise if its threshold is not annealed."""
    layer = name.removesuffix(".rise")
    held = _field(spec, f"{layer}.start")
    if held == NONE:
        raise ValueError(
            f"{where} {name}: {layer} must be a threshold {{start, stop, rate}} in the experiment, but "
            f"net.theta is {shown(as_values(spec)['net']['theta'])}"
        )
    return float(held)
