"""From an experiment to its parts: device, network, task, splits; and what makes two experiments alike."""

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
from bitspike.data.fingerprint import fingerprint
from bitspike.data.locate import locate
from bitspike.data.progress import Progress, silent
from bitspike.data.samples import Dataset, Images, Samples
from bitspike.data.splits import held_out
from bitspike.experiments.schema import Experiment, as_values
from bitspike.nn import BinaryLinear, SpikingNetwork, build
from bitspike.nn.notation import Conv, count_neurons, parse
from bitspike.train.learning_rates import RATES
from bitspike.train.origin import Origin
from bitspike.train.progress import Listener
from bitspike.train.seeds import mixed
from bitspike.train.tasks import LOSSES, Task
from bitspike.train.tricks import tricks_for

Split = Literal["train", "valid", "test"]

# What changes no number: how visibly and with how much memory a run is made.
SAME_NUMBERS = ("train.checkpoint_minutes", "train.tensorboard", "train.watch_every", "train.evaluate_batch")
# What may differ when a run goes on: how long it is made, too.
FREE = ("train.epochs", "train.patience", *SAME_NUMBERS)

# Where files lie: what is in them is known by digests.
PATHS = ("data.file", "data.test_file")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where and how a run is made; nothing here changes its numbers but the device."""

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

    A process of torchrun takes a GPU of its own.
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
    """Build the experiment's network; where its notation does not fit the input, say which token and what would."""
    net = spec.net
    return build(
        net.notation,
        input_shape,
        beta=net.beta,
        slope=net.slope,
        binary=net.binary,
        clip=net.clip,
        norm=None if net.norm == "none" else net.norm,
        dropout=net.dropout,
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


def synapse_shapes(spec: Experiment, input_shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the network's weights by name in its state, before anything of their size is made.

    All else that a layer holds has at most a number for each of its outputs.
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
    """Return the neuron-steps of a training iteration: how much there is to do for threads."""
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
    if spec.net.glances > 1 and not isinstance(data.train, Images):
        raise ValueError(f"net.glances belongs to images, but {data.title} holds none; set it to 1")
    for trick in tricks_for(spec.train):
        if (refusal := trick.refusal(spec.train, net, data.train, data.title)) is not None:
            raise ValueError(refusal)
    outputs = outputs_of(net)
    if outputs < data.classes:
        have = f"has {outputs} outputs" if outputs else "does not end in a Dense layer"
        raise ValueError(
            f"net.notation {net.notation!r} {have}, but {data.title} has {data.classes} classes; {data.label_advice()}"
        )


def outputs_of(net: SpikingNetwork) -> int:
    """Return the number of neurons of the last layer, if that is a Dense one; else 0."""
    last = net.layers[-1].synapse
    return last.out_features if isinstance(last, BinaryLinear) else 0


def make_task(spec: Experiment, layers: int) -> Task:
    """Return what the network of so many neuron layers learns: the task of `train.loss`."""
    return LOSSES[spec.train.loss].make(spec.train, spec.net.schedules(layers)[-1].final)


def splits(spec: Experiment, data: Dataset) -> dict[Split, Samples]:
    """Return the samples by split: `paper` trains on all, `holdout` keeps some of each class to choose the model by."""
    rows, held = training_rows(spec, data)
    if held is None:
        return {"train": data.train, "test": data.test}
    return {"train": data.train.select(rows), "valid": data.train.select(held), "test": data.test}


def training_rows(spec: Experiment, data: Dataset) -> tuple[Tensor, Tensor | None]:
    """Return the rows of the samples that train, and of those that are held out, if the protocol holds some."""
    if spec.train.protocol == "paper":
        return torch.arange(len(data.train), device="cpu"), None
    if spec.data.validation_share == 0:
        raise ValueError(
            "data.validation_share is 0, but train.protocol = 'holdout' judges epochs by these samples; give it a "
            "share, or set train.protocol to 'paper'"
        )
    kept, held = held_out(data.train.labels, spec.data.validation_share, spec.data.split_seed)
    if not len(held):
        raise ValueError(
            f"train.protocol = 'holdout' needs two training samples of a class to hold one out, but {data.title} has "
            f"{len(data.train)} in all; use train.protocol = 'paper'"
        )
    return kept, held


def free_fields(spec: Experiment) -> tuple[str, ...]:
    """Return the fields that may differ when the run goes on; epochs only where nothing is stretched over them."""
    return tuple(key for key in FREE if key != "train.epochs" or not _ends_with(spec))


def _ends_with(spec: Experiment) -> str:
    """Name the setting that is stretched over all epochs; empty if none is."""
    if RATES[spec.train.schedule].lasts_all_epochs:
        return f"train.schedule = {spec.train.schedule!r}"
    return next((trick.asked_by(spec.train) for trick in tricks_for(spec.train) if trick.lasts_all_epochs), "")


def identity(spec: Experiment, data: Dataset, *, paths: bool = False) -> str:
    """Digest all that decides the numbers; with `paths`, as earlier versions did, also where the data's files lie."""
    kept = [key for key in ("data.file", "data.test_file") if paths]
    return _digest([_deciding(spec, kept), data.edition])


def settings_digest(spec: Experiment) -> str:
    """Digest all settings that decide the numbers, wherever files lie."""
    return _digest(_deciding(spec))


def network_digest(spec: Experiment) -> str:
    """Digest the settings that decide what a network of given weights computes."""
    return _digest([_deciding(spec)["net"], spec.train.precision])


def _deciding(spec: Experiment, kept: Sequence[str] = ()) -> dict[str, Any]:
    """Return the settings that decide the numbers, but for those at their defaults.

    So a field that is added later does not part a run from its files.
    """
    values: dict[str, Any] = spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for key in (*free_fields(spec), *PATHS, "name", "title", "paper", "sources"):
        if key not in kept:
            table, _, name = key.rpartition(".")
            (values.get(table, {}) if table else values).pop(name, None)
    return values


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def origin(spec: Experiment, data: Dataset, options: RunOptions) -> Origin:
    """Return what a run's files remember of what it was made of."""
    return Origin(
        settings={"experiment": settings_digest(spec), "network": network_digest(spec)},
        samples=samples_digests(data),
        where=lambda split: samples_in_words(spec, split, options.data_root),
        identity_before=identity(spec, data, paths=True),
    )


def samples_digests(data: Dataset) -> dict[str, str]:
    """Digest what the data's training and test samples hold."""
    return {"train": fingerprint(data.train), "test": fingerprint(data.test)}


def samples_in_words(spec: Experiment, split: str, root: Path | None) -> str:
    """Name the samples of a split, with their files."""
    files: Sequence[Path | None]
    if spec.data.name is None:
        files = [spec.data.test_file or spec.data.file if split == "test" else spec.data.file]
    else:
        found = locate(spec.data.name, root).files
        marks = ("train",) if split == "train" else ("test", "t10k")
        files = [path for name, path in found.items() if any(mark in name.lower() for mark in marks)]
        files = files or list(found.values())
    named = " and ".join(str(path) for path in files)
    return f"the {'training' if split == 'train' else split} samples{f' ({named})' if named else ''}"


def differences(a: Experiment, b: Experiment, free: Sequence[str] | None = None) -> list[str]:
    """List the fields in which two experiments give other numbers; those in `free` may differ, or those free in a.

    Files are not told apart by where they lie: `identity` knows them by what is in them.
    """

    def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        return found

    first, second = (
        flat({k: v for k, v in as_values(x).items() if k not in ("sources", "paper", "title", "name")}) for x in (a, b)
    )
    may_differ = free_fields(a) if free is None else free
    return [
        f"{key} was {first.get(key)!r}, is {second.get(key)!r}{_why(a, key)}"
        for key in sorted(first.keys() | second.keys())
        if key not in may_differ and first.get(key) != second.get(key)
        if key not in PATHS or None in (first.get(key), second.get(key))
    ]


def _why(spec: Experiment, key: str) -> str:
    """Say what makes a field count that is free otherwise."""
    return f" ({_ends_with(spec)} ends with it)" if key == "train.epochs" and _ends_with(spec) else ""
