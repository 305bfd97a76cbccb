"""A network's arrays as the C runtime wants them: weights in rows of bits, neurons channels-last.

The engine hands them to C, and the C export writes them down as constants. Field by field they are `bs_layer` and
`bs_model` of runtime.h, which says what each of them means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitspike.deploy.model import Floats, LayerModel, NetworkModel, Shape

Words = NDArray[np.uint32]

COUNTS, REALS = 0, 1  # enum bs_input
DENSE, CONV = 0, 1  # enum bs_kind
POOLINGS = {"average": 0, "max": 1}  # enum bs_pooling
MOST_POOLS = 4  # BS_POOLS
MOST_PLANES = 8  # BS_PLANES
EXACT = 2**24  # whole numbers up to here are exact in float32


_AT_ONCE = 1 << 20  # bits that are put in order at a time

NUMBER_BITS, FACTOR_BITS = 16, 24  # behind the point, of fixed-point numbers and factors (runtime_numbers.h)


@dataclass(frozen=True, slots=True, eq=False)
class RuntimeLayer:
    """One layer, field by field `bs_layer` of runtime.h."""

    kind: int
    input: Shape
    output: Shape
    kernel: int
    stride: int
    padding: int
    pools: tuple[tuple[int, int, int], ...]  # kind, size, stride
    weight: Words  # [rows, words]
    bias: Floats | None
    scale: Floats | None
    offset: Floats | None
    delays: NDArray[np.uint16] | None
    longest: int
    gains: Words | None  # [digits, words]
    largest_gain: int
    recurrent: Words | None
    recurrent_scale: float
    beta: Floats
    theta: Floats | None
    adaptive: bool
    rho: float
    rest: float
    strength: float


def pack_rows(bits: NDArray[np.bool_], order: NDArray[np.intp] | None = None) -> Words:
    """Return rows of bits `[rows, lanes]` as words of 32, the lowest bit first; a row ends with zeros.

    `order` says which row comes where. A part of the rows at a time is put in order, so that no second copy of all the
    bits is made.
    """
    rows, lanes = bits.shape
    words = np.zeros((rows, -(-lanes // 32)), "<u4")
    as_bytes = words.view(np.uint8)
    many = max(1, _AT_ONCE // lanes)
    for first in range(0, rows, many):
        part = slice(first, first + many)
        packed = np.packbits(bits[part if order is None else order[part]], axis=1, bitorder="little")
        as_bytes[part, : packed.shape[1]] = packed
    return words.astype(np.uint32, copy=False)


def fixed_point(values: Floats | float, bits: int) -> NDArray[np.int32]:
    """Return numbers as whole numbers of 2**-bits, the nearest; what is too large stays at the end of the range."""
    most = 2**31 - 1
    scaled = np.rint(np.asarray(values, np.float64) * 2.0**bits)
    return np.clip(scaled, -most, most).astype(np.int32)


def channels_last(shape: Shape) -> NDArray[np.intp]:
    """Return for each place of a channels-last order its index in the order channels, rows, columns."""
    return np.arange(np.prod(shape)).reshape(shape).transpose(1, 2, 0).ravel()


def runtime_layers(model: NetworkModel) -> tuple[RuntimeLayer, ...]:
    """Return all layers in the C runtime's layout."""
    before: Shape | None = None
    layers: list[RuntimeLayer] = []
    for layer in model.layers:
        layers.append(_runtime_layer(layer, before))
        before = layer.output
    return tuple(layers)


def planes_for(model: NetworkModel, largest: int) -> int | None:
    """Return the binary digits for counts up to `largest`; None where the runtime has no exact sums for them."""
    first = model.layers[0]
    taps = first.weight[0].size * first.divisor * first.largest_gain
    planes = max(1, int(largest).bit_length())
    return planes if planes <= MOST_PLANES and taps * (2**planes - 1) <= EXACT else None


def _runtime_layer(layer: LayerModel, before: Shape | None) -> RuntimeLayer:
    if len(layer.pools) > MOST_POOLS:
        raise ValueError(f"engine: a layer may have up to {MOST_POOLS} pools, but one has {len(layer.pools)}")
    neurons = channels_last(layer.output)
    delays, gains, arriving = layer.delays, layer.gains, None
    if layer.kind == "dense":
        rows = layer.weight.T
        if before is not None:
            arriving = channels_last(before)
            delays = None if delays is None else delays[arriving]
            gains = None if gains is None else gains[arriving]
    else:
        rows = layer.weight.transpose(2, 3, 1, 0).reshape(-1, len(layer.weight))
    adaptation = layer.adaptation
    rho, strength = (adaptation.rho, adaptation.strength) if adaptation else (0.0, 0.0)
    return RuntimeLayer(
        kind=DENSE if layer.kind == "dense" else CONV,
        input=layer.input,
        output=layer.output,
        kernel=layer.kernel,
        stride=layer.stride,
        padding=layer.padding,
        pools=tuple((POOLINGS[pool.kind], pool.size, pool.stride) for pool in layer.pools),
        weight=pack_rows(rows, arriving),
        bias=layer.bias,
        scale=layer.scale,
        offset=layer.offset,
        delays=delays,
        longest=0 if delays is None else int(delays.max(initial=0)),
        gains=None if gains is None else _gain_rows(gains, layer),
        largest_gain=layer.largest_gain,
        recurrent=None if layer.recurrent is None else _recurrent_rows(layer.recurrent, neurons),
        recurrent_scale=layer.recurrent_scale,
        beta=_in_order(layer.beta, neurons),
        theta=None if layer.theta is None else _in_order(layer.theta, neurons),
        adaptive=adaptation is not None,
        rho=rho,
        rest=1 - rho,
        strength=strength,
    )


def _gain_rows(gains: NDArray[np.uint8], layer: LayerModel) -> Words:
    """Return the binary digits of gains, the lowest first; a convolution's come again until a pixel begins a word."""
    inputs = math.prod(layer.input)
    lanes = min(math.lcm(len(gains), 32), inputs)
    digits = np.arange(layer.largest_gain.bit_length())
    return pack_rows((np.resize(gains, lanes) >> digits[:, None] & 1).astype(np.bool_))


def _recurrent_rows(recurrent: NDArray[np.bool_], neurons: NDArray[np.intp]) -> Words:
    """Return a row of targets for each neuron, both channels-last; a file has recurrence in dense layers only."""
    in_place = bool((neurons == np.arange(len(neurons))).all())
    return pack_rows(recurrent.T if in_place else recurrent.T[np.ix_(neurons, neurons)])


def _in_order(values: Floats, neurons: NDArray[np.intp]) -> Floats:
    return np.ascontiguousarray(values.ravel() if values.size == 1 else values.ravel()[neurons], np.float32)
