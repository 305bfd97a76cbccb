"""C source for data: constant arrays, numbers and texts that mean the same to every compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bitspike.deploy.runtime.layout import FACTOR_BITS, NUMBER_BITS, fixed_point

_WIDTH = 110  # characters of a line
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-+.,:;()[]/=")

WRITTEN = "/* Data of a network, written by bitspike; main.c shows how to use it. */\n"


def text_literal(text: str) -> str:
    """Return a string literal of the text's UTF-8 bytes.

    All that might end the literal, begin a comment or a trigraph, or mean something to a terminal is an octal number
    of three digits, which no digit behind it can prolong.
    """
    return '"' + "".join(chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in text.encode()) + '"'


def float_literal(value: float) -> str:
    """Return a float32 in hexadecimal, which no compiler rounds."""
    return f"{float(np.float32(value)).hex()}f"


def number(value: float) -> str:
    """Return a `bs_number`: a float32, or a whole number of 2^-16."""
    return f"NUMBER({float_literal(value)}, {fixed_point(value, NUMBER_BITS)})"


def factor(value: float) -> str:
    """Return a `bs_factor`: a float32, or a whole number of 2^-24."""
    return f"NUMBER({float_literal(value)}, {fixed_point(value, FACTOR_BITS)})"


def word(value: int) -> str:
    """Return 32 bits."""
    return f"0x{value:08x}u"


def array(kind: str, name: str, items: Sequence[str], *, scope: str = "static const") -> str:
    """Return the definition of a constant array; it has at least one element, as C wants it."""
    lines, line = [], ""
    for item in items or ["0"]:
        if line and len(line) + len(item) + 6 > _WIDTH:
            lines.append(line)
            line = ""
        line += f" {item},"
    lines.append(line)
    body = "\n".join("   " + each for each in lines)
    return f"{scope} {kind} {name}[{max(1, len(items))}] = {{\n{body}\n}};\n"


def words(name: str, bits: NDArray[np.uint32]) -> str:
    """Return an array of words of 32 bits."""
    return array("uint32_t", name, [word(int(each)) for each in bits.ravel()])


def fields(values: Mapping[str, object], indent: int) -> str:
    """Return the initializers of a structure's fields, one a line."""
    return "".join(f"{' ' * indent}.{name} = {value},\n" for name, value in values.items())
