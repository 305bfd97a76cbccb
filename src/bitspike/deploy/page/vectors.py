"""The test vector of a page: a drawn input, and what every layer gives for it in every step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitspike.deploy.model import NetworkModel
from bitspike.deploy.packing.vector import DENSITIES, FEW_STEPS, SEED, VectorKind, draw
from bitspike.deploy.runtime import plain_engine

MOST_STEPS = 48


@dataclass(frozen=True, slots=True, eq=False)
class PageVector:
    """An input that `bitspike.deploy.vector.draw` gives, and the output of the NumPy definition for it."""

    kind: VectorKind  # pixels are one static image, spikes a sequence
    density: int
    steps: int
    spikes: tuple[NDArray[np.bool_], ...]  # of each layer [steps, neurons]
    membrane: NDArray[np.float32]  # of the last layer [steps, classes]

    @property
    def firing(self) -> int:
        """How many layers fire."""
        return sum(bool(layer.any()) for layer in self.spikes)


def make_vector(model: NetworkModel) -> PageVector:
    """Return a test vector of a few steps: of a few densities, the first for which every layer fires, or most do."""
    able = sum(layer.theta is not None for layer in model.layers)
    tried: list[PageVector] = []
    for density in DENSITIES:
        tried.append(_vector(model, density))
        if tried[-1].firing == able:
            break
    return max(tried, key=lambda vector: vector.firing)


def is_sequence(model: NetworkModel) -> bool:
    """Return whether the page feeds sequences: for events, delays, and values that are no image."""
    if model.glances > 1 or model.input.kind == "image":
        return False
    delays = any(layer.delays is not None for layer in model.layers)
    return delays or model.input.kind == "events" or len(model.input_shape) != 3


def _vector(model: NetworkModel, density: int) -> PageVector:
    sequence = is_sequence(model)
    # With delays, enough steps that delayed spikes arrive; with glances, two steps of each at least.
    longest = sum(0 if layer.delays is None else int(layer.delays.max(initial=0)) for layer in model.layers)
    few = model.glances * max(2, -(-FEW_STEPS // model.glances))
    steps = min(FEW_STEPS + longest, MOST_STEPS) if sequence else few
    kind: VectorKind = "spikes" if sequence else "pixels"
    values = draw(SEED, density, kind, math.prod(model.input_shape) * (steps if sequence else 1))
    x = values.reshape((steps, 1, *model.input_shape) if sequence else (1, *model.input_shape))
    outputs = plain_engine.run(model, x, None if sequence else steps)
    spikes = tuple(layer.spikes.reshape(steps, -1) > 0 for layer in outputs)
    return PageVector(kind, density, steps, spikes, outputs[-1].membrane.reshape(steps, -1))
