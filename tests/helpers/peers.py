"""snnTorch as its users write it, old and new: what the oracle and the annealing tests compare bitspike with."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

VERSIONS = ("1.0.0", "0.4.11")
OLD_FOLDER = "BITSPIKE_SNNTORCH_0411"

# What the oracle compared; conftest.py reports it at the end of a run.
TALLY = {"spikes": 0, "flips": 0, "gradient": 0.0}


@dataclass(frozen=True)
class SnnTorch:
    """The parts of one version of snnTorch that a training loop touches."""

    snn: ModuleType
    surrogate: ModuleType
    functional: ModuleType

    def leaky(self, beta: float | Tensor, theta: float, slope: float, **options: Any) -> nn.Module:
        return self.snn.Leaky(beta, threshold=theta, spike_grad=self.surrogate.fast_sigmoid(slope), **options)

    def count_loss(self, spikes: Tensor, labels: Tensor) -> Tensor:
        return self.functional.mse_count_loss(correct_rate=0.8, incorrect_rate=0.2)(spikes, labels)


def snntorch(version: str) -> SnnTorch:
    """snnTorch as installed ("1.0.0"), or the old one ("0.4.11") from the folder that an environment variable names."""
    if version == "1.0.0":
        pytest.importorskip("snntorch")
        return _modules(version)
    folder = os.environ.get(OLD_FOLDER)
    if not folder:
        pytest.skip(f"the environment variable {OLD_FOLDER} names no folder with snnTorch {version}")
    # Both versions import their own parts by the name `snntorch`, so the new one steps aside while the old one loads.
    # The old one's plots need pandas; they are not among the modules asked for here.
    new = _forget_snntorch()
    sys.path.insert(0, folder)
    try:
        return _modules(version)
    finally:
        sys.path.remove(folder)
        _forget_snntorch()
        sys.modules.update(new)


def _forget_snntorch() -> dict[str, ModuleType]:
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "snntorch"}


def _modules(version: str) -> SnnTorch:
    snn, *parts = map(importlib.import_module, ("snntorch", "snntorch.surrogate", "snntorch.functional"))
    assert snn.__version__ == version, f"expected snnTorch {version}, but {snn.__file__} is {snn.__version__}"
    return SnnTorch(snn, *parts)


class Sign(torch.autograd.Function):
    """The released code's weight: +1 where w >= 0, else -1; the gradient passes straight through."""

    @staticmethod
    def forward(ctx: Any, w: Tensor) -> Tensor:
        return (w >= 0).float() * 2 - 1

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


class SignLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, Sign.apply(self.weight), self.bias)


class SignConv2d(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, Sign.apply(self.weight))


class Layer(nn.Module):
    """One layer in the order of the released code: synapse, average pool, batch norm, neurons."""

    def __init__(self, synapse: nn.Module, lif: nn.Module, *, pool: int = 1, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.synapse = synapse
        self.pool = pool
        self.norm = norm
        self.lif = lif

    def current(self, x: Tensor) -> Tensor:
        if isinstance(self.synapse, nn.Linear):
            return self.synapse(x.flatten(1))
        current = F.avg_pool2d(self.synapse(x), self.pool)
        return current if self.norm is None else self.norm(current)


class Loop(nn.Module):
    """Layers under snnTorch's usual loop over time: every one, batch norm too, is called once a step."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, steps: int | None = None) -> tuple[list[Tensor], list[Tensor]]:
        """Spikes and membranes `[T, B, ...]` of every layer, for `x [T, B, ...]` or, with `steps=T`, `[B, ...]`."""
        mems = [layer.lif.init_leaky() for layer in self.layers]
        spikes: list[list[Tensor]] = [[] for _ in self.layers]
        membranes: list[list[Tensor]] = [[] for _ in self.layers]
        for z in x if steps is None else [x] * steps:
            for i, layer in enumerate(self.layers):
                z, mems[i] = layer.lif(layer.current(z), mems[i])
                spikes[i].append(z)
                membranes[i].append(mems[i])
        return [torch.stack(s) for s in spikes], [torch.stack(m) for m in membranes]


@torch.no_grad()
def copy_parameters(source: nn.Module, target: nn.Module) -> None:
    """Set the parameters of `target` to those of `source`, in order."""
    for ours, theirs in zip(source.parameters(), target.parameters(), strict=True):
        assert ours.shape == theirs.shape
        theirs.copy_(ours)


@contextmanager
def one_thread() -> Iterator[None]:
    """These networks are so small that waking a second thread for each of 100 steps costs more than all the rest."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
