"""Constant decays drawn from a range: one for each neuron."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bitspike.nn.neurons import LIF
from bitspike.ops.checks import as_number


@dataclass(frozen=True, slots=True)
class DecayRange:
    """A range of decays: each neuron of a layer gets its own constant `beta`, drawn uniformly between low and high.

    It stands in the place of a number in `build(..., beta=...)`. A convolutional layer gets one decay for all.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> from bitspike.nn import DecayRange
        >>> net = bitspike.build("20-10-5", beta=[DecayRange(0.6, 0.97), 0.95])
        >>> beta = net.layers[0].lif.beta
        >>> beta.shape, bool((beta >= 0.6).all() and (beta <= 0.97).all())
        (torch.Size([10]), True)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, as_number("DecayRange", name, getattr(self, name)))
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(
                f"DecayRange: decays must satisfy 0 <= low <= high <= 1, but are {self.low!r} and {self.high!r}"
            )

    def middle(self, neurons: int | None) -> Tensor:
        """Return the middle of the range, for each of the neurons; a value to make them with, before the draw."""
        return torch.full(() if neurons is None else (neurons,), (self.low + self.high) / 2)

    def replaced_in(self, lif: LIF) -> bool:
        """Return whether neurons were made with other decays than `middle`, by a function of the user's."""
        return bool(((lif.beta.detach() - (self.low + self.high) / 2).abs() > 1e-5).any())


def require_learnable(decays: DecayRange) -> None:
    """Raise unless the range lies inside (0, 1): at its ends the logit of a learnt decay is infinite."""
    if not 0 < decays.low <= decays.high < 1:
        raise ValueError(f"build: a learnt beta must start inside (0, 1), but is drawn from {decays}")


@torch.no_grad()
def draw_decays(lif: LIF, decays: DecayRange, generator: torch.Generator | None) -> None:
    """Draw new decays of a layer from the range; learnt ones start there."""
    drawn = torch.empty(lif.beta.shape, device="cpu").uniform_(decays.low, decays.high, generator=generator)
    drawn = drawn.clamp(decays.low, decays.high)  # float32 may round to just outside
    if hasattr(lif, "beta_logit"):
        lif.beta_logit.copy_(drawn.logit())
    else:
        lif.get_buffer("_beta").copy_(drawn)
