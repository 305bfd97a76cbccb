"""The structure of a packed network: all but its arrays, as a JSON object. The page packed-format.md specifies it.

`to_json` and `from_json` are the two directions. `from_json` derives every shape from the input's, and checks each size
against its bound, so that nothing is allocated that does not fit.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, cast

from bitspike.deploy.model import AdaptationModel, InputModel, LayerModel, NetworkModel, PoolModel, Shape
from bitspike.deploy.packing import limits
from bitspike.deploy.packing.fields import Fields, Invalid, require_list, require_number, require_text, require_whole

FORMAT = 1
LARGEST = 3.4028234663852886e38  # of float32
_DEFAULT = InputModel()


@dataclass(frozen=True, slots=True)
class LayerStructure:
    """A layer without its arrays: what arrives, what its product and its neurons are, and what lies between."""

    kind: str
    input: Shape
    product: Shape  # before the pools
    output: Shape
    kernel: int
    stride: int
    padding: int
    pools: tuple[PoolModel, ...]
    recurrent_scale: float
    adaptation: AdaptationModel | None

    @property
    def neurons(self) -> int:
        """How many neurons the layer has."""
        return math.prod(self.output)

    @property
    def sums(self) -> int:
        """How many sums over its inputs a step may take: pools that overlap may ask for the same ones again."""
        return max(math.prod(self.product), self.neurons * math.prod(pool.size**2 for pool in self.pools))


@dataclass(frozen=True, slots=True)
class Structure:
    """A network without its arrays."""

    notation: str
    input_shape: tuple[int, ...]
    steps: int
    glances: int
    readout: str
    layers: tuple[LayerStructure, ...]
    input: InputModel
    class_names: tuple[str, ...]
    metadata: dict[str, str]

    @property
    def classes(self) -> int:
        """How many outputs the network has."""
        return self.layers[-1].neurons


def to_json(model: NetworkModel) -> dict[str, Any]:
    """Return the structure of a model as a JSON object, in one fixed order; what has its default is left out."""
    given = {name: value for name, value in asdict(model.input).items() if value != getattr(_DEFAULT, name)}
    if given.get("sensor") is not None:
        given["sensor"] = list(given["sensor"])
    return {
        "notation": model.notation,
        "input_shape": list(model.input_shape),
        "steps": model.steps,
        "glances": model.glances,
        "readout": model.readout,
        "layers": [_layer_to_json(layer) for layer in model.layers],
        "input": given,
        "class_names": list(model.class_names),
        "metadata": {name: model.metadata[name] for name in sorted(model.metadata)},
    }


def _layer_to_json(layer: LayerModel) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": layer.kind, "outputs": layer.output[0]}
    if layer.kind == "conv":
        found["kernel"] = layer.kernel
    if layer.stride != 1:
        found["stride"] = layer.stride
    if layer.padding:
        found["padding"] = layer.padding
    if layer.pools:
        found["pools"] = [[pool.kind, pool.size, pool.stride] for pool in layer.pools]
    if layer.recurrent_scale != 1:
        found["recurrent_scale"] = layer.recurrent_scale
    if layer.adaptation is not None:
        found["adaptation"] = [layer.adaptation.rho, layer.adaptation.strength]
    return found


def from_json(fields: Fields) -> Structure:
    """Return the structure that a JSON object holds; raise Invalid for anything that the format does not allow."""
    shape = _shape(fields)
    steps = fields.whole("steps", 1, limits.MOST_STEPS)
    glances = fields.whole("glances", 1, 9)
    if glances not in (1, 5, 9) or steps % glances or (glances > 1 and len(shape) != 3):
        raise Invalid(
            f"{fields.where}: glances must be 1, or 5 or 9 of an image, and divide the {steps} steps, but are {glances}"
        )
    found = Structure(
        notation=fields.text("notation", limits.MOST_NOTATION),
        input_shape=shape,
        steps=steps,
        glances=glances,
        readout=fields.choice("readout", ("spikes", "membrane")),
        layers=_layers(fields, shape),
        input=_input(fields.take("input"), shape),
        class_names=_class_names(fields),
        metadata=_metadata(fields.take("metadata")),
    )
    _require_whole_network(found)
    return found


def _shape(fields: Fields) -> tuple[int, ...]:
    sizes = fields.items("input_shape", 8)
    shape = tuple(require_whole("input_shape", size, 1, limits.MOST_VALUES) for size in sizes)
    if not shape or math.prod(shape) > limits.MOST_VALUES:
        raise Invalid(f"input_shape must have 1..{limits.MOST_VALUES} values, but is {list(shape)}")
    return shape


def _layers(fields: Fields, shape: tuple[int, ...]) -> tuple[LayerStructure, ...]:
    layers: list[LayerStructure] = []
    for i, value in enumerate(fields.items("layers", limits.MOST_LAYERS)):
        layers.append(_layer(Fields(value, f"layer {i + 1}"), shape))
        shape = layers[-1].output if layers[-1].kind == "conv" else layers[-1].output[:1]
    if not layers:
        raise Invalid("it has no layers")
    return tuple(layers)


def _layer(fields: Fields, shape: tuple[int, ...]) -> LayerStructure:
    kind = fields.choice("kind", ("dense", "conv"))
    outputs = fields.whole("outputs", 1, limits.MOST_VALUES)
    kernel, stride, padding = 1, 1, 0
    pools: tuple[PoolModel, ...] = ()
    arriving: Shape = (math.prod(shape), 1, 1)
    product: Shape = (outputs, 1, 1)
    if kind == "conv":
        if len(shape) != 3:
            raise Invalid(f"{fields.where} is a convolution and needs channels, rows, columns, but gets {list(shape)}")
        arriving = (shape[0], shape[1], shape[2])
        kernel = fields.whole("kernel", 1, limits.MOST_SIDE)
        stride = fields.whole("stride", 1, limits.MOST_SIDE) if "stride" in fields else 1
        padding = fields.whole("padding", 0, kernel - 1) if "padding" in fields else 0
        if kernel > min(shape[1:]) + 2 * padding:
            raise Invalid(f"{fields.where}: a kernel of {kernel} does not fit its input of {list(shape)}")
        rows, columns = ((n + 2 * padding - kernel) // stride + 1 for n in shape[1:])
        product = (outputs, rows, columns)
        pools = _pools(fields)
    scale = fields.number("recurrent_scale", 0, LARGEST) if "recurrent_scale" in fields else 1.0
    adaptation = _adaptation(fields) if "adaptation" in fields else None
    fields.finish()
    output = _pooled(fields.where, product, pools)
    inputs = math.prod(arriving) if kind == "dense" else arriving[0] * kernel**2
    if inputs > limits.MOST_INPUTS or math.prod(product) > limits.MOST_VALUES:
        raise Invalid(f"{fields.where}: {inputs} inputs a neuron and a product of {list(product)} are too many")
    return LayerStructure(kind, arriving, product, output, kernel, stride, padding, pools, scale, adaptation)


def _pools(fields: Fields) -> tuple[PoolModel, ...]:
    pools = []
    for value in fields.items("pools", limits.MOST_POOLS) if "pools" in fields else []:
        parts = require_list(f"{fields.where}: a pool", value, 3)
        if len(parts) != 3 or parts[0] not in ("average", "max"):
            raise Invalid(f'{fields.where}: a pool must be ["average" or "max", size, stride]')
        size = require_whole(f"{fields.where}: the side of a pool", parts[1], 1, limits.MOST_POOL_SIDE)
        stride = require_whole(f"{fields.where}: the stride of a pool", parts[2], 1, limits.MOST_VALUES)
        pools.append(PoolModel(parts[0], size, stride))
    if math.prod(pool.size**2 for pool in pools if pool.kind == "average") > limits.MOST_DIVISOR:
        raise Invalid(f"{fields.where}: its average pools take the mean of more than {limits.MOST_DIVISOR} values")
    return tuple(pools)


def _pooled(where: str, product: Shape, pools: tuple[PoolModel, ...]) -> Shape:
    channels, rows, columns = product
    for pool in pools:
        if pool.size > min(rows, columns):
            raise Invalid(f"{where}: a pool of {pool.size} does not fit its input of {rows} x {columns}")
        rows, columns = ((n - pool.size) // pool.stride + 1 for n in (rows, columns))
    return channels, rows, columns


def _adaptation(fields: Fields) -> AdaptationModel:
    parts = fields.items("adaptation", 2)
    if len(parts) != 2:
        raise Invalid(f"{fields.where}: adaptation must be [rho, strength]")
    return AdaptationModel(
        require_number(f"{fields.where}: rho", parts[0], 0, 1),
        require_number(f"{fields.where}: strength", parts[1], 0, LARGEST),
    )


def _input(value: object, shape: tuple[int, ...]) -> InputModel:
    fields, most = Fields(value, "input"), 2**53
    found: dict[str, Any] = {}
    for name, choices in (("kind", ("image", "events", "values")), ("origin", ("zero", "first"))):
        if name in fields:
            found[name] = fields.choice(name, choices)
    bounds = {"bin_us": most, "steps": limits.MOST_STEPS, "downsample": most, "clip": 255, "duration_us": most}
    for name, high in bounds.items():
        if name in fields:
            found[name] = fields.whole(name, 1, high)
    if "polarity" in fields:
        found["polarity"] = fields.truth("polarity")
    if "sensor" in fields:
        sizes = fields.items("sensor", 3)
        found["sensor"] = tuple(require_whole("input: sensor", n, 1, limits.MOST_VALUES) for n in sizes)
        if not found["sensor"] or math.prod(found["sensor"]) > limits.MOST_DELAYED:
            raise Invalid(f"input: sensor must have 1..{limits.MOST_DELAYED} places, but is {list(found['sensor'])}")
    fields.finish()
    if found.get("steps", 1) * math.prod(shape) > limits.MOST_FRAMES:
        raise Invalid(f"input: {found['steps']} steps of {list(shape)} are more than {limits.MOST_FRAMES} values")
    return InputModel(**found)


def _class_names(fields: Fields) -> tuple[str, ...]:
    names = fields.items("class_names", limits.MOST_CLASSES)
    return tuple(require_text("a class name", name, limits.MOST_NAME) for name in names)


def _metadata(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > limits.MOST_NOTES:
        raise Invalid(f"metadata must be an object of at most {limits.MOST_NOTES} texts")
    return {
        require_text("a key of the metadata", name, limits.MOST_NAME): require_text(
            "a value of the metadata", text, limits.MOST_NOTE
        )
        for name, text in cast(dict[str, Any], value).items()
    }


def _require_whole_network(found: Structure) -> None:
    """Raise unless the layers together stay within their bounds, and names fit the classes."""
    if found.classes > limits.MOST_CLASSES or found.steps * found.classes > limits.MOST_ANSWERS:
        raise Invalid(f"its {found.classes} classes in {found.steps} steps are too many")
    if found.class_names and len(found.class_names) != found.classes:
        raise Invalid(f"it has {len(found.class_names)} class names for {found.classes} classes")
    if (neurons := sum(layer.neurons for layer in found.layers)) > limits.MOST_NEURONS:
        raise Invalid(f"its {neurons} neurons are more than {limits.MOST_NEURONS}")
    additions = sum(layer.sums * layer.input[0] * layer.kernel**2 for layer in found.layers)
    if additions > limits.MOST_ADDITIONS:
        raise Invalid(f"its {additions} additions a step are more than {limits.MOST_ADDITIONS}")
