"""`measure_drive`: the drive of every neuron layer of a network on a batch, layer by layer."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, TypeGuard, cast

import torch
from torch import Tensor, nn

from bitspike.nn import SpikingNetwork
from bitspike.nn.access import Neurons, neuron_layers
from bitspike.nn.block import Block
from bitspike.nn.recording import stop_recording
from bitspike.ops import LIFOutput
from bitspike.ops.readout.op import NEVER
from bitspike.suggest.drive import Drive, FiresAt, Firing, drive_of, peaks_with_feedback
from bitspike.suggest.passes import measured_by_passes

FIRES_AT = 0.5  # of the drive: where a layer fires while the next one is measured


@torch.no_grad()
def measure_drive(net: nn.Module, batch: Any, *, start: float = FIRES_AT) -> list[Drive]:
    """Measure the drive of each neuron layer on `batch`, in module order; the network is not changed.

    `net` is a network of `build`, and `batch` static `[B, *input_shape]` or `[T, B, *input_shape]`; or any module with
    neurons of bitspike, snnTorch or SpikingJelly, and `batch` what it is called with: `net(batch)` runs over all time
    steps, from rest.

    A layer is driven by the spikes of the one before, so each layer fires at a threshold of its own, `start` times its
    typical peak, set before the next is measured. A silent layer would say nothing about the next.

    A layer whose spikes come back to it drives itself. Its typical peak is the threshold at which half of what is
    driven fires, with this feedback; without feedback that is the median peak. Spikes of layers that are measured later
    do not come back: those layers are still silent.

    Batch norm takes the statistics of this batch, as in the first iteration of training, so the drive is that of the
    normalized current. Dropout does nothing, delays are soft and gains are whole numbers, as in training.

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
    return measured(net, batch, layers, lambda drive: start * drive.typical)


@torch.no_grad()
def measured(net: nn.Module, batch: Any, layers: dict[str, Neurons], fires_at: FiresAt) -> list[Drive]:
    """Return the drive of each of the network's `layers`, measured with those before it at their `fires_at`."""
    if _is_built(net, layers):
        return list(_measured_by_block(net, batch, fires_at))
    _require_content(batch)
    found = measured_by_passes(net, batch, layers, fires_at)
    return [found[name] for name in layers]


def is_static(net: nn.Module, batch: Any) -> bool:
    """Return whether `batch` is static: one step `[B, *input_shape]` that a network of `build` is shown again."""
    return isinstance(net, SpikingNetwork) and isinstance(batch, Tensor) and batch.dim() == 1 + len(net.input_shape)


def _is_built(net: nn.Module, layers: dict[str, Neurons]) -> TypeGuard[SpikingNetwork]:
    """Return whether `net` consists only of blocks in a row, so that each layer can be run alone."""
    if not isinstance(net, SpikingNetwork) or net.neuron_names() != list(layers):
        return False
    plain = type(net).forward is SpikingNetwork.forward and type(net).run is SpikingNetwork.run
    return plain and all(isinstance(layer, Block) for layer in net.layers)


def _measured_by_block(net: SpikingNetwork, batch: Tensor, fires_at: FiresAt) -> Iterator[Drive]:
    steps = _require_batch(net, batch)
    x, steps = net.shown(batch.to(next(net.parameters()).dtype), steps)
    for name, block in zip(net.neuron_names(), _copies(net), strict=True):

        def run(theta: float, block: Block = block, x: Tensor = x, steps: int | None = steps) -> LIFOutput:
            block.lif.set_theta(theta, initial=theta)
            return cast(LIFOutput, block(x, steps=steps))

        def fire(theta: float, run: Any = run) -> Firing:
            out = run(theta)
            return Firing(out.spikes.amax(0) > 0, out.membrane.amax(0))

        drive = drive_of(name, block.lif, fire(NEVER).highest, fires_at)
        if block.lif.recurrent_weight() is not None:
            drive = drive_of(name, block.lif, peaks_with_feedback(fire, drive), fires_at, feedback=True)
        yield drive
        x, steps = run(drive.theta).spikes, None


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
