"""Damaged and forged packed files: each must load as a valid network, or end in ValueError or OSError.

    python benchmarks/hostile_files.py 100000

Files of small networks of every kind are changed at random: bits, bytes, lengths, JSON values, array values. Most are
signed again, since a checksum that does not fit would end the reading before anything else is looked at. Each reading
is watched: its time, and its memory, which may be twice the file, a byte for each bit of a weight and 1 MiB for JSON.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import random
import signal
import struct
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import bitspike
from bitspike.deploy.describe import describe
from bitspike.deploy.model import InputModel
from bitspike.deploy.packed import read_packed_file
from bitspike.deploy.packing.answers import make_vector
from bitspike.deploy.packing.content import packed_bytes
from bitspike.nn import DecayRange

SECONDS = 30  # a reading that takes longer hangs
SPARE = 1 << 20  # bytes for JSON and small objects
OPENING = b'{\\"sha256\\":\\"'
NETWORKS: tuple[tuple[str, tuple[int, ...], dict[str, Any]], ...] = (
    ("9-7-3", (9,), {"neuron": "recurrent", "learn_beta": True}),
    ("9-7-3", (9,), {"delays": 5, "gains": 15, "dense_norm": True, "readout": "membrane"}),
    ("20-5", (4, 5), {"neuron": "adaptive", "beta": DecayRange(0.2, 0.9)}),
    ("2Conv3p1s2-MP2-8Dense3", (1, 7, 8), {"norm": "step", "glances": 5, "steps": 10}),
    ("3Conv3-AP2-2Conv2-AP2s1-2Dense4", (2, 8, 8), {"norm": "shared", "delays": [3, 0, 300], "gains": [0, 255, 3]}),
)
VALUES = (
    *(0, 1, -1, 2, 7, 8, 9, 255, 256, 65535, 65536, 2**22, 2**22 + 1, 2**28, 2**31, 2**32, 2**53, 2**63, 2**64, 10**40),
    *(0.0, 0.5, 1.0, -0.5, 1e-300, 1e38, 1e300, 1e400, float("nan")),
    *("", "x", "spikes", "membrane", "dense", "conv", "average", "max", "F32", "U8", "U16", "F64", "a\nb", "\x1b[2J"),
    *("x" * 300, "x" * 5000, "\ud800", "é" * 100, None, True, False),
    *([], [1], [0, 0], [2, 2, 2], [1] * 20, {}, {"a": 1}, [[]] * 50, [[[[[[]]]]]]),
)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1e-45, 3e38, -3e38, float("inf"), float("-inf"), float("nan"))


def seeds() -> list[bytes]:
    """Return valid packed files of small networks of every kind."""
    files = []
    for i, (notation, shape, options) in enumerate(NETWORKS):
        net = bitspike.build(notation, shape, generator=torch.Generator().manual_seed(i), **{"steps": 4} | options)
        model = describe(
            net,
            input=InputModel("events", bin_us=1000, steps=50, clip=3, sensor=(34, 34)) if i % 2 else InputModel(),
            class_names=[f"class {j}" for j in range(net.layers[-1].synapse.out_features)],
            metadata={"accuracy": "0.9", "command": "bitspike train"},
        )
        files.append(packed_bytes(model, make_vector(net, model)))
    return files


def signed(content: bytes) -> bytes:
    """Return a file with the checksum of its content, if it has a place for one."""
    place = content.find(OPENING)
    if place < 0 or place + len(OPENING) + 64 > len(content):
        return content
    place += len(OPENING)
    zeros = content[:place] + b"0" * 64 + content[place + 64 :]
    return content[:place] + hashlib.sha256(zeros).hexdigest().encode() + content[place + 64 :]


def mutated(files: list[bytes], chance: random.Random) -> bytes:
    """Return one of the files, changed in one to three ways; nine of ten are signed again."""
    content = chance.choice(files)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        content = chance.choice(MUTATIONS)(content, chance, files)
    return signed(content) if chance.random() < 0.9 else content


def flip_bits(content: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8))):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(content: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def lengthen(content: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    return content + chance.randbytes(chance.choice((1, 8, 4096)))


def change_bytes(content: bytes, chance: random.Random, files: list[bytes]) -> bytes:
    """Remove, repeat, clear or replace a stretch of bytes."""
    begin = chance.randrange(len(content) + 1)
    end = min(begin + chance.choice((1, 2, 8, 64)), len(content))
    other = chance.choice(files)
    piece = content[begin:end]
    new = chance.choice((b"", piece * 2, bytes(len(piece)), b"\xff" * len(piece), other[begin:end]))
    return content[:begin] + new + content[end:]


def change_length(content: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    """Write another length of the header."""
    length = int.from_bytes(content[:8], "little")
    new = chance.choice((0, 1, length - 1, length + 1, length + 8, len(content), 2**18 + 1, 2**31, 2**63, 2**64 - 1))
    return struct.pack("<Q", max(new, 0) % 2**64) + content[8:]


def change_header(content: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    """Change a value of the header: of the arrays' places, or of the structure in its metadata."""
    found = _header(content)
    if found is None:
        return content
    header, document, rest = found
    for _ in range(chance.choice((1, 1, 2))):
        _change(header if chance.random() < 0.35 else document, chance)
    return _joined(header, document, rest)


def grow_header(content: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    """Put JSON into the header that takes far more memory than text, or nests too deep."""
    found = _header(content)
    if found is None:
        return content
    header, document, rest = found
    count = chance.choice((100, 10_000, 80_000))
    text = chance.choice(("[" * count, "[" * count + "]" * count, "[" + "[]," * count + "0]", "9" * count))
    joined = _joined(header, document, b"")
    grown = joined[8:].replace(b"{", b'{"x":' + text.encode() + b",", 1)
    return struct.pack("<Q", len(grown)) + grown + rest


def change_arrays(content: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    """Write a float32, or whole bytes, to a place behind the header."""
    length = int.from_bytes(content[:8], "little")
    if not 0 < 8 + length < len(content) - 4:
        return content
    place = 8 + length + 4 * chance.randrange((len(content) - 8 - length) // 4)
    new = chance.choice((struct.pack("<f", chance.choice(NUMBERS)), b"\xff" * 4, bytes(4), chance.randbytes(4)))
    return (content[:place] + new + content[place + 4 :])[: len(content)]


def reshape(content: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    """Give an array another shape or type, and all arrays behind it the places that fit."""
    found = _header(content)
    if found is None:
        return content
    header, document, rest = found
    names = [name for name in header if name != "__metadata__" and isinstance(header[name], dict)]
    if not names:
        return content
    entry = header[chance.choice(names)]
    if chance.random() < 0.3:
        entry["dtype"] = chance.choice(("U8", "U16", "F32"))
    elif isinstance(entry.get("shape"), list) and entry["shape"]:
        entry["shape"][-1] = chance.choice((0, 1, 2, 3, 64, 2**20, 2**28, 2**40))
    place = 0
    for name in names:
        entry = header[name]
        size = {"U8": 1, "U16": 2, "F32": 4}.get(str(entry.get("dtype")), 1)
        shape = entry.get("shape")
        for side in shape if isinstance(shape, list) else []:
            size *= side if isinstance(side, int) else 1
        entry["data_offsets"] = [place, place + size]
        place += size
    if place < 1 << 16:
        rest = (rest + bytes(place))[:place]
    return _joined(header, document, rest)


def rename(content: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    """Leave an array out of the header, or give it another's name."""
    found = _header(content)
    if found is None:
        return content
    header, document, rest = found
    name = chance.choice(list(header))
    value = header.pop(name)
    if chance.random() < 0.7:
        kinds = ("weight", "recurrent", "delays", "gains", "bias", "scale", "offset", "beta", "theta")
        header[f"{chance.randrange(4)}.{chance.choice(kinds)}"] = value
    return _joined(header, document, rest)


MUTATIONS = (
    *(flip_bits, cut, lengthen, change_bytes, change_length, grow_header),
    *(change_header, change_header, change_header, change_arrays, change_arrays, reshape, rename),
)


def _header(content: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes] | None:
    """Return the header, the structure in its metadata, and the bytes behind it; None if they cannot be read."""
    length = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + length])
        document = json.loads(header["__metadata__"]["bitspike"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(header, dict) or not isinstance(document, dict):
        return None
    return header, document, content[8 + length :]


def _joined(header: dict[str, Any], document: dict[str, Any], rest: bytes) -> bytes:
    digits = "0" * 64
    text = json.dumps({"sha256": digits} | {k: v for k, v in document.items() if k != "sha256"}, separators=(",", ":"))
    if isinstance(header.get("__metadata__"), dict) and "bitspike" in header["__metadata__"]:
        header["__metadata__"]["bitspike"] = text
    raw = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(raw)) + raw + rest


def _change(value: Any, chance: random.Random) -> None:
    """Replace, remove or repeat a value at a random place of a JSON value."""
    while isinstance(value, (dict, list)) and value:
        key = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
        if isinstance(value[key], (dict, list)) and value[key] and chance.random() < 0.8:
            value = value[key]
            continue
        act = chance.random()
        if act < 0.1:
            del value[key]
        elif act < 0.2 and isinstance(value, list):
            value.extend([value[key]] * chance.choice((1, 3, 80)))
        elif act < 0.25 and isinstance(value, dict):
            value[chance.choice(("x", "stride", "padding", "pools", "adaptation", "recurrent_scale", "vector"))] = 1
        elif act < 0.5 and isinstance(value[key], int):
            value[key] += chance.choice((-1, 1, 2, 8))
        else:
            value[key] = copy.deepcopy(chance.choice(VALUES))  # later changes must not change the table
        return


def read(content: bytes, path: Path) -> tuple[str, float, int]:
    """Return how the reading of a file ended, the seconds of the processor, and the bytes beyond what is allowed."""
    path.write_bytes(content)
    tracemalloc.start()
    start = time.process_time()
    signal.alarm(SECONDS)
    try:
        read_packed_file(path)
        end = "loads"
    except ValueError as error:
        end = "ValueError" if "\n" not in str(error) and len(str(error)) < 1000 else "an error of several lines"
    except OSError:
        end = "OSError"
    except BaseException as error:
        end = type(error).__name__
    finally:
        signal.alarm(0)
    seconds = time.process_time() - start
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return end, seconds, max(taken - (2 + 8) * len(content) - SPARE, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="how many files")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _hang)
    files, chance, ends = seeds(), random.Random(options.seed), Counter[str]()
    slowest, beyond = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "forged.safetensors"
        for i in range(options.count):
            end, seconds, excess = read(content := mutated(files, chance), path)
            ends[end] += 1
            slowest, beyond = max(slowest, seconds), max(beyond, excess)
            if end not in ("loads", "ValueError", "OSError") or excess:
                kept = Path(f"forged-{options.seed}-{i}.safetensors")
                kept.write_bytes(content)
                print(f"{end}, {excess} bytes too many: {kept}", flush=True)
    for end, count in sorted(ends.items()):
        print(f"{end}: {count}")
    others = options.count - sum(ends[end] for end in ("loads", "ValueError", "OSError"))
    print(f"others: {others}; slowest {slowest * 1000:.0f} ms; bytes beyond the bound: {beyond}")
    sys.exit(1 if others or beyond else 0)


class Hang(BaseException):
    """The end of a reading that takes too long; no OSError, as a TimeoutError would be."""


def _hang(*_: object) -> None:
    raise Hang


if __name__ == "__main__":
    main()
