"""The paper's notation for networks: `16Conv5-AP2-64Conv5-AP2-1024Dense10`, `700Dense3000Dense20`, `100-1000-1`.

Beyond the paper, a convolution has a padding and a stride, `32Conv3p1s2`, and a pool a stride, `MP3s2`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

_CONV = re.compile(r"(\d+)Conv(\d+)((?:[ps]\d+)*)")
_POOL = re.compile(r"(AP|MP)(\d+)(?:s(\d+))?")
_DENSE = re.compile(r"\d+(?:Dense\d+)+")
_GRAMMAR = (
    "use {filters}Conv{kernel}, with p{padding} and s{stride} behind it if need be (32Conv3p1s2), AP{size}, MP{size}, "
    "with s{stride} behind it (MP3s2), {inputs}Dense{outputs}, or sizes as in 100-1000-1"
)


@dataclass(frozen=True, slots=True)
class Pool:
    """An average ("AP") or maximum ("MP") pool of size x size; its squares do not overlap unless it has a `stride`."""

    kind: str
    size: int
    stride: int | None = None


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution: `filters` kernels of kernel x kernel, `padding` zeros on each side, and the pools after it."""

    inputs: int
    filters: int
    kernel: int
    pools: tuple[Pool, ...]
    output: tuple[int, int, int]  # channels, height, width of one step into the neurons
    padding: int = 0
    stride: int = 1


@dataclass(frozen=True, slots=True)
class Dense:
    """A fully connected layer."""

    inputs: int
    outputs: int


Layer = Conv | Dense


def count_neurons(layers: Sequence[Layer]) -> int:
    """Count the neurons of all layers."""
    return sum(math.prod(layer.output) if isinstance(layer, Conv) else layer.outputs for layer in layers)


class _Parser:
    """A parser that tracks the shape before each token, so that an error can name the size that would fit."""

    def __init__(self, notation: str, shape: tuple[int, ...]) -> None:
        self.notation = notation
        self.shape = shape
        self.layers: list[Layer] = []

    def fail(self, token: str, problem: str) -> ValueError:
        return ValueError(f"build: token {token!r} of {self.notation!r}: {problem}")

    def positive(self, token: str, *sizes: int) -> None:
        if min(sizes) < 1:
            raise self.fail(token, "sizes must be >= 1")

    def conv(self, token: str, filters: int, kernel: int, options: str) -> None:
        padding, stride = self.options(token, options)
        self.positive(token, filters, kernel, stride)
        if len(self.shape) != 3:
            raise self.fail(
                token,
                f"a convolution needs an input of (channels, height, width), but gets {self.shape}"
                + (
                    "; it cannot follow a Dense layer"
                    if self.layers
                    else "; pass input_shape=(channels, height, width)"
                ),
            )
        channels, height, width = self.shape
        if padding >= kernel:
            raise self.fail(
                token,
                f"a kernel of {kernel} sees only zeros at the edge of a padding of {padding}; at most p{kernel - 1}",
            )
        least = min(height, width)
        if kernel > least + 2 * padding:
            padded = f", padded to {height + 2 * padding}x{width + 2 * padding}" if padding else ""
            fit = f"{filters}Conv{kernel}p{-(-(kernel - least) // 2)}" + (f"s{stride}" if stride > 1 else "")
            raise self.fail(
                token,
                f"a kernel of {kernel} does not fit its input of {height}x{width}{padded}; "
                f"at most {least + 2 * padding}, or more padding: {fit}",
            )
        rows, columns = ((n + 2 * padding - kernel) // stride + 1 for n in (height, width))
        self.shape = (filters, rows, columns)
        self.layers.append(Conv(channels, filters, kernel, (), self.shape, padding, stride))

    def options(self, token: str, options: str) -> tuple[int, int]:
        """Return padding and stride from the letters after a kernel: p1, s2, p1s2, s2p1 or nothing."""
        found = re.findall(r"([ps])(\d+)", options)
        values = {letter: int(size) for letter, size in found}
        if len(values) < len(found):
            raise self.fail(token, "padding (p) and stride (s) are given once each, as in 32Conv3p1s2")
        return values.get("p", 0), values.get("s", 1)

    def pool(self, token: str, kind: str, size: int, stride: int | None) -> None:
        self.positive(token, size, 1 if stride is None else stride)
        if not self.layers or not isinstance(self.layers[-1], Conv):
            raise self.fail(token, "a pool must follow a Conv layer")
        before = self.layers[-1]
        channels, height, width = before.output
        if size > min(height, width):
            raise self.fail(
                token, f"a pool of {size} does not fit its input of {height}x{width}; at most {min(height, width)}"
            )
        rows, columns = ((n - size) // (stride or size) + 1 for n in (height, width))
        self.shape = (channels, rows, columns)
        # A stride equal to the size is the default, so both ways to write it give the same pool.
        pool = Pool(kind, size, None if stride == size else stride)
        self.layers[-1] = replace(before, pools=(*before.pools, pool), output=self.shape)

    def dense(self, token: str, sizes: list[int]) -> None:
        self.positive(token, *sizes)
        arriving = 1
        for size in self.shape:
            arriving *= size
        if sizes[0] != arriving:
            what = "x".join(map(str, self.shape))
            fit = "Dense".join(map(str, [arriving, *sizes[1:]]))
            raise self.fail(token, f"{sizes[0]} inputs, but {arriving} arrive ({what}); write {fit}")
        self.layers.extend(Dense(i, o) for i, o in pairwise(sizes))
        self.shape = (sizes[-1],)


def require_shape(where: str, input_shape: object) -> None:
    """Raise unless `input_shape` is a tuple of whole numbers >= 1."""
    if not isinstance(input_shape, (tuple, list)):
        raise TypeError(f"{where}: input_shape must be a tuple, but is {input_shape!r}; write ({input_shape!r},)")
    if not input_shape or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in input_shape):
        raise ValueError(f"{where}: input_shape must be whole numbers >= 1, but is {input_shape!r}")


def parse(notation: str, input_shape: tuple[int, ...] | None) -> tuple[tuple[Layer, ...], tuple[int, ...]]:
    """Return the layers of a notation, checked against each other and the input, and the input's shape."""
    if not isinstance(notation, str):
        raise TypeError(f"build: notation must be a string such as '100-1000-1', but is {notation!r}")
    tokens = [token.strip() for token in notation.split("-")]
    if all(token.isdecimal() for token in tokens) and len(tokens) > 1:
        tokens = ["Dense".join(tokens)]
    if input_shape is None:
        if not _DENSE.fullmatch(tokens[0]):
            raise ValueError(
                f"build: {notation!r} needs input_shape=(channels, height, width); "
                "only a network that starts with {inputs}Dense says its own"
            )
        input_shape = (int(tokens[0].split("Dense")[0]),)
    require_shape("build", input_shape)
    parser = _Parser(notation, tuple(input_shape))
    for token in tokens:
        if match := _CONV.fullmatch(token):
            parser.conv(token, int(match[1]), int(match[2]), match[3])
        elif match := _POOL.fullmatch(token):
            parser.pool(token, match[1], int(match[2]), None if match[3] is None else int(match[3]))
        elif _DENSE.fullmatch(token):
            parser.dense(token, [int(size) for size in token.split("Dense")])
        else:
            raise parser.fail(token, f"not understood; {_GRAMMAR}")
    return tuple(parser.layers), tuple(input_shape)
