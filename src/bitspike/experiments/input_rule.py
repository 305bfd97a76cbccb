"""The input of a run's network: how a new recording becomes one. `data_facts.py` keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from bitspike.data.binning import Binning, EventRule, bin_events
from bitspike.data.datasets import binning_of
from bitspike.data.events import Events
from bitspike.data.own_paths import expanded
from bitspike.data.samples import Frames
from bitspike.data.speech.spike_files import DIGITS
from bitspike.experiments.data_facts import kept_facts
from bitspike.experiments.saved import best_trial, made_with
from bitspike.experiments.schema import Experiment
from bitspike.nn.notation import parse
from bitspike.train.checkpoint import weights_info
from bitspike.train.run_folder import RunFolder

Kind = Literal["images", "events", "spikes"]


@dataclass(frozen=True, slots=True)
class InputRule:
    """The input that the network of a run takes, and how events become it.

    A sample has `steps` time steps of `shape`; an image is shown for so many. They are None where a run of an earlier
    version does not tell. `class_names` has one name for each output. `events` says how events are binned, from which
    time on, and how large their sensor is; it is None for images and for spikes that come in time steps. `time_unit`
    is that of the run's own files; None where times are microseconds.
    """

    kind: Kind
    shape: tuple[int, ...]
    steps: int | None
    class_names: tuple[str, ...]
    events: EventRule | None
    time_unit: Literal["s", "ms", "us"] | None = None

    @property
    def binning(self) -> Binning | None:
        """How events are binned; None for images, and for spikes that come in time steps."""
        return None if self.events is None else self.events.binning

    @property
    def origin(self) -> Literal["first", "zero"] | None:
        """The time from which bins count: that of a sample's `first` event, or `zero` of its recording."""
        return None if self.events is None else self.events.origin

    @property
    def sensor(self) -> tuple[int, ...] | None:
        """The size of the sensor: (height, width), or (units,)."""
        return None if self.events is None else self.events.sensor

    @property
    def polarities(self) -> int:
        """How many polarities have a channel of their own: 2, or 1 where they have none."""
        return 2 if self.events is not None and len(self.shape) > len(self.events.sensor) and self.shape[0] == 2 else 1

    def frames(self, events: Events) -> Frames:
        """Return new events as the network's input; their sensor and the origin of their time must be those of the run.

        `bitspike.data.event_files.read_event_file(path, time_unit=..., sensor=rule.sensor, from_first=rule.origin ==
        "first")` reads such events.
        """
        if self.events is None:
            raise ValueError(f"input_rule: the run's samples are {self.kind}, which are not binned")
        if events.origin != self.events.origin:
            raise ValueError(
                f"input_rule: time must count from {self.events.origin!r}, as in the run, but counts from "
                f"{events.origin!r}; read the events with from_first={self.events.origin == 'first'}"
            )
        shape = self.events.binning.shape(events)
        if shape != self.shape:
            raise ValueError(
                f"input_rule: events of the sensor {list(events.sensor)} with {1 if events.p is None else 2} "
                f"polarities give frames of {list(shape)}, but the run's network takes {list(self.shape)} (sensor "
                f"{list(self.events.sensor)})"
            )
        return bin_events(events, self.events.binning)


def input_rule(run: str | Path) -> InputRule:
    """Return what the best network of a run takes; no data is read.

    Runs of earlier versions have no table `input`: then the fields of their experiment tell, and the sensor is as large
    as the network's input.
    """
    folder = best_trial(Path(run))
    spec = made_with(folder)
    shape = weights_info(RunFolder(folder).best).input_shape
    facts = kept_facts(folder, spec)
    table = facts.get("input")
    try:
        kind, steps, events = _earlier(spec, shape) if table is None else _kept(table, shape)
    except (KeyError, TypeError, ValueError) as error:
        place = folder if table is None else _place(RunFolder(folder))
        why = f"its table input lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{place}: {why}") from None
    return InputRule(kind, shape, steps, _class_names(spec, shape, facts), events, spec.data.time_unit)


def _place(folder: RunFolder) -> Path:
    """Return the file that a run keeps its table `input` in."""
    return folder.summary if folder.summary.is_file() else folder.best


def _kept(table: Any, shape: tuple[int, ...]) -> tuple[Kind, int | None, EventRule | None]:
    """Return what a run's table says, checked: nothing read from a file is trusted."""
    if not isinstance(table, Mapping) or table["kind"] not in get_args(Kind) or table["shape"] != list(shape):
        raise ValueError(f"its table input must be that of a network on {list(shape)}, but is another; train again")
    if type(table["steps"]) is not int or table["steps"] < 1:
        raise ValueError(f"input.steps must be a whole number of at least 1, but is {table['steps']!r}")
    if table["kind"] != "events":
        return table["kind"], table["steps"], None
    binning = Binning(**{name: table[name] for name in Binning.__dataclass_fields__})
    sensor, origin = table["sensor"], table["time_origin"]
    if origin not in ("first", "zero") or not isinstance(sensor, list) or not 1 <= len(sensor) <= 2:
        raise ValueError(f"its table input must have a sensor and a time_origin, but has {sensor!r} and {origin!r}")
    rule = EventRule(binning, tuple(sensor), origin)
    if any(type(side) is not int for side in sensor) or _cells(rule) != shape[-len(sensor) :]:
        raise ValueError(f"input.sensor must give the network's input {list(shape)}, but is {sensor!r}")
    return "events", table["steps"], rule


def _cells(rule: EventRule) -> tuple[int, ...]:
    """Return how many cells the sensor has, in each direction."""
    return tuple(side // rule.binning.downsample for side in rule.sensor)


def _earlier(spec: Experiment, shape: tuple[int, ...]) -> tuple[Kind, int | None, EventRule | None]:
    """Return what the experiment of a run without a table `input` tells."""
    from bitspike.data.catalog import CATALOG, lookup
    from bitspike.data.entry import EventSource, ImageSource
    from bitspike.data.event_files import kind_of

    if spec.data.passed is not None:
        raise ValueError(
            f"was trained on {spec.data.passed!r}, samples passed from Python, by a version that did not keep how they "
            "were binned; train again"
        )
    origin: Literal["first", "zero"] = "zero" if spec.data.time_origin == "zero" else "first"
    if spec.data.file is None:
        source = lookup(str(spec.data.name), CATALOG).source
        kind: Kind = "images" if isinstance(source, ImageSource) else "spikes"
        if isinstance(source, EventSource):
            kind, origin = "events", source.origin
    elif spec.data.kind is not None:
        kind = spec.data.kind
    else:  # the run of a file of events has bins, whether they were given or found
        kind = "events" if spec.data.bin_ms is not None else kind_of(expanded(spec.data.file)[0])
    if kind != "events":
        return kind, spec.net.steps if kind == "images" else None, None
    binning = binning_of(spec.data)
    line = len(shape) == 1 or (len(shape) == 2 and shape[0] == 2)
    cells = shape[-1:] if line else shape[-2:]
    sensor = spec.data.sensor or tuple(side * binning.downsample for side in cells)
    return kind, binning.steps, EventRule(binning, sensor, origin)


def _class_names(spec: Experiment, shape: tuple[int, ...], facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the outputs: those that the run keeps, the digits of SHD, or numbers."""
    layers, _ = parse(spec.net.notation, shape)
    outputs = getattr(layers[-1], "outputs", 0)
    kept = facts.get("class_names")
    names = [str(name) for name in kept] if isinstance(kept, list) else list(DIGITS if spec.data.name == "shd" else ())
    return tuple([*names, *map(str, range(len(names), outputs))][:outputs])
