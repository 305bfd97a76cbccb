"""One layer of a network, time-parallel: synapse, pools, batch norm, dropout, neurons."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bitspike.nn.dropout import Dropout
from bitspike.nn.fast import c as fast_c
from bitspike.nn.fast import plain
from bitspike.nn.neurons import LIF
from bitspike.nn.norm import SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear, per_step
from bitspike.ops import LIFOutput, LIFState
from bitspike.ops.available import fused_on_gpu, transformed
from bitspike.ops.native.library import usable
from bitspike.ops.product.conv_pool import conv_pool


class Block(nn.Module):
    """synapse -> pools -> batch norm -> dropout on the current -> neurons, over all time steps at once.

    On the CPU, binary layers on spikes or event counts run in C: the same spikes bit for bit, gradients to 1e-5 of the
    largest. On a GPU, a convolution with real weights and the average pool after it are one convolution, and all steps
    of a batch norm are one call: the same mathematics, rounded otherwise, so that a spike may differ where its membrane
    is within rounding of theta. Neurons with a backend other than "auto", or BITSPIKE_BACKEND, give the modules as they
    are.

    Examples:
        >>> import torch
        >>> from bitspike.nn import LIF, BinaryLinear, Block
        >>> block = Block(BinaryLinear(20, 10), LIF(beta=0.9, theta=1.0), dropout=0.1)
        >>> block(torch.rand(50, 4, 20)).spikes.shape  # [T, B, neurons]
        torch.Size([50, 4, 10])
    """

    def __init__(
        self,
        synapse: BinaryConv2d | BinaryLinear,
        lif: LIF,
        *,
        pools: Sequence[nn.Module] = (),
        norm: StepBatchNorm2d | SharedBatchNorm2d | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.synapse = synapse
        self.pools = nn.ModuleList(pools)
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.lif = lif

    def forward(
        self,
        x: Tensor,
        state: LIFState | None = None,
        *,
        steps: int | None = None,
        keep_membrane: bool = True,
    ) -> LIFOutput:
        """Run the layer on `x [T, B, ...]`, or with `steps=T` on one step `[B, ...]`; its current is computed once."""
        fast, reorders = usable(x, self.lif.backend), _reorders(x, self.lif.backend)
        if isinstance(self.synapse, BinaryLinear):
            x = x.flatten(1 if steps is not None else 2)
            if fast and steps is None:
                whole = fast_c.dense_layer(self, x, state, keep_membrane)
                if whole is not None:
                    return whole
        current = self.pooled(x, fast=fast and steps is None, fold=reorders)
        if self.norm is not None:
            current = _normalized(self.norm, current, steps or 1, at_once=fast or reorders)
        if self._calls_dropout():
            if steps is not None:  # every step draws its own mask, so the current is constant no longer
                current = current.expand(steps, *current.shape)
                steps = None
            current = self._dropped(current) if reorders else self.dropout(current)
        out: LIFOutput = self.lif(current, state, steps=steps, keep_membrane=keep_membrane)
        return out

    def pooled(self, x: Tensor, *, fast: bool = False, fold: bool = False) -> Tensor:
        """Return the current after synapse and pools; `fast` tries C kernels, `fold` a pool within the convolution."""
        done = fast_c.convolved(self, x) if fast else self._folded(x) if fold else None
        current, folded = (self.synapse(x), 0) if done is None else done
        for pool in self.pools[folded:]:
            current = per_step(pool, current)
        return current

    def _folded(self, x: Tensor) -> tuple[Tensor, int] | None:
        """Return the current of a real convolution with its first pool, and 1; None if the modules must run."""
        conv, pool = self.synapse, self.pools[0] if len(self.pools) else None
        size = None if pool is None else plain.average_size(pool)
        if size is None or plain.changed(conv, BinaryConv2d) or not isinstance(conv, BinaryConv2d):
            return None
        if conv.binary or torch.is_autocast_enabled(x.device.type):
            return None
        fits = all(n >= k + size - 1 for n, k in zip(x.shape[-2:], conv.kernel_size, strict=True))
        if plain.unlike_convolution(conv) or x.dim() not in (4, 5) or x.shape[-3] != conv.in_channels:
            return None
        if not fits or not x.numel():
            return None
        return per_step(lambda images: conv_pool(images, conv.weight, conv.bias, size), x), 1

    def _calls_dropout(self) -> bool:
        """Return whether dropout must be called: not if it surely changes nothing; modules of other kinds always."""
        drop = self.dropout
        return type(drop) not in (Dropout, nn.Dropout) or (drop.p > 0 and drop.training)

    def _dropped(self, current: Tensor) -> Tensor:
        """Return the current after dropout; on a GPU with a key, one kernel does it."""
        drop = self.dropout
        key = None if plain.changed_dropout(drop) or drop.shard is not None else drop.key
        fits = current.dtype == torch.float32 and current.numel() > 0
        if key is None or not fits or not fused_on_gpu(current.device):
            dropped: Tensor = drop(current)
            return dropped
        from bitspike.ops.dropout.triton import dropout

        with torch.cuda.device_of(current):
            return dropout(current, drop.p, key, drop.layer)


def _normalized(norm: nn.Module, current: Tensor, steps: int, *, at_once: bool) -> Tensor:
    """Return the normalized current; a module that is not our batch norm is called as pools are."""
    if not isinstance(norm, (StepBatchNorm2d, SharedBatchNorm2d)):
        return per_step(norm, current)
    own = type(norm).forward is StepBatchNorm2d.forward
    normalized: Tensor = norm(current, steps, plain=not at_once) if own else norm(current, steps)
    return normalized


def _reorders(x: Tensor, backend: str) -> bool:
    """Return whether a layer with this `backend` may sum in another order than its modules: only on a GPU."""
    if not x.is_cuda or backend != "auto" or transformed():
        return False
    return (os.environ.get("BITSPIKE_BACKEND") or "auto") == "auto"
