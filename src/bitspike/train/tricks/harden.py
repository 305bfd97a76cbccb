"""A trick that takes the first layer from real weights to one-bit weights during training.

A first layer has few weights, and each reaches every neuron: the sign's straight-through gradient finds poor filters.
Soft weights have a true gradient. They harden while the later layers learn, which then continue with the one-bit
weights.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bitspike.data.samples import Images, Samples
from bitspike.nn import BinaryConv2d, BinaryLinear, SpikingNetwork
from bitspike.train.config import TrainConfig
from bitspike.train.tricks.trick import Setup, Trick

STRIDES = 70.0  # root mean square of the latent weights at the start, in steps of Adam's size: room to move
SPREAD = 0.7  # hardness * weight at the start, root mean square: tanh is nearly straight there
RISE = 30.0  # factor by which hardness rises; nearly all weights are -1 or +1 then


class Harden(Trick):
    """`train.harden` is the share of all iterations in which the first synapse's weights go from soft to one bit.

    Its latent weights are scaled at the start, which changes no sign.
    """

    name = "harden"
    fields = ("harden",)
    lasts_all_epochs = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        synapse = _first_binary_synapse(setup.net)
        if synapse is None:
            raise ValueError("train.harden: the first layer's weights must be binary; set it to 0")
        self.end = setup.config.harden * setup.iterations
        size = STRIDES * setup.config.lr
        weight = synapse.weight
        with torch.no_grad():
            weight.mul_(size / weight.square().mean().sqrt())
        self.start = SPREAD / size
        self.hardness = torch.full((), self.start, dtype=weight.dtype, device=weight.device)
        synapse.hardness = self.hardness

    @classmethod
    def refusal(cls, config: TrainConfig, net: SpikingNetwork, samples: Samples, title: str) -> str | None:
        """Return a refusal for a first layer of real weights, and for samples that are not images."""
        if _first_binary_synapse(net) is not None and isinstance(samples, Images):
            return None
        return "train.harden is for a first layer of binary weights on images (net.binary = true); set it to 0"

    def tensors(self) -> list[Tensor]:
        """Return the hardness."""
        return [self.hardness]

    def values(self, step: int) -> list[float]:
        """Return start * RISE**(step / end), and infinity from `end` on."""
        return [self.start * RISE ** (step / self.end) if step < self.end else math.inf]


def _first_binary_synapse(net: SpikingNetwork) -> BinaryConv2d | BinaryLinear | None:
    """Return the first layer's synapse; None if its weights are not binary."""
    synapse = net.layers[0].synapse
    return synapse if isinstance(synapse, BinaryConv2d | BinaryLinear) and synapse.binary else None
