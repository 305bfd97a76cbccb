"""Whether a layer's currents or membranes may leave float32, so that somebody has to look."""

from __future__ import annotations

import numpy as np

from bitspike.deploy.model import LayerModel

TOO_LARGE = "a membrane is no longer finite: the inputs are too large for float32; scale them down"


def may_overflow(layer: LayerModel, largest: float, steps: int = 1) -> bool:
    """Return whether inputs of up to `largest` may take a membrane out of float32 within so many steps.

    It is an upper bound: every input at its largest, with the sign of its weight, and nothing that leaks.
    """
    current = largest * layer.weight[0].size * layer.divisor
    if layer.bias is not None:
        current += float(np.abs(layer.bias).max())
    if layer.scale is not None and layer.offset is not None:
        current = current * float(np.abs(layer.scale).max()) + float(np.abs(layer.offset).max())
    if layer.recurrent is not None:
        current += layer.recurrent_scale * layer.neurons
    if layer.theta is not None:
        current += float(layer.theta.max())
    return not current * steps < float(np.finfo(np.float32).max)
