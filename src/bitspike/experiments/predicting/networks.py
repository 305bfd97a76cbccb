"""Networks that answer: a run's in PyTorch, and a packed one in the engine. `open_network` takes either, or a name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from bitspike.deploy.pretrained import SUFFIX, pretrained_names, pretrained_path
from bitspike.experiments.assembly import outputs_of, pick_device
from bitspike.experiments.predicting.trained_on import TrainedOn, of_model, of_run
from bitspike.experiments.saved import best_trial, load_network, made_with
from bitspike.nn.notation import count_neurons, parse
from bitspike.text import did_you_mean
from bitspike.train.numerics import as_input, cast, reproducible

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

    @property
    def neuron_steps(self) -> tuple[int, int]:
        """The number of neurons, and for how many steps a static input is shown."""

    def answers(self, x: Tensor) -> Answers:
        """Return the answers to `x`, `[B, ...]` or `[T, B, ...]`, with the spikes of every layer."""


def batch_of(network: Network, steps: int | None) -> int:
    """Return how many samples of so many time steps (None: static ones) a network takes at once."""
    neurons, shown = network.neuron_steps
    return max(1, min(MOST_BATCH, MOST_RECORDED // (neurons * (steps or shown))))


class RunNetwork:
    """The best network of a run, in PyTorch."""

    def __init__(self, path: Path, device: torch.device | str = "cpu") -> None:
        self.run = best_trial(path)
        self.name = str(self.run)
        self.spec = made_with(self.run)
        self.device = torch.device(device)
        self.net = load_network(self.run, self.spec, self.device)
        self.trained_on = of_run(self.run, self.spec, self.net.input_shape, outputs_of(self.net))

    @property
    def neuron_steps(self) -> tuple[int, int]:
        """The number of neurons, and for how many steps a static input is shown."""
        layers, _ = parse(self.net.notation, self.net.input_shape)
        return count_neurons(layers), self.net.steps

    def answers(self, x: Tensor) -> Answers:
        """Return the answers to `x`, with the spikes of every layer."""
        precision = self.spec.train.precision
        x = as_input(x.to(self.device), next(self.net.parameters()).dtype)
        with torch.no_grad(), reproducible(precision), cast(precision, self.device), self.net.record() as layers:
            scores = self.net.scores(x).float().cpu()
        *_, output = layers.values()
        membrane = output.spikes if output.membrane is None else output.membrane
        spikes = {name: each.spikes.float().cpu() for name, each in layers.items()}
        return Answers(scores, spikes, membrane.float().cpu())


class PackedNetwork:
    """A packed network in the engine, on the CPU."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name = engine, name
        self.trained_on = of_model(engine.model)

    @property
    def neuron_steps(self) -> tuple[int, int]:
        """The number of neurons, and for how many steps a static input is shown."""
        return sum(layer.neurons for layer in self.engine.model.layers), self.engine.model.steps

    def answers(self, x: Tensor) -> Answers:
        """Return the answers to `x`, with the spikes of every layer, which are called as those of a run."""
        out = self.engine(x, record=True)
        spikes = {f"layers.{i}.lif": torch.from_numpy(each.spikes) for i, each in enumerate(out.layers)}
        return Answers(torch.from_numpy(out.scores), spikes, torch.from_numpy(out.membrane))


def open_network(given: str, device: str = "auto") -> Network:
    """Return the network of a run's folder, of a packed file, or of a name that `bitspike pretrained` lists."""
    path = Path(given)
    if path.is_dir():
        return RunNetwork(path, pick_device(device))
    if not path.exists() and given not in pretrained_names():
        hint = did_you_mean(given, pretrained_names(), cutoff=0.4)
        raise FileNotFoundError(
            f"{given} does not exist: give a run's folder, a packed file, or a pretrained network; {hint}"
            f"pretrained are {', '.join(pretrained_names())}"
        )
    from bitspike.deploy.engine import load_packed

    if device not in ("auto", "cpu"):
        raise ValueError(f"--device {device}: a packed network runs on the CPU; leave it out, or give a run's folder")
    try:
        return PackedNetwork(load_packed(path if path.exists() else pretrained_path(given)), given)
    except ValueError:
        if path.suffix in ("", SUFFIX):
            raise
        raise ValueError(
            f"{given} is not a packed network, or is damaged: the first argument is the model, a run's folder, a "
            "packed file or a pretrained network; the files to ask about come after it"
        ) from None
