"""Initial latent weights: PyTorch's defaults, as the paper says, or those of its released code."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import nn

from bitspike.nn.delay import Delay
from bitspike.nn.gain import Gain, first_gain
from bitspike.nn.neurons import RecurrentLIF
from bitspike.nn.synapses import BinaryConv2d, BinaryLinear

Init = Literal["torch", "released"]


def bounds(init: Init, inputs: int, outputs: int, area: int = 1) -> tuple[float, float]:
    """Return the half-widths of the uniform draws of weights and biases; `area` is the size of a kernel in pixels."""
    if init == "torch":
        return (inputs * area) ** -0.5, (inputs * area) ** -0.5
    if init == "released":
        return math.sqrt(1.5 / ((inputs + outputs) * area)), 0.0
    raise ValueError(f"initialize: init must be 'torch' or 'released', but is {init!r}")


@torch.no_grad()
def initialize(net: nn.Module, init: Init = "torch", generator: torch.Generator | None = None) -> None:
    """Draw new weights and biases for every synapse of `net`.

    "torch": weights and biases uniform in +-1/sqrt(fan_in). "released": weights uniform in
    +-sqrt(1.5 / (fan_in + fan_out)), biases 0. Recurrent weights are uniform in +-1/sqrt(neurons) either way. Delays,
    drawn after all weights, are uniform between 0 and the longest. Gains are a quarter of the largest.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> net = bitspike.build("100-50-10")
        >>> bitspike.initialize(net, "released", torch.Generator().manual_seed(0))
        >>> weight = net.layers[0].synapse.weight
        >>> bool(weight.abs().max() <= (1.5 / 150) ** 0.5)
        True
    """
    for module in net.modules():
        if isinstance(module, (BinaryLinear, BinaryConv2d)):
            outputs, inputs, *kernel = module.weight.shape
            weight_bound, bias_bound = bounds(init, inputs, outputs, math.prod(kernel))
            module.weight.uniform_(-weight_bound, weight_bound, generator=generator)
            if module.bias is not None:
                module.bias.uniform_(-bias_bound, bias_bound, generator=generator)
        elif isinstance(module, RecurrentLIF):
            bound = len(module.weight) ** -0.5
            module.weight.uniform_(-bound, bound, generator=generator)
    for module in net.modules():
        if isinstance(module, Delay):
            module.delays.uniform_(0, module.longest, generator=generator)
        elif isinstance(module, Gain):
            module.gains.fill_(first_gain(module.largest))
