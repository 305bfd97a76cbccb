"""The scan of a hidden layer from its raw current to bits, and its backward pass, with the kernels of kernels.py."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bitspike.ops.chain import kernels
from bitspike.ops.dropout.reference import dropped_below
from bitspike.ops.launch import STORED, at_once, on
from bitspike.ops.lif.surrogate import Surrogate
from bitspike.ops.norm.triton_integer import Normalizer
from bitspike.ops.product.geometry import WORD, Grid


@dataclass(frozen=True, slots=True)
class Neurons:
    """The neurons of a hidden layer: grid, thresholds and decay, and the quotient, bias and dropout before them."""

    grid: Grid
    beta: Tensor
    theta: Tensor
    center: Tensor
    slope: float
    surrogate: Surrogate
    quotient: int = 1  # the raw current is this many times the current
    bias: Tensor | None = None
    dropout: float = 0.0
    key: Tensor | None = None
    layer: int = 0

    def dropout_arguments(self) -> dict[str, float | int]:
        """Return the kernels' arguments for dropout."""
        return {"below": dropped_below(self.dropout), "keep": 1 / (1 - self.dropout)}


def _blocks(total: int) -> tuple[int, int]:
    """Return the neurons of a program and its warps: few for each thread, since other threads hide a step's latency."""
    return at_once(WORD if total < 132 * 256 else 2 * WORD), 1


def _shared(neurons: Neurons) -> dict[str, int]:
    grid = neurons.grid
    return {"NEURONS": grid.neurons, "STRIDE": grid.stride, "CHANNELS": grid.channels, "LAYER": neurons.layer}


def scan_forward(
    current: Tensor, neurons: Neurons, steps: int, batch: int, norm: Normalizer | None, *, static: bool, save: bool
) -> tuple[Tensor, Tensor | None]:
    """Return bits `[T * B, words]` and, with `save`, the surrogate's gradient `[T, B, neurons]` bfloat16."""
    grid, device = neurons.grid, current.device
    total = batch * grid.neurons
    if total + 2048 > 2**31:  # the last program's neurons are counted in 32 bits too
        raise ValueError(
            f"scan_forward: a step must have fewer than 2**31 neurons, but has {total}; use a smaller batch"
        )
    bits = torch.empty(steps * batch, grid.neurons // WORD, dtype=torch.int32, device=device)
    surrogate = torch.empty(steps, batch, grid.neurons, dtype=STORED, device=device) if save else None
    nothing = neurons.theta
    block, warps = _blocks(total)
    kernels._scan_fwd_kernel[(-(-total // block),)](
        current, bits, nothing if surrogate is None else surrogate,
        norm.mean if norm else nothing, norm.scale if norm else nothing, norm.bias if norm else nothing,
        nothing if neurons.bias is None else neurons.bias, nothing if neurons.key is None else neurons.key,
        neurons.beta, neurons.theta, neurons.center, neurons.slope, steps, total, norm.step if norm else 0,
        **neurons.dropout_arguments(), **_shared(neurons), QUOTIENT=neurons.quotient,
        SURROGATE=neurons.surrogate,
        STATIC=static, NORM=norm is not None, BIAS=neurons.bias is not None, DROP=neurons.dropout > 0, SAVE=save,
        BLOCK=block // WORD, num_warps=warps, enable_fp_fusion=False,
    )  # fmt: skip
    return bits, surrogate


def spike_counts(bits: Tensor, grid: Grid, steps: int) -> Tensor:
    """Return how often each neuron fired for each sample, `[B, neurons]` float32, from bits `[T * B, words]`."""
    batch = len(bits) // steps
    counts = torch.empty(batch, grid.neurons, dtype=torch.float32, device=bits.device)
    total = counts.numel()
    with on(bits):
        kernels._count_kernel[(-(-total // 128),)](bits, counts, steps, total, BLOCK=128, T_BLOCK=16)
    return counts


def scan_backward(grad: Tensor, surrogate: Tensor, neurons: Neurons) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of the current that enters the neurons, `[T, B, neurons]` bfloat16, and of the bias."""
    steps, batch = surrogate.shape[:2]
    total = batch * neurons.grid.neurons
    out = torch.empty_like(surrogate)
    sums = (
        torch.empty(batch, neurons.grid.neurons, dtype=torch.float32, device=grad.device)
        if neurons.bias is not None
        else None
    )
    block, warps = _blocks(total)
    kernels._scan_bwd_kernel[(-(-total // block),)](
        grad, surrogate, out, out if sums is None else sums, neurons.theta if neurons.key is None else neurons.key,
        neurons.beta, steps, total, **neurons.dropout_arguments(), **_shared(neurons),
        DROP=neurons.dropout > 0, SUM=sums is not None, BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return out, None if sums is None else sums.sum(0)[: neurons.grid.channels]


def static_backward(current: Tensor, grad: Tensor, neurons: Neurons, steps: int) -> Tensor:
    """Return the gradient of a current `[B, C, H, W]` that is constant in time."""
    out = torch.empty(current.shape, dtype=torch.float32, device=current.device)
    total = len(current) * neurons.grid.neurons
    block, warps = _blocks(total)
    kernels._static_bwd_kernel[(-(-total // block),)](
        current, grad, out, neurons.theta if neurons.key is None else neurons.key,
        neurons.beta, neurons.theta, neurons.center, neurons.slope, steps, total,
        **neurons.dropout_arguments(), **_shared(neurons),
        SURROGATE=neurons.surrogate, DROP=neurons.dropout > 0, BLOCK=block, num_warps=warps, enable_fp_fusion=False,
    )  # fmt: skip
    return out
