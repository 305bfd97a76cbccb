"""Learnt gains: a module that owns one gain for each neuron and calls one op, `gain`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from bitspike.nn.checked import Check, Checked
from bitspike.nn.whole_numbers import as_neurons, in_range, keep_exact, largest_beyond, rounded
from bitspike.ops.checks import MOST_GAIN, as_largest_gain, is_whole
from bitspike.ops.gain import gain


def first_gain(largest: int) -> int:
    """Return the gain that training starts from: a quarter of the range, so that it can fall and rise."""
    return max((largest + 1) // 4, 1)


def largest_gains(gains: object, count: int) -> list[int]:
    """Return the largest gain of each of `count` layers' inputs; 0 means none there."""
    each: list[Any] = list(gains) if isinstance(gains, (list, tuple)) else [gains] * count
    if not all(is_whole(one) and 0 <= one <= MOST_GAIN for one in each):
        raise ValueError(
            f"build: gains must be a whole number in 0..{MOST_GAIN}, the largest gain, or a list with one a layer, but "
            f"is {gains!r}; 0 means none"
        )
    if len(each) != count:
        raise ValueError(f"build: gains must be one number or one a layer, {count}, but {len(each)} were given")
    return [int(one) for one in each]


class Gain(Checked):
    """Multiplies each neuron's spikes by a learnt whole number in 0..largest: round(g_j) * x[..., j].

    A synapse of one bit counts all of its inputs alike. A gain says how much a sending neuron counts, for a few bits a
    neuron; the synapse keeps its one bit. The parameter `gains [neurons]` holds real numbers that the optimizer moves;
    each call first clamps them to 0..largest in training mode. All of them start at a quarter of the range: 4 for a
    largest gain of 15. So currents are larger by that factor, and so must be the thresholds, unless a batch norm lies
    between.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> layer = bitspike.Gain(neurons=3, largest=15)
        >>> layer.gains.data = torch.tensor([0.2, 3.9, 20.0])
        >>> layer(torch.ones(1, 3)).tolist(), layer.rounded().tolist()
        ([[0.0, 4.0, 15.0]], [0, 4, 15])
    """

    largest: int
    gains: nn.Parameter
    checks: ClassVar[Mapping[str, Check]] = {
        "largest": lambda layer, value: as_largest_gain(type(layer).__name__, value)
    }

    def __init__(self, neurons: int, largest: int) -> None:
        super().__init__()
        count = as_neurons("Gain", neurons)
        self.largest = largest
        self.gains = nn.Parameter(torch.full((count,), float(first_gain(self.largest)), dtype=torch.float32))

    def forward(self, x: Tensor, *, dim: int = -1) -> Tensor:
        """Return `x` with each index of dimension `dim` (one for each neuron) multiplied by its gain."""
        return gain(x, in_range(self.gains, self.largest, training=self.training), dim=dim)

    def rounded(self) -> Tensor:
        """Return the gains as whole numbers, `[neurons]` in int64; halves go to the even neighbour."""
        return rounded(self.gains, self.largest)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Move or convert the layer; gains stay at least float32, since rounding would move them to another number."""
        exact = self.gains.detach()
        super()._apply(fn, recurse)
        keep_exact(self.gains, exact)
        return self

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Save gains within 0..largest, as they are used: the optimizer's last step may have moved them further."""
        self.gains.data.clamp_(0, self.largest)
        super()._save_to_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Load the gains; report those that are larger than this layer's largest."""
        super()._load_from_state_dict(state_dict, prefix, *args)
        found, errors = largest_beyond(state_dict, f"{prefix}gains", self.largest), args[-1]
        if found is not None:
            errors.append(
                f"{prefix}gains go up to {found:.4g}, but this layer's largest is {self.largest}; build the network "
                "with the gains of the saved one"
            )

    def extra_repr(self) -> str:
        return f"{len(self.gains)}, largest={self.largest}"
