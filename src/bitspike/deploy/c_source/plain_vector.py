"""Check vectors without PyTorch: the plain engine computes the answer."""

from __future__ import annotations

import numpy as np

from bitspike.deploy.model import NetworkModel
from bitspike.deploy.packing.vector import SEED, CheckVector, VectorKind
from bitspike.deploy.runtime import plain_engine

DENSITY, STEPS = 64, 8


def plain_vector(
    model: NetworkModel, *, density: int = DENSITY, steps: int = STEPS, kind: VectorKind | None = None, seed: int = SEED
) -> CheckVector:
    """Return a vector of `steps` steps and what the network answers. By default images are static, if they can be.

    Each of the glances takes `steps`.
    """
    delayed = any(layer.delays is not None for layer in model.layers)
    kind = kind or ("pixels" if len(model.input_shape) == 3 and not delayed else "spikes")
    steps *= model.glances if kind == "pixels" else 1
    empty = np.zeros(model.classes, np.float32)
    x = CheckVector(seed, density, kind, steps, None, empty, empty).input(model.input_shape)
    last = plain_engine.run(model, x, steps if kind == "pixels" else None)[-1]
    spikes, membrane = (part.reshape(steps, 1, -1) for part in last)
    return CheckVector(
        seed,
        density,
        kind,
        steps,
        spikes=spikes[:, 0] > 0 if model.readout == "spikes" else None,
        membrane=membrane[-1, 0],
        scores=plain_engine.scores(model, spikes, membrane)[0],
    )
