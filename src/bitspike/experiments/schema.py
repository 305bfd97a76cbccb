"""The schema of an experiment: data, network, training, and the sources of its figures.

Experiments are frozen: derive another one with `with_values`, never change one. The string below a field says what the
field is; documentation is made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from bitspike._lazy import not_installed
from bitspike.config import (
    Config,
    Positive,
    Problem,
    Real,
    Truth,
    Whole,
    known_keys,
    problems_of,
    unknown_key,
    validated,
)
from bitspike.data.config import PATHS, DataConfig
from bitspike.data.data_tables import absolute
from bitspike.data.toml import read_toml
from bitspike.experiments.completion import completed, with_stand_ins
from bitspike.experiments.recipes import NO_BASE
from bitspike.experiments.removed import REMOVED, without_any_removed, without_removed
from bitspike.experiments.settings import blamed, parse_setting, place
from bitspike.schedules import Constant, Linear, Relax, Schedule
from bitspike.train.config import TrainConfig

Above0 = Annotated[Real, Field(gt=0, le=1e30)]  # float32 has room for it
Decay = Annotated[Real, Field(ge=0, le=1)]
Drop = Annotated[Real, Field(ge=0, lt=1)]


class Rise(Config):
    """A threshold that is annealed upwards: with `rate` or `tau` it relaxes, with `steps` it rises in a line."""

    start: Above0
    """The threshold of the first iteration."""
    stop: Above0
    """The threshold that training ends with; it is above `start`."""
    rate: Annotated[Real, Field(gt=0, le=1)] | None = None
    """The share of the way to `stop` that is gone in one iteration."""
    tau: Above0 | None = None
    """The iterations in which the distance to `stop` falls to 1/e; another way to say `rate`."""
    steps: Positive | None = None
    """The iterations in which the threshold rises in a straight line."""

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
        """Return the threshold as a function of the iteration."""
        if self.rate is not None:
            return Relax(self.start, self.stop, self.rate)
        if self.tau is not None:
            return Relax.from_tau(self.start, self.stop, self.tau)
        return Linear(self.start, self.stop, self.steps or 1)


Threshold = Above0 | Rise


class Decays(Config):
    """A range of decays: every neuron of a Dense layer gets its own, drawn uniformly; a convolution gets one."""

    low: Decay
    """The smallest decay."""
    high: Decay
    """The largest decay."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low must be <= high, but they are {self.low:g} and {self.high:g}")
        return self


class NetConfig(Config):
    """A network in the paper's notation. A list has one value for each layer of neurons."""

    notation: str
    """The layers in the paper's notation, such as `"784-300-10"` or `"16Conv5-AP2-64Conv5-AP2-1024Dense10"`.

    A file without it gets Dense layers of its `hidden` widths, or a small network for its kind of data.
    """
    hidden: list[Positive] | None = Field(None, min_length=1)
    """The widths of hidden Dense layers, such as `[256, 256]`, instead of `notation`: the data gives the inputs and the
    classes. A run's experiment.toml holds the notation that it becomes.
    """
    binary: Truth = True
    """Weights are -1 or +1; `false` gives the same network with float32 weights."""
    beta: Decay | Decays | list[Decay | Decays]
    """The share of its membrane that a neuron keeps from one time step to the next: a number, or a table `{low, high}`
    from which a constant is drawn for each neuron of a Dense layer."""
    slope: Above0 | list[Above0]
    """The steepness of the surrogate gradient: a larger one is narrower around the threshold."""
    theta: Threshold | list[Threshold]
    """The threshold at which a neuron fires: a number, or a table `{start, stop, rate}` that is annealed. A last layer
    that is read by its membrane does not use it."""
    dropout: Drop | list[Drop] = 0.0
    """The share of a Dense layer's input current dropped in training. A list has one value for each Dense layer."""
    norm: Literal["step", "shared", "none"] = "none"
    """Batch norm behind convolutions: `step` takes statistics of each time step, `shared` of all steps together."""
    dense_norm: Truth = False
    """Batch norm behind every Dense layer's synapses, the last included, with statistics of all steps together."""
    spike_dropout: Drop | list[Drop] = 0.0
    """The share of hidden layers' spikes dropped in training. A list has one value for each hidden layer."""
    delays: Annotated[Whole, Field(ge=0, lt=2**16)] = 0
    """The longest delay in time steps of a neuron's spikes on their way to the next layer; 0 means no delays.

    Each neuron that enters a layer, inputs included, learns a delay of its own (before a convolution, each channel).
    """
    readout: Literal["spikes", "membrane"] = "spikes"
    """The part that decides the class: the `spikes` of the last layer, or the `membrane` of one that never fires.

    A layer that never fires has a threshold like the others, which has no effect.
    """
    # the names of ops/lif/surrogate.py, written out: that module needs torch, and this one loads without it
    surrogate: Literal["fast_sigmoid", "arctan", "triangular", "sigmoid"] = "fast_sigmoid"
    """The shape of the surrogate gradient around the threshold."""
    surrogate_center: Literal["initial", "current"] = "initial"
    """The threshold at which the surrogate gradient is largest: the `initial` one (the paper), or the `current` one."""
    init: Literal["torch", "released"] = "released"
    """The draw of the first weights: as the paper's `released` code does it, or as the `torch` layers do.

    Experiments default to `released`: that code made the paper's figures. `build` defaults to `torch`, because a
    network in your own loop should start as any layer of PyTorch does; the paper's text says so, too.
    """
    clip: Above0 | None = None
    """Latent weights of a larger absolute value get no gradient."""
    steps: Positive = 100
    """The time steps for which a static input is shown."""
    glances: Literal[1, 5, 9] = 1
    """The number of places at which an image is shown, one after the other; they share `steps` equally."""
    learn_beta: Truth = False
    """Train `beta` as well: one value for each neuron of a Dense layer, one for each convolutional layer."""
    recurrent: Truth = False
    """Feed the spikes of each hidden Dense layer back into it, through weights of its own. Such a network is slower,
    and not fused on a GPU."""
    backend: Literal["auto", "reference", "torch", "c", "triton"] = "auto"
    """The code that runs the neurons; `auto` takes the fastest that fits. All give the same spikes."""
    recompute: Truth = False
    """On a GPU, keep only hidden spikes for the backward pass and compute the rest again: less memory, more time."""

    @model_validator(mode="after")
    def _one_description(self) -> Self:
        if self.hidden is not None:
            raise ValueError("net.hidden and net.notation both give the network's layers; give one of them")
        return self

    @model_validator(mode="after")
    def _whole_glances(self) -> Self:
        if self.steps % self.glances:
            raise ValueError(
                f"net.steps must be a multiple of net.glances, {self.glances}, but is {self.steps}; "
                f"{max(self.steps // self.glances, 1) * self.glances} would do, or net.glances = 1"
            )
        return self

    def schedules(self, layers: int) -> list[Schedule]:
        """Return one schedule for each layer of neurons; `layers` is their number."""
        thetas = self.theta if isinstance(self.theta, list) else [self.theta] * layers
        if len(thetas) != layers:
            raise ValueError(
                f"net.theta must be one threshold, or one a neuron layer, {layers} in {self.notation!r}, "
                f"but has {len(thetas)}"
            )
        return [theta.schedule() if isinstance(theta, Rise) else Constant(theta) for theta in thetas]


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
    are relative to it. An error names the file, or the setting that it comes from.
    """
    return _with_settings(_values_of(path), settings, str(path), is_file=True)


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
