"""The network of an experiment that does not give its notation: from its hidden widths, or by the kind of data."""

from __future__ import annotations

import math
from collections.abc import Sequence

KERNELS = (5, 3)  # the first that leaves room for a pool is taken
LARGE = 40  # pixels: a picture whose shorter side is longer is pooled by four, a smaller one by two


def dense_notation(shape: Sequence[int], hidden: Sequence[int], classes: int) -> str:
    """Return the notation of Dense layers with `hidden` widths between the input and the classes.

    Examples:
        >>> from bitspike.experiments.default_network import dense_notation
        >>> dense_notation((64,), [256, 128], 10)
        '64-256-128-10'
        >>> dense_notation((1, 28, 28), [300], 10)
        '784-300-10'
    """
    return "-".join(map(str, (math.prod(shape), *hidden, classes)))


def default_notation(shape: Sequence[int], hidden: Sequence[int], filters: Sequence[int], classes: int) -> str:
    """Return a small network for frames of `shape`: Dense layers for a row of channels, convolutions for a picture.

    A convolution of 5 x 5, or 3 x 3 where 5 x 5 does not fit, has one of `filters` and an average pool of 2 x 2 behind
    it, or 4 x 4 where the picture is large. There are as many as the size takes; a picture too small for any gets
    Dense layers.

    Examples:
        >>> from bitspike.experiments.default_network import default_notation
        >>> default_notation((2, 34, 34), [256, 256], [16, 32], 10)
        '16Conv5-AP2-32Conv5-AP2-800Dense10'
        >>> default_notation((1, 8, 8), [256, 256], [16, 32], 3)
        '16Conv5-AP2-64Dense3'
        >>> default_notation((128,), [256, 256], [16, 32], 20)
        '128-256-256-20'
    """
    tokens, sides = [], tuple(shape[1:]) if len(shape) == 3 else ()
    for number in filters if sides else ():
        kernel = next((each for each in KERNELS if min(sides) >= each + 1), None)
        if kernel is None:
            break
        pool = 4 if min(sides) > LARGE else 2
        tokens.append(f"{number}Conv{kernel}-AP{pool}")
        sides = tuple((side - kernel + 1) // pool for side in sides)
    if not tokens:
        return dense_notation(shape, hidden, classes)
    return "-".join((*tokens, f"{filters[len(tokens) - 1] * math.prod(sides)}Dense{classes}"))
