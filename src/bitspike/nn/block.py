"""One layer of a network, time-parallel: synapse, pools, batch norm, dropout, neurons."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from bitspike.nn import native
from bitspike.nn.dropout import Dropout
from bitspike.nn.neurons import LIF
from bitspike.nn.norm import SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear, per_step
from bitspike.ops import LIFOutput, LIFState
from bitspike.ops.cpu.library import usable


class Block(nn.Module):
    """synapse -> pools -> batch norm -> dropout on the current -> neurons, over all time steps at once.

    On the CPU, binary layers on spikes or event counts run in C: the same spikes bit for bit, gradients to 1e-5 of the
    largest. Neurons with a backend other than "auto", or BITSPIKE_BACKEND, give the modules as they are.
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
        fast = usable(x, self.lif.backend)
        if isinstance(self.synapse, BinaryLinear):
            x = x.flatten(1 if steps is not None else 2)
            if fast and steps is None:
                whole = native.dense_layer(self, x, state, keep_membrane)
                if whole is not None:
                    return whole
        current = self.pooled(x, fast=fast and steps is None)
        if isinstance(self.norm, StepBatchNorm2d):
            current = self.norm(current, steps or 1, plain=not fast)
        elif self.norm is not None:
            current = self.norm(current, steps or 1)
        if self.dropout.p > 0 and self.training:
            if steps is not None:  # every step draws its own mask, so the current is constant no longer
                current = current.expand(steps, *current.shape)
                steps = None
            current = self.dropout(current)
        out: LIFOutput = self.lif(current, state, steps=steps, keep_membrane=keep_membrane)
        return out

    def pooled(self, x: Tensor, *, fast: bool = False) -> Tensor:
        """What synapse and pools make of the input; `fast`: in C where that can be."""
        done = native.convolved(self, x) if fast else None
        current, folded = (self.synapse(x), 0) if done is None else done
        for pool in self.pools[folded:]:
            current = per_step(pool, current)
        return current
