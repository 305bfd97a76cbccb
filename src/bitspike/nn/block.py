"""One layer of a network, time-parallel: synapse, pools, batch norm, dropout, neurons."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bitspike.nn.dropout import Dropout
from bitspike.nn.neurons import LIF
from bitspike.nn.norm import SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear, per_step
from bitspike.ops import LIFOutput, LIFState
from bitspike.ops.cpu import library
from bitspike.ops.cpu.conv import conv_pool
from bitspike.ops.cpu.dense import Mask, Neurons, dense
from bitspike.ops.cpu.packed import draw


class Block(nn.Module):
    """synapse -> pools -> batch norm -> dropout on the current -> neurons, over all time steps at once.

    On the CPU, binary layers on spikes or event counts run in C (ops/cpu): the same spikes bit for bit, gradients to
    1e-5. Neurons with a backend other than "auto", or BITSPIKE_BACKEND, give the modules as they are.
    """

    def __init__(
        self,
        synapse: BinaryConv2d | BinaryLinear,
        lif: LIF,
        *,
        pools: Sequence[nn.Module] = (),
        norm: StepBatchNorm2d | SharedBatchNorm2d | None = None,
        dropout: float = 0.0,
        index: int = 0,
    ) -> None:
        super().__init__()
        self.synapse = synapse
        self.pools = nn.ModuleList(pools)
        self.norm = norm
        self.dropout = Dropout(dropout, index)
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
        fast = library.usable(x, self.lif.backend)
        if isinstance(self.synapse, BinaryLinear):
            x = x.flatten(1 if steps is not None else 2)
            if fast and steps is None and (out := self._dense(x, state, keep_membrane)) is not None:
                return out
        current = self._current(x, fast)
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

    def _current(self, x: Tensor, fast: bool) -> Tensor:
        """Synapse and pools; in C as far as that goes."""
        current, pools = None, list(self.pools)
        if fast and x.dim() == 5 and self._is_binary(BinaryConv2d) and _slides_plainly(self.synapse, x):
            size = _folds(pools[0]) if pools else None
            current = conv_pool(x, self.synapse.signs(), size or 1)
            if current is not None and size is not None:
                pools.pop(0)
        if current is None:
            current = self.synapse(x)
        for pool in pools:
            current = per_step(pool, current)
        return current

    def _dense(self, x: Tensor, state: LIFState | None, keep_membrane: bool) -> LIFOutput | None:
        """The whole layer in C; None where it needs the modules."""
        lif, synapse = self.lif, self.synapse
        beta = lif.beta
        if x.dim() != 3 or x.shape[2] != synapse.in_features or not self._is_binary(BinaryLinear):
            return None
        if type(lif) is not LIF or lif.adaptation is not None or _watched(lif) or not _runs(lif, beta):
            return None
        shape = (x.shape[1], synapse.out_features)
        if beta.numel() > 1 and beta.shape != shape[1:] or not _continues(state, shape):
            return None
        mask = None
        if self.dropout.p > 0 and self.training:
            mask = self._mask((len(x), *shape))
            if mask is None:
                return None
        neurons = Neurons(beta, lif.theta, lif.theta_grad, lif.slope, keep_membrane)
        return dense(x, synapse.signs(), synapse.bias, mask, neurons, state)

    def _mask(self, shape: tuple[int, int, int]) -> Mask | None:
        """What `self.dropout` would keep; None if only it can tell."""
        p, key, shard = self.dropout.p, self.dropout.key, self.dropout.shard
        if _watched(self.dropout) or p == 1:
            return None
        if key is not None:
            return Mask(draw(p, key, self.dropout.layer, shape[2] * shard.start if shard else 0), 1 / (1 - p))
        if shard is not None:
            return None
        kept = torch.empty(shape, dtype=torch.uint8).bernoulli_(1 - p)
        return Mask(kept, float(torch.ones(()).div_(1 - p)))

    def _is_binary(self, kind: type[nn.Module]) -> bool:
        """A synapse of ours with weights of one bit in float32, that nobody listens to."""
        synapse = self.synapse
        return type(synapse) is kind and synapse.binary and synapse.weight.dtype == torch.float32 and not _watched(synapse)


def _watched(module: nn.Module) -> bool:
    """Whether hooks wait for a call of the module, which must then happen."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _slides_plainly(conv: nn.Module, x: Tensor) -> bool:
    """A convolution without bias, stride, padding, dilation or groups, on images of its channels."""
    return (
        isinstance(conv, BinaryConv2d)
        and conv.bias is None
        and (conv.stride, conv.padding, conv.dilation, conv.groups) == ((1, 1), (0, 0), (1, 1), 1)
        and x.shape[2] == conv.in_channels
        and len(x) > 0
    )


def _folds(pool: nn.Module) -> int | None:
    """The size of an average pool that is one mean for each square, next to each other; None for other pools."""
    if type(pool) is not nn.AvgPool2d or _watched(pool) or pool.ceil_mode or pool.divisor_override is not None:
        return None
    size = pool.kernel_size
    plain = isinstance(size, int) and pool.stride == size and pool.padding == 0
    return int(size) if plain and isinstance(size, int) else None


def _runs(lif: LIF, beta: Tensor) -> bool:
    """Thresholds and decays that `lif` would not refuse, in float32."""
    numbers = (beta, lif.theta, lif.theta_grad)
    if any(n.dtype != torch.float32 or n.device.type != "cpu" for n in numbers):
        return False
    thetas = torch.stack((lif.theta, lif.theta_grad)) if lif.theta.dim() == lif.theta_grad.dim() == 0 else None
    return thetas is not None and bool((thetas > 0).all() and thetas.isfinite().all() and ((beta >= 0) & (beta <= 1)).all())


def _continues(state: LIFState | None, shape: tuple[int, int]) -> bool:
    """No state, or one of float32 that fits."""
    if state is None:
        return True
    parts = (state.membrane, state.spikes) if isinstance(state, LIFState) else ()
    return bool(parts) and all(
        isinstance(p, Tensor) and p.shape == shape and p.dtype == torch.float32 and p.device.type == "cpu" for p in parts
    )
