"""The parts of an experiment: its options and device, its network, and its task."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from bitspike.data.catalog import labels_are_times
from bitspike.data.progress import Progress, silent
from bitspike.data.samples import Dataset, Images
from bitspike.experiments.net_config import Decays
from bitspike.experiments.schema import Experiment
from bitspike.experiments.unused import refuse_unused
from bitspike.nn import BinaryLinear, DecayRange, SpikingNetwork, build
from bitspike.nn.notation import Conv, count_neurons, parse
from bitspike.train.labels import balanced_weights
from bitspike.train.optim import parameter_groups
from bitspike.train.progress import Listener
from bitspike.train.seeds import mixed
from bitspike.train.tasks import LOSSES, Task
from bitspike.train.tricks import tricks_for

CHEAP_DELAY = 63  # steps: delays of up to so many may be longer than a sample


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run that are not part of its experiment; only the device can change its numbers."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    resume: bool = False
    graph: Literal["auto", "off"] = "auto"  # whether iterations are replayed from a CUDA graph
    test: bool = True  # whether the best network is tested in the end; a search looks at validation samples only
    command: str = "bitspike.experiments.runs"
    data_root: Path | None = None
    dataset: Dataset | None = None  # samples passed from Python, for an experiment with data.passed
    listener: Listener = field(default_factory=Listener)
    progress: Progress = silent
    started: Callable[[Experiment, Dataset, SpikingNetwork, Path], object] = lambda spec, data, net, out: None

    @property
    def another_folder(self) -> str:
        """Return the advice for a folder that is taken, in the words of the way that the run was started."""
        return "choose another --out" if self.dataset is None else "choose another folder"


def pick_device(name: str, *, where: str = "") -> torch.device:
    """Return the device of "auto", "cpu", "cuda" or "cuda:N"; auto takes a GPU if there is one.

    Each process of torchrun gets its own GPU; more processes than GPUs share them. Errors speak of the option
    `--device`, or of the argument of the function `where`.
    """

    def option(value: str) -> str:
        return f"device={value!r}" if where else f"--device {value}"

    place = f"{where}: " if where else ""
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,3})?", name):
        raise ValueError(f"{place}device must be auto, cpu, cuda or cuda:N, such as cuda:0, but is {name!r}")
    kind, colon, index = name.partition(":")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "auto":
        kind = "cuda" if gpus else "cpu"
    if kind == "cpu":
        return torch.device("cpu")
    if not gpus:
        raise ValueError(
            f"{place}{option(name)}: PyTorch sees no GPU here; use {option('cpu')}, or install a CUDA build of torch"
        )
    if colon and "LOCAL_RANK" in os.environ:
        raise ValueError(
            f"{place}{option(name)}: under torchrun each process takes a GPU of its own; use {option('cuda')}"
        )
    if colon and int(index) >= gpus:
        seen = "only cuda:0" if gpus == 1 else f"cuda:0 to cuda:{gpus - 1}"
        raise ValueError(f"{place}{option(name)}: PyTorch sees {seen} here; use {option('cuda')}, or one of these")
    device = torch.device("cuda", int(index) if colon else int(os.environ.get("LOCAL_RANK", "0")) % gpus)
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
        gains=net.gains,
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
    for trick in tricks_for(spec.train, delayed=spec.net.longest_delay > 0):
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
    if spec.net.longest_delay > 0 and data.train.steps is None:
        raise ValueError(
            f"net.delays needs samples with time steps of their own, but {data.title} holds static images; set it to 0"
        )
    steps, longest = data.train.steps, spec.net.longest_delay
    if steps is not None and longest > max(steps, CHEAP_DELAY):
        raise ValueError(
            f"net.delays must be at most {max(steps, CHEAP_DELAY)} here, but goes up to {longest}: a sample of "
            f"{data.title} has {steps} time bins, a spike that comes after its end is lost, and each step takes memory"
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
