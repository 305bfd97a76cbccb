"""The first layer's way from real weights to one bit.

A first layer has few weights, and each reaches every neuron: the sign's straight-through gradient finds poor filters.
Soft weights have a true gradient. They harden while the layers behind them learn, which then go on with what they are.
"""

from __future__ import annotations

import math

import torch

from bitspike.nn import BinaryConv2d, BinaryLinear, SpikingNetwork

STRIDES = 70.0  # root mean square of the latent weights at the start, in steps of Adam's size: room to move
SPREAD = 0.7  # hardness * weight at the start, root mean square: tanh is nearly straight there
RISE = 30.0  # that hardness rises by: the weights are then -1 or +1 but for a few


class Hardening:
    """Gives `net`'s first synapse a hardness that is to be `value(step)` before iteration `step`.

    Its latent weights are scaled, which changes no sign.
    """

    def __init__(self, net: SpikingNetwork, share: float, lr: float, iterations: int) -> None:
        synapse = net.layers[0].synapse
        if not isinstance(synapse, BinaryConv2d | BinaryLinear) or not synapse.binary:
            raise ValueError("train.harden: the first layer's weights must be binary; set it to 0")
        self.synapse = synapse
        self.end = share * iterations
        size = STRIDES * lr
        weight = self.synapse.weight
        with torch.no_grad():
            weight.mul_(size / weight.square().mean().sqrt())
        self.start = SPREAD / size
        self.hardness = torch.full((), self.start, dtype=weight.dtype, device=weight.device)
        self.synapse.hardness = self.hardness

    def value(self, step: int) -> float:
        """Rises evenly by factors; infinite from the end on."""
        return self.start * RISE ** (step / self.end) if step < self.end else math.inf
