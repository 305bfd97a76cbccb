"""Suggestions for thresholds, from the drive of a network's layers on a batch, measured before training."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

import torch
from torch import Tensor, nn

from bitspike.nn import SpikingNetwork
from bitspike.nn.access import Neurons, Recorded, neuron_layers, set_to_rest
from bitspike.nn.block import Block
from bitspike.nn.recording import listening, require_one_shape, stop_recording
from bitspike.nn.unchanged import unchanged
from bitspike.ops.readout.op import NEVER
from bitspike.schedules import Constant, Relax, Schedule

_REACHED = 0.95  # of the way from theta_0 to theta_inf: a relaxation never covers all of it


@dataclass(frozen=True, slots=True)
class Drive:
    """The drive of a layer: `peaks [B, ...]` is the highest free membrane of each neuron for each sample.

    A free membrane has no spike and no reset. Up to its first spike every membrane is free, so a neuron fires for a
    sample if its peak reaches theta. Where there are several glances, each glance has its own peak.

    `theta` is the threshold at which the layer fired into the next one when that was measured.

    Examples:
        >>> import torch
        >>> from bitspike.suggest import Drive
        >>> drive = Drive("layers.0.lif", peaks=torch.tensor([[1.0, 2.0, 3.0]]), theta=1.0)
        >>> drive.typical
        2.0
        >>> drive.alive(theta=2.0) == 2 / 3
        True
        >>> drive.largest_rate(theta_inf=5.0)
        0.25
    """

    layer: str
    peaks: Tensor
    theta: float

    @property
    def typical(self) -> float:
        """The median of the peaks above rest; weights of -1/+1 drive about half of the neurons down, whatever theta."""
        driven = self.peaks[self.peaks > 0].sort().values  # torch.quantile takes no more than 2**24 values
        return driven[len(driven) // 2].item()

    def alive(self, theta: float) -> float:
        """Return the share of neurons that fire for some sample of the batch at `theta`."""
        return (self.peaks.amax(0) >= theta).double().mean().item()

    def largest_rate(self, theta_inf: float) -> float:
        """(typical - theta) / (theta_inf - theta), at most 1: a faster Relax passes the typical peak in one update.

        This is the paper's bound on the rate (Eq. 7) for the current weights, with the typical neuron in place of all:
        the weakest neuron that fires is almost at theta, and would allow no rate at all.
        """
        return min((self.typical - self.theta) / (theta_inf - self.theta), 1.0)


@torch.no_grad()
def measure_drive(net: nn.Module, batch: Any, *, start: float = 0.5) -> list[Drive]:
    """Measure the drive of each neuron layer on `batch`, in module order; the network is not changed.

    `net` is a network of `build`, and `batch` static `[B, *input_shape]` or `[T, B, *input_shape]`; or any module with
    neurons of bitspike, snnTorch or SpikingJelly, and `batch` what it is called with: `net(batch)` runs over all time
    steps, from rest.

    A layer is driven by the spikes of the one before, so each layer fires at a threshold of its own, `start` times its
    typical peak, set before the next is measured. A silent layer would say nothing about the next.

    Batch norm takes the statistics of this batch, as in the first iteration of training; dropout does nothing.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> from bitspike.suggest import measure_drive
        >>> net = bitspike.build("20-50-10", generator=torch.Generator().manual_seed(0))
        >>> drives = measure_drive(net, torch.ones(30, 4, 20))  # [T, B, 20]
        >>> [drive.layer for drive in drives]
        ['layers.0.lif', 'layers.1.lif']
        >>> drives[0].peaks.shape  # [B, neurons]
        torch.Size([4, 50])
    """
    layers = neuron_layers("measure_drive", net)
    if not 0 < start < 1:
        raise ValueError(f"measure_drive: start must be in (0, 1), a share of the typical peak, but is {start!r}")
    if _is_built(net, layers):
        return list(_measured_by_block(net, batch, start))
    _require_content(batch)
    drives: dict[str, Drive] = {}
    while len(drives) < len(layers):
        name, peaks = _next_peaks(net, batch, layers, {name: drive.theta for name, drive in drives.items()})
        drives[name] = _drive(name, peaks, start)
    return [drives[name] for name in layers]


def _is_built(net: nn.Module, layers: dict[str, Neurons]) -> TypeGuard[SpikingNetwork]:
    """Return whether `net` consists only of blocks in a row, so that each layer can be run alone."""
    if not isinstance(net, SpikingNetwork) or net.neuron_names() != list(layers):
        return False
    plain = type(net).forward is SpikingNetwork.forward and type(net).run is SpikingNetwork.run
    return plain and all(isinstance(layer, Block) for layer in net.layers)


def _measured_by_block(net: SpikingNetwork, batch: Tensor, start: float) -> Iterator[Drive]:
    steps = _require_batch(net, batch)
    x, steps = net.shown(batch.to(next(net.parameters()).dtype), steps)
    for name, block in zip(net.neuron_names(), _copies(net), strict=True):
        drive = _drive(name, _peaks(block, x, steps), start)
        yield drive
        block.lif.set_theta(drive.theta, initial=drive.theta)
        x, steps = block(x, steps=steps, keep_membrane=False).spikes, None


def _next_peaks(net: nn.Module, batch: Any, layers: dict[str, Neurons], thetas: dict[str, float]) -> tuple[str, Tensor]:
    """Run `net` with the layers in `thetas` firing and others silent; return the first silent layer and its peaks.

    Its input does not depend on the current thresholds of the layers after it.
    """
    peaks: dict[str, Tensor] = {}  # of one layer

    def look(name: str, call: Recorded) -> None:
        if name in thetas or (peaks and name not in peaks):
            return
        if call.membrane is None:
            kind = type(layers[name].module).__name__
            raise ValueError(f"measure_drive: {name}, a {kind}, shows no membrane, so its drive cannot be measured")
        calls = [peaks[name][None], call.membrane] if name in peaks else [call.membrane]
        require_one_shape(f"measure_drive: {name}", calls)
        peaks[name] = torch.cat([each.amax(0, keepdim=True) for each in calls]).amax(0)

    with unchanged(net):
        stop_recording(net)
        _as_in_training(net)
        set_to_rest(net)
        for name, neurons in layers.items():
            if neurons.rest:
                raise ValueError(
                    f"measure_drive: {name} rests at a membrane of {neurons.rest:g}, but the drive is measured from 0; "
                    "give its neurons v_reset=0 or v_reset=None"
                )
            if name in thetas:
                neurons.write(thetas[name], initial=thetas[name])
            else:
                neurons.silence()
        with listening("measure_drive", layers, look):
            net(batch)
    if not peaks:
        unused = ", ".join(name for name in layers if name not in thetas)
        raise ValueError(
            f"measure_drive: net(batch) never calls {unused}, so there is no drive to measure; "
            "take layers that are not in use out of the network"
        )
    return peaks.popitem()


def _as_in_training(net: nn.Module) -> None:
    """Put `net` in training mode, but not its dropout."""
    net.train()
    for module in net.modules():
        if any("Dropout" in base.__name__ for base in type(module).__mro__):
            module.training = False


def _drive(name: str, peaks: Tensor, start: float) -> Drive:
    if not (peaks > 0).any():
        raise ValueError(
            f"measure_drive: no neuron of {name} is driven above rest by this batch, so it would fire at no "
            "threshold; give a larger batch, or other initial weights"
        )
    return Drive(name, peaks, start * Drive(name, peaks, 0.0).typical)


def suggest_schedules(
    net: nn.Module,
    batch: Any,
    *,
    iterations: int,
    start: float = 0.5,
    stop: float = 1.0,
    theta_inf: float | Sequence[float] | None = None,
    within: float = 0.3,
) -> list[Schedule]:
    """Suggest a schedule for each neuron layer, for `ThresholdAnnealing(net, ...)`, from the drive that `batch` gives.

    `net` is a network of `build`, or any module with neurons of bitspike, snnTorch or SpikingJelly that `net(batch)`
    runs over all time steps.

    theta_0 is `start` times the typical peak of the layer's free membrane (`measure_drive`). Below 1, more than half of
    the driven neurons fire, so that every layer has input and gradients from the first iteration on.
    theta_inf is `stop` times the typical peak, or as given: one number, or one a layer. Of the levels that we tried the
    typical peak itself was the best in every network (docs/reports/annealing.md), with `surrogate_center="current"`.
    The rate brings theta 95 % of the way in a share `within` of the `iterations` of training; the rest of them learn at
    the final threshold. To a theta_inf above the typical peak it is lower where the paper's bound is: one update must
    not take theta past that peak (`Drive.largest_rate`). Sparser input drives less: it starts lower and, to a given
    theta_inf, goes slower.

    A layer whose given theta_inf is not above theta_0 needs no annealing and gets a Constant.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> net = bitspike.build("20-50-10", generator=torch.Generator().manual_seed(0))
        >>> batch = torch.ones(30, 4, 20)  # [T, B, 20]
        >>> schedules = bitspike.suggest_schedules(net, batch, iterations=1000)
        >>> [type(schedule).__name__ for schedule in schedules]
        ['Relax', 'Relax']
        >>> annealing = bitspike.ThresholdAnnealing(net, schedules)
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
    """Return one final threshold for each layer, from one number for all or a list."""
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
    """Return the number of steps that a static batch is fed for, None for a sequence; raise if it does not fit."""
    if not isinstance(batch, Tensor):
        raise TypeError(f"measure_drive: batch must be a tensor, but is a {type(batch).__name__}")
    inner = ", ".join(map(str, net.input_shape))
    extra = batch.dim() - len(net.input_shape)
    if extra not in (1, 2) or tuple(batch.shape[extra:]) != net.input_shape:
        raise ValueError(
            f"measure_drive: batch must be [B, {inner}] (static) or [T, B, {inner}] (a sequence), "
            f"but has shape {list(batch.shape)}"
        )
    _require_content(batch)
    return net.steps if extra == 1 else None


def _require_content(batch: Any) -> None:
    """Raise if `batch` is a tensor that can drive no neuron, because it is empty or silent."""
    if not isinstance(batch, Tensor):
        return
    if batch.numel() == 0:
        raise ValueError(f"measure_drive: the batch is empty, shape {list(batch.shape)}; give a few dozen samples")
    if not batch.any():
        raise ValueError("measure_drive: the batch is silent, all its values are 0; give samples of the training set")


def _copies(net: SpikingNetwork) -> Iterator[Block]:
    """Yield a copy of each block in its state at the first iteration, so that the network itself does not change."""
    for layer in net.layers:
        block = cast(Block, copy.deepcopy(layer))
        stop_recording(block)
        block.train()
        for dropout in (block.dropout, block.spike_dropout):
            if dropout is not None:
                dropout.p = 0.0
        yield block


def _peaks(block: Block, x: Tensor, steps: int | None) -> Tensor:
    block.lif.set_theta(NEVER, initial=NEVER)
    membrane = block(x, steps=steps).membrane
    if membrane is None:
        raise RuntimeError("measure_drive: the layer gave no membrane")
    peaks: Tensor = membrane.amax(0)
    return peaks
