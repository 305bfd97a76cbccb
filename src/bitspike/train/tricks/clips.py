"""Tricks that bound the gradient's norm, all parameters, or latent weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bitspike.data.samples import Samples
from bitspike.nn import Gain, SpikingNetwork
from bitspike.train.config import TrainConfig
from bitspike.train.optim import WEIGHTED, gradients
from bitspike.train.tricks.delays import delays_of
from bitspike.train.tricks.trick import Setup, Trick


class ClipGradients(Trick):
    """`train.grad_clip` bounds the norm of the gradient of all parameters."""

    name = "grad_clip"
    fields = ("grad_clip",)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.parameters = list(setup.net.parameters())
        self.limit = setup.config.grad_clip or 0.0

    def on_gradients(self, norms: Tensor) -> None:
        """Scale all gradients."""
        clip_gradients(self.parameters, norms, self.limit)


class ClipWeights(Trick):
    """`train.weight_clip` bounds parameters before the optimizer's step: all but delays and gains, whole numbers."""

    name = "weight_clip"
    fields = ("weight_clip",)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        whole = {id(delay.delays) for delay in delays_of(setup.net)}
        whole |= {id(module.gains) for module in setup.net.modules() if isinstance(module, Gain)}
        self.parameters = [p for p in setup.net.parameters() if id(p) not in whole]
        self.bound = setup.config.weight_clip or 0.0

    def on_gradients(self, norms: Tensor) -> None:
        """Clamp the parameters."""
        clip_weights(self.parameters, self.bound)


class ClipLatentWeights(Trick):
    """`train.latent_clip` bounds latent weights after the optimizer's step, except soft ones (`train.harden`)."""

    name = "latent_clip"
    fields = ("latent_clip",)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.weights = latent_weights(setup.net)
        self.bound = setup.config.latent_clip or 0.0

    @classmethod
    def refusal(cls, config: TrainConfig, net: SpikingNetwork, samples: Samples, title: str) -> str | None:
        """Return a refusal for a network whose weights are all real."""
        if latent_weights(net):
            return None
        return "train.latent_clip bounds latent weights, but net.binary = false has none; set it to none"

    def after_update(self) -> None:
        """Clamp latent weights."""
        if self.weights:
            clip_weights(self.weights, self.bound)


@torch.no_grad()
def clip_gradients(parameters: Sequence[nn.Parameter], norms: Tensor, limit: float) -> None:
    """Scale all gradients so that their common norm is at most `limit`, as torch's clip_grad_norm_ does."""
    scale = (limit / (torch.linalg.vector_norm(norms) + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients(parameters), scale)


@torch.no_grad()
def clip_weights(parameters: Sequence[Tensor], bound: float) -> None:
    """Clamp each of `parameters` into [-bound, bound]."""
    torch._foreach_clamp_min_(list(parameters), -bound)
    torch._foreach_clamp_max_(list(parameters), bound)


def latent_weights(net: nn.Module) -> list[Tensor]:
    """Return the latent weights of `net`, of which it uses only the signs: those of binary synapses and recurrences."""
    binary = [module for module in net.modules() if isinstance(module, WEIGHTED) and module.binary]
    return [module.weight for module in binary if getattr(module, "hardness", None) is None]
