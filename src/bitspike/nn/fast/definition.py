"""A layer's current in evaluation mode on the CPU, by the one order of operations of `ops.current`.

`evaluated_current` returns None where the modules themselves must run: in training mode, on other devices and dtypes,
with real weights, and wherever a call of a module may do anything else than its class says. `undefined` says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bitspike.nn import block as blocks  # a module in the making: it imports this one
from bitspike.nn.fast import c as fast_c
from bitspike.nn.fast import plain
from bitspike.nn.norm import SharedBatchNorm1d, fold_norm
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear
from bitspike.ops.available import transformed
from bitspike.ops.checks import is_ordinary
from bitspike.ops.current import Form, Pool, current
from bitspike.ops.current.torch import finished

if TYPE_CHECKING:
    from bitspike.nn.block import Block


def evaluated_current(block: Block, x: Tensor, *, native: bool) -> Tensor | None:
    """Return the current of a block with pools, bias and batch norm, before dropout; None if its modules must run.

    `x` is one step or a sequence: `[B, K]` or `[T, B, K]`; before a convolution `[B, C, H, W]` or `[T, B, C, H, W]`.
    `native` allows C kernels.
    """
    if undefined(block, x):
        return None
    synapse, form = block.synapse, synapse_form(block)
    norm = None if block.norm is None else fold_norm(block.norm)
    c = fast_c.conv_current(synapse, x, form) if native and isinstance(synapse, BinaryConv2d) else None
    if c is not None:
        return finished(c.flatten(0, 1), synapse.bias, norm, native=native).view_as(c)
    dims = 3 if isinstance(synapse, BinaryConv2d) else 1
    c = current(x.reshape(-1, *x.shape[-dims:]), synapse.signs(), form, synapse.bias, norm, native=native)
    return c.view(*x.shape[:-dims], *c.shape[1:])


def undefined(block: Block, x: Tensor) -> str | None:
    """Return why the current of a block on `x` is what its modules give; None if it has one order of operations."""
    if block.training:
        return "is in training mode"
    if not is_ordinary(x, x.shape, torch.device("cpu")) or not x.numel():
        return "has an input that is no float32 tensor on the CPU, or empty"
    if torch.is_autocast_enabled("cpu") or transformed():
        return "runs under autocast or a transform of torch.func"
    reason = plain.redefined(block, blocks.Block) or plain.changed_synapse(block.synapse, x.device)
    reason = reason or _unlike_synapse(block.synapse) or _unlike_pools(block)
    if reason := reason or (None if block.norm is None else _unlike_norm(block, block.norm)):
        return reason
    return _unlike_input(block, x)


def _unlike_synapse(synapse: nn.Module) -> str | None:
    if not synapse.binary or (synapse.hardness is not None and torch.is_grad_enabled()):
        return "has real weights"
    if isinstance(synapse, BinaryConv2d):
        if synapse.dilation != (1, 1) or synapse.groups != 1 or synapse.padding_mode != "zeros":
            return "has a convolution with dilation, groups or padding by other values than zeros"
        if isinstance(synapse.padding, str) and synapse.padding != "valid":
            return f"has a convolution with padding={synapse.padding!r}"
    return None


def _unlike_pools(block: Block) -> str | None:
    if len(block.pools) and not isinstance(block.synapse, BinaryConv2d):
        return "has pools behind a dense synapse"
    for pool in block.pools:
        if known_pool(pool) is None:
            return f"has a {type(pool).__name__} with other settings than a size and a stride"
    return None


def _unlike_norm(block: Block, norm: nn.Module) -> str | None:
    if reason := plain.changed_norm(norm, torch.device("cpu")):
        return reason
    dense = isinstance(block.synapse, BinaryLinear)
    if dense != isinstance(norm, SharedBatchNorm1d) or norm.num_features != len(block.synapse.weight):
        return f"has a {type(norm).__name__} that does not fit its synapse"
    if norm.training or not norm.track_running_stats or norm.running_mean is None or norm.running_var is None:
        return "has a batch norm that does not use running averages"
    return None


def _unlike_input(block: Block, x: Tensor) -> str | None:
    synapse = block.synapse
    if isinstance(synapse, BinaryLinear):
        fits = x.dim() in (2, 3) and x.shape[-1] == synapse.in_features
    else:
        fits = x.dim() in (4, 5) and x.shape[-3] == synapse.in_channels
        fits = fits and synapse_form(block).fits(*x.shape[-2:], *synapse.kernel_size)
    return None if fits else f"does not take an input of shape {list(x.shape)}"


def synapse_form(block: Block) -> Form:
    """Return stride, padding and pools of a block that is not `undefined`."""
    conv = block.synapse
    if not isinstance(conv, BinaryConv2d):
        return Form()
    (down, right), (rows, columns) = conv.stride, (0, 0) if isinstance(conv.padding, str) else conv.padding
    pools = [known_pool(pool) for pool in block.pools]
    return Form((down, right), (rows, columns), tuple(pool for pool in pools if pool is not None))


def known_pool(pool: nn.Module) -> Pool | None:
    """Return an unchanged average or maximum pool as values; None for any other kind, and for one with hooks."""
    if plain.changed(pool, nn.AvgPool2d, nn.MaxPool2d) or not isinstance(pool, (nn.AvgPool2d, nn.MaxPool2d)):
        return None
    size, stride = pool.kernel_size, pool.stride
    if type(size) is not int or type(stride) is not int or pool.padding != 0 or pool.ceil_mode:
        return None
    if isinstance(pool, nn.AvgPool2d):
        return Pool("average", size, stride) if pool.divisor_override is None else None
    return Pool("max", size, stride) if pool.dilation == 1 and not pool.return_indices else None
