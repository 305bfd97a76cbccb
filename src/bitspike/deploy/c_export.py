"""`write_c`: a network as a folder of C99 that builds by itself.

Only data is generated: model.c, model.h and test_vector.c. The runtime is the one of the engine, and all other files
are those of `c_source/template`, as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from bitspike.deploy.c_source import data as c
from bitspike.deploy.c_source.plain_vector import plain_vector
from bitspike.deploy.c_source.vector import class_order, vector_source
from bitspike.deploy.model import NetworkModel, Shape
from bitspike.deploy.packing.content import require_model
from bitspike.deploy.packing.vector import CheckVector, require_vector
from bitspike.deploy.runtime.layout import (
    CONV,
    COUNTS,
    MOST_PLANES,
    REALS,
    RuntimeLayer,
    planes_for,
    runtime_layers,
)
from bitspike.deploy.runtime.state_size import PORTABLE, VECTORS, Build, state_bytes
from bitspike.files import require_folder, write_atomically, write_text
from bitspike.image_steps import PLACES

_HERE = Path(__file__).parent


def write_c(
    model: NetworkModel,
    folder: str | Path,
    vector: CheckVector | None = None,
    *,
    real_input: bool = False,
    most_events: int | None = None,
) -> Path:
    """Write the network as C99 into `folder`, where `make check` builds it and runs its test vector; return the folder.

    Images hold real numbers. Sequences hold event counts, or real numbers with `real_input`, which takes more time. An
    input has up to `most_events` in a step, at most 255; by default as many as its data was limited to, else 255. A
    smaller number makes delays take less memory. Without a `vector` one is drawn, and the plain engine computes the
    answer. Equal arguments give equal files.
    """
    folder = Path(folder)
    require_model(model)
    vector = vector or plain_vector(model)
    require_vector(vector, model)
    require_folder(folder, "choose another folder")
    image = vector.kind == "pixels"
    most = model.input.clip if most_events is None else most_events
    planes = 0 if image or real_input else _planes(model, most)
    export = _Export(model, runtime_layers(model), image=image, planes=planes)
    write_text(folder / "model.h", export.header())  # first: by it `bitspike export` knows a folder that it began
    for source in sorted([*(_HERE / "runtime").glob("runtime*.[ch]"), *(_HERE / "c_source" / "template").iterdir()]):
        if source.is_file():
            _copy(source, folder)
    write_text(folder / "model.c", export.source())
    write_text(folder / "test_vector.c", vector_source(model, vector))
    return folder


def _copy(source: Path, folder: Path) -> None:
    content = source.read_bytes()
    write_atomically(folder / source.name, lambda to: to.write_bytes(content))


class _Export:
    """The generated files of one model. An `image` is static; inputs are counts of `planes` bits, or reals if 0."""

    def __init__(self, model: NetworkModel, layers: tuple[RuntimeLayer, ...], *, image: bool, planes: int) -> None:
        self.model, self.layers, self.image = model, layers, image
        self.form = COUNTS if planes else REALS
        self.planes = planes or 1

    def words(self, build: Build) -> int:
        """Return how many words of 64 bits the state has."""
        size = state_bytes(self.layers, form=self.form, planes=self.planes, image=self.image, build=build)
        return -(-size // 8)

    def header(self) -> str:
        """Return model.h: sizes, and what model.c defines."""
        return _HEADER.format(
            layers=len(self.layers),
            inputs=math.prod(self.model.input_shape),
            classes=self.model.classes,
            steps=self.model.steps if self.image else self.model.input.steps or 0,
            bin_us=self.model.input.bin_us or 0,
            downsample=self.model.input.downsample,
            clip=self.model.input.clip or 0,
            glances=self.model.glances,
            image=int(self.image),
            events=int(self.form == COUNTS),
            planes=self.planes,
            vectors=self.words(VECTORS),
            portable=self.words(PORTABLE),
        )

    def source(self) -> str:
        """Return model.c: all arrays, then what points to them."""
        return c.WRITTEN + '#include "model.h"\n\n' + _NUMBER + "\n" + "\n".join(self._definitions())

    def _definitions(self) -> Iterator[str]:
        for i, layer in enumerate(self.layers):
            yield from (definition for _, definition in _arrays(layer, i + 1))
        entries = "".join(_layer(layer, i + 1) for i, layer in enumerate(self.layers))
        yield f"static const bs_layer layers[{len(self.layers)}] = {{\n{entries}}};\n"
        shape = self._input()
        fields = {
            "layers": len(self.layers),
            "layer": "layers",
            "in_channels": shape[0],
            "in_rows": shape[1],
            "in_columns": shape[2],
            "input": "BS_COUNTS" if self.form == COUNTS else "BS_REALS",
            "planes": "MODEL_PLANES",
            "image": "MODEL_IMAGE",
        }
        yield f"const bs_model model = {{\n{c.fields(fields, 4)}}};\n"
        names = self.model.class_names or tuple(map(str, range(self.model.classes)))
        yield _array("char *const", "model_class_names", [c.text_literal(names[i]) for i in class_order(self.model)])
        places = [f"{{{down}, {right}}}" for down, right in PLACES[self.model.glances]]
        yield f"const int8_t model_places[{len(places)}][2] = {{{', '.join(places)}}};\n"

    def _input(self) -> Shape:
        """Return channels, rows and columns of the network's input; of anything but an image a row."""
        shape = self.model.input_shape
        return (shape[0], shape[1], shape[2]) if len(shape) == 3 else (math.prod(shape), 1, 1)


_HEADER = (
    c.WRITTEN
    + """#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>

#include "runtime.h"

#define MODEL_LAYERS {layers}u
#define MODEL_INPUTS {inputs}u
#define MODEL_CLASSES {classes}u
#define MODEL_STEPS {steps}u /* of an image, shared out to the glances; of a sequence those of training, 0: not known */
#define MODEL_GLANCES {glances}u

#define MODEL_IMAGE {image}  /* 1: an image is shown (bs_show), 0: a sequence */
#define MODEL_EVENTS {events} /* 1: a sequence of event counts (bs_event), 0: of real numbers (bs_step) */
#define MODEL_PLANES {planes} /* of event counts: 2^planes - 1 is the largest */

/* How events became steps in training. An event at x, y of polarity p is the input (p * R + y / D) * C + x / D, with
 * D = MODEL_DOWNSAMPLE, R = model.in_rows, C = model.in_columns; an event of channel x is the input x / D. */
#define MODEL_BIN_US {bin_us}u     /* microseconds of a step; 0: not known */
#define MODEL_DOWNSAMPLE {downsample}u /* pixels of the sensor that share an input, in each direction */
#define MODEL_CLIP {clip}u       /* no input had more events in a step; 0: no such bound */

/* The memory of the network in words of 64 bits, as in `static uint64_t state[MODEL_STATE_WORDS];`. */
#if defined(__x86_64__) && !defined(BS_PORTABLE)
#define MODEL_STATE_WORDS {vectors}u
#else
#define MODEL_STATE_WORDS {portable}u
#endif

#ifdef __cplusplus
extern "C" {{
#endif
extern const bs_model model;
extern const char *const model_class_names[MODEL_CLASSES]; /* UTF-8, in the order of the scores */
extern const int8_t model_places[MODEL_GLANCES][2];        /* of the glances: down, right */
#ifdef __cplusplus
}}
#endif

#endif
"""
)

_SHAPES = ("in_channels", "in_rows", "in_columns", "channels", "rows", "columns")

_NUMBER = """#ifdef BS_FIXED
#define NUMBER(real, whole) whole
#else
#define NUMBER(real, whole) real
#endif
"""


def _planes(model: NetworkModel, most: int | None) -> int:
    """Return the binary digits of counts up to `most`; without it as many as the first layer's exact sums allow."""
    largest = 2**MOST_PLANES - 1 if most is None else most
    if type(largest) is not int or not 1 <= largest < 2**MOST_PLANES:
        raise ValueError(f"write_c: most_events must be 1..{2**MOST_PLANES - 1}, but is {most}")
    for planes in range(largest.bit_length(), 0, -1):
        if planes_for(model, 2**planes - 1):
            return planes
        if most is not None:
            break
    raise ValueError(
        f"write_c: the first layer has too many inputs for exact sums of {most or 1} events; set real_input=True"
    )


def _array(kind: str, name: str, items: list[str]) -> str:
    return c.array(kind, name, items, scope="const")


def _arrays(layer: RuntimeLayer, number: int) -> Iterator[tuple[str, str]]:
    """Yield a layer's arrays: the name of the field in `bs_layer`, and the definition."""
    for name, words in (("weight", layer.weight), ("recurrent", layer.recurrent)):
        if words is not None:
            yield name, c.words(f"{name}_{number}", words)
    if layer.delays is not None:
        yield "delays", c.array("uint16_t", f"delays_{number}", [str(steps) for steps in layer.delays])
    if layer.gains is not None:
        yield "gains", c.words(f"gains_{number}", layer.gains)
    for name in ("bias", "offset", "theta"):
        if (values := getattr(layer, name)) is not None:
            yield name, c.array("bs_number", f"{name}_{number}", [c.number(value) for value in values])
    for name in ("scale", "beta"):
        if (values := getattr(layer, name)) is not None:
            yield name, c.array("bs_factor", f"{name}_{number}", [c.factor(value) for value in values])


def _layer(layer: RuntimeLayer, number: int) -> str:
    """Return the initializer of a `bs_layer`. What it does not name is 0 or NULL."""
    fields: dict[str, object] = {"kind": "BS_CONV" if layer.kind == CONV else "BS_DENSE"}
    fields |= zip(_SHAPES, layer.input + layer.output, strict=True)
    fields |= {"kernel": layer.kernel, "stride": layer.stride, "padding": layer.padding, "pools": len(layer.pools)}
    if layer.pools:
        fields["pool"] = "{" + ", ".join(f"{{{kind}, {size}, {stride}}}" for kind, size, stride in layer.pools) + "}"
    fields |= {name: f"{name}_{number}" for name, _ in _arrays(layer, number)}
    fields |= {"longest": layer.longest, "recurrent_scale": c.factor(layer.recurrent_scale)}
    if layer.gains is not None:
        fields |= {"gain_words": layer.gains.shape[1], "largest_gain": layer.largest_gain}
    fields |= {"betas": layer.beta.size, "thetas": 0 if layer.theta is None else layer.theta.size}
    fields |= {"adaptive": int(layer.adaptive)}
    fields |= {name: c.factor(getattr(layer, name)) for name in ("rho", "rest", "strength")}
    return f"    {{\n{c.fields(fields, 8)}    }},\n"
