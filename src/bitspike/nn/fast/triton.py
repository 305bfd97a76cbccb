"""Whole networks in Triton on a GPU: the arguments of the fused kernels, for networks that refusal.py accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from bitspike.nn.block import Block
from bitspike.nn.dropout import Dropout
from bitspike.nn.fast.refusal import unlike_norm, unlike_synapse
from bitspike.nn.norm import SharedBatchNorm1d, SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear
from bitspike.ops import LIFOutput

if TYPE_CHECKING:
    from bitspike.ops.chain.links import Link
    from bitspike.ops.chain.triton import Hidden
    from bitspike.ops.filter.spike_filter import SpikeFilter
    from bitspike.ops.norm.triton_integer import Norm
    from bitspike.ops.product.geometry import Grid


@dataclass(frozen=True, slots=True)
class HiddenSpikes:
    """The spikes of hidden layers as bits `[T * B, words]`; `counts` and `spikes` turn them into numbers."""

    bits: tuple[Tensor, ...]
    grids: tuple[Grid, ...]
    steps: int

    def counts(self) -> tuple[Tensor, ...]:
        """Return how often each neuron fired for each sample: `[B, C, H, W]` or `[B, N]` float32 for each layer."""
        from bitspike.ops.chain.triton_scan import spike_counts

        layers = zip(self.bits, self.grids, strict=True)
        return tuple(_as_shape(spike_counts(bits, grid, self.steps), grid) for bits, grid in layers)

    def spikes(self) -> tuple[Tensor, ...]:
        """Return the spikes as 0 and 1: `[T, B, C, H, W]` or `[T, B, N]` float32 for each layer."""
        from bitspike.ops.product.triton import unpack_bits

        whole = [unpack_bits(bits, grid) for bits, grid in zip(self.bits, self.grids, strict=True)]
        flat = [z.flatten(1) if grid.dense else z for z, grid in zip(whole, self.grids, strict=True)]
        return tuple(z.view(self.steps, -1, *z.shape[1:]) for z in flat)


def run(
    layers: list[Block], x: Tensor, steps: int | None, *, recompute: bool, spike_cost: float = 0.0
) -> tuple[LIFOutput, HiddenSpikes]:
    """Return the last layer's output, and the spikes of the hidden layers.

    The backward pass adds `spike_cost` to the gradient of every hidden spike.
    """
    from bitspike.ops.chain.triton import Chain, run_chain

    counts = x.dtype == torch.uint8
    static = steps is not None
    x = x.contiguous()
    time, batch = (steps or 1, len(x)) if static else (x.shape[0], x.shape[1])
    shape = x.shape[1:] if static else x.shape[2:]
    first = None if counts else _first_current(layers[0], x, steps)
    shapes = _shapes(layers, shape, None if first is None else first.shape[1 if static else 2 :])
    grids = _grids(layers, shapes)
    key = _key(layers, x.device)
    links: list[Link | None] = [
        None if i == 0 and not counts else _link(block, _source(i, shapes, grids), key)
        for i, block in enumerate(layers)
    ]
    hidden = tuple(_hidden(block, i, grids[i], links[i], key) for i, block in enumerate(layers[:-1]))
    entry = x if first is None else first.contiguous() if static else _channels_last(first, grids[0])
    last = layers[-1]
    last_norm, uses_running = _own_norm(last, links[-1])
    chain = Chain(time, batch, hidden, tuple(links), static, recompute, last_norm, uses_running, spike_cost)
    current, bits = run_chain(chain, entry)
    _count_batches([block for block, link in zip(layers, links, strict=True) if link is not None], time)
    if last.dropout.active:
        from bitspike.ops.dropout.triton import dropout

        current = dropout(current, last.dropout.p, key, last.dropout.layer, _first_row(last.dropout))
    return last.lif(current), HiddenSpikes(bits, tuple(grids), time)


def _key(layers: list[Block], device: torch.device) -> Tensor:
    """Return the key that masks are drawn from: the one set for training, or a new one from PyTorch's generator."""
    every = [drop for block in layers for drop in (block.dropout, block.spike_dropout)]
    drops = [drop for drop in every if drop is not None and drop.active]
    for drop in drops:
        if drop.key is not None:
            return drop.key
    if not drops:
        return torch.zeros((), dtype=torch.int64, device=device)
    return torch.randint(2**63 - 1, (), device=device)


def _first_row(drop: Dropout) -> int:
    """Return the place in the whole batch of the first row here, which is not 0 if other processes hold rows before."""
    return drop.shard.start if drop.shard else 0


def _shapes(layers: list[Block], shape: torch.Size, first: torch.Size | None) -> list[tuple[int, int, int]]:
    """Return channels, height and width before each layer and after the last; `first` is layer 1's, if known."""
    c, h, w = shape if len(shape) == 3 else (shape.numel(), 1, 1)
    found = [(c, h, w)]
    if first is not None:
        c, h, w = first if len(first) == 3 else (first.numel(), 1, 1)
        found.append((c, h, w))
    for block in layers[len(found) - 1 :]:
        if isinstance(block.synapse, BinaryConv2d):
            kh, kw = block.synapse.kernel_size
            pool = _pool(block)
            c, h, w = block.synapse.out_channels, (h - kh + 1) // pool, (w - kw + 1) // pool
        else:
            c, h, w = block.synapse.out_features, 1, 1
        found.append((c, h, w))
    return found


def _pool(block: Block) -> int:
    """Return the width of the block's average pool; 1 if it has none."""
    for pool in block.pools:
        return int(pool.kernel_size)  # type: ignore[arg-type]
    return 1


def _grids(layers: list[Block], shapes: list[tuple[int, int, int]]) -> list[Grid]:
    """Return the grid of every hidden layer, aligned for the layer that reads it."""
    from bitspike.ops.product.geometry import aligned_grid

    return [
        replace(
            aligned_grid(*shapes[i + 1], _pool(reader), isinstance(reader.synapse, BinaryLinear)),
            dense=isinstance(layers[i].synapse, BinaryLinear),
        )
        for i, reader in enumerate(layers[1:])
    ]


def _source(i: int, shapes: list[tuple[int, int, int]], grids: list[Grid]) -> Grid:
    from bitspike.ops.product.geometry import Grid

    return grids[i - 1] if i else Grid(*shapes[0])


def _link(block: Block, source: Grid, key: Tensor | None = None) -> Link:
    from bitspike.ops.chain.links import Link
    from bitspike.ops.product.geometry import Synapse

    weight, clip = block.synapse.weight.contiguous(), block.synapse.clip
    if isinstance(block.synapse, BinaryConv2d):
        kernel = tuple(weight.shape[1:])
        if kernel[0] != source.channels or kernel[1] > source.height or kernel[2] > source.width:
            raise ValueError(f"fused: a convolution with kernels of {kernel} does not fit {source}")
        return Link(
            Synapse(source, weight.shape[0], weight.shape[2], weight.shape[3], _pool(block)), weight, None, clip
        )
    if source.height * source.width == 1 or weight.shape[1] == source.channels * source.height * source.width:
        shaped = weight.view(weight.shape[0], source.channels, source.height, source.width)
        bias = None if block.synapse.bias is None else block.synapse.bias.contiguous()
        synapse = Synapse(source, weight.shape[0], source.height, source.width)
        return Link(synapse, shaped, bias, clip, _spike_filter(block, key))
    raise ValueError(f"fused: a dense layer of {weight.shape[1]} inputs does not fit {source}")


def _spike_filter(block: Block, key: Tensor | None) -> SpikeFilter | None:
    """Return what spikes pass before the block's synapse; None if that is nothing.

    Delays and gains are clamped, as the modules do it: as data, because an earlier call's backward pass may still come.
    """
    from bitspike.ops.filter.spike_filter import SpikeFilter

    delay, gain, drop = block.delay, block.gain, block.spike_dropout
    found = SpikeFilter()
    if gain is not None:
        gains: Tensor = gain.gains
        if gain.training:
            gains.data.clamp_(0, gain.largest)
        elif torch.is_grad_enabled():
            gains = gains.clamp(0, gain.largest)  # beyond its range a gain has no gradient
        found = replace(found, gains=gains.contiguous(), largest_gain=gain.largest)
    if drop is not None and drop.active:
        found = replace(found, dropout=drop.p, key=key, layer=drop.layer, first_row=_first_row(drop))
    if delay is not None:
        delay.state = None  # the steps that it holds are not kept here
        if delay.training:
            delay.delays.data.clamp_(0, delay.longest)
        width = delay.width if delay.training else None
        found = replace(found, delays=delay.delays.contiguous(), longest=delay.longest, width=width)
    return found if delay is not None or gain is not None or found.dropout else None


def _hidden(block: Block, i: int, grid: Grid, link: Link | None, key: Tensor) -> Hidden:
    from bitspike.ops.chain.triton import Hidden
    from bitspike.ops.chain.triton_scan import Neurons

    lif = block.lif
    neurons = Neurons(
        grid,
        lif.beta,
        lif.theta,
        lif.theta_grad,
        float(lif.slope),
        lif.surrogate,
        quotient=1 if link is None else link.synapse.pool**2,
        bias=None if link is None else link.bias,
        dropout=block.dropout.p if block.dropout.active else 0.0,
        key=key,
        layer=block.dropout.layer,
        first_row=_first_row(block.dropout),
    )
    norm, uses_running = _own_norm(block, link)
    return Hidden(neurons, norm, uses_running)


def _own_norm(block: Block, link: Link | None) -> tuple[Norm | None, bool]:
    """Return the batch norm that kernels compute, and whether by its running averages."""
    if link is None or block.norm is None:
        return None, False
    return _norm(block.norm), not block.norm.training


def _norm(norm: StepBatchNorm2d | SharedBatchNorm2d | SharedBatchNorm1d) -> Norm:
    from bitspike.ops.norm.triton_integer import Norm

    mean, var, momentum = norm.running_mean, norm.running_var, norm.momentum
    if mean is None or var is None or momentum is None:
        raise ValueError("fused: the batch norm must keep running averages")
    weight, bias = norm.weight.contiguous(), norm.bias.contiguous()
    across = norm.shard.across if norm.shard is not None and norm.training else None
    return Norm(weight, bias, (mean, var), momentum, norm.eps, not isinstance(norm, StepBatchNorm2d), across)


def _count_batches(layers: list[Block], steps: int) -> None:
    """Count the batches that batch norms have seen, in layers whose statistics the kernels computed."""
    counts: list[Tensor] = []
    more: list[int] = []
    for norm in (block.norm for block in layers):
        if norm is not None and norm.training and norm.num_batches_tracked is not None:
            counts.append(norm.num_batches_tracked)
            more.append(steps if isinstance(norm, StepBatchNorm2d) else 1)
    if counts:
        torch._foreach_add_(counts, more)  # one launch for all


def _first_current(block: Block, x: Tensor, steps: int | None) -> Tensor:
    """Return layer 1's current, computed by its modules: sums of real numbers round, and depend on their order."""
    own = _has_own_backward(block, x, steps)
    shared = block.norm is not None and block.norm.shard is not None  # its kernels exchange, and have a backward pass
    with torch.set_grad_enabled(torch.is_grad_enabled() and not own):
        if isinstance(block.synapse, BinaryLinear):
            x = x.flatten(1 if steps is not None else 2)
        if block.delay is not None:
            x = block.delay(x)
        before = block.pooled(block.gained(x))
        later = own and shared
        current = before if block.norm is None or later else block.norm(before, steps or 1)
    if not own:
        return current
    from bitspike.ops.chain.first_layer import attach

    shape = x.shape[1:]
    link, norm = _link(block, _source(0, [(shape[0], shape[1], shape[2])], [])), None if shared else block.norm
    parameters = None if norm is None else (norm.weight.contiguous(), norm.bias.contiguous(), norm.eps)
    linked = attach(current, before.contiguous(), x, link.synapse, link.weight, link.clip, parameters)
    return block.norm(linked, steps or 1) if block.norm is not None and shared else linked


def _has_own_backward(block: Block, x: Tensor, steps: int | None) -> bool:
    """Return whether kernels can do layer 1's backward pass: for a binary convolution on an image without gradient."""
    return (
        steps is not None
        and torch.is_grad_enabled()
        and not x.requires_grad
        and isinstance(block.synapse, BinaryConv2d)
        and block.gain is None
        and not any((*unlike_synapse(block), *unlike_norm(block)))
    )


def _channels_last(current: Tensor, grid: Grid) -> Tensor:
    """Return a current `[T, B, C, H, W]` or `[T, B, N]` as `[T, B, neurons]`, channels last and padded."""
    if current.dim() == 5:
        current = current.permute(0, 1, 3, 4, 2)
    return F.pad(current, (0, grid.stride - grid.channels)).flatten(2)


def _as_shape(counts: Tensor, grid: Grid) -> Tensor:
    """Return counts `[B, neurons]` as `[B, C, H, W]`, or as `[B, N]` of a dense layer."""
    shaped = counts.view(-1, grid.height, grid.width, grid.stride)[..., : grid.channels]
    return shaped[:, 0, 0] if grid.dense else shaped.permute(0, 3, 1, 2)
