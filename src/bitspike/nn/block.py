"""One layer of a network, time-parallel: synapse, pools, batch norm, dropout, neurons."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bitspike.nn import native
from bitspike.nn.dropout import Dropout
from bitspike.nn.neurons import LIF
from bitspike.nn.norm import SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear, per_step
from bitspike.ops import LIFOutput, LIFState
from bitspike.ops.available import fused_on_gpu
from bitspike.ops.conv_pool import conv_pool
from bitspike.ops.cpu.library import usable


class Block(nn.Module):
    """synapse -> pools -> batch norm -> dropout on the current -> neurons, over all time steps at once.

    On the CPU, binary layers on spikes or event counts run in C: the same spikes bit for bit, gradients to 1e-5 of the
    largest. On a GPU, a convolution with real weights and the average pool behind it are one convolution, and all steps
    of a batch norm are one call: the same mathematics, rounded otherwise, so that a spike may differ where its membrane
    is within rounding of theta. Neurons with a backend other than "auto", or BITSPIKE_BACKEND, give the modules as they
    are.
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
        """`x` is `[T, B, ...]`, or with `steps=T` one step `[B, ...]` whose current is then computed only once."""
        fast, reorders = usable(x, self.lif.backend), _reorders(x, self.lif.backend)
        if isinstance(self.synapse, BinaryLinear):
            x = x.flatten(1 if steps is not None else 2)
            if fast and steps is None:
                whole = native.dense_layer(self, x, state, keep_membrane)
                if whole is not None:
                    return whole
        current = self.pooled(x, fast=fast and steps is None, fold=reorders)
        if isinstance(self.norm, StepBatchNorm2d):
            current = self.norm(current, steps or 1, plain=not (fast or reorders))
        elif self.norm is not None:
            current = self.norm(current, steps or 1)
        if self.dropout.p > 0 and self.dropout.training:
            if steps is not None:  # every step draws its own mask, so the current is constant no longer
                current = current.expand(steps, *current.shape)
                steps = None
            current = self._dropped(current) if reorders else self.dropout(current)
        out: LIFOutput = self.lif(current, state, steps=steps, keep_membrane=keep_membrane)
        return out

    def pooled(self, x: Tensor, *, fast: bool = False, fold: bool = False) -> Tensor:
        """What synapse and pools make of the input; `fast`: in C, `fold`: with a pool in the kernel, if able."""
        done = native.convolved(self, x) if fast else self._folded(x) if fold else None
        current, folded = (self.synapse(x), 0) if done is None else done
        for pool in self.pools[folded:]:
            current = per_step(pool, current)
        return current

    def _folded(self, x: Tensor) -> tuple[Tensor, int] | None:
        """The current of a real convolution and of the one pool in it; None where the modules themselves must run."""
        conv, pool = self.synapse, self.pools[0] if len(self.pools) else None
        if type(conv) is not BinaryConv2d or conv.binary or pool is None or not is_plain_average(pool):
            return None
        plain = (conv.stride, conv.padding, conv.dilation, conv.groups) == ((1, 1), (0, 0), (1, 1), 1)
        if not plain or native.watched(conv) or native.watched(pool) or torch.is_autocast_enabled(x.device.type):
            return None
        size = int(pool.kernel_size)  # type: ignore[arg-type]
        fits = all(n >= k + size - 1 for n, k in zip(x.shape[-2:], conv.kernel_size, strict=True))
        if x.dim() not in (4, 5) or x.shape[-3] != conv.in_channels or not fits or not x.numel():
            return None
        return per_step(lambda images: conv_pool(images, conv.weight, conv.bias, size), x), 1

    def _dropped(self, current: Tensor) -> Tensor:
        """The dropout module's mask, from its key in one kernel where that can be."""
        drop = self.dropout
        plain = drop.shard is None and drop.training and not native.watched(drop) and current.dtype == torch.float32
        if drop.key is None or not plain or not current.numel() or not fused_on_gpu(current.device):
            dropped: Tensor = drop(current)
            return dropped
        from bitspike.ops.fused.dropout import dropout

        with torch.cuda.device_of(current):
            return dropout(current, drop.p, drop.key, drop.layer)


def is_plain_average(pool: nn.Module) -> bool:
    """An average of squares next to each other."""
    return (
        isinstance(pool, nn.AvgPool2d)
        and isinstance(pool.kernel_size, int)
        and pool.stride == pool.kernel_size
        and pool.padding == 0
        and not pool.ceil_mode
        and pool.divisor_override is None
    )


def _reorders(x: Tensor, backend: str) -> bool:
    """Whether a layer whose neurons ask for `backend` may take its sums in another order than its modules: on a GPU."""
    return x.is_cuda and backend == "auto" and (os.environ.get("BITSPIKE_BACKEND") or "auto") == "auto"
