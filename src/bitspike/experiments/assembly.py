"""The parts of an experiment (device, network, task), and the comparison of two experiments."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from bitspike.data.catalog import labels_are_times
from bitspike.data.config import PATHS
from bitspike.data.fingerprint import fingerprint
from bitspike.data.locate import locate
from bitspike.data.progress import Progress, silent
from bitspike.data.samples import Dataset, Images
from bitspike.experiments.held_out import held_out_groups
from bitspike.experiments.schema import Decays, Experiment, as_values
from bitspike.experiments.unused import refuse_unused
from bitspike.nn import BinaryLinear, DecayRange, SpikingNetwork, build
from bitspike.nn.notation import Conv, count_neurons, parse
from bitspike.train.labels import balanced_weights
from bitspike.train.learning_rates import RATES
from bitspike.train.optim import parameter_groups
from bitspike.train.origin import Origin
from bitspike.train.progress import Listener
from bitspike.train.seeds import mixed
from bitspike.train.tasks import LOSSES, Task
from bitspike.train.tricks import setting_for, tricks_for

# Fields that change no number: what a run shows, and how much memory it takes.
SAME_NUMBERS = (
    *("train.checkpoint_minutes", "train.tensorboard", "train.watch_every", "train.evaluate_batch"),
    "data.class_names",
)
# Fields that may differ when a run is resumed: those, and how long it trains.
FREE = ("train.epochs", "train.patience", *SAME_NUMBERS)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run that are not part of its experiment; only the device can change its numbers."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    resume: bool = False
    graph: Literal["auto", "off"] = "auto"  # whether iterations are replayed from a CUDA graph
    command: str = "bitspike.experiments.runs"
    data_root: Path | None = None
    listener: Listener = field(default_factory=Listener)
    progress: Progress = silent
    started: Callable[[Experiment, Dataset, SpikingNetwork, Path], object] = lambda spec, data, net, out: None


def pick_device(name: str) -> torch.device:
    """Return the device of "auto", "cpu", "cuda" or "cuda:N"; auto takes a GPU if there is one.

    Each process of torchrun gets its own GPU.
    """
    kind, colon, index = name.partition(":")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "auto":
        kind = "cuda" if gpus else "cpu"
    if kind == "cpu":
        return torch.device("cpu")
    if not gpus:
        raise ValueError(
            f"--device {name}: PyTorch sees no GPU here; use --device cpu, or install a CUDA build of torch"
        )
    if colon and "LOCAL_RANK" in os.environ:
        raise ValueError(f"--device {name}: under torchrun each process takes a GPU of its own; use --device cuda")
    if colon and int(index) >= gpus:
        seen = "only cuda:0" if gpus == 1 else f"cuda:0 to cuda:{gpus - 1}"
        raise ValueError(f"--device {name}: PyTorch sees {seen} here; use --device cuda, or one of these")
    device = torch.device("cuda", int(index if colon else os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def build_network(spec: Experiment, input_shape: tuple[int, ...]) -> SpikingNetwork:
    """Build the experiment's network; if the notation does not fit the input, the error names the wrong token."""
    net = spec.net
    return build(
        net.notation,
        input_shape,
        beta=[_decay(beta) for beta in net.beta] if isinstance(net.beta, list) else _decay(net.beta),
        slope=net.slope,
        binary=net.binary,
        clip=net.clip,
        norm=None if net.norm == "none" else net.norm,
        dense_norm=net.dense_norm,
        dropout=net.dropout,
        spike_dropout=net.spike_dropout,
        delays=net.delays,
        readout=net.readout,
        surrogate=net.surrogate,
        surrogate_center=net.surrogate_center,
        learn_beta=net.learn_beta,
        recurrent=net.recurrent,
        steps=net.steps,
        glances=net.glances,
        init=net.init,
        generator=torch.Generator().manual_seed(mixed(spec.seed, "weights")),
        backend=net.backend,
        recompute=net.recompute,
    )


def _decay(beta: float | Decays) -> float | DecayRange:
    return DecayRange(beta.low, beta.high) if isinstance(beta, Decays) else beta


def synapse_shapes(spec: Experiment, input_shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the network's weights by their names in its state, without allocating the weights.

    The other tensors of a layer are small: at most one number for each of its inputs and outputs.
    """
    layers, _ = parse(spec.net.notation, input_shape)
    found: dict[str, tuple[int, ...]] = {}
    for i, layer in enumerate(layers):
        if isinstance(layer, Conv):
            found[f"layers.{i}.synapse.weight"] = (layer.filters, layer.inputs, layer.kernel, layer.kernel)
            continue
        found[f"layers.{i}.synapse.weight"] = (layer.outputs, layer.inputs)
        if spec.net.recurrent and i < len(layers) - 1:
            found[f"layers.{i}.lif.weight"] = (layer.outputs, layer.outputs)
    return found


def iteration_work(spec: Experiment, data: Dataset) -> int:
    """Return the neuron-steps of a training iteration, which measure the work for threads."""
    layers, _ = parse(spec.net.notation, data.shape)
    return (data.train.steps or spec.net.steps) * min(spec.train.batch, len(data.train)) * count_neurons(layers)


def check_fit(spec: Experiment, net: SpikingNetwork, data: Dataset) -> None:
    """Raise unless the network's outputs, thresholds, loss and tricks fit the data, before anything trains."""
    spec.net.schedules(len(net.layers))
    labels = "times" if labels_are_times(spec.data.name) else "classes"
    right = [name for name, loss in LOSSES.items() if loss.labels == labels]
    if spec.train.loss not in right:
        wanted = " or ".join(map(repr, right))
        raise ValueError(f"train.loss must be {wanted} on {data.title}, but is {spec.train.loss!r}")
    _check_network(spec, data)
    if spec.net.glances > 1 and not isinstance(data.train, Images):
        raise ValueError(f"net.glances belongs to images, but {data.title} holds none; set it to 1")
    parameter_groups(net, spec.train)  # raises if train.rates names what the network has not
    for trick in tricks_for(spec.train, delayed=_delayed(spec)):
        if (refusal := trick.refusal(spec.train, net, data.train, data.title)) is not None:
            raise ValueError(refusal)
    refuse_unused(spec, data)
    outputs = outputs_of(net)
    if outputs < data.classes:
        have = f"has {outputs} outputs" if outputs else "does not end in a Dense layer"
        raise ValueError(
            f"net.notation {net.notation!r} {have}, but {data.title} has {data.classes} classes; "
            f"end it in Dense{data.classes}"
        )


def _check_network(spec: Experiment, data: Dataset) -> None:
    """Raise if the network's delays or its readout do not fit the data or the loss."""
    if spec.net.delays and data.train.steps is None:
        raise ValueError(
            f"net.delays needs samples with time steps of their own, but {data.title} holds static images; set it to 0"
        )
    if spec.net.readout not in LOSSES[spec.train.loss].readouts:
        able = " or ".join(repr(name) for name, loss in LOSSES.items() if spec.net.readout in loss.readouts)
        raise ValueError(
            f"train.loss = {spec.train.loss!r} needs output spikes, but net.readout = {spec.net.readout!r} gives none; "
            f"set train.loss to {able}, or net.readout to 'spikes'"
        )


def outputs_of(net: SpikingNetwork) -> int:
    """Return the number of neurons of the last layer if it is Dense; else 0."""
    last = net.layers[-1].synapse
    return last.out_features if isinstance(last, BinaryLinear) else 0


def make_task(spec: Experiment, net: SpikingNetwork, labels: Tensor | None = None) -> Task:
    """Return the task of `train.loss` for a network; the training samples' `labels` give the weights of classes."""
    weights = None
    if spec.train.class_weights == "balanced":
        if labels is None:
            raise ValueError("train.class_weights = 'balanced' needs the training samples' labels, but there are none")
        weights = balanced_weights(labels, outputs_of(net))
    return LOSSES[spec.train.loss].make(spec.train, spec.net.schedules(len(net.layers))[-1].final, weights)


def free_fields(spec: Experiment) -> tuple[str, ...]:
    """Return the fields that may differ when a run is resumed; `epochs` only if no setting depends on all epochs."""
    return tuple(key for key in FREE if key != "train.epochs" or not _setting_over_all_epochs(spec))


def _setting_over_all_epochs(spec: Experiment) -> str:
    """Return the setting that depends on the number of epochs; an empty string if none does."""
    if RATES[spec.train.schedule].lasts_all_epochs:
        return f"train.schedule = {spec.train.schedule!r}"
    delayed = _delayed(spec)
    lasting = (trick for trick in tricks_for(spec.train, delayed=delayed) if trick.lasts_all_epochs)
    return next((setting_for(trick, spec.train, delayed=delayed) for trick in lasting), "")


def _delayed(spec: Experiment) -> bool:
    return spec.net.delays > 0


def identity(spec: Experiment, data: Dataset, *, paths: bool = False) -> str:
    """Return a digest of all that decides the numbers; `paths` adds the data's paths, as earlier versions did."""
    kept = list(PATHS) if paths else []
    # Earlier versions held out samples of a set whose groups are known now: their runs are not this one's beginning.
    whole = [] if held_out_groups(spec, data) is None else ["whole groups are held out"]
    # Earlier versions gave 1-bit recurrent weights the whole gradient.
    shared = ["recurrent gradient / sqrt(neurons)"] if spec.net.recurrent and spec.net.binary else []
    return _digest([_deciding(spec, kept), data.edition, *whole, *shared])


def settings_digest(spec: Experiment) -> str:
    """Return a digest of all settings that decide the numbers, without paths of files."""
    return _digest(_deciding(spec))


def network_digest(spec: Experiment) -> str:
    """Return a digest of the settings that decide what a network with given weights computes."""
    return _digest([_deciding(spec)["net"], spec.train.precision])


def _deciding(spec: Experiment, kept: Sequence[str] = ()) -> dict[str, Any]:
    """Return the settings that decide the numbers and are not at their defaults.

    So a field that a later version adds does not change the digest of an old run.
    """
    values = _without_first(spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True))
    for key in (*free_fields(spec), *PATHS, "name", "title", "paper", "sources"):
        if key not in kept:
            table, _, name = key.rpartition(".")
            (values.get(table, {}) if table else values).pop(name, None)
    return values


def _without_first(values: dict[str, Any]) -> dict[str, Any]:
    """Return an experiment's values without a time origin of "first", which means the same as none."""
    data = {key: value for key, value in values["data"].items() if (key, value) != ("time_origin", "first")}
    return {**values, "data": data}


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def origin(spec: Experiment, data: Dataset, options: RunOptions) -> Origin:
    """Return the digests of settings and samples that a run's files keep."""
    return Origin(
        settings={"experiment": settings_digest(spec), "network": network_digest(spec)},
        samples=samples_digests(data),
        where=lambda split: samples_in_words(spec, split, options.data_root),
        identity_before=identity(spec, data, paths=True),
    )


def samples_digests(data: Dataset) -> dict[str, str]:
    """Return digests of the training and the test samples, and of those that a file gives for validation."""
    own = {} if data.valid is None else {"valid": fingerprint(data.valid)}
    return {"train": fingerprint(data.train), "test": fingerprint(data.test), **own}


def samples_in_words(spec: Experiment, split: str, root: Path | None) -> str:
    """Return words that name the samples of a split, with their files."""
    files: Sequence[Path]
    if spec.data.name is None:
        own = {"test": spec.data.test_file, "valid": spec.data.validation_file}.get(split) or spec.data.file
        files = [own] if isinstance(own, Path) else list(own or ())
    else:
        found = locate(spec.data.name, root).files
        marks = ("train",) if split == "train" else ("test", "t10k")
        files = [path for name, path in found.items() if any(mark in name.lower() for mark in marks)]
        files = files or list(found.values())
    named = " and ".join(str(path) for path in files)
    what = {"train": "training", "valid": "validation"}.get(split, split)
    return f"the {what} samples{f' ({named})' if named else ''}"


def differences(a: Experiment, b: Experiment, free: Sequence[str] | None = None) -> list[str]:
    """List the fields that give two experiments different numbers; `free` ones (default: `free_fields(a)`) may differ.

    Paths of files do not count: `identity` compares their content.
    """

    def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        return found

    first, second = (
        flat({k: v for k, v in _without_first(as_values(x)).items() if k not in ("sources", "paper", "title", "name")})
        for x in (a, b)
    )
    may_differ = free_fields(a) if free is None else free
    return [
        f"{key} was {first.get(key)!r}, is {second.get(key)!r}{_why(a, key)}"
        for key in sorted(first.keys() | second.keys())
        if key not in may_differ and first.get(key) != second.get(key)
        if key not in PATHS or None in (first.get(key), second.get(key))
    ]


def _why(spec: Experiment, key: str) -> str:
    """Return why a field that is usually free counts here; an empty string if it is not such a field."""
    return (
        f" ({_setting_over_all_epochs(spec)} ends with it)"
        if key == "train.epochs" and _setting_over_all_epochs(spec)
        else ""
    )
