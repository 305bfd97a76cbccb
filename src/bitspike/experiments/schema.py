"""The schema of an experiment: data, network, training, and the sources of its figures.

Experiments are frozen: derive another one with `with_values`, never change one. The string below a field says what the
field is; documentation is made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator

from bitspike._lazy import not_installed
from bitspike.config import (
    Config,
    Problem,
    Real,
    Whole,
    known_keys,
    problems_of,
    unknown_key,
    validated,
)
from bitspike.data.config import FILES, PATHS, DataConfig
from bitspike.data.data_tables import absolute
from bitspike.data.toml import read_toml
from bitspike.experiments.completion import completed, with_stand_ins
from bitspike.experiments.net_config import NetConfig
from bitspike.experiments.recipes import NO_BASE
from bitspike.experiments.removed import REMOVED, without_any_removed, without_removed
from bitspike.experiments.settings import blamed, parse_setting, place
from bitspike.train.config import TrainConfig

if TYPE_CHECKING:
    from bitspike.data.samples import Dataset


class Published(Config):
    """Test accuracies that the paper reports, in percent over five trials."""

    best: Real
    """The best test accuracy of the trials, in percent."""
    mean: Real
    """The mean test accuracy of the trials, in percent."""
    sigma: Real
    """The sample standard deviation of the trials' test accuracies, in percent."""


class Experiment(Config):
    """Everything that decides a run's numbers, except the machine."""

    name: Annotated[str, Field(min_length=1)]
    """The experiment's name; a run's folder is called by it. A file without one is called by its own name."""
    title: str = ""
    """A description of the experiment in a few words."""
    base: Literal["base/sequences", "base/images", "none"] | None = None
    """The recipe that gives an experiment file the fields which it leaves out; `none` for none.

    A file that gives `net.beta`, `net.slope` and `net.theta` takes no recipe unless it names one. Any other file takes
    the one for its kind of data. A run's experiment.toml holds all fields, and no `base`.
    """
    seed: Annotated[Whole, Field(ge=0, lt=2**32)] = 0
    """The seed that draws the weights, the order of samples and dropout."""
    data: DataConfig
    """The samples."""
    net: NetConfig
    """The network."""
    train: TrainConfig
    """How the network is trained."""
    paper: Published | None = None
    """The accuracies that the paper reports for this experiment."""
    sources: dict[str, str] = Field(default_factory=dict)
    """The sources of values: a field's dotted name, such as `"train.lr"`, and its source in words."""

    @field_validator("base")
    @classmethod
    def _only_in_files(cls, base: str | None) -> str | None:
        if base is not None:
            raise ValueError("belongs to experiment files, but this experiment is complete; leave it out")
        return base

    @field_validator("sources")
    @classmethod
    def _sources_exist(cls, sources: dict[str, str]) -> dict[str, str]:
        known = known_keys(Experiment)
        for key in sources:
            if key not in known:
                raise ValueError(unknown_key(key, known))
        return sources


def experiment(values: Mapping[str, Any], where: str | Callable[[Problem], str]) -> Experiment:
    """Return the experiment that `values` describe; errors name `where` they come from and the field.

    Fields that were removed since are dropped if they are at their old defaults (see `removed.py`).
    """
    place_of = where if callable(where) else lambda problem: where
    return validated(Experiment, without_removed(values, place_of), place_of)


def read_experiment(path: Path, settings: Sequence[str] = ()) -> Experiment:
    """Return the experiment of a TOML file, with `settings` (key=value) in place of its fields.

    What the file leaves out is found from its data or taken from a base recipe (see `completion.py`). Paths in the file
    are relative to it. An error names the file, or the setting that it comes from. Its table [search] is left out: it
    is for `bitspike sweep`.
    """
    values = _values_of(path)
    values.pop("search", None)
    return _with_settings(values, settings, str(path), is_file=True)


def experiment_on(dataset: Dataset, tables: Mapping[str, Any], where: str) -> Experiment:
    """Return the experiment on samples passed from Python, with the fields that `tables` give.

    `tables` are those of an experiment file. What they leave out is completed as for a file, by the samples' kind and
    shape. Errors name `where` they come from.
    """
    held = tables.get("data", {})
    for field in ("name", *FILES) if isinstance(held, Mapping) else ():
        if held.get(field) is not None:
            raise ValueError(f"{where}: data.{field} names samples, but they are passed from Python; leave it out")
    data = {"passed": dataset.name, **held} if isinstance(held, Mapping) else held
    values = {"net": {}, "train": {}, "name": dataset.name, **tables, "data": data}
    values = completed(values, where, Experiment, lambda key, text: f"{where}: {text}", dataset)
    return experiment(values, where)


def read_run_experiment(path: Path, *, drop_removed: bool = False) -> Experiment:
    """Return the experiment of a run's experiment.toml, which holds every field; no data is read.

    `drop_removed` leaves out fields that were removed since, whatever they were set to.
    """
    values = _values_of(path)
    return experiment(without_any_removed(values) if drop_removed else values, str(path))


def _values_of(path: Path) -> dict[str, Any]:
    """Return the tables of an experiment's TOML file, with a name and with absolute paths."""
    values = read_toml(path)
    values.setdefault("name", path.stem)
    for key in PATHS:
        table, _, field = key.partition(".")
        if isinstance(held := values.get(table), dict) and field in held:
            held[field] = absolute(path.parent, held[field], f"{path}: {key}")
    return values


def with_values(spec: Experiment, settings: Sequence[str]) -> Experiment:
    """Return the experiment with each `key=value` in place of that field's value."""
    return _with_settings(as_values(spec), settings, spec.name)


def _with_settings(values: dict[str, Any], settings: Sequence[str], where: str, *, is_file: bool = False) -> Experiment:
    """Return the experiment of `values` with `settings` applied; an error names `where` or the setting to blame.

    Values of a file are completed first.
    """
    known = without_any_removed(values)
    before = problems_of(Experiment, with_stand_ins(known) if is_file else known) if settings else []
    given: dict[str, str] = {}
    taken_out: list[tuple[str, str]] = []
    for setting in settings:
        key, value = parse_setting(setting)
        if key == "base" and value is None:
            value = NO_BASE
        if value is None:
            taken_out.append((key, setting))
        if key in PATHS:
            # relative to the user's folder, and to be found from the run's
            value = absolute(Path(), value, f"--set {setting}")
        place(values, key, value, setting, Experiment)
        given[key] = setting

    def place_of(problem: Problem) -> str:
        if problem.key in REMOVED:
            return f"--set {given[problem.key]}" if problem.key in given else where
        return blamed(problem, given, before) or where

    if is_file:
        values = completed(values, where, Experiment, lambda key, text: f"{place_of(Problem(key, text))}: {text}")
        for key, setting in taken_out:  # of the recipe, too
            place(values, key, None, setting, Experiment)
    return experiment(values, place_of)


def as_values(config: Config) -> dict[str, Any]:
    """Return plain tables, as TOML and JSON hold them; fields that are not set are left out."""
    values: dict[str, Any] = config.model_dump(mode="json", exclude_none=True)
    return values


def as_toml(spec: Experiment, heading: str = "") -> str:
    """Return the experiment as TOML, complete and ready to run; its table [sources] says where values come from."""
    try:
        import tomli_w
    except ModuleNotFoundError:
        raise not_installed("tomli_w", "experiment.toml needs tomli-w") from None
    return "".join(f"# {line}\n" for line in heading.splitlines()) + tomli_w.dumps(as_values(spec))
