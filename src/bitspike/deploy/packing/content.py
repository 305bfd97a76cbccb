"""The bytes of a packed network: a safetensors container with arrays, structure, check vector and checksum.

`packed_bytes` and `parse_packed` are the two directions. Whatever the first writes the second reads, and nothing else:
`require_model` checks a model in memory by the same rules.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, cast

from numpy.typing import NDArray

from bitspike.deploy.model import LayerModel, NetworkModel, require_network_model
from bitspike.deploy.packing.arrays import (
    KINDS,
    STORED,
    TYPES,
    Sizes,
    allowed_shapes,
    arrays_of,
    pack_bits,
    require_arrays,
    require_delays,
    require_gains,
    require_present,
    stored,
    stored_shape,
    unpack_bits,
)
from bitspike.deploy.packing.container import Container, open_container, write_container
from bitspike.deploy.packing.fields import Fields, Invalid, parse_json, shown
from bitspike.deploy.packing.structure import FORMAT, LayerStructure, Structure, from_json, to_json
from bitspike.deploy.packing.vector import CheckVector, require_vector, vector_from_json, vector_to_json


class PackedFile(NamedTuple):
    """What a packed file holds: a network, and a vector to check an engine with."""

    model: NetworkModel
    vector: CheckVector | None


def packed_bytes(model: NetworkModel, vector: CheckVector | None = None) -> bytes:
    """Return the content of a packed file; raise ValueError for a model that is not valid."""
    try:
        require_model(model)
        document = {"format": FORMAT, **to_json(model)}
        arrays = {
            f"{i}.{name}": stored(name, array)
            for i, layer in enumerate(model.layers)
            for name, array in arrays_of(layer).items()
        }
        if vector is not None:
            require_vector(vector, model)
            document["vector"] = vector_to_json(vector)
            arrays |= {"vector.membrane": vector.membrane, "vector.scores": vector.scores}
            arrays |= {} if vector.spikes is None else {"vector.spikes": pack_bits(vector.spikes)}
        content = write_container(arrays, json.dumps(document, ensure_ascii=False, separators=(",", ":")))
        open_container(content)  # within the bounds of a header and a file
    except Invalid as error:
        raise ValueError(f"write_packed: the network cannot be packed: {error}") from None
    return content


def parse_packed(content: bytes, name: str = "the content") -> PackedFile:
    """Return what the content of a packed file holds; raise ValueError, which calls it `name`, if it is not valid."""
    try:
        container = open_container(content)
        fields = Fields(parse_json(container.text), "its metadata")
        digits = fields.take("sha256")
        if (version := fields.take("format")) != FORMAT or type(version) is not int:
            raise Invalid(f"it has the format {shown(version)}, and this version of bitspike reads {FORMAT}")
        container.require_checksum(digits)
        drawn = vector_from_json(fields.take("vector")) if "vector" in fields else None
        structure = from_json(fields)
        fields.finish()
        return _read(container, structure, drawn)
    except Invalid as error:
        raise ValueError(f"{name} is not a packed network, or is damaged: {error}") from None


def require_model(model: NetworkModel) -> None:
    """Raise ValueError unless a model keeps what its docstrings and the packed format promise."""
    require_network_model("the network", model)
    structure = from_json(Fields(to_json(model), "the network"))
    for i, (layer, planned) in enumerate(zip(model.layers, structure.layers, strict=True)):
        require_arrays(layer, planned, f"layer {i + 1}", fires=_fires(structure, i))
    require_delays(structure, model.layers)
    require_gains(model.layers)


def _read(container: Container, structure: Structure, drawn: dict[str, Any] | None) -> PackedFile:
    """Return model and vector; the sizes of all arrays are compared with the structure before any is made."""
    held = _held_shapes(container, structure, drawn)
    for i, planned in enumerate(structure.layers):
        require_present(held[i], planned, f"layer {i + 1}", fires=_fires(structure, i))
    layers = []
    for i, planned in enumerate(structure.layers):
        layers.append(_layer(planned, {name: _array(container, i, name, shape) for name, shape in held[i].items()}))
        require_arrays(layers[-1], planned, f"layer {i + 1}", fires=_fires(structure, i))
    require_delays(structure, layers)
    require_gains(layers)
    model = NetworkModel(
        notation=structure.notation,
        input_shape=structure.input_shape,
        steps=structure.steps,
        readout=cast(Any, structure.readout),
        layers=tuple(layers),
        glances=structure.glances,
        input=structure.input,
        class_names=structure.class_names,
        metadata=structure.metadata,
    )
    return PackedFile(model, None if drawn is None else _vector(container, model, drawn))


def _held_shapes(container: Container, structure: Structure, drawn: dict[str, Any] | None) -> list[dict[str, Sizes]]:
    """Return the shapes in memory of each layer's arrays, by name; raise for an array that does not belong there."""
    held: list[dict[str, Sizes]] = [{} for _ in structure.layers]
    entries = dict(container.entries)
    for i, planned in enumerate(structure.layers):
        for name, shapes in allowed_shapes(planned).items():
            if (entry := entries.pop(f"{i}.{name}", None)) is None:
                continue
            kind = KINDS[name]
            found = [shape for shape in shapes if stored_shape(kind, shape) == entry.shape]
            if not found or entry.dtype not in STORED[kind]:
                raise Invalid(f"layer {i + 1}: {name} must not be {entry.dtype} {list(entry.shape)}")
            held[i][name] = found[0]
    for name, wanted in _vector_shapes(structure, drawn).items():
        if (entry := entries.pop(name, None)) is None:
            raise Invalid(f"it has no {name}")
        if (entry.dtype, entry.shape) != wanted:
            raise Invalid(f"{name} must be {wanted[0]} {list(wanted[1])}, not {entry.dtype} {list(entry.shape)}")
    if entries:
        raise Invalid(f"it has an unknown array {min(entries)!r:.40}")
    return held


def _vector_shapes(structure: Structure, drawn: dict[str, Any] | None) -> dict[str, tuple[str, Sizes]]:
    """Return type and shape of the check vector's arrays, by name; none if there is no vector."""
    if drawn is None:
        return {}
    shapes: dict[str, tuple[str, Sizes]] = dict.fromkeys(
        ("vector.membrane", "vector.scores"), ("F32", (structure.classes,))
    )
    if structure.readout == "spikes":
        shapes["vector.spikes"] = ("U8", stored_shape("bits", (drawn["steps"], structure.classes)))
    return shapes


def _array(container: Container, i: int, name: str, shape: Sizes) -> NDArray[Any]:
    values = container.array(f"{i}.{name}")
    if KINDS[name] == "bits":
        return unpack_bits(values, shape, f"layer {i + 1}: {name}")
    return values.astype(TYPES[KINDS[name]], copy=False)


def _layer(planned: LayerStructure, arrays: dict[str, NDArray[Any]]) -> LayerModel:
    return LayerModel(
        kind=cast(Any, planned.kind),
        input=planned.input,
        output=planned.output,
        stride=planned.stride,
        padding=planned.padding,
        pools=planned.pools,
        recurrent_scale=planned.recurrent_scale,
        adaptation=planned.adaptation,
        **{"theta": None, **cast(dict[str, Any], arrays)},
    )


def _vector(container: Container, model: NetworkModel, drawn: dict[str, Any]) -> CheckVector:
    spikes = None
    if "vector.spikes" in container.entries:
        rows = container.array("vector.spikes")
        spikes = unpack_bits(rows, (len(rows), model.classes), "vector.spikes")
    membrane, scores = (container.array(f"vector.{name}") for name in ("membrane", "scores"))
    vector = CheckVector(**drawn, spikes=spikes, membrane=membrane, scores=scores)
    require_vector(vector, model)
    return vector


def _fires(structure: Structure, i: int) -> bool:
    return structure.readout == "spikes" or i < len(structure.layers) - 1
