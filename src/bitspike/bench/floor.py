"""A lower bound for the time of a training step: operations and bytes counted by hand, and the device's speed.

Operations are those of the products, two for each multiply-accumulate: forward, gradient of the weights, gradient of
the input (not of the first layer). A convolution with average pooling behind it counts as one strided convolution with
the summed kernel; the first layer of a static image counts once, not T times. The neurons' own arithmetic and the
sums of batch norm are left out: they hide behind memory. A GPU's products are dense. A CPU may skip what is 0, forward
and for the gradient of the weights: there the first layer counts with the share of its input that is not 0, and the
others, whose spikes are known only when the network runs, as if they were silent; gradients of inputs are dense.

Bytes are those that must cross the memory bus if nothing but spikes is ever written between layers: the input, read
forward and backward; spikes as bits, written once, read by the next layer, read again for its weights' gradient;
weights with gradients and optimizer state. `streamed` adds what a step costs whose products and scans are separate
kernels: currents (4 bytes) and gradients of spikes (2 bytes) written and read once a neuron-step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from bitspike.bench.cases import Case, neurons_of
from bitspike.nn.notation import Conv, Layer

# Passes over a float32 parameter: forward, backward, gradient written; the optimizer reads gradient, weight and moments
# and writes weight and moments.
_PASSES = {"none": 3, "sgd": 3 + 5, "adam": 3 + 7}


@dataclass(frozen=True, slots=True)
class Work:
    """The least work of one training step."""

    operations: int
    bytes: int
    streamed: int


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The best that the device can do: operations a second in products, bytes a second read and written."""

    operations: float
    bytes: float

    def milliseconds(self, work: Work, *, streamed: bool = False) -> float:
        """Return the least time of a step: at best, products and memory traffic overlap."""
        return 1e3 * max(work.operations / self.operations, (work.streamed if streamed else work.bytes) / self.bytes)


def count(case: Case, optimizer: str, *, skips_zeros: bool = False) -> Work:
    """Return the work of a case, by the rules of this module; `skips_zeros` is for a CPU."""
    layers = case.layers()
    samples = case.batch * case.steps
    operations = parameters = 0
    for i, layer in enumerate(layers):
        often = case.batch if case.static and i == 0 else samples
        # forward and the weights' gradient, to which inputs of 0 add nothing; then the inputs' own gradient
        share = (case.density if i == 0 else 0.0) if skips_zeros else 1.0
        products = 2 * share + (i > 0)
        operations += round(2 * products * often * _multiplications(layer))
        parameters += _weights(layer)
    hidden = sum(neurons_of(layer) for layer in layers[:-1]) * samples
    inputs = math.prod(case.input_shape) * (4 * case.batch if case.static else samples)
    moved = 2 * inputs + 3 * hidden // 8 + 4 * _PASSES[optimizer] * parameters
    currents = sum(neurons_of(layer) for layer in layers[case.static :]) * samples  # an image's own is constant
    return Work(operations, moved, moved + currents * 2 * 4 + hidden * 2 * 2)


def _multiplications(layer: Layer) -> int:
    """Return the multiplications of one sample at one time step."""
    if not isinstance(layer, Conv):
        return layer.inputs * layer.outputs
    pool = math.prod(p.size for p in layer.pools)
    return neurons_of(layer) * layer.inputs * (layer.kernel + pool - 1) ** 2


def _weights(layer: Layer) -> int:
    if isinstance(layer, Conv):
        return layer.filters * layer.inputs * layer.kernel**2
    return (layer.inputs + 1) * layer.outputs


def measure_ceilings(device: torch.device, before: Ceilings | None = None) -> Ceilings:
    """Time a large product (bf16 on a GPU, float32 on a CPU) and a large copy; return the best, also of `before`."""
    gpu = device.type == "cuda"
    n, dtype = (8192, torch.bfloat16) if gpu else (1024, torch.float32)
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    source = torch.empty(2**30 if gpu else 2**27, dtype=torch.uint8, device=device).fill_(1)
    target = torch.empty_like(source)
    product = _best(lambda: torch.mm(a, b), device)
    copy = _best(lambda: target.copy_(source), device)
    found = Ceilings(2 * n**3 / product, 2 * source.numel() / copy)
    if before is None:
        return found
    return Ceilings(max(found.operations, before.operations), max(found.bytes, before.bytes))


def _best(call: Callable[[], object], device: torch.device) -> float:
    def seconds() -> float:
        _wait(device)
        began = time.perf_counter()
        for _ in range(4):
            call()
        _wait(device)
        return (time.perf_counter() - began) / 4

    seconds()
    return min(seconds() for _ in range(3))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
