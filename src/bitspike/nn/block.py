"""One layer of a network, time-parallel: delay, gain, synapse, pools, batch norm, dropout, neurons."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bitspike.nn.delay import Delay
from bitspike.nn.dropout import Dropout
from bitspike.nn.fast import c as fast_c
from bitspike.nn.fast import definition, plain
from bitspike.nn.gain import Gain
from bitspike.nn.neurons import LIF
from bitspike.nn.norm import SharedBatchNorm1d, SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear, per_step
from bitspike.ops import LIFOutput, LIFState
from bitspike.ops.available import MOST_STEPS, fused_on_gpu, transformed
from bitspike.ops.native.library import usable
from bitspike.ops.product.conv_pool import conv_pool


class Block(nn.Module):
    """synapse -> pools -> batch norm -> dropout on the current -> neurons, over all time steps at once.

    Before the synapse, `spike_dropout` drops a share of the input, `delay` delays each of its neurons or channels, and
    `gain` multiplies each by a whole number: input -> dropout on spikes -> delay -> gain -> synapse. A layer with a
    delay takes sequences only; the steps that the delay still holds are part of the state.

    On the CPU, binary layers on spikes or event counts run in C: the same spikes bit for bit, gradients to 1e-5 of the
    largest. In evaluation mode there, a binary layer has one order of operations (`bitspike.ops.current`), so that its
    spikes depend on no library, backend or number of threads. On a GPU, a convolution with real weights and the average
    pool after it are one convolution, and all steps of a batch norm are one call: the same mathematics, rounded
    otherwise, so that a spike may differ where its membrane is within rounding of theta. Neurons with a backend other
    than "auto", or BITSPIKE_BACKEND, give the modules as they are in training mode.

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
        norm: StepBatchNorm2d | SharedBatchNorm2d | SharedBatchNorm1d | None = None,
        dropout: float = 0.0,
        delay: Delay | None = None,
        gain: Gain | None = None,
        spike_dropout: float | None = None,
    ) -> None:
        super().__init__()
        self.synapse = synapse
        self.pools = nn.ModuleList(pools)
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.lif = lif
        self.spike_dropout = Dropout(spike_dropout, layer=1) if spike_dropout else None
        self.delay = delay
        self.gain = gain

    def forward(
        self,
        x: Tensor,
        state: LIFState | None = None,
        *,
        steps: int | None = None,
        keep_membrane: bool = True,
    ) -> LIFOutput:
        """Run the layer on `x [T, B, ...]`, or with `steps=T` on one step `[B, ...]`; its current is computed once."""
        if isinstance(self.synapse, BinaryLinear):
            x = x.flatten(1 if steps is not None else 2)
        if self.delay is None:
            if self.spike_dropout is not None and _drops(self.spike_dropout):
                x, steps = _as_sequence(x, steps)
                x = self._dropped(x)
            return self._receive(self.gained(x), state, steps, keep_membrane)
        if steps is not None:
            raise ValueError(
                f"Block: delays need a sequence [T, B, ...], but the input is one step {list(x.shape)} that stays "
                "constant; build the network with delays=0"
            )
        if state is not None and state.past is None:
            raise ValueError(
                "Block: the state of a layer with delays needs the steps that its delay holds (state.past); pass the "
                "state of an earlier output as it is, or None to start at rest"
            )
        past = None if state is None else state.past
        filtered, held = fast_c.filtered(self, x, past) or self._filtered(self.delay, x, past)
        out = self._receive(filtered, state, steps, keep_membrane)
        return out._replace(state=out.state._replace(past=held))

    def _filtered(self, delay: Delay, x: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return `x` after dropout, delay and gain, by the modules, and the steps that the delay holds afterwards."""
        x = self._dropped(x)
        held = delay.remember(x, past)
        own = type(delay).forward is Delay.forward
        delayed: Tensor = delay(x, past, held=held) if own else delay(x, past)
        return self.gained(delayed), held

    def _dropped(self, x: Tensor) -> Tensor:
        """Return `x [T, B, ...]` after the dropout on spikes."""
        if self.spike_dropout is None or not _drops(self.spike_dropout):
            return x
        return _dropped(self.spike_dropout, x, one_kernel=_reorders(x, self.lif.backend))

    def _receive(self, x: Tensor, state: LIFState | None, steps: int | None, keep_membrane: bool) -> LIFOutput:
        """Run synapse and neurons on the input: dropped, delayed, gained and, for a dense synapse, flat."""
        fast, reorders = usable(x, self.lif.backend), _reorders(x, self.lif.backend)
        if fast and steps is None and isinstance(self.synapse, BinaryLinear):
            whole = fast_c.dense_layer(self, x, state, keep_membrane)
            if whole is not None:
                return whole
        current = definition.evaluated_current(self, x, native=fast)
        if current is None:
            current = self.pooled(x, fast=fast and steps is None, fold=reorders)
            if self.norm is not None:
                current = _normalized(self.norm, current, steps or 1, at_once=fast or reorders)
        if _drops(self.dropout):
            current, steps = _as_sequence(current, steps)
            current = _dropped(self.dropout, current, one_kernel=reorders)
        out: LIFOutput = self.lif(current, state, steps=steps, keep_membrane=keep_membrane)
        return out

    def gained(self, x: Tensor) -> Tensor:
        """Return the input with each neuron, or channel before a convolution, multiplied by its gain."""
        if self.gain is None:
            return x
        gained: Tensor = self.gain(x, dim=-1 if isinstance(self.synapse, BinaryLinear) else -3)
        return gained

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


def _drops(dropout: nn.Dropout) -> bool:
    """Return whether dropout must be called: not if it surely changes nothing; modules of other kinds always."""
    return type(dropout) not in (Dropout, nn.Dropout) or (dropout.p > 0 and dropout.training)


def _as_sequence(x: Tensor, steps: int | None) -> tuple[Tensor, None]:
    """Return a constant input or current as `[T, B, ...]`, because each step draws a mask of its own."""
    return (x if steps is None else x.expand(steps, *x.shape)), None


def _dropped(drop: Dropout, x: Tensor, *, one_kernel: bool) -> Tensor:
    """Return `x [T, B, ...]` after dropout; on a GPU with a key, one kernel may do it."""
    key = None
    if one_kernel and not plain.changed_dropout(drop):
        key = drop.key
    fits = x.dtype == torch.float32 and x.numel() > 0 and len(x) <= MOST_STEPS
    if key is None or not fits or not fused_on_gpu(x.device):
        dropped: Tensor = drop(x)
        return dropped
    from bitspike.ops.dropout.triton import dropout

    with torch.cuda.device_of(x):
        return dropout(x, drop.p, key, drop.layer, drop.shard.start if drop.shard else 0)


def _normalized(norm: nn.Module, current: Tensor, steps: int, *, at_once: bool) -> Tensor:
    """Return the normalized current; a module that is not our batch norm is called as pools are."""
    if not isinstance(norm, (StepBatchNorm2d, SharedBatchNorm2d, SharedBatchNorm1d)):
        return per_step(norm, current)
    own = type(norm).forward is StepBatchNorm2d.forward
    normalized: Tensor = norm(current, steps, plain=not at_once) if own else norm(current, steps)
    return normalized


def _reorders(x: Tensor, backend: str) -> bool:
    """Return whether a layer with this `backend` may sum in another order than its modules: only on a GPU."""
    if not x.is_cuda or backend != "auto" or transformed():
        return False
    return (os.environ.get("BITSPIKE_BACKEND") or "auto") == "auto"
