"""Random networks as plain arrays, and inputs for them: every kind of layer in odd sizes, drawn from a seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitspike.deploy.model import AdaptationModel, LayerModel, NetworkModel, PoolModel, Shape


def random_layer(
    rng: np.random.Generator,
    kind: str,
    arriving: Shape,
    *,
    last: bool = False,
    delays: bool = False,
    leaky: bool = False,
    gains: int = 0,
) -> LayerModel:
    """Return a layer of any size with any of the parts that a layer may have; `gains` is the largest, 0 for none."""
    settings: dict[str, Any] = {}
    if kind == "dense":
        inputs, outputs = math.prod(arriving), int(rng.integers(1, 80))
        arriving, output = (inputs, 1, 1), (outputs, 1, 1)
        weight = rng.random((outputs, inputs)) < 0.5
    else:
        filters, kernel = int(rng.integers(1, 40)), int(rng.integers(1, min(arriving[1:], default=1) + 1))
        weight = rng.random((filters, arriving[0], kernel, kernel)) < 0.5
        settings = {"stride": int(rng.integers(1, 3)), "padding": int(rng.integers(0, kernel))}
        sides = [(n + 2 * settings["padding"] - kernel) // settings["stride"] + 1 for n in arriving[1:]]
        settings["pools"], sides = _random_pools(rng, sides)
        output = (filters, *sides)
    neurons = math.prod(output)
    if delays:
        longest = int(rng.integers(0, 9))
        settings["delays"] = rng.integers(0, longest + 1, arriving[0]).astype(np.uint16)
    if rng.random() < 0.4:
        settings["bias"] = rng.normal(size=output[0]).astype(np.float32)
    if rng.random() < 0.6:
        settings["scale"] = rng.normal(0.3, 0.3, output[0]).astype(np.float32)
        settings["offset"] = rng.normal(size=output[0]).astype(np.float32)
    if not leaky and neurons <= 200 and rng.random() < 0.4:
        settings["recurrent"] = rng.random((neurons, neurons)) < 0.5
        settings["recurrent_scale"] = float(rng.choice([1.0, neurons**-0.5]))
    if not leaky and rng.random() < 0.3:
        settings["adaptation"] = AdaptationModel(float(rng.uniform(0.5, 1)), float(rng.uniform(0.1, 2)))
    if gains:
        settings["gains"] = rng.integers(0, gains + 1, arriving[0]).astype(np.uint8)
    several = neurons if rng.random() < 0.5 else 1
    theta = rng.uniform(0.2, 4, neurons if rng.random() < 0.3 else 1).astype(np.float32)
    return LayerModel(
        "dense" if kind == "dense" else "conv",
        arriving,
        output,
        weight,
        beta=rng.uniform(0.3, 1, several).astype(np.float32),
        theta=None if leaky and last else theta,
        **settings,
    )


def random_model(
    seed: int,
    kinds: str,
    *,
    delays: bool = False,
    leaky: bool = False,
    gains: int = 0,
    glances: int = 1,
    steps: int = 6,
) -> NetworkModel:
    """Return a network whose layers are the letters of `kinds`: "c" is a convolution, "d" is dense."""
    rng = np.random.default_rng(seed)
    if kinds[0] == "c":
        shape = tuple(int(n) for n in (rng.integers(1, 4), rng.integers(4, 12), rng.integers(4, 12)))
    else:
        shape = (2, 5, 7) if glances > 1 else (int(rng.integers(1, 90)),)
    arriving: Shape = shape if kinds[0] == "c" else (math.prod(shape), 1, 1)
    layers: list[LayerModel] = []
    for i, kind in enumerate(kinds):
        last = i == len(kinds) - 1
        parts: Any = {"last": last, "delays": delays, "leaky": leaky and last, "gains": gains}
        layers.append(random_layer(rng, "conv" if kind == "c" else "dense", arriving, **parts))
        arriving = layers[-1].output
    readout = "membrane" if leaky else "spikes"
    return NetworkModel(kinds, shape, steps * glances, readout, tuple(layers), glances)  # type: ignore[arg-type]


def random_input(seed: int, model: NetworkModel, kind: str, batch: int, steps: int | None = None) -> NDArray[Any]:
    """Return `[B, ...]`, or with `steps` `[T, B, ...]`, of a kind: spikes, counts, bytes, dense, reals or pixels."""
    rng = np.random.default_rng(seed)
    shape = (batch, *model.input_shape) if steps is None else (steps, batch, *model.input_shape)
    if kind == "spikes":
        return (rng.random(shape) < 0.05).astype(np.float32)
    if kind == "dense":
        return (rng.random(shape) < 0.8).astype(np.float32)
    if kind == "counts":
        return rng.poisson(0.4, shape).astype(np.float32)
    if kind == "bytes":
        return (rng.integers(0, 256, shape) * (rng.random(shape) < 0.3)).astype(np.uint8)
    if kind == "pixels":
        return (rng.integers(0, 256, shape) / 255).astype(np.float32)
    if kind == "reals":
        return (rng.normal(size=shape) * 10 ** rng.uniform(-12, 3, shape)).astype(np.float32)
    raise ValueError(f"random_input: no kind {kind!r}")


def _random_pools(rng: np.random.Generator, sides: list[int]) -> tuple[tuple[PoolModel, ...], list[int]]:
    pools: list[PoolModel] = []
    for _ in range(int(rng.integers(0, 3))):
        size = int(rng.integers(1, min(3, *sides) + 1))
        stride = int(rng.integers(1, 4))
        pools.append(PoolModel("average" if rng.random() < 0.6 else "max", size, stride))
        sides = [(n - size) // stride + 1 for n in sides]
    return tuple(pools), sides
