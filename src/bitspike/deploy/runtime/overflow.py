"""Whether a layer's currents or membranes may leave float32, so that somebody has to look."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bitspike.deploy.model import LayerModel

TOO_LARGE = "a membrane is no longer finite: the inputs are too large for float32; scale them down"
_MOST = float(np.finfo(np.float32).max)


class Bound(NamedTuple):
    """|current| <= each * (the largest input) + rest, in every step.

    It is an upper bound: every input at its largest, times the largest gain, with the sign of its weight. `rest` also
    holds what a spike takes away.
    """

    each: float
    rest: float

    def may_overflow(self, largest: float, steps: int = 1) -> bool:
        """Return whether inputs of up to `largest` may take a membrane out of float32 within so many steps."""
        return not (self.each * largest + self.rest) * steps < _MOST


def bound_of(layer: LayerModel) -> Bound:
    """Return the bound of a layer's current; nothing is taken to leak."""
    each, rest = float(layer.weight[0].size * layer.divisor * layer.largest_gain), 0.0
    if layer.bias is not None:
        rest += float(np.abs(layer.bias).max())
    if layer.scale is not None and layer.offset is not None:
        scale = float(np.abs(layer.scale).max())
        each, rest = each * scale, rest * scale + float(np.abs(layer.offset).max())
    if layer.recurrent is not None:
        rest += layer.recurrent_scale * layer.neurons
    if layer.theta is not None:
        rest += float(layer.theta.max())
    if layer.adaptation is not None:
        rest += abs(layer.adaptation.strength)
    return Bound(each, rest)
