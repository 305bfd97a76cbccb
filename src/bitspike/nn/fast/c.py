"""Layers in C on the CPU: a check that layer and input fit the kernels, and the kernels' arguments.

`filtered`, `convolved`, `conv_current` and `dense_layer` return None where the modules, or `ops.current`, must run: for
a reason in refusal.py, or because the numbers do not fit C (not whole, not finite, or too many). The modules are the
definition in training, and say what is wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bitspike.nn.dropout import Dropout
from bitspike.nn.fast import plain
from bitspike.nn.fast.refusal import refused_convolution, refused_dense, refused_filter
from bitspike.nn.neurons import LIF
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear
from bitspike.nn.whole_numbers import in_range
from bitspike.ops import LIFOutput, LIFState
from bitspike.ops.chain.c import Mask, Neurons, dense, pack_inputs
from bitspike.ops.checks import is_ordinary
from bitspike.ops.current import Form
from bitspike.ops.current.torch import divided, pooled
from bitspike.ops.dropout.c import draw
from bitspike.ops.filter.op import filtered as in_one_pass
from bitspike.ops.filter.spike_filter import SpikeFilter
from bitspike.ops.product.c import conv_pool

if TYPE_CHECKING:
    from bitspike.nn.block import Block


def filtered(block: Block, x: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Return `x [T, B, N, ...]` after dropout, soft delays and gains, and the steps that its delay holds afterwards.

    Dropout without a key draws PyTorch's numbers first, by its module.
    """
    delay, gain, drop = block.delay, block.gain, block.spike_dropout
    if delay is None or refused_filter(block, x, past):
        return None
    delays = in_range(delay.delays, delay.longest, training=True)
    if not (bool(delays.isfinite().all()) and 0 < float(delay.width) < float("inf")):
        return None
    found = SpikeFilter(delays, delay.longest, delay.width)
    if gain is not None:
        gains = in_range(gain.gains, gain.largest, training=gain.training)
        found = replace(found, gains=gains, largest_gain=gain.largest)
    if drop is not None and drop.active:
        if drop.key is None:
            x = drop(x)
        else:
            first_row = drop.shard.start if drop.shard else 0
            found = replace(found, dropout=drop.p, key=drop.key, layer=drop.layer, first_row=first_row)
    out, held = in_one_pass(x, found, past)
    delay.state = held.detach()
    return out, held


def convolved(block: Block, x: Tensor) -> tuple[Tensor, int] | None:
    """Return the current of a convolution on spikes `[T, B, C, H, W]`, and how many of the block's pools are done."""
    if refused_convolution(block, x):
        return None
    signs = _signs(block.synapse)
    if signs is None:
        return None
    size = plain.average_size(block.pools[0]) if len(block.pools) else None
    current = conv_pool(x, signs, size or 1)
    return None if current is None else (current, 0 if size is None else 1)


def conv_current(conv: BinaryConv2d, x: Tensor, form: Form) -> Tensor | None:
    """Return a convolution's current on spikes `[T, B, C, H, W]` after its pools and before its bias, as `ops.current`.

    The convolution is one that `definition.undefined` knows.
    """
    if plain.unlike_convolution(conv) or x.dim() != 5:
        return None
    signs = _signs(conv)
    if signs is None:
        return None
    first = form.pools[0] if form.pools else None
    size = first.size if first and first.kind == "average" and first.stride == first.size else 1
    later = form._replace(pools=form.pools[1:] if size > 1 else form.pools)
    current = conv_pool(x, signs, size, later.divisor)
    if current is None or not later.pools:
        return current
    places = pooled(current.flatten(0, 1), later)
    # Where more is averaged later, `conv_pool` gave whole numbers.
    return (divided(places, form.divisor) if later.divisor > 1 else places).view(*x.shape[:2], *places.shape[1:])


def dense_layer(block: Block, x: Tensor, state: LIFState | None, keep_membrane: bool) -> LIFOutput | None:
    """Return the output of a whole dense block on spikes `[T, B, K]`."""
    if refused_dense(block, x, state):
        return None
    synapse, outputs = block.synapse, len(block.synapse.weight)
    neurons = _neurons(block.lif, outputs, keep_membrane)
    signs = _signs(synapse)
    if neurons is None or signs is None:
        return None
    packed = pack_inputs(x, outputs)
    if packed is None:
        return None
    shape = (len(x), x.shape[1], outputs)
    mask = _mask(block.dropout, shape) if block.dropout.active else None  # last, so that no draw is wasted
    return dense(x, packed, signs, synapse.bias, mask, neurons, state)


def _signs(synapse: BinaryLinear | BinaryConv2d) -> Tensor | None:
    """Return the weights of one bit; None if one has diverged (its sign is NaN), which the modules report."""
    signs = synapse.signs()
    return signs if bool(signs.detach().sum().isfinite()) else None


def _neurons(lif: LIF, outputs: int, keep_membrane: bool) -> Neurons | None:
    """Return the neurons as kernels take them; None if `lif` would refuse a threshold or a decay."""
    beta, theta, center = lif.beta, lif.theta, lif.theta_grad
    if not is_ordinary(beta, (outputs,) if beta.dim() else (), theta.device):
        return None
    right = all(0 < float(n) < float("inf") for n in (theta, center)) and bool(((beta >= 0) & (beta <= 1)).all())
    return Neurons(beta, theta, center, lif.slope, lif.surrogate, keep_membrane) if right else None


def _mask(dropout: Dropout, shape: tuple[int, int, int]) -> Mask:
    """Return the mask of `dropout` for a current `[T, B, N]`."""
    p, key = dropout.p, dropout.key
    if key is not None:
        first_row = dropout.shard.start if dropout.shard else 0
        return Mask(draw(p, key, dropout.layer, first_row * shape[2]), 1 / (1 - p))
    kept = torch.empty(shape, dtype=torch.uint8, device="cpu").bernoulli_(1 - p)  # number for number nn.Dropout's
    return Mask(kept, float(torch.ones((), dtype=torch.float32, device="cpu").div_(1 - p)))
