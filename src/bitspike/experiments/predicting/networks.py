"""Networks that answer: a run's in PyTorch, and a packed one in the engine. `open_network` takes either, or a name."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from bitspike.deploy.pretrained import pretrained_names, pretrained_path
from bitspike.experiments.assembly import outputs_of, pick_device
from bitspike.experiments.predicting.trained_on import TrainedOn, of_model, of_run
from bitspike.experiments.saved import best_trial, load_network, made_with
from bitspike.nn.notation import count_neurons, parse
from bitspike.train.numerics import as_input, cast, reproducible
from bitspike.train.run_folder import RunFolder

if TYPE_CHECKING:
    from bitspike.deploy.engine import Engine

MOST_RECORDED = 1 << 24  # neuron-steps of a batch of which every layer's spikes are kept
MOST_BATCH = 256


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The answers to a batch: `scores [B, classes]`, the spikes of layers `[T, B, ...]` and the output's membrane."""

    scores: Tensor
    layers: dict[str, Tensor]
    membrane: Tensor  # [T, B, classes]


class Network(Protocol):
    """A trained network that answers to batches of samples."""

    name: str
    trained_on: TrainedOn

    def batch(self, steps: int | None) -> int:
        """Return how many samples of so many time steps (None: static ones) it takes at once."""

    def answers(self, x: Tensor) -> Answers:
        """Return the answers to `x`, `[B, ...]` or `[T, B, ...]`."""


class RunNetwork:
    """The best network of a run, in PyTorch; it keeps the spikes of all layers."""

    def __init__(self, path: Path, device: torch.device | str = "cpu") -> None:
        self.run = best_trial(path)
        self.name = str(self.run)
        self.spec = made_with(self.run)
        self.device = torch.device(device)
        self.net = load_network(self.run, self.spec, self.device)
        summary = RunFolder(self.run).read_summary() or {}
        self.trained_on = of_run(self.spec, summary, self.net.input_shape, outputs_of(self.net))

    def batch(self, steps: int | None) -> int:
        """Return how many samples it takes at once."""
        layers, _ = parse(self.net.notation, self.net.input_shape)
        return max(1, min(MOST_BATCH, MOST_RECORDED // ((steps or self.net.steps) * count_neurons(layers))))

    def answers(self, x: Tensor) -> Answers:
        """Return the answers to `x`, with the spikes of every layer."""
        precision = self.spec.train.precision
        x = as_input(x.to(self.device), next(self.net.parameters()).dtype)
        with torch.no_grad(), reproducible(precision), cast(precision, self.device), self.net.record() as layers:
            scores = self.net.scores(x).float().cpu()
        *_, output = layers.values()
        membrane = output.spikes if output.membrane is None else output.membrane
        return Answers(scores, {name: each.spikes.float().cpu() for name, each in layers.items()}, membrane.float().cpu())


class PackedNetwork:
    """A packed network in the engine, on the CPU; it keeps the spikes of the output alone."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name = engine, name
        self.trained_on = of_model(engine.model)
        self.output = f"layers.{len(engine.model.layers) - 1}.lif"  # as a run calls it

    def batch(self, steps: int | None) -> int:
        """Return how many samples it takes at once."""
        return MOST_BATCH

    def answers(self, x: Tensor) -> Answers:
        """Return the answers to `x`, with the spikes of the output."""
        out = self.engine(x)
        scores, spikes, membrane = (torch.as_tensor(each) for each in (out.scores, out.spikes, out.membrane))
        return Answers(scores, {self.output: spikes}, membrane)


def open_network(given: str, device: str = "auto") -> Network:
    """Return the network of a run's folder, of a packed file, or of a name that `bitspike pretrained` lists."""
    path = Path(given)
    if path.is_dir():
        return RunNetwork(path, pick_device(device))
    if not path.exists() and given not in pretrained_names():
        near = difflib.get_close_matches(given, pretrained_names(), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise FileNotFoundError(
            f"{given} does not exist: give a run's folder, a packed file, or a pretrained network; {hint}"
            f"pretrained are {', '.join(pretrained_names())}"
        )
    from bitspike.deploy.engine import load_packed

    if device not in ("auto", "cpu"):
        raise ValueError(f"--device {device}: a packed network runs on the CPU; leave it out, or give a run's folder")
    return PackedNetwork(load_packed(path if path.exists() else pretrained_path(given)), given)
