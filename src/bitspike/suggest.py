"""Thresholds from the drive that a network's layers really get: measured on a batch, before training."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bitspike.nn import SpikingNetwork
from bitspike.nn.block import Block
from bitspike.schedules import Constant, Relax, Schedule

_NEVER = 1e30  # a threshold that no membrane reaches, and that float32 holds
_REACHED = 0.95  # of the way from theta_0 to theta_inf: a relaxation never covers all of it


@dataclass(frozen=True, slots=True)
class Drive:
    """How hard a layer is driven: `peaks [B, ...]`, the highest free membrane (no spike, no reset) of each neuron for
    each sample (each glance, where there are several). Up to its first spike a membrane is free, so a neuron fires for
    a sample if its peak reaches theta.

    `theta` is the threshold at which the layer fired into the next one when that was measured.
    """

    layer: str
    peaks: Tensor
    theta: float

    @property
    def typical(self) -> float:
        """The median of the peaks above rest: weights of -1/+1 drive about half of the neurons down, whatever theta."""
        driven = self.peaks[self.peaks > 0].sort().values  # torch.quantile takes no more than 2**24 values
        return driven[len(driven) // 2].item()

    def alive(self, theta: float) -> float:
        """The share of neurons that fire for some sample of the batch at `theta`."""
        return (self.peaks.amax(0) >= theta).double().mean().item()

    def largest_rate(self, theta_inf: float) -> float:
        """(typical - theta) / (theta_inf - theta), at most 1: a faster Relax passes the typical peak in one update.

        The paper's bound on the rate (Eq. 7), with weights as they are and the typical neuron for all of them: the
        weakest that fires is as good as at theta, and would allow no rate at all.
        """
        return min((self.typical - self.theta) / (theta_inf - self.theta), 1.0)


@torch.no_grad()
def measure_drive(net: SpikingNetwork, batch: Tensor, *, start: float = 0.5) -> list[Drive]:
    """One a neuron layer, on `batch`, static `[B, *input_shape]` or `[T, B, *input_shape]`; the net stays as it is.

    A layer is driven by the spikes of the one before, so each layer fires at a threshold of its own, `start` times its
    typical peak, set before the next is measured. A silent layer would say nothing about the next.

    Batch norm takes the statistics of this batch, as in the first iteration of training; dropout does nothing.
    """
    if not isinstance(net, SpikingNetwork):
        raise TypeError(f"measure_drive: net must be a SpikingNetwork (bitspike.build), but is a {type(net).__name__}")
    if not 0 < start < 1:
        raise ValueError(f"measure_drive: start must be in (0, 1), a share of the typical peak, but is {start!r}")
    steps = _require_batch(net, batch)
    x, steps = net.shown(batch.to(next(net.parameters()).dtype), steps)
    drives: list[Drive] = []
    for name, block in zip(net.neuron_names(), _copies(net), strict=True):
        peaks = _peaks(block, x, steps)
        if not (peaks > 0).any():
            raise ValueError(
                f"measure_drive: no neuron of {name} is driven above rest by this batch, so it would fire at no "
                "threshold; give a larger batch, or other initial weights"
            )
        drive = Drive(name, peaks, start * Drive(name, peaks, 0.0).typical)
        drives.append(drive)
        block.lif.set_theta(drive.theta, initial=drive.theta)
        x, steps = block(x, steps=steps, keep_membrane=False).spikes, None
    return drives


def suggest_schedules(
    net: SpikingNetwork,
    batch: Tensor,
    *,
    iterations: int,
    start: float = 0.5,
    stop: float = 1.0,
    theta_inf: float | Sequence[float] | None = None,
    within: float = 0.3,
) -> list[Schedule]:
    """A schedule a neuron layer, for `ThresholdAnnealing(net, ...)`, from the drive that `batch` gives the layer.

    theta_0 is `start` times the typical peak of the layer's free membrane (`measure_drive`). Below 1, more than half of
    the driven neurons fire, so that every layer has input and gradients from the first iteration on.
    theta_inf is `stop` times the typical peak, or as given: one number, or one a layer. Of the levels that we tried the
    typical peak itself was the best in every network (docs/annealing.md), with `surrogate_center="current"`.
    The rate brings theta 95 % of the way in a share `within` of the `iterations` of training; the rest of them learn at
    the final threshold. To a theta_inf above the typical peak it is lower where the paper's bound is: one update must
    not take theta past that peak (`Drive.largest_rate`). Sparser input drives less: it starts lower and, to a given
    theta_inf, goes slower.

    A layer whose given theta_inf is not above theta_0 needs no annealing and gets a Constant.
    """
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise ValueError(
            "suggest_schedules: iterations must be a whole number >= 1, those of the whole training, "
            f"but is {iterations!r}"
        )
    if not stop > start:
        raise ValueError(f"suggest_schedules: stop must be > start, but they are {stop!r} and {start!r}")
    rate = relaxing_rate(iterations, within)
    drives = measure_drive(net, batch, start=start)
    finals = [stop * drive.typical for drive in drives] if theta_inf is None else _finals(theta_inf, len(drives))
    if len(finals) != len(drives):
        raise ValueError(
            f"suggest_schedules: theta_inf must be one number, or one a neuron layer, {len(drives)}, "
            f"but {len(finals)} were given"
        )
    return [_schedule(drive, final, rate) for drive, final in zip(drives, finals, strict=True)]


def _finals(theta_inf: float | Sequence[float], layers: int) -> list[float]:
    """One number a layer, of one for all or a list."""
    wanted: list[Any] = list(theta_inf) if isinstance(theta_inf, list | tuple) else [theta_inf] * layers
    for each in wanted:
        if isinstance(each, bool) or not isinstance(each, int | float) or not 0 < each < math.inf:
            raise ValueError(
                f"suggest_schedules: theta_inf must be a number > 0, or a list of one a layer, but has {each!r}"
            )
    return [float(each) for each in wanted]


def relaxing_rate(iterations: int, within: float) -> float:
    """1 - 0.05**(1 / (within * iterations)): Relax covers 95 % of its way in that share of the iterations."""
    if not 0 < within <= 1:
        raise ValueError(f"relaxing_rate: within must be in (0, 1], a share of the iterations, but is {within!r}")
    return -math.expm1(math.log(1 - _REACHED) / (within * iterations))


def _schedule(drive: Drive, final: float, rate: float) -> Schedule:
    if final <= drive.theta:
        return Constant(final)
    return Relax(drive.theta, final, min(rate, drive.largest_rate(final)))


def _require_batch(net: SpikingNetwork, batch: Tensor) -> int | None:
    """The steps a static batch is fed for; None for a sequence."""
    if not isinstance(batch, Tensor):
        raise TypeError(f"measure_drive: batch must be a tensor, but is a {type(batch).__name__}")
    inner = ", ".join(map(str, net.input_shape))
    extra = batch.dim() - len(net.input_shape)
    if extra not in (1, 2) or tuple(batch.shape[extra:]) != net.input_shape:
        raise ValueError(
            f"measure_drive: batch must be [B, {inner}] (static) or [T, B, {inner}] (a sequence), "
            f"but has shape {list(batch.shape)}"
        )
    if batch.numel() == 0:
        raise ValueError(f"measure_drive: the batch is empty, shape {list(batch.shape)}; give a few dozen samples")
    if not batch.any():
        raise ValueError("measure_drive: the batch is silent, all its values are 0; give samples of the training set")
    return net.steps if extra == 1 else None


def _copies(net: SpikingNetwork) -> Iterator[Block]:
    """Each block as it is at the first iteration, a copy, so that nothing of the net moves."""
    for layer in net.layers:
        block = copy.deepcopy(layer)
        if not isinstance(block, Block):
            raise TypeError(
                f"measure_drive: layers must be those of bitspike.build, but one is a {type(layer).__name__}"
            )
        block.train()
        block.dropout.p = 0.0
        yield block


def _peaks(block: Block, x: Tensor, steps: int | None) -> Tensor:
    block.lif.set_theta(_NEVER, initial=_NEVER)
    membrane = block(x, steps=steps).membrane
    if membrane is None:
        raise RuntimeError("measure_drive: the layer gave no membrane")
    peaks: Tensor = membrane.amax(0)
    return peaks
