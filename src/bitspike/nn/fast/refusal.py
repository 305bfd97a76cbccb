"""Reasons why a fast path refuses a layer or a network; each completes the sentence "layer 1 ...".

`refused_filter`, `refused_convolution` and `refused_dense` are for layers in C, `refused_network` is for whole networks
in Triton. All of them ask plain.py what a plain synapse, pool, batch norm, dropout or neuron layer is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bitspike.nn import block as blocks  # a module in the making: it imports the fast paths
from bitspike.nn.fast import plain
from bitspike.nn.neurons import RecurrentLIF
from bitspike.nn.norm import SharedBatchNorm1d
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear
from bitspike.ops import LIFState
from bitspike.ops.available import MOST_STEPS, no_fused_kernels
from bitspike.ops.checks import is_ordinary
from bitspike.ops.native import library

if TYPE_CHECKING:
    from bitspike.nn.block import Block


# What processes exchange depends on their paths, so all take one.
NOT_EVERYWHERE = "shares its statistics with a process that has no sample of this batch"


def refused_filter(block: Block, x: Tensor, past: Tensor | None) -> str | None:
    """Return why the modules must drop, delay and multiply spikes `x [T, B, N, ...]`; None if C can in one pass."""
    synapse, delay, gain, drop = block.synapse, block.delay, block.gain, block.spike_dropout
    if not isinstance(synapse, (BinaryLinear, BinaryConv2d)) or delay is None or not delay.training:
        return "has no soft delay before a synapse of ours"
    neurons, dims = _inputs(block), 3 if isinstance(synapse, BinaryLinear) else 5
    if x.dim() != dims or x.shape[2] != neurons:
        return f"takes [T, B, {neurons}, ...] of {dims} dimensions, not {list(x.shape)}"
    parts = (
        plain.redefined(block, blocks.Block),
        plain.changed_delay(delay, neurons, x.device),
        None if gain is None else plain.changed_gain(gain, neurons, x.device),
        None if drop is None else plain.changed_dropout(drop),
    )
    for reason in parts:
        if reason:
            return reason
    if delay.width.requires_grad:
        return "learns the width of its delays"
    if not library.usable(x, block.lif.backend):
        return "does not run in C"
    if past is not None and not is_ordinary(past, (delay.longest, *x.shape[1:]), x.device):
        return "continues a state that does not fit"
    return None


def refused_convolution(block: Block, x: Tensor) -> str | None:
    """Return why the modules must convolve `x [T, B, C, H, W]`; None if C can. Its pools may be any."""
    conv = block.synapse
    if reason := plain.changed_synapse(conv, x.device):
        return reason
    if not isinstance(conv, BinaryConv2d) or not conv.binary or conv.hardness is not None or conv.bias is not None:
        return "has no convolution of one bit a weight without bias"
    if x.dim() != 5 or x.shape[2] != conv.in_channels or len(x) == 0:
        return f"takes [T, B, {conv.in_channels}, H, W], not {list(x.shape)}"
    return plain.unlike_convolution(conv)


def refused_dense(block: Block, x: Tensor, state: LIFState | None = None) -> str | None:
    """Return why the modules must run a dense layer on `x [T, B, K]`; None if C can."""
    parts: Any = block._modules
    synapse, dropout = parts["synapse"], parts["dropout"]
    if reason := plain.redefined(block, blocks.Block) or plain.changed_synapse(synapse, x.device):
        return reason
    if not isinstance(synapse, BinaryLinear) or not synapse.binary or synapse.hardness is not None:
        return "has no dense synapse of one bit a weight"
    if x.dim() != 3 or x.shape[2] != synapse.in_features:
        return f"takes [T, B, {synapse.in_features}], not {list(x.shape)}"
    if len(parts["pools"]) or parts.get("norm") is not None:
        return "has pools or a batch norm behind a dense synapse"
    if reason := plain.changed_dropout(dropout) or plain.changed_neurons(parts["lif"], x.device):
        return reason
    if dropout.active and dropout.key is None and dropout.shard is not None:
        return "shares PyTorch's draws of dropout with other processes"
    return None if _fits(state, (x.shape[1], synapse.out_features)) else "continues a state that does not fit"


def _fits(state: LIFState | None, shape: tuple[int, int]) -> bool:
    if state is None:
        return True
    cpu = torch.device("cpu")
    return isinstance(state, LIFState) and all(is_ordinary(part, shape, cpu) for part in (state.membrane, state.spikes))


def refused_network(layers: list[Block], x: Tensor, steps: int = 1) -> str | None:
    """Return why a network's layers do not run as fused kernels on `x`, of so many steps; None if they do."""
    if reason := no_fused_kernels(x.device):
        return reason
    if not x.numel():
        return "the batch is empty"
    if steps > MOST_STEPS:
        return f"the input has {steps} steps, more than {MOST_STEPS}"
    if torch.is_autocast_enabled(x.device.type):
        return "autocast is on"
    if len(layers) == 1 and x.dtype != torch.uint8:
        return "one layer on real numbers has nothing to fuse"
    for i, block in enumerate(layers):
        own = i == 0 and x.dtype != torch.uint8  # a first layer on real numbers is computed by its own modules
        before = layers[i - 1] if i else None
        if reason := _unlike_layer(block, before, x.device, own=own, last=i == len(layers) - 1):
            return f"layer {i + 1} {reason}"
    return None


def _unlike_layer(block: Block, before: Block | None, device: torch.device, *, own: bool, last: bool) -> str | None:
    """Return why a layer is not fused; with `own`, its modules compute all of it but the neurons."""
    reasons = [_unlike_block(block, device), _unlike_neurons(block, device, own=own, last=last)]
    if own:
        reasons.append(_unlike_input(block))
    else:
        reasons += [unlike_synapse(block), unlike_norm(block), _unlike_filter(block, before)]
    for found in reasons:
        for reason in found:
            return reason
    return None


def _unlike_block(block: Block, device: torch.device) -> Iterator[str]:
    """Yield why a block is not fused. It must be a Block of plain parts; dropout is on dense layers."""
    norm = block.norm
    parts = (
        plain.changed(block, blocks.Block),
        plain.changed_synapse(block.synapse, device),
        None if norm is None else plain.changed_norm(norm, device),
        plain.changed_dropout(block.dropout),
        None if block.spike_dropout is None else plain.changed_dropout(block.spike_dropout),
        None if block.delay is None else plain.changed_delay(block.delay, _inputs(block), device),
        None if block.gain is None else plain.changed_gain(block.gain, _inputs(block), device),
    )
    yield from (reason for reason in parts if reason)
    yield from (f"has a module {name!r} beside its own" for name in block._modules.keys() - plain.PARTS)
    for module in (block.lif, *block.pools):
        if plain.watched(module):
            yield f"has a {type(module).__name__} with hooks of its own"
    if block.dropout.p > 0 and not isinstance(block.synapse, BinaryLinear):
        yield "has dropout on a convolution"
    for drop in (block.dropout, block.spike_dropout):
        if drop is not None and drop.active and drop.shard is not None and drop.key is None:
            yield "shares PyTorch's draws of dropout with other processes"


def _inputs(block: Block) -> int:
    """Return the number of neurons, or channels of images, that a block's synapse takes."""
    synapse = block.synapse
    return synapse.in_features if isinstance(synapse, BinaryLinear) else synapse.in_channels


def _unlike_neurons(block: Block, device: torch.device, *, own: bool, last: bool) -> Iterator[str]:
    """Yield why neurons are not fused. Hidden ones must be plain LIF: one threshold, and one decay or one for each."""
    lif = block.lif
    if lif.backend != "auto":
        yield f"asks for backend {lif.backend!r}"
    if last:
        if not isinstance(block.synapse, BinaryLinear):
            yield "is the last and not dense"
        return
    if type(lif) is RecurrentLIF:
        yield "has recurrent neurons: a step needs the spikes of all of them, which different programs compute"
    if reason := plain.changed_neurons(lif, device):
        yield reason
        return
    beta = lif.beta.detach()
    each = (block.synapse.out_features,) if isinstance(block.synapse, BinaryLinear) else ()
    if not is_ordinary(beta, (), device) and not (is_ordinary(beta, each, device) and beta.is_contiguous()):
        yield f"has decays of {beta.dtype} {list(beta.shape)}"
    if own and lif.beta.requires_grad:
        yield "has learnt decays and an input of real numbers"


def _unlike_input(block: Block) -> Iterator[str]:
    """Yield why a first layer's own modules cannot make its current: dropout would give a constant input steps."""
    if block.spike_dropout is not None and block.spike_dropout.active:
        yield "drops parts of an input of real numbers"


def _unlike_filter(block: Block, before: Block | None) -> Iterator[str]:
    """Yield why delays, gains or dropout on spikes are not fused: they must be between dense layers, or on counts."""
    delay, gain, drop = block.delay, block.gain, block.spike_dropout
    if delay is None and gain is None and (drop is None or not drop.active):
        return
    if not isinstance(block.synapse, BinaryLinear):
        yield "has delays, gains or dropout on spikes before a convolution"
    if before is not None and not isinstance(before.synapse, BinaryLinear):
        yield "has delays, gains or dropout on spikes behind a convolution"
    most = 1 if gain is None else gain.largest
    largest = 255 * most if before is None else max(255, most)  # of a count, or of a spike, times its gain
    if _inputs(block) * largest >= 2**24:
        yield "has too many inputs for exact sums of delayed counts, times their gains"
    from bitspike.ops.filter.triton import LARGEST, LONGEST

    if drop is not None and drop.active and largest / (1 - drop.p) > LARGEST:
        yield f"drops {drop.p:g} of its spikes: counts of those that stay would not fit 16 bits"
    if delay is None:
        return
    if delay.longest > LONGEST:
        yield f"has delays of up to {delay.longest} steps, more than the {LONGEST} that a kernel holds"
    if delay.training and delay.width.requires_grad:
        yield "learns the width of its delays"
    if not delay.training and torch.is_grad_enabled():
        yield "has delays in evaluation mode, and gradients are on"
    if not delay.training and drop is not None and drop.active:
        yield "drops spikes while its delays are in evaluation mode"


def unlike_synapse(block: Block) -> Iterator[str]:
    """Yield why a synapse is not fused. It must be binary: dense, or a plain convolution with one average pool."""
    synapse, pools = block.synapse, block.pools
    if not synapse.binary or synapse.hardness is not None:
        yield "has real weights"
    if synapse.clip is not None and not synapse.clip > 0:
        yield f"clips gradients at {synapse.clip!r}"
    if isinstance(synapse, BinaryLinear):
        if len(pools):
            yield "has pools behind a dense synapse"
        return
    if len(pools) > 1:
        yield "has several pools"
    if any(plain.average_size(pool) is None for pool in pools):
        yield "has other pools than a plain average"
    if reason := plain.unlike_convolution(synapse):
        yield reason
    if synapse.bias is not None:
        yield "has a convolution with bias"


def unlike_norm(block: Block) -> Iterator[str]:
    """Yield why a batch norm is not fused. It must fit the synapse, with parameters and averages of its own."""
    norm = block.norm
    if norm is None:
        return
    if isinstance(block.synapse, BinaryLinear) != isinstance(norm, SharedBatchNorm1d):
        yield f"has a {type(norm).__name__} behind a {type(block.synapse).__name__}"
    if block.synapse.bias is not None:
        yield "has a bias before its batch norm"
    if norm.shard is not None and not norm.shard.everywhere:
        yield NOT_EVERYWHERE
    if norm.momentum is None or norm.momentum >= 1 or norm.running_mean is None or norm.weight is None:
        yield "has a batch norm without parameters, without running averages or with momentum 1"
    elif not norm.running_mean.is_contiguous() or norm.running_var is None or not norm.running_var.is_contiguous():
        yield "has running averages that do not lie in a row"
    if not norm.training and torch.is_grad_enabled():
        yield "has a batch norm in evaluation mode, and gradients are on"
