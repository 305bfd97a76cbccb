"""The bytes of memory that the C runtime needs for a network: `bs_state_bytes`, without a compiler.

An exported model declares its memory with this number. main.c compares it with the runtime's own when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bitspike.deploy.runtime.layout import CONV, REALS, RuntimeLayer


@dataclass(frozen=True, slots=True)
class Build:
    """How the runtime was compiled: lanes that a row of sums is filled up to, bytes that each part begins at."""

    lanes: int
    part: int


PORTABLE = Build(lanes=32, part=8)
VECTORS = Build(lanes=512, part=64)  # on x86-64, where no BS_PORTABLE forbids it


def state_bytes(layers: Sequence[RuntimeLayer], *, form: int, planes: int, image: bool, build: Build) -> int:
    """Return the bytes of a network's state; `form`, `planes` and `image` are the fields of `bs_model`."""
    sizes = [*_shared(layers, planes, image, build)]
    for i, layer in enumerate(layers):
        sizes += _own(layer, form if i == 0 else None, planes if i == 0 else 1)
    return sum(_filled(size, build.part) for size in sizes)


def _shared(layers: Sequence[RuntimeLayer], planes: int, image: bool, build: Build) -> Iterator[int]:
    """Yield the sizes of the parts that all layers share, in the order of `Shared` in runtime_state.h."""
    first, last = layers[0], layers[-1]
    neurons = [math.prod(layer.output) for layer in layers]
    recurrent = [n for n, layer in zip(neurons, layers, strict=True) if layer.recurrent is not None]
    dense = [layer.output[0] for layer in layers if layer.kind != CONV]
    windows = [(len(layer.pools) + 1) * _filled(layer.output[0], build.lanes) for layer in layers if layer.kind == CONV]
    yield 12
    yield 4 * neurons[-1]
    yield 8 * neurons[-1] if last.theta is None else 0
    yield 4 * planes * _words(math.prod(first.input))
    yield 4 * neurons[0] if image else 0
    yield 4 * _filled(max([*dense, *recurrent], default=0), build.lanes)
    yield 4 * max(neurons)
    yield 4 * max(recurrent, default=0)
    yield 4 * max(windows, default=0)
    yield 4 * max(_gained(layer, planes if i == 0 else 1) for i, layer in enumerate(layers))


def _gained(layer: RuntimeLayer, planes: int) -> int:
    """Return the words of what arrives times its gains, for inputs of so many planes."""
    digits = layer.largest_gain.bit_length()
    return 0 if layer.gains is None else (digits if planes == 1 else planes + digits) * _words(math.prod(layer.input))


def _own(layer: RuntimeLayer, form: int | None, planes: int) -> Iterator[int]:
    """Yield the sizes of a layer's own parts, in the order of `Parts`; `form` is that of the input it gets."""
    neurons, inputs = math.prod(layer.output), math.prod(layer.input)
    yield 4 * neurons
    yield 4 * neurons if layer.adaptive else 0
    yield 4 * _words(neurons)
    yield 4 if layer.delays is not None else 0
    slot = inputs if form == REALS else planes * _words(inputs)
    yield 4 * (layer.longest + 1) * slot if layer.delays is not None else 0


def _words(bits: int) -> int:
    return _filled(bits, 32) // 32


def _filled(number: int, unit: int) -> int:
    return -(-number // unit) * unit
