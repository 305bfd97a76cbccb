"""Neuron layers of every kind, each a module with thresholds and decays of its own; all of them are `LIF` layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bitspike.nn.checked import Check
from bitspike.nn.lif import LIF, SurrogateCenter
from bitspike.nn.synapses import BINARY_CHECKS
from bitspike.ops import Adaptation, LIFOutput, LIFState, binarize
from bitspike.ops.available import transformed
from bitspike.ops.checks import as_positive, is_ordinary
from bitspike.ops.readout import leaky, leaky_scores, ordered_scores

__all__ = ["AdaptiveLIF", "LIF", "LeakyReadout", "RecurrentLIF", "SurrogateCenter"]


class AdaptiveLIF(LIF):
    """LIF whose threshold, theta + strength*a[t], rises with each neuron's own spikes (Bellec et al. 2018).

    The baseline that annealing replaces: its backward pass keeps a threshold for every neuron and step, O(nT),
    where annealing keeps one number a layer. Annealing moves the common part, theta.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> neurons = bitspike.AdaptiveLIF(beta=0.5, theta=1.0, rho=0.5, strength=1.0)
        >>> neurons(torch.ones(6, 1, 1)).spikes.flatten().tolist()
        [1.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    """

    def __init__(
        self, beta: float | Tensor = 0.9, theta: float = 1.0, *, rho: float = 0.97, strength: float = 1.8, **kwargs: Any
    ) -> None:
        super().__init__(beta, theta, adaptation=Adaptation(rho, strength), **kwargs)


class RecurrentLIF(LIF):
    """LIF whose spikes also reach every neuron of the layer one step later, through weights of -1/+1.

    `binary=False` is the float32 twin. `weight [neurons, neurons]` is latent, as in BinaryLinear.

    `recurrent_scale` multiplies the weights of -1/+1: one number for the layer. With 1, and many neurons, what comes
    back is far larger than a current of size 1, such as behind a batch norm; 1 / sqrt(neurons) makes it of that size.

    `recurrent_grad` is the share of the gradient that spikes get back through these weights. By default a share and the
    scale make 1 / sqrt(neurons) for weights of -1/+1, which is the size of the twin's weights; for the twin it is 1.
    The surrogate is 1 at the threshold whatever the weights, so with more a gradient grows up to sqrt(neurons) times in
    each step back, and 100 steps are more than float32 holds.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> neurons = bitspike.RecurrentLIF(neurons=5, beta=0.9, theta=1.0)
        >>> neurons(torch.rand(10, 4, 5)).spikes.shape  # [T, B, N]
        torch.Size([10, 4, 5])
        >>> sorted(neurons.recurrent_weight().unique().tolist())
        [-1.0, 1.0]
        >>> bitspike.RecurrentLIF(neurons=16).recurrent_share()
        0.25
        >>> scaled = bitspike.RecurrentLIF(neurons=16, recurrent_scale=0.25)
        >>> sorted(scaled.recurrent_weight().unique().tolist()), scaled.recurrent_share()
        ([-0.25, 0.25], 1.0)
    """

    checks: ClassVar[Mapping[str, Check]] = {
        **LIF.checks,
        **BINARY_CHECKS,
        "recurrent_scale": lambda layer, value: as_positive(type(layer).__name__, "recurrent_scale", value),
        "recurrent_grad": lambda layer, value: (
            None if value is None else as_positive(type(layer).__name__, "recurrent_grad", value)
        ),
    }

    def __init__(
        self,
        neurons: int,
        beta: float | Tensor = 0.9,
        theta: float = 1.0,
        *,
        binary: bool = True,
        clip: float | None = None,
        learn_beta: bool = False,
        recurrent_scale: float = 1.0,
        recurrent_grad: float | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(neurons, bool) or not isinstance(neurons, int) or neurons < 1:
            raise ValueError(f"RecurrentLIF: neurons must be a whole number >= 1, but is {neurons!r}")
        if not binary and recurrent_scale != 1:
            raise ValueError(
                f"RecurrentLIF: recurrent_scale multiplies weights of -1/+1, but binary is False; leave it at 1, not "
                f"{recurrent_scale!r}"
            )
        super().__init__(beta, theta, learn_beta=learn_beta, neurons=neurons if learn_beta else None, **kwargs)
        self.binary = binary
        self.clip = clip
        self.recurrent_scale = recurrent_scale
        self.recurrent_grad = recurrent_grad
        bound = 1 / math.sqrt(neurons)
        self.weight = nn.Parameter(torch.empty(neurons, neurons).uniform_(-bound, bound))

    def neuron_shape(self) -> torch.Size:
        """Return the number of neurons that the weights connect, as a shape."""
        return self.weight.shape[:1]

    def recurrent_weight(self) -> Tensor:
        """Return the weights -1/+1 times the scale; of the twin, the weights as they are."""
        if not self.binary:
            return self.weight
        signs = binarize(self.weight, self.clip)
        return signs if self.recurrent_scale == 1 else self.recurrent_scale * signs

    def recurrent_factors(self) -> tuple[Tensor, float]:
        """Return the signs and the scale apart: sums of signs are exact, and then rounded once."""
        own = type(self).recurrent_weight is RecurrentLIF.recurrent_weight and "recurrent_weight" not in vars(self)
        if not self.binary or not own:
            return self.recurrent_weight(), 1.0
        return binarize(self.weight, self.clip), self.recurrent_scale

    def recurrent_share(self) -> float:
        """Return `recurrent_grad`; if it is None, 1 / sqrt(neurons) / scale for weights of -1/+1, 1 for real ones."""
        if self.recurrent_grad is not None:
            return self.recurrent_grad
        return len(self.weight) ** -0.5 / self.recurrent_scale if self.binary else 1.0

    def extra_repr(self) -> str:
        scale = f", recurrent_scale={self.recurrent_scale:.4g}" if self.recurrent_scale != 1 else ""
        return super().extra_repr() + scale


class LeakyReadout(LIF):
    """Leaky neurons that never fire: u[t] = beta*u[t-1] + I[t]. Their membrane is the network's answer.

    `spikes` are all zero, and `membrane` is always given. The threshold has no effect; it is there so that a network
    has one in every layer.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> readout = bitspike.nn.LeakyReadout(beta=0.5)
        >>> out = readout(torch.ones(4, 1, 1))  # [T, B, N]
        >>> out.membrane.flatten().tolist(), out.spikes.sum().item()
        ([1.0, 1.5, 1.75, 1.875], 0.0)
        >>> readout.scores(out).tolist()
        [[0.765625]]
    """

    def forward(
        self,
        current: Tensor,
        state: LIFState | None = None,
        *,
        steps: int | None = None,
        keep_membrane: bool = True,
    ) -> LIFOutput:
        return leaky(current, beta=self.beta, steps=steps, state=state, backend=self.backend)

    def scores(self, output: LIFOutput) -> Tensor:
        """Return the mean over time of (1 - beta) * membrane, `[B, ...]`; in evaluation on the CPU by ordered sums."""
        if output.membrane is None:
            raise ValueError("LeakyReadout: the scores need the output's membrane, but it was not kept")
        one_order = not self.training and is_ordinary(output.membrane, output.membrane.shape, torch.device("cpu"))
        scores = ordered_scores if one_order and not transformed() else leaky_scores
        return scores(output.membrane, self.beta)

    def extra_repr(self) -> str:
        return super().extra_repr().partition(", theta=")[0]
