"""Make a check vector: an input, and PyTorch's answer to it."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch

from bitspike.deploy.model import NetworkModel
from bitspike.deploy.packing import limits
from bitspike.deploy.packing.vector import DENSITIES, FEW_STEPS, SEED, CheckVector, VectorKind
from bitspike.nn import LIF, Delay, SpikingNetwork


def make_vector(net: SpikingNetwork, model: NetworkModel) -> CheckVector:
    """Return a vector for `net`, which `model` describes; PyTorch computes the answer, on the CPU in evaluation mode.

    Of a few inputs of different density it is the first for which every layer fires, or the one for which most do.
    """
    quiet = copy.deepcopy(net).cpu().eval()  # hooks and listeners are left behind
    for module in quiet.modules():
        if isinstance(module, (LIF, Delay)):
            module.backend = "auto"
    tried = []
    for density in DENSITIES:
        vector, firing = _answer(quiet, model, density)
        if firing == len(model.layers):
            return vector
        tried.append((firing, vector))
    return max(tried, key=lambda pair: pair[0])[1]


def _answer(net: SpikingNetwork, model: NetworkModel, density: int) -> tuple[CheckVector, int]:
    """Return the vector of this density, and how many layers fire; a readout that never fires counts as firing."""
    delays = [0 if layer.delays is None else int(layer.delays.max(initial=0)) for layer in model.layers]
    delayed = any(layer.delays is not None for layer in model.layers)
    image = model.glances > 1 or model.input.kind == "image" or (model.input.kind == "values" and _image(model))
    kind: VectorKind = "pixels" if image and not delayed else "spikes"
    steps = model.glances * min(model.steps // model.glances, FEW_STEPS)
    if kind == "spikes":
        fitting = limits.MOST_VECTOR_VALUES // math.prod(model.input_shape)
        steps = min(FEW_STEPS + sum(delays), limits.MOST_VECTOR_STEPS, fitting)
    empty = np.zeros(model.classes, np.float32)
    x = torch.from_numpy(CheckVector(SEED, density, kind, steps, None, empty, empty).input(model.input_shape))
    with torch.no_grad():
        outputs = net.run(x, steps=steps if kind == "pixels" else None)
        scores = net.output_scores(outputs[-1])
    last = outputs[-1]
    fires = model.readout == "spikes"
    spikes = last.spikes.flatten(1).numpy() > 0 if fires else None
    membrane, flat = (part.flatten().numpy().astype(np.float32) for part in (last.state.membrane, scores))
    firing = sum(bool(layer.spikes.any()) for layer in outputs) + (not fires)
    return CheckVector(SEED, density, kind, steps, spikes, membrane, flat), firing


def _image(model: NetworkModel) -> bool:
    return len(model.input_shape) == 3
