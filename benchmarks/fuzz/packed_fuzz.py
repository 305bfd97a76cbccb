"""Packed files, drawn by Atheris (libFuzzer for Python): each loads and runs, or ends in ValueError or OSError.

    pip install atheris
    python benchmarks/fuzz/packed_fuzz.py KEPT -max_total_time=600 -timeout=30 -rss_limit_mb=2048

KEPT is a folder for the inputs worth keeping; the valid files of hostile_files.py are put there first. All arguments
are libFuzzer's. Its mutations and those of hostile_files.py take turns, and nine of ten files get a checksum that fits.
Some get new sizes and the arrays that fit them (`refit`), so that many load. What loads gets an engine and runs a few
steps, if these are few additions. Small networks must answer as the definition in NumPy does, bit for bit. The memory
of loading and running is watched (`allowed`).
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import sys
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import atheris
import numpy as np
from numpy.typing import NDArray

with atheris.instrument_imports(include=["bitspike.deploy"]):
    import bitspike.deploy.packed  # noqa: F401  # load_packed imports it when it is called: too late to be instrumented
    from bitspike.deploy.engine import Engine, load_packed
    from bitspike.deploy.model import LayerModel, NetworkModel
    from bitspike.deploy.packing.arrays import KINDS, Kind, Sizes, allowed_shapes, pack_bits
    from bitspike.deploy.packing.fields import Fields, Invalid
    from bitspike.deploy.packing.structure import LayerStructure, from_json
    from bitspike.deploy.runtime import plain_engine

sys.path.insert(0, str(Path(__file__).parents[1]))
import hostile_files

FILES = hostile_files.seeds()
FEW, VERY_FEW = 10**8, 10**6  # additions that are run, and that NumPy runs too
NUMBERS = (0.0, 1.0, 2.0, 255.0, 256.0, 0.5, -1.0, 1e-45, 3e38, float("nan"), float("inf"))
ends = Counter[str]()


class Wrong(Exception):
    """The error for what must not happen: Atheris ends at it, and keeps the file."""


def mutate(data: bytes, most: int, seed: int) -> bytes:
    """Return a changed file of at most `most` bytes."""
    chance = random.Random(seed)
    if chance.random() < 0.4:
        changed = refit(data, chance)
    elif chance.random() < 0.6 and len(data) > 8:
        changed = chance.choice(hostile_files.MUTATIONS)(data, chance, FILES)
    else:
        changed = atheris.Mutate(data, most)
    changed = changed[:most]
    return hostile_files.signed(changed) if chance.random() < 0.9 else changed


def refit(data: bytes, chance: random.Random) -> bytes:
    """Return a file with another structure, and arrays of the sizes that it asks for."""
    found = hostile_files._header(data)
    if found is None:
        return chance.choice(FILES)
    header, document, rest = found
    for _ in range(chance.choice((0, 1, 1, 2))):
        hostile_files._change(
            document["layers"] if "layers" in document and chance.random() < 0.7 else document, chance
        )
    document.pop("vector", None)
    try:
        structure = from_json(Fields(document, "the network"))
    except Invalid:
        return hostile_files._joined(header, document, rest)
    drawn = np.random.default_rng(chance.randrange(2**32))
    arrays: dict[str, NDArray[Any]] = {}
    for i, layer in enumerate(structure.layers):
        fires = structure.readout == "spikes" or i + 1 < len(structure.layers)
        for name, shape in wanted(layer, {name for name in KINDS if f"{i}.{name}" in header}, fires, chance).items():
            if math.prod(shape) > 1 << 17:
                return hostile_files._joined(header, document, rest)
            arrays[f"{i}.{name}"] = new_array(KINDS[name], name, shape, drawn)
    place, places = 0, {}
    for name, array in arrays.items():
        dtype = {"u1": "U8", "u2": "U16", "f4": "F32"}[array.dtype.str[1:]]
        places[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    notes = {"__metadata__": header["__metadata__"]}
    return hostile_files._joined(notes | places, document, b"".join(array.tobytes() for array in arrays.values()))


def wanted(layer: LayerStructure, held: set[str], fires: bool, chance: random.Random) -> dict[str, Sizes]:
    """Return the shapes of a layer's arrays: those that it must have, those that it had, and now and then another."""
    names = {"weight", "beta", "theta"} | held | {name for name in KINDS if chance.random() < 0.05}
    names -= set() if fires else {"theta", "recurrent"}
    names |= {"scale", "offset"} if names & {"scale", "offset"} else set()
    return {name: chance.choice(shapes) for name, shapes in allowed_shapes(layer).items() if name in names}


def new_array(kind: Kind, name: str, shape: Sizes, drawn: np.random.Generator) -> NDArray[Any]:
    """Return an array as a file holds it, of values that are mostly valid."""
    if kind == "bits":
        return pack_bits(drawn.random(shape) < 0.5)
    if kind == "steps":
        return drawn.integers(0, drawn.choice([2, 9, 256, 2000]), shape).astype(np.uint16)
    if kind == "gains":
        return drawn.integers(0, drawn.choice([1, 2, 16, 256]), shape).astype(np.uint8)
    if name in ("beta", "theta"):
        return drawn.choice([0.25, 0.5, 0.9, 0.99], shape).astype(np.float32)
    return drawn.normal(0, drawn.choice([0.1, 1, 1e20, 3e37]), shape).astype(np.float32)


def sums_of(layer: LayerModel) -> int:
    """Return how many sums a step takes, as the format bounds them."""
    return layer.neurons * math.prod(pool.size**2 for pool in layer.pools) * (1 + layer.stride**2)


def allowed(content: bytes, model: NetworkModel) -> int:
    """Return the bytes that a network may take: what docs/reference/packed-format.md says of reading, and the engine's.

    The engine has the rows of bits in whole words, wide weights of up to 1 MiB a layer, a state for its one sample, and
    the last layer's output.
    """
    taken = 10 * len(content) + hostile_files.SPARE
    for layer in model.layers:
        rows = math.prod(layer.weight.shape[1:]) + (0 if layer.recurrent is None else layer.neurons)
        line = 0 if layer.delays is None else 8 * math.prod(layer.input) * (int(layer.delays.max()) + 64)
        taken += 8 * rows * -(-max(layer.output[0], 1) // 32) + 2 * layer.weight.size + line
        taken += (1 << 20) + 64 * layer.neurons + 64 * math.prod(layer.input)
    return taken + 2**16 * len(model.layers)


def feed(model: NetworkModel, data: bytes) -> tuple[NDArray[Any], int | None]:
    """Return an input for the network, drawn from the file's checksum, and the steps if it is an image."""
    drawn = np.random.default_rng(int.from_bytes(hashlib.sha256(data).digest()[:8], "little"))
    delayed = any(layer.delays is not None for layer in model.layers)
    steps = (
        None if delayed or (model.glances == 1 and drawn.random() < 0.5) else model.glances * int(drawn.integers(1, 3))
    )
    shape = (1, *model.input_shape) if steps else (int(drawn.integers(1, 5)), 1, *model.input_shape)
    if drawn.random() < 0.2:
        return drawn.integers(0, 256, shape).astype(np.uint8), steps
    if drawn.random() < 0.2:
        return drawn.choice(NUMBERS, shape).astype(np.float32), steps
    return (drawn.random(shape) * drawn.choice([1, 0, 3])).astype(np.float32).round(int(drawn.integers(0, 3))), steps


def run(engine: Engine, data: bytes) -> str:
    """Run the network for a few steps; return how that ended."""
    model = engine.model
    x, steps = feed(model, data)
    work = sum(sums_of(layer) * layer.weight[0].size for layer in model.layers) * (steps or len(x))
    if work > FEW:
        return "loads, is not run"
    try:
        found = engine(x, steps=steps)
    except ValueError as error:
        require_line(error)
        return "loads, refuses the input"
    if work < VERY_FEW:
        floats = x.astype(np.float32) / np.float32(255 if steps and x.dtype == np.uint8 else 1)
        last = plain_engine.run(model, floats, steps)[-1]
        if not np.array_equal(found.spikes.ravel(), last.spikes.ravel()):
            raise Wrong("the engine spikes otherwise than the definition")
        if not np.array_equal(found.membrane.ravel(), last.membrane.ravel()):
            raise Wrong("the engine has another membrane than the definition")
    return "loads and runs"


def require_line(error: Exception) -> None:
    """Raise unless the message is one line of a sensible length."""
    if "\n" in str(error) or len(str(error)) > 1000:
        raise Wrong(f"a message of {len(str(error))} characters") from error


def end_of(data: bytes) -> str:
    """Return how a file ended."""
    FILE.write_bytes(data)
    try:
        engine = load_packed(FILE, threads=1)
    except (ValueError, OSError) as error:
        require_line(error)
        require_memory(10 * len(data) + hostile_files.SPARE)
        return type(error).__name__
    ended = run(engine, data)
    require_memory(allowed(data, engine.model))
    return ended


def require_memory(most: int) -> None:
    """Raise if more memory was taken than allowed."""
    taken = tracemalloc.get_traced_memory()[1]
    if taken > most:
        raise Wrong(f"{taken} bytes of memory, more than {most}")


def test_one_input(data: bytes) -> None:
    """Load a file, and run what it holds."""
    tracemalloc.start()
    try:
        ends[end_of(data)] += 1
    finally:
        tracemalloc.stop()
    if ends.total() % 10_000 == 0:
        print(json.dumps(dict(ends)), file=sys.stderr, flush=True)


def main() -> None:
    """Fuzz until libFuzzer's arguments say that it is enough."""
    folders = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    for i, content in enumerate(FILES if folders else []):
        folders[0].mkdir(parents=True, exist_ok=True)
        (folders[0] / f"valid-{i}").write_bytes(content)
    np.seterr(all="ignore")  # NumPy's warnings of overflow in the definition; the engine refuses what overflows
    atheris.Setup([*sys.argv, "-max_len=20000", "-len_control=0"], test_one_input, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        FILE = Path(folder) / "forged.safetensors"
        main()
