"""A case prepared for a device: every library gets the same network, batch and training settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bitspike.bench.cases import Case
from bitspike.experiments.net_config import Decays, NetConfig
from bitspike.experiments.presets import preset
from bitspike.experiments.schema import Experiment, with_values
from bitspike.nn.notation import Dense
from bitspike.schedules import Constant, Schedule

# Rows of the single layer: beta of that benchmark's snnTorch entry is .95, tau of its SpikingJelly entry 5 (.8).
_LAYER_BETA, _LAYER_SLOPE = 0.9, 25.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of neurons and training; where layers differ, one value for each."""

    betas: tuple[float, ...]
    slopes: tuple[float, ...]
    schedules: tuple[Schedule, ...]
    dropouts: tuple[float, ...]
    norm: bool
    optimizer: Literal["adam", "sgd", "none"]
    lr: float
    momentum: float
    half_period: int
    grad_clip: float | None
    weight_clip: float | None


@dataclass(frozen=True, slots=True)
class Problem:
    """A case on a device: `x [B, ...]` float32 (a static image) or `[T, B, ...]` uint8 (counts), and `labels [B]`."""

    case: Case
    recipe: Recipe
    experiment: Experiment
    x: Tensor
    labels: Tensor
    device: torch.device

    def floats(self) -> Tensor:
        """Return the batch in float32, as peers take it."""
        return self.x.float()


def experiment_of(case: Case) -> Experiment:
    """Return the case's preset with the case's network, length and batch."""
    settings = [f'net.notation="{case.notation}"', f"net.steps={case.steps}", f"train.batch={case.batch}"]
    return with_values(preset(case.preset), [*settings, "train.tensorboard=false", "train.epochs=1000000"])


def recipe_of(case: Case, spec: Experiment) -> Recipe:
    """Return the settings of the experiment that a peer needs."""
    layers = case.layers()
    count = len(layers)
    if case.work == "layer":
        theta = Constant(plain_scale(layers[0]))
        return Recipe((_LAYER_BETA,), (_LAYER_SLOPE,), (theta,), (0.0,), False, "none", 0.0, 0.0, 1, None, None)
    net, train = spec.net, spec.train
    if train.optimizer == "adamw":
        raise ValueError(f"bench: peers train with 'adam' or 'sgd', but {case.preset} has train.optimizer = 'adamw'")
    dense = [i for i, layer in enumerate(layers) if isinstance(layer, Dense)]
    dropped = dict(zip(dense, _each(net.dropout, len(dense)), strict=True))
    return Recipe(
        betas=_decays(case, net, count),
        slopes=_each(net.slope, count),
        schedules=tuple(net.schedules(count)),
        dropouts=tuple(dropped.get(i, 0.0) for i in range(count)),
        norm=net.norm == "step",
        optimizer=train.optimizer,
        lr=train.lr,
        momentum=train.momentum,
        half_period=train.half_period or 1,
        grad_clip=train.grad_clip,
        weight_clip=train.weight_clip,
    )


def plain_scale(layer: object) -> float:
    """sqrt(3 * inputs): how much larger currents of weights -1/+1 are than those of a new nn.Linear.

    The single layer's threshold is that, so that ours fires as often as a peer's with real weights and threshold 1.
    """
    if not isinstance(layer, Dense):
        raise TypeError(f"bench: the single layer must be Dense, but is {layer!r}")
    return float((3 * layer.inputs) ** 0.5)


def _decays(case: Case, net: NetConfig, count: int) -> tuple[float, ...]:
    """Return one decay for each layer; raise for a network with parts that the peers' networks here do not have."""
    betas = net.beta if isinstance(net.beta, list) else [net.beta] * count
    numbers = tuple(beta for beta in betas if not isinstance(beta, Decays))
    unlike = {
        "beta": len(numbers) < len(betas),
        "delays": net.longest_delay > 0,
        "gains": any(net.gains) if isinstance(net.gains, list) else net.gains > 0,
        "dense_norm": net.dense_norm,
        "readout": net.readout != "spikes",
        "spike_dropout": any(_each(net.spike_dropout, 1)),
    }
    if found := [f"net.{name}" for name, differs in unlike.items() if differs]:
        raise ValueError(f"bench: peers do not have what {case.preset} asks for with {', '.join(found)}")
    return numbers


def _each(value: float | list[float], count: int) -> tuple[float, ...]:
    return tuple(value) if isinstance(value, list) else (value,) * count


def prepare(case: Case, device: torch.device, seed: int = 0) -> Problem:
    """Return the case with one batch of synthetic data, with the case's shape and density, on the device."""
    spec = experiment_of(case)
    values = synthetic(case, case.batch, seed, device)
    x = values.float().div_(255) if case.static else values.transpose(0, 1).contiguous()
    labels = synthetic_labels(case, case.batch, seed, device)
    return Problem(case, recipe_of(case, spec), spec, x, labels, device)


def synthetic(case: Case, samples: int, seed: int, device: torch.device) -> Tensor:
    """Return uint8 samples `[N, C, H, W]` (static) or `[N, T, ...]`: a share `density` is not zero."""
    random = torch.Generator(device).manual_seed(seed)
    shape = (samples, *case.input_shape) if case.static else (samples, case.steps, *case.input_shape)
    chance = torch.empty(shape, device=device).uniform_(generator=random)
    if case.static:  # evenly grey where anything is drawn
        return torch.where(chance < case.density, (chance / case.density * 255).ceil(), 0).to(torch.uint8)
    if case.work == "layer":
        return (chance < case.density).to(torch.uint8)
    counts = torch.zeros(shape, dtype=torch.uint8, device=device)
    for more in range(4):
        counts += chance < case.density * case.repeats**more
    return counts


def synthetic_labels(case: Case, samples: int, seed: int, device: torch.device) -> Tensor:
    """Return labels `[N]`, each the number of a neuron of the last layer."""
    last = case.layers()[-1]
    classes = last.outputs if isinstance(last, Dense) else 1
    random = torch.Generator(device).manual_seed(seed + 1)
    return torch.randint(classes, (samples,), generator=random, device=device)
