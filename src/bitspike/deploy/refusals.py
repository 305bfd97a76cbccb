"""Reasons why a layer cannot leave PyTorch as plain arrays; each completes the sentence "layer 1 ...".

A description reads a layer's numbers instead of calling its modules. If such a call would do anything else than its
class says (hooks, a forward pass of its own, another class), there is nothing to describe.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from bitspike.nn import AdaptiveLIF, Block, Delay, Gain, LeakyReadout, RecurrentLIF, SpikingNetwork
from bitspike.nn.dropout import Dropout
from bitspike.nn.fast import plain
from bitspike.nn.neurons import LIF
from bitspike.nn.norm import SharedBatchNorm1d
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear
from bitspike.ops.checks import is_ordinary


def refused_network(net: object) -> str | None:
    """Return why `net` as a whole cannot be described, as "the network ..."; None if its layers decide."""
    if not isinstance(net, SpikingNetwork):
        return f"is a {type(net).__name__}, not a SpikingNetwork; bitspike.build makes one"
    if reason := plain.changed(net, SpikingNetwork):
        return reason
    if strange := sorted(net._modules.keys() - {"layers"}):
        return f"has a module {strange[0]!r} beside its layers"
    if type(net.layers) is not nn.ModuleList or not len(net.layers):
        return "has no list of layers"
    if any(p.is_meta for p in net.parameters()):
        return "is on the device meta, which holds no values"
    return None


def refused_layer(block: nn.Module, *, last: bool) -> str | None:
    """Return why a layer cannot be described; None if it can."""
    return next(_reasons(block, last), None)


def _reasons(block: nn.Module, last: bool) -> Iterator[str]:
    if reason := plain.changed(block, Block):
        yield reason
    if not isinstance(block, Block):
        return
    yield from (f"has a module {name!r} beside its own" for name in sorted(block._modules.keys() - plain.PARTS))
    yield from _unlike_synapse(block.synapse)
    yield from _unlike_pools(block)
    yield from _unlike_norm(block)
    yield from _unlike_neurons(block.lif, last)
    for drop in (block.dropout, block.spike_dropout):
        if drop is not None and (reason := plain.changed(drop, Dropout, nn.Dropout)):
            yield reason
    yield from _unlike_senders(block)


def _unlike_synapse(synapse: BinaryLinear | BinaryConv2d) -> Iterator[str]:
    weight = synapse._parameters.get("weight")
    if reason := plain.changed_synapse(synapse, torch.device("cpu") if weight is None else weight.device):
        yield reason + "; weights must be float32 parameters (call net.float())" if "float" in reason else reason
    if not synapse.binary:
        yield "has weights of 32 bits (binary=False), and only weights of one bit are exported"
    if not synapse.weight.isfinite().all():
        yield "has weights that are not finite; look for a diverged training"
    if isinstance(synapse, BinaryConv2d):
        rows, columns = synapse.kernel_size
        if rows != columns or synapse.stride[0] != synapse.stride[1]:
            yield "has a convolution whose kernel or stride is not square"
        if synapse.dilation != (1, 1) or synapse.groups != 1 or synapse.padding_mode != "zeros":
            yield "has a convolution with dilation, groups or a padding that is not zeros"
        if synapse.padding != "valid" and (isinstance(synapse.padding, str) or len(set(synapse.padding)) != 1):
            yield f"has a convolution with a padding of {synapse.padding!r}, and it must be one number"


def _unlike_pools(block: Block) -> Iterator[str]:
    if len(block.pools) and not isinstance(block.synapse, BinaryConv2d):
        yield "has pools behind a dense synapse"
    for pool in block.pools:
        if reason := plain.changed(pool, nn.AvgPool2d, nn.MaxPool2d):
            yield reason
            return
        sizes = (_side(pool.kernel_size), _side(pool.stride))
        plain_pool = _side(pool.padding) == 0 and not pool.ceil_mode and None not in sizes
        if isinstance(pool, nn.MaxPool2d):
            plain_pool = plain_pool and _side(pool.dilation) == 1 and not pool.return_indices
        elif pool.divisor_override is not None:
            plain_pool = False
        if not plain_pool:
            yield f"has a pool with padding, dilation, ceil_mode, a divisor or sides of its own: {pool}"


def _side(size: object) -> int | None:
    """Return the side of a square that PyTorch writes as one number or a pair; None if it is not square."""
    sides = size if isinstance(size, tuple) else (size,)
    first = sides[0] if sides else None
    return first if isinstance(first, int) and set(sides) == {first} else None


def _unlike_norm(block: Block) -> Iterator[str]:
    norm, synapse = block.norm, block.synapse
    if norm is None:
        return
    if reason := plain.changed_norm(norm, synapse.weight.device):
        yield reason
        return
    if isinstance(synapse, BinaryLinear) != isinstance(norm, SharedBatchNorm1d):
        yield f"has a {type(norm).__name__} behind a {type(synapse).__name__}"
    if norm.num_features != len(synapse.weight):
        yield f"has a batch norm of {norm.num_features} channels for {len(synapse.weight)}"
    if not norm.track_running_stats or norm.running_mean is None or norm.running_var is None:
        yield "has a batch norm without running averages: its outputs depend on the rest of the batch"


def _unlike_neurons(lif: LIF, last: bool) -> Iterator[str]:
    if reason := plain.changed(lif, LIF, AdaptiveLIF, RecurrentLIF, LeakyReadout):
        yield reason
        return
    if isinstance(lif, LeakyReadout) and not last:
        yield "has neurons that never fire (a LeakyReadout), and is not the last"
    if isinstance(lif, RecurrentLIF):
        if not lif.binary:
            yield "has recurrent weights of 32 bits (binary=False), and only weights of one bit are exported"
        if not lif.weight.isfinite().all():
            yield "has recurrent weights that are not finite; look for a diverged training"


def _unlike_senders(block: Block) -> Iterator[str]:
    synapse = block.synapse
    inputs = synapse.in_features if isinstance(synapse, BinaryLinear) else synapse.in_channels
    for module, kind, name in ((block.delay, Delay, "delays"), (block.gain, Gain, "gains")):
        if module is None:
            continue
        if reason := plain.changed(module, kind):
            yield reason
            return
        values = module._parameters.get(name)
        if values is None or not is_ordinary(values, (inputs,), values.device) or not values.isfinite().all():
            yield f"has {name} that are not {inputs} finite numbers in float32"
