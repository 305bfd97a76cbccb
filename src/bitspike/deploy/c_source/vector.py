"""test_vector.c of an exported network: how its input is drawn, and the answers in float32 and in fixed point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bitspike.c_library import library
from bitspike.deploy.c_source import data as c
from bitspike.deploy.engine import Engine
from bitspike.deploy.model import NetworkModel
from bitspike.deploy.packing.vector import CheckVector
from bitspike.deploy.runtime.layout import channels_last, pack_rows

_NO_ANSWER = '#error "this network was exported without a C compiler, so the answer in fixed point is not known"\n'


def vector_source(model: NetworkModel, vector: CheckVector) -> str:
    """Return test_vector.c. The answer in fixed point is that of the engine, which has the same source."""
    order = class_order(model)
    fixed = None if library() is None else fixed_answer(model, vector)
    fields = {
        "seed": c.word(vector.seed),
        "density": vector.density,
        "steps": vector.steps,
        "spikes": "NULL" if vector.spikes is None else "spikes",
        "membrane": "membrane",
        "scores": "scores",
    }
    return "\n".join(
        [
            c.WRITTEN + '#include "test_vector.h"\n\n#include <stddef.h>\n',
            "#ifdef BS_FIXED\n",
            *(_answer(fixed, order) if fixed else [_NO_ANSWER]),
            "#else\n",
            *_answer(vector, order),
            "#endif\n",
            f"const test_vector vector = {{\n{c.fields(fields, 4)}}};\n",
        ]
    )


def fixed_answer(model: NetworkModel, vector: CheckVector) -> CheckVector:
    """Return what the network answers to the same input with membranes in fixed point."""
    engine = Engine(model, 1, fixed_point=True)
    output = engine(vector.input(model.input_shape), steps=vector.steps if vector.kind == "pixels" else None)
    return replace(
        vector,
        spikes=None if vector.spikes is None else output.spikes[:, 0] > 0,
        membrane=output.membrane[-1, 0],
        scores=output.scores[0],
    )


def class_order(model: NetworkModel) -> NDArray[np.intp]:
    """Return which class each of the runtime's scores belongs to."""
    return channels_last(model.layers[-1].output)


def _answer(vector: CheckVector, order: NDArray[np.intp]) -> Iterator[str]:
    if vector.spikes is not None:
        yield c.words("spikes", pack_rows(vector.spikes[:, order]))
    for name, values in (("membrane", vector.membrane), ("scores", vector.scores)):
        yield c.array("float", name, [c.float_literal(value) for value in values[order]])
