"""A trick that measures batch norm's statistics with the current weights, not as an average over past weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from bitspike.data.samples import Samples
from bitspike.nn import SpikingNetwork
from bitspike.nn.norm import SharedBatchNorm1d, SharedBatchNorm2d, StepBatchNorm2d
from bitspike.train.config import TrainConfig
from bitspike.train.numerics import as_input
from bitspike.train.seeds import mixed
from bitspike.train.tricks.trick import Trick

Norm = StepBatchNorm2d | SharedBatchNorm2d | SharedBatchNorm1d

# A layer moves its averages T times in a call, and a move shrinks what was there by 1 - m. From 0, with this m, the
# weights of the first and the last step differ by T * 2**-24, less than float32 rounds; 1 - m is exact in float32.
MOMENTUM = 2.0**-24
# This is not the batch of evaluations, because that may depend on the machine.
MINIBATCH, VALUES = 1024, 25 * 2**20  # samples at most, and numbers of their input


class Recalibrate(Trick):
    """`train.recalibrate` is the number of training samples from which evaluations' batch norm is measured anew.

    Batch norm keeps these statistics: nothing in training reads them.
    """

    name = "recalibrate"
    fields = ("recalibrate",)

    @classmethod
    def refusal(cls, config: TrainConfig, net: SpikingNetwork, samples: Samples, title: str) -> str | None:
        """Return a refusal for a network without batch norm."""
        if _norms(net):
            return None
        return (
            "train.recalibrate measures batch norm's statistics, but the network has none "
            "(net.norm is 'none' or no layer is a convolution, and net.dense_norm is false); set it to 0"
        )

    def before_evaluation(self) -> None:
        """Measure the statistics with the current weights."""
        setup = self.setup
        recalibrate(setup.net, setup.samples, setup.config.recalibrate, seed=setup.seed)


@torch.no_grad()
def recalibrate(net: SpikingNetwork, samples: Samples, count: int, *, seed: int, batch: int | None = None) -> None:
    """Set every batch norm's running mean and variance to the plain average over minibatches and steps of time.

    Over `count` of the samples (all, if there are fewer), the same for a seed whenever it is called, in minibatches of
    at most `batch` (1024, fewer of long sequences), as equal as can be, each of equal weight. A minibatch passes as in
    training, but without dropout and with delays in whole steps. With statistics a step, each step's mean and unbiased
    variance count alike; shared statistics have one of each. Where it fails, the network is as it was.
    """
    norms = _norms(net)
    if not norms or not count:
        return
    rows = calibration_rows(len(samples), count, seed).to(samples.labels.device)
    running = [_running(norm) for norm in norms]
    sums = [[torch.zeros_like(tensor, dtype=torch.float64) for tensor in pair] for pair in running]
    parts = rows.tensor_split(-(-len(rows) // (batch or _minibatch(samples))))
    weight = next(net.parameters())
    with _gathering(net, norms):
        for part in parts:
            for pair in running:
                torch._foreach_zero_(pair)
            x, _ = samples.batch(part)
            steps = len(net(as_input(x, weight.dtype)).spikes) // net.glances
            for norm, pair, total in zip(norms, running, sums, strict=True):
                share = _share(steps if isinstance(norm, StepBatchNorm2d) else 1)
                for tensor, into in zip(pair, total, strict=True):
                    into.add_(tensor.double() / (share * len(parts)))
    for pair, total in zip(running, sums, strict=True):
        for tensor, value in zip(pair, total, strict=True):
            tensor.copy_(value)


def _norms(net: SpikingNetwork) -> list[Norm]:
    return [module for module in net.modules() if isinstance(module, Norm)]


def calibration_rows(samples: int, count: int, seed: int) -> Tensor:
    """Return the first `count` rows of one order of all samples, drawn from the run's seed."""
    generator = torch.Generator().manual_seed(mixed(seed, "recalibrate"))
    return torch.randperm(samples, generator=generator, device="cpu")[:count]


def _minibatch(samples: Samples) -> int:
    return min(MINIBATCH, max(VALUES // (math.prod(samples.shape) * (samples.steps or 1)), 16))


def _share(moves: int) -> float:
    """1 - (1 - m)**moves: the total weight of all values in a running average that starts at 0 and moves so often."""
    return -math.expm1(moves * math.log1p(-MOMENTUM))


def _running(norm: Norm) -> list[Tensor]:
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("recalibrate: a batch norm keeps no running statistics (track_running_stats=False)")
    return [norm.running_mean, norm.running_var]


@contextmanager
def _gathering(net: SpikingNetwork, norms: Sequence[Norm]) -> Iterator[None]:
    """Put batch norms in training mode with `MOMENTUM` and all else in evaluation mode; then put all back.

    All buffers and momenta are restored, so that training continues unchanged.
    """
    modes = [(module, module.training) for module in net.modules()]
    momenta = [norm.momentum for norm in norms]
    buffers = [buffer for norm in norms for buffer in norm.buffers()]
    before = [buffer.clone() for buffer in buffers]
    net.eval()
    for norm in norms:
        norm.train()
        norm.momentum = MOMENTUM
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)
        for module, training in modes:
            module.training = training
