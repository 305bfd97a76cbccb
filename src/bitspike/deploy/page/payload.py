"""A network as a dictionary of text and numbers, which a page holds as JSON. Names are those that `layer.js` reads."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitspike.deploy.model import LayerModel, NetworkModel
from bitspike.deploy.packing.vector import SEED
from bitspike.deploy.page.vectors import PageVector, make_vector


def payload(model: NetworkModel) -> dict[str, Any]:
    """Return all that the page knows of the network, with a test vector."""
    return network_payload(model) | {"vector": _vector(make_vector(model))}


def network_payload(model: NetworkModel) -> dict[str, Any]:
    """Return the network without a test vector: all that running it needs."""
    given = model.input
    return {
        "notation": model.notation,
        "inputShape": list(model.input_shape),
        "steps": model.steps,
        "glances": model.glances,
        "readout": model.readout,
        "classes": list(model.class_names) or [str(k) for k in range(model.classes)],
        "weights": model.weights,
        "metadata": model.metadata,
        "input": {
            "kind": given.kind,
            "binUs": given.bin_us,
            "steps": given.steps,
            "downsample": given.downsample,
            "polarity": given.polarity,
            "clip": given.clip,
            "durationUs": given.duration_us,
            "sensor": None if given.sensor is None else list(given.sensor),
            "origin": given.origin,
        },
        "layers": [_layer(layer) for layer in model.layers],
    }


def _layer(layer: LayerModel) -> dict[str, Any]:
    adaptation = layer.adaptation
    return {
        "kind": layer.kind,
        "input": list(layer.input),
        "output": list(layer.output),
        "kernel": layer.kernel,
        "stride": layer.stride,
        "padding": layer.padding,
        "pools": [{"kind": pool.kind, "size": pool.size, "stride": pool.stride} for pool in layer.pools],
        "divisor": layer.divisor,
        "weight": _bits(layer.weight),
        "beta": _floats(layer.beta),
        "theta": _floats(layer.theta),
        "bias": _floats(layer.bias),
        "scale": _floats(layer.scale),
        "offset": _floats(layer.offset),
        "delays": None if layer.delays is None else _text(layer.delays.astype("<u2").tobytes()),
        "gains": None if layer.gains is None else _text(layer.gains.tobytes()),
        "recurrent": None if layer.recurrent is None else _bits(layer.recurrent),
        "recurrentScale": _rounded(layer.recurrent_scale),
        "adaptation": None
        if adaptation is None
        else {
            "rho": _rounded(adaptation.rho),
            "rest": _rounded(1 - adaptation.rho),
            "strength": _rounded(adaptation.strength),
        },
    }


def _vector(vector: PageVector) -> dict[str, Any]:
    return {
        "seed": SEED,
        "kind": vector.kind,
        "density": vector.density,
        "steps": vector.steps,
        "spikes": [_bits(spikes) for spikes in vector.spikes],
        "membrane": _floats(vector.membrane),
    }


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bits(values: NDArray[np.bool_]) -> str:
    """Return bits as text, the first in the lowest bit of the first byte."""
    return _text(np.packbits(values.ravel(), bitorder="little").tobytes())


def _floats(values: NDArray[np.float32] | None) -> str | None:
    return None if values is None else _text(values.astype("<f4").tobytes())


def _rounded(value: float) -> float:
    """Return the nearest float32 number, which JSON then holds exactly."""
    return float(np.float32(value))
