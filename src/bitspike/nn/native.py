"""A block's C path on the CPU (ops/cpu): what of it applies to this layer and this input, and what to hand over.

Every function gives None where the modules themselves must run; they are the definition, and say what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bitspike.nn.dropout import Dropout
from bitspike.nn.neurons import LIF
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear
from bitspike.ops import LIFOutput, LIFState
from bitspike.ops.cpu.conv import conv_pool
from bitspike.ops.cpu.dense import Mask, Neurons, dense, pack_inputs
from bitspike.ops.cpu.packed import draw

if TYPE_CHECKING:
    from bitspike.nn.block import Block


def convolved(block: Block, x: Tensor) -> tuple[Tensor, int] | None:
    """The current of a convolution of spikes `[T, B, C, H, W]`, and how many of the block's pools are in it."""
    conv = block.synapse
    if type(conv) is not BinaryConv2d or x.dim() != 5 or x.shape[2] != conv.in_channels or len(x) == 0:
        return None
    if conv.bias is not None or (conv.stride, conv.padding, conv.dilation, conv.groups) != ((1, 1), (0, 0), (1, 1), 1):
        return None
    signs = _signs(conv)
    if signs is None:
        return None
    size = _folded_size(block.pools[0]) if len(block.pools) else None
    current = conv_pool(x, signs, size or 1)
    return None if current is None else (current, 0 if size is None else 1)


def dense_layer(block: Block, x: Tensor, state: LIFState | None, keep_membrane: bool) -> LIFOutput | None:
    """The whole of a dense block on spikes `[T, B, K]`."""
    synapse, lif = block.synapse, block.lif
    if type(synapse) is not BinaryLinear or x.dim() != 3 or x.shape[2] != synapse.in_features:
        return None
    shape = (x.shape[1], synapse.out_features)
    neurons = _neurons(lif, shape, keep_membrane)
    signs = _signs(synapse)
    if neurons is None or signs is None or not _fits(state, shape):
        return None
    dropping = block.dropout.p > 0 and block.dropout.training
    if dropping and not _can_draw(block.dropout):
        return None
    packed = pack_inputs(x, shape[1])
    if packed is None:
        return None
    mask = _mask(block.dropout, (len(x), *shape)) if dropping else None  # last: nothing is drawn in vain
    return dense(x, packed, signs, synapse.bias, mask, neurons, state)


def _signs(synapse: BinaryLinear | BinaryConv2d) -> Tensor | None:
    """Weights of one bit in float32 that nobody listens to; a diverged weight, whose sign is NaN, needs the modules."""
    if not synapse.binary or synapse.hardness is not None or synapse.weight.dtype != torch.float32 or watched(synapse):
        return None
    signs = synapse.signs()
    return signs if bool(signs.detach().sum().isfinite()) else None


def _neurons(lif: LIF, shape: tuple[int, int], keep_membrane: bool) -> Neurons | None:
    """Plain neurons whose thresholds and decays `lif` would not refuse."""
    beta, theta, center = lif.beta, lif.theta, lif.theta_grad
    if type(lif) is not LIF or lif.adaptation is not None or watched(lif):
        return None
    if any(n.dtype != torch.float32 or n.device.type != "cpu" for n in (beta, theta, center)):
        return None
    if theta.requires_grad or center.requires_grad:  # `lif` refuses these, and says why
        return None
    if theta.dim() > 0 or center.dim() > 0 or (beta.dim() > 0 and beta.shape != shape[1:]):
        return None
    right = all(0 < float(n) < float("inf") for n in (theta, center)) and bool(((beta >= 0) & (beta <= 1)).all())
    return Neurons(beta, theta, center, lif.slope, lif.surrogate, keep_membrane) if right else None


def _fits(state: LIFState | None, shape: tuple[int, int]) -> bool:
    if state is None:
        return True
    return isinstance(state, LIFState) and all(
        isinstance(part, Tensor) and part.shape == shape and part.dtype == torch.float32 and part.device.type == "cpu"
        for part in (state.membrane, state.spikes)
    )


def _can_draw(dropout: Dropout) -> bool:
    """Whether the mask can be drawn here: with a key, or from PyTorch's generator for a whole batch."""
    return not watched(dropout) and dropout.p < 1 and (dropout.key is not None or dropout.shard is None)


def _mask(dropout: Dropout, shape: tuple[int, int, int]) -> Mask:
    """What `dropout` keeps of a current `[T, B, N]`."""
    p, key = dropout.p, dropout.key
    if key is not None:
        first_row = dropout.shard.start if dropout.shard else 0
        return Mask(draw(p, key, dropout.layer, first_row * shape[2]), 1 / (1 - p))
    kept = torch.empty(shape, dtype=torch.uint8).bernoulli_(1 - p)  # as nn.Dropout draws, number for number
    return Mask(kept, float(torch.ones(()).div_(1 - p)))


def _folded_size(pool: nn.Module) -> int | None:
    """The size of an average pool of squares next to each other; None for any other."""
    if type(pool) is not nn.AvgPool2d or watched(pool) or pool.ceil_mode or pool.divisor_override is not None:
        return None
    size = pool.kernel_size
    return size if isinstance(size, int) and pool.stride == size and pool.padding == 0 else None


def watched(module: nn.Module) -> bool:
    """Whether hooks wait for a call of the module, which must then happen."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )
