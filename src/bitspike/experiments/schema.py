"""What an experiment is: data, network, training, and where its figures come from. Frozen: derive, never mutate."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from bitspike._lazy import not_installed
from bitspike.config import (
    Config,
    Positive,
    Problem,
    Real,
    Truth,
    Whole,
    known_keys,
    shown,
    tables_of,
    unknown_key,
    unknown_table,
    validated,
)
from bitspike.data.config import DataConfig
from bitspike.experiments.toml import IN_QUOTES, parse_toml, read_toml
from bitspike.schedules import Constant, Linear, Relax, Schedule
from bitspike.train.config import TrainConfig

Above0 = Annotated[Real, Field(gt=0, le=1e30)]  # float32 has room for it
Decay = Annotated[Real, Field(ge=0, le=1)]
Drop = Annotated[Real, Field(ge=0, lt=1)]


_PATHS = ("data.file", "data.test_file", "train.teacher")


class Rise(Config):
    """A threshold that is annealed: it relaxes with {start, stop, rate} or {.., tau}, is a line with {.., steps}."""

    start: Above0
    stop: Above0
    rate: Annotated[Real, Field(gt=0, le=1)] | None = None
    tau: Above0 | None = None
    steps: Positive | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(way is not None for way in (self.rate, self.tau, self.steps)) != 1:
            raise ValueError("a threshold {start, stop, ...} needs one of rate, tau and steps")
        if self.stop <= self.start:
            raise ValueError(
                f"stop must be > start, but they are {self.stop:g} and {self.start:g}: thresholds are annealed "
                f"upwards; write {self.stop:g} for one that stays"
            )
        return self

    def schedule(self) -> Schedule:
        """As a function of the iteration."""
        if self.rate is not None:
            return Relax(self.start, self.stop, self.rate)
        if self.tau is not None:
            return Relax.from_tau(self.start, self.stop, self.tau)
        return Linear(self.start, self.stop, self.steps or 1)


Threshold = Above0 | Rise


class NetConfig(Config):
    """A network in the paper's notation; lists have one value a neuron layer (dropout: a Dense layer)."""

    notation: str
    binary: Truth = True  # False: the float32 twin
    beta: Decay | list[Decay]
    slope: Above0 | list[Above0]
    theta: Threshold | list[Threshold]
    dropout: Drop | list[Drop] = 0.0
    norm: Literal["step", "shared", "none"] = "none"
    # the gradient's shape around the threshold: the names of ops/surrogate.py, written out, for that needs torch
    surrogate: Literal["fast_sigmoid", "arctan", "triangular", "sigmoid"] = "fast_sigmoid"
    surrogate_center: Literal["initial", "current"] = "initial"
    init: Literal["torch", "released"] = "released"
    clip: Above0 | None = None  # no gradient to latent weights beyond
    steps: Positive = 100  # how long a static input is shown
    glances: Literal[1, 5, 9] = 1  # places that an image is shown at in these steps, one after the other
    learn_beta: Truth = False
    recurrent: Truth = False
    backend: Literal["auto", "reference", "torch", "c", "triton"] = "auto"
    recompute: Truth = False  # on a GPU: keep only hidden spikes for the backward pass, make the rest again

    @model_validator(mode="after")
    def _whole_glances(self) -> Self:
        if self.steps % self.glances:
            raise ValueError(
                f"net.steps must be a multiple of net.glances, {self.glances}, but is {self.steps}; "
                f"{max(self.steps // self.glances, 1) * self.glances} would do, or net.glances = 1"
            )
        return self

    def schedules(self, layers: int) -> list[Schedule]:
        """One schedule a neuron layer."""
        thetas = self.theta if isinstance(self.theta, list) else [self.theta] * layers
        if len(thetas) != layers:
            raise ValueError(
                f"net.theta must be one threshold, or one a neuron layer, {layers} in {self.notation!r}, "
                f"but has {len(thetas)}"
            )
        return [theta.schedule() if isinstance(theta, Rise) else Constant(theta) for theta in thetas]


class Published(Config):
    """What the paper reports: test accuracy in percent, best and mean over five trials, their sample sigma."""

    best: Real
    mean: Real
    sigma: Real


class Experiment(Config):
    """Everything that decides a run's numbers but the machine."""

    name: Annotated[str, Field(min_length=1)]
    title: str = ""
    seed: Annotated[Whole, Field(ge=0, lt=2**32)] = 0
    data: DataConfig
    net: NetConfig
    train: TrainConfig
    paper: Published | None = None
    sources: dict[str, str] = Field(default_factory=dict)  # dotted field -> where its value comes from

    @model_validator(mode="after")
    def _sources_exist(self) -> Self:
        known = known_keys(Experiment)
        for key in self.sources:
            if key not in known:
                raise ValueError(f"sources: {unknown_key(key, known)}")
        return self


def experiment(values: Mapping[str, Any], where: str | Callable[[Problem], str]) -> Experiment:
    """Validated, with errors that name `where` and the field."""
    return validated(Experiment, values, where)


def read_experiment(path: Path, settings: Sequence[str] = ()) -> Experiment:
    """From a TOML file, with `settings` (key=value) in place of its fields; paths in it are relative to it."""
    values = read_toml(path)
    values.setdefault("name", path.stem)
    for key in _PATHS:
        table, _, field = key.partition(".")
        if isinstance(held := values.get(table), dict) and isinstance(held.get(field), str):
            held[field] = str(_path(path.parent, held[field], f"{path}: {key}"))
    return _set(values, settings, str(path))


def _path(folder: Path, given: str, where: str) -> Path:
    r"""Absolute. "C:\new" in double quotes is valid TOML, but its \n is a line break."""
    path = folder / given
    if not given.isprintable() and not path.exists():
        raise ValueError(f"{where}: {shown(given)} does not exist; {IN_QUOTES}")
    return path.resolve()


def as_values(config: Config) -> dict[str, Any]:
    """Plain tables, as TOML and JSON hold them; fields that are not set are left out."""
    values: dict[str, Any] = config.model_dump(mode="json", exclude_none=True)
    return values


def as_toml(spec: Experiment, heading: str = "") -> str:
    """Complete and re-runnable; the table [sources] says where figures come from."""
    try:
        import tomli_w
    except ModuleNotFoundError:
        raise not_installed("tomli_w", "experiment.toml needs tomli-w") from None
    return "".join(f"# {line}\n" for line in heading.splitlines()) + tomli_w.dumps(as_values(spec))


def with_values(spec: Experiment, settings: Sequence[str]) -> Experiment:
    """With each `key=value` in place of the field's value; the value is read as TOML, or as a word."""
    return _set(as_values(spec), settings, spec.name, valid=True)


def _set(values: dict[str, Any], settings: Sequence[str], where: str, *, valid: bool = False) -> Experiment:
    """With `settings` in place of fields; what was `valid` before them is no longer so by their fault only."""
    given: dict[str, str] = {}
    for setting in settings:
        key, value = parse_setting(setting)
        if key in _PATHS and isinstance(value, str):
            value = str(
                _path(Path(), value, f"--set {setting}")
            )  # relative to the user, and found from the run's folder
        _place(values, key, value, setting)
        given[key] = setting
    return experiment(values, lambda problem: _blamed(problem, given, valid) or where)


def _blamed(problem: Problem, given: Mapping[str, str], valid: bool) -> str:
    """The settings that a problem comes from: those of its field; of fields that do not go together those it names."""
    field, inside = problem.key, f"{problem.key}."
    to_blame = [s for key, s in given.items() if field == key or field.startswith(f"{key}.")]
    if not to_blame and "." in field:
        to_blame = [s for key, s in given.items() if key.startswith(inside)]
    if not to_blame and ("." not in field or valid):
        table = field.partition(".")[0]
        related = {key: s for key, s in given.items() if table == "" or key.startswith(f"{table}.")}
        to_blame = [s for key, s in related.items() if re.search(rf"{re.escape(key)}\b", problem.text)]
        to_blame = to_blame or (list(related.values()) if valid else [])
    return f"--set {' '.join(to_blame)}" if to_blame else ""


def parse_setting(setting: str) -> tuple[str, Any]:
    """The key and value of `key=value`."""
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"--set {setting!r}: write key=value, such as train.epochs=5")
    return key.strip(), _value(text.strip())


def _value(text: str) -> Any:
    if text.lower() == "none":
        return None
    try:
        table = parse_toml(f"value = {text}")
    except ValueError:
        return text  # a word without quotes
    return table["value"] if len(table) == 1 else text


def _place(values: dict[str, Any], key: str, value: Any, setting: str) -> None:
    known = known_keys(Experiment)
    if any(name.startswith(f"{key}.") for name in known):
        raise ValueError(f"--set {setting}: {key!r} is a table; set its fields, such as {key}.{_a_field(known, key)}")
    if not any(key == name or key.startswith(f"{name}.") for name in known):
        raise ValueError(f"--set {setting}: {_unknown(key, known)}")
    *path, last = key.split(".")
    table: Any = values
    for depth, part in enumerate(path):
        if isinstance(table, list) and part.isdecimal() and int(part) < len(table):
            table = table[int(part)]
        elif isinstance(table, dict):
            table = table.setdefault(part, {})
        else:
            raise ValueError(f"--set {setting}: {key!r} leads nowhere; {'.'.join(path[:depth])} is {shown(table)}")
    if isinstance(table, list) and last.isdecimal() and int(last) < len(table):
        before, table[int(last)] = table[int(last)], value
    elif not isinstance(table, dict):
        raise ValueError(f"--set {setting}: {key!r} leads nowhere; {'.'.join(path)} is {shown(table)}")
    elif value is None:
        before = table.pop(last, None)  # what may be none is none by default
    else:
        before, table[last] = table.get(last), value
    if before != value:
        _drop_source(values, key)


def _unknown(key: str, known: Sequence[str]) -> str:
    """The nearest field is named; or the tables, where neither the table nor the field is one."""
    table, dot, field = key.partition(".")
    if dot and table not in tables_of(Experiment) and not any(name.rpartition(".")[2] == field for name in known):
        return unknown_table(table, Experiment)
    return unknown_key(key, known)


def _a_field(known: Sequence[str], table: str) -> str:
    return next(name for name in known if name.startswith(f"{table}.")).partition(".")[2]


def _drop_source(values: dict[str, Any], key: str) -> None:
    """A figure that was set by hand is no longer its source's."""
    sources = values.get("sources", {})
    for source in [name for name in sources if key == name or key.startswith(f"{name}.")]:
        sources[source] = "set by hand; before: " + sources[source].removeprefix("set by hand; before: ")
