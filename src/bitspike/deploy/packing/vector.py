"""The check vector of a packed network: an input drawn from a seed, and what the network answers.

Any program that runs the network can draw the same input with a few lines of integer arithmetic, and compare.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bitspike.deploy.model import Floats, NetworkModel
from bitspike.deploy.packing import limits
from bitspike.deploy.packing.fields import Fields, Invalid

SEED = 1
DENSITIES = (64, 128, 24, 255)  # tried in this order until every layer fires
FEW_STEPS = 8

VectorKind = Literal["pixels", "spikes"]


@dataclass(frozen=True, slots=True, eq=False)
class CheckVector:
    """A drawn input of one sample, and the output for it: spikes, the last membrane, scores."""

    seed: int
    density: int  # of 256 values so many are not 0, on average
    kind: VectorKind  # pixels are one static image, spikes a sequence
    steps: int
    spikes: NDArray[np.bool_] | None  # [steps, classes]; None for neurons that never fire
    membrane: Floats  # [classes], after the last step
    scores: Floats  # [classes]

    def input(self, shape: tuple[int, ...]) -> Floats:
        """Return the input that the network takes, of one sample: `[1, *shape]`, or `[steps, 1, *shape]`."""
        drawn = draw(
            self.seed, self.density, self.kind, math.prod(shape) * (1 if self.kind == "pixels" else self.steps)
        )
        return drawn.reshape((1, *shape) if self.kind == "pixels" else (self.steps, 1, *shape))


def draw(seed: int, density: int, kind: VectorKind, count: int) -> Floats:
    """Return `count` values that a linear congruential generator of 32 bits gives.

    For each value s becomes (1664525 * s + 1013904223) mod 2**32, from s = seed on. Where the bits 16..23 of s are at
    least `density`, the value is 0. Else a spike is 1, and a pixel the bits 24..31, divided by 255 in float32.
    """
    values = np.zeros(count, np.float32)
    for i, s in zip(range(count), _numbers(seed), strict=False):
        if (s >> 16) & 255 < density:
            values[i] = 1 if kind == "spikes" else np.float32(s >> 24) / np.float32(255)
    return values


def _numbers(s: int) -> Iterator[int]:
    while True:
        s = (1664525 * s + 1013904223) & 0xFFFFFFFF
        yield s


def vector_to_json(vector: CheckVector) -> dict[str, Any]:
    """Return how the input is drawn, as a JSON object."""
    return {"seed": vector.seed, "density": vector.density, "kind": vector.kind, "steps": vector.steps}


def vector_from_json(value: object) -> dict[str, Any]:
    """Return how the input is drawn, checked."""
    fields = Fields(value, "vector")
    found = {
        "seed": fields.whole("seed", 0, 2**32 - 1),
        "density": fields.whole("density", 0, 256),
        "kind": fields.choice("kind", ("pixels", "spikes")),
        "steps": fields.whole("steps", 1, limits.MOST_VECTOR_STEPS),
    }
    fields.finish()
    return found


def require_vector(vector: CheckVector, model: NetworkModel) -> None:
    """Raise unless a vector fits the model, and its answer holds finite numbers."""
    vector_from_json(vector_to_json(vector))
    if (vector.spikes is None) != (model.readout == "membrane"):
        raise Invalid("the vector must hold spikes if, and only if, the last layer fires")
    if vector.spikes is not None and vector.spikes.shape != (vector.steps, model.classes):
        raise Invalid(f"the vector must have spikes of [{vector.steps}, {model.classes}]")
    for name, values in (("membrane", vector.membrane), ("scores", vector.scores)):
        if values.shape != (model.classes,) or values.dtype != np.float32 or not np.isfinite(values).all():
            raise Invalid(f"the vector's {name} must be {model.classes} finite numbers in float32")
    delayed = any(layer.delays is not None for layer in model.layers)
    if vector.kind == "pixels" and (delayed or vector.steps % model.glances):
        raise Invalid("the vector's image does not fit a network with delays, or its steps the glances")
    if vector.kind == "spikes" and model.glances > 1:
        raise Invalid("the vector's sequence does not fit a network with glances")
    if vector.kind == "spikes" and vector.steps * math.prod(model.input_shape) > limits.MOST_VECTOR_VALUES:
        raise Invalid(f"the vector's sequence has more than {limits.MOST_VECTOR_VALUES} values")
