"""The arrays of a packed network: which there are, their shapes in memory and in a file, and what their values may be.

Weights of one bit are rows of bytes: bit i of a row is bit i % 8, from the least significant, of byte i // 8. A row
ends with a whole byte; the bits that are left over are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bitspike.deploy.model import LayerModel
from bitspike.deploy.packing import limits
from bitspike.deploy.packing.fields import Invalid
from bitspike.deploy.packing.structure import LayerStructure, Structure

Kind = Literal["bits", "steps", "gains", "numbers"]
Sizes = tuple[int, ...]

# Fields of LayerModel, and how a file holds them.
KINDS: dict[str, Kind] = {
    "weight": "bits",
    "recurrent": "bits",
    "delays": "steps",
    "gains": "gains",
    "bias": "numbers",
    "scale": "numbers",
    "offset": "numbers",
    "beta": "numbers",
    "theta": "numbers",
}
TYPES: dict[Kind, type[Any]] = {"bits": np.bool_, "steps": np.uint16, "gains": np.uint8, "numbers": np.float32}
STORED: dict[Kind, tuple[str, ...]] = {"bits": ("U8",), "steps": ("U8", "U16"), "gains": ("U8",), "numbers": ("F32",)}


def allowed_shapes(layer: LayerStructure) -> dict[str, tuple[Sizes, ...]]:
    """Return the shapes that each array of a layer may have; an array that is not listed must not be there."""
    channels, arriving = layer.output[0], layer.input[0]
    kernels = (channels, arriving, layer.kernel, layer.kernel) if layer.kind == "conv" else (channels, arriving)
    each = ((1,), (layer.neurons,))
    shapes: dict[str, tuple[Sizes, ...]] = {"weight": (kernels,), "beta": each, "theta": each}
    shapes |= dict.fromkeys(("delays", "gains"), ((arriving,),))
    shapes |= dict.fromkeys(("bias", "scale", "offset"), ((channels,),))
    if layer.kind == "dense":
        shapes["recurrent"] = ((layer.neurons, layer.neurons),)
    return shapes


def stored_shape(kind: Kind, shape: Sizes) -> Sizes:
    """Return the shape that a file has for an array: rows of bits are packed, anything else is as it is."""
    return (shape[0], -(-math.prod(shape[1:]) // 8)) if kind == "bits" else shape


def require_present(names: Mapping[str, object], layer: LayerStructure, where: str, *, fires: bool) -> None:
    """Raise unless a layer has the arrays, by name, that its structure needs, and no others."""
    wanted = {"weight", "beta"} | ({"theta"} if fires else set())
    if missing := sorted(wanted - names.keys()):
        raise Invalid(f"{where} has no {missing[0]}")
    strange = sorted(names.keys() - allowed_shapes(layer).keys()) or ([] if fires else sorted(names.keys() & _FIRING))
    if strange or (not fires and layer.adaptation is not None):
        raise Invalid(f"{where} must not have {(strange or ['adaptation'])[0]}")
    if ("scale" in names) != ("offset" in names):
        raise Invalid(f"{where} must have scale and offset, or neither")
    if layer.recurrent_scale != 1 and "recurrent" not in names:
        raise Invalid(f"{where} has a recurrent_scale but no recurrent weights")


_FIRING = {"theta", "recurrent"}


def require_delays(structure: Structure, layers: Sequence[LayerModel]) -> None:
    """Raise unless delays are on sequences, and all that they hold stays within its bound."""
    delayed = [(layer.input, layer.delays) for layer in layers if layer.delays is not None]
    if delayed and structure.glances > 1:
        raise Invalid(f"delays need sequences, but {structure.glances} glances are for static images")
    held = sum(math.prod(shape) * int(delays.max()) for shape, delays in delayed)
    if held > limits.MOST_DELAYED:
        raise Invalid(f"its delays hold {held} values, more than {limits.MOST_DELAYED}")


def require_gains(layers: Sequence[LayerModel]) -> None:
    """Raise unless one spike from every input, times the largest gain, still gives exact sums."""
    for i, layer in enumerate(layers):
        largest = layer.weight[0].size * layer.divisor * layer.largest_gain
        if layer.gains is not None and largest > limits.MOST_GAINED:
            raise Invalid(
                f"layer {i + 1}: with gains of up to {layer.largest_gain} its sums reach {largest}, more than "
                f"{limits.MOST_GAINED}, where float32 is no longer exact"
            )


def pack_bits(bits: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return rows of bits as rows of bytes, least significant bit first; pad bits are 0."""
    return np.packbits(bits.reshape(len(bits), -1), axis=1, bitorder="little")


def unpack_bits(rows: NDArray[np.uint8], shape: Sizes, where: str) -> NDArray[np.bool_]:
    """Return rows of bytes as bits of `shape`; raise Invalid if a pad bit is 1."""
    count = math.prod(shape[1:])
    if count % 8 and (rows[:, -1] >> (count % 8)).any():
        raise Invalid(f"{where} has a bit that is not 0 behind its last weight")
    return np.unpackbits(rows, axis=1, count=count, bitorder="little").view(np.bool_).reshape(shape)


def stored(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return a layer's array as a file holds it."""
    kind = KINDS[name]
    if kind == "bits":
        return pack_bits(array)
    if kind == "steps":
        return array.astype(np.uint8 if array.max(initial=0) < 256 else np.uint16)
    return np.ascontiguousarray(array, dtype=TYPES[kind])


def require_values(name: str, array: NDArray[Any], where: str, *, fires: bool) -> None:
    """Raise unless the numbers of an array are what its name promises."""
    if KINDS[name] != "numbers":
        return
    rule, holds = _RULES["readout's beta" if name == "beta" and not fires else name]
    if not holds(array).all():
        worst = array[~holds(array)].flat[0]
        raise Invalid(f"{where}: {name} must be {rule}, but is {worst:g}")


Rule = tuple[str, Callable[[NDArray[Any]], NDArray[np.bool_]]]
_FINITE: Rule = ("finite", np.isfinite)
_RULES: dict[str, Rule] = {
    "beta": ("in [0, 1]", lambda values: (values >= 0) & (values <= 1)),
    "readout's beta": ("in [0, 1)", lambda values: (values >= 0) & (values < 1)),
    "theta": ("finite and > 0", lambda values: np.isfinite(values) & (values > 0)),
    "bias": _FINITE,
    "scale": _FINITE,
    "offset": _FINITE,
}


def arrays_of(layer: LayerModel) -> dict[str, NDArray[Any]]:
    """Return the arrays that a layer has, by name."""
    return {name: array for name in KINDS if (array := getattr(layer, name)) is not None}


def require_arrays(layer: LayerModel, structure: LayerStructure, where: str, *, fires: bool) -> None:
    """Raise unless a layer in memory has the shapes, types and values that its structure promises."""
    if (layer.input, layer.output) != (structure.input, structure.output):
        raise Invalid(
            f"{where} must go from {structure.input} to {structure.output}, not {layer.input}, {layer.output}"
        )
    arrays = arrays_of(layer)
    require_present(arrays, structure, where, fires=fires)
    shapes = allowed_shapes(structure)
    for name, array in arrays.items():
        wanted = TYPES[KINDS[name]]
        if not isinstance(array, np.ndarray) or array.dtype != wanted or array.shape not in shapes[name]:
            found = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            sizes = " or ".join(str(list(shape)) for shape in shapes[name])
            raise Invalid(f"{where}: {name} must be {wanted.__name__} {sizes}, but is {found}")
        require_values(name, array, where, fires=fires)
