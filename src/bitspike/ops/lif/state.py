"""The types of `lif` beside tensors: a neuron's state, the output, and an adaptive threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from bitspike.ops import checks


class LIFState(NamedTuple):
    """The state that a neuron carries from one step to the next; each part has the shape of one step `[B, ...]`.

    `past` belongs to a layer with delays: the last steps of its input `[longest, B, ...]`, which are still to come.
    `lif` itself neither reads nor returns it.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> current = torch.full((6, 1, 1), 0.75)
        >>> whole = bitspike.lif(current, beta=0.5, theta=1.0, slope=25.0)
        >>> first = bitspike.lif(current[:3], beta=0.5, theta=1.0, slope=25.0)
        >>> rest = bitspike.lif(current[3:], beta=0.5, theta=1.0, slope=25.0, state=first.state)
        >>> torch.equal(whole.spikes, torch.cat([first.spikes, rest.spikes]))
        True
    """

    membrane: Tensor
    spikes: Tensor
    adaptation: Tensor | None = None
    past: Tensor | None = None

    def detach(self) -> LIFState:
        """Return the same state without its graph: gradients stop here (truncated backpropagation through time)."""
        return LIFState(*(None if part is None else part.detach() for part in self))  # type: ignore[arg-type]


class LIFOutput(NamedTuple):
    """`spikes [T, B, ...]`, `membrane [T, B, ...]` (None if not kept) and the `state` after the last step.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> out = bitspike.lif(torch.ones(10, 4, 3), beta=0.9, theta=1.0, slope=25.0)
        >>> out.spikes.shape, out.membrane.shape
        (torch.Size([10, 4, 3]), torch.Size([10, 4, 3]))
        >>> out.state.membrane.shape
        torch.Size([4, 3])
    """

    spikes: Tensor
    membrane: Tensor | None
    state: LIFState


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Threshold theta + strength * a[t], with a[t+1] = rho * a[t] + (1 - rho) * z[t] (Bellec et al. 2018).

    Examples:
        >>> import torch
        >>> import bitspike
        >>> current = torch.ones(6, 1, 1)
        >>> bitspike.lif(current, beta=0.5, theta=1.0, slope=25.0).spikes.flatten().tolist()
        [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
        >>> adaptation = bitspike.Adaptation(rho=0.5, strength=1.0)
        >>> out = bitspike.lif(current, beta=0.5, theta=1.0, slope=25.0, adaptation=adaptation)
        >>> out.spikes.flatten().tolist()
        [1.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    """

    rho: float
    strength: float

    def __post_init__(self) -> None:
        for name in ("rho", "strength"):
            object.__setattr__(self, name, checks.as_number("Adaptation", name, getattr(self, name)))
        if not 0 <= self.rho <= 1:
            raise ValueError(f"Adaptation: rho must be in [0, 1], but is {self.rho!r}; it is a decay per step")
        if not (math.isfinite(self.strength) and self.strength >= 0):
            raise ValueError(f"Adaptation: strength must be a finite number >= 0, but is {self.strength!r}")


def require_adaptation(where: str, adaptation: object) -> None:
    """Raise unless `adaptation` is an Adaptation or None."""
    if adaptation is not None and not isinstance(adaptation, Adaptation):
        raise TypeError(
            f"{where}: adaptation must be an Adaptation, but is a {type(adaptation).__name__}; "
            "write Adaptation(rho, strength)"
        )
