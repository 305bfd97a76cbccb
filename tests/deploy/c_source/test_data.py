"""Texts and numbers mean the same in C as in Python."""

import ast
import re
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bitspike.deploy.c_source import data as c

floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.text())
def test_a_literal_holds_the_bytes_of_a_text_and_nothing_else(text):
    literal = c.text_literal(text)
    assert ast.literal_eval("b" + literal) == text.encode()  # Python's octal escapes are C's
    assert re.fullmatch(r'"([a-zA-Z0-9 _\-+.,:;()\[\]/=]|\\[0-3][0-7][0-7])*"', literal)


@given(floats32)
def test_a_float_literal_is_exact(value):
    literal = c.float_literal(value)
    assert re.fullmatch(r"-?0x[01]\.[0-9a-f]+p[+-][0-9]+f", literal)
    assert struct.pack("<f", float.fromhex(literal[:-1])) == struct.pack("<f", value)


@given(st.floats(-100, 100, width=32))
def test_whole_numbers_are_the_nearest(value):
    for literal, bits in ((c.number(value), 16), (c.factor(value), 24)):
        whole = int(literal.removesuffix(")").split(", ")[1])
        assert abs(whole - float(value) * 2**bits) <= 0.5


def test_an_array_breaks_lines_and_is_never_empty():
    text = c.array("uint16_t", "a", [str(i) for i in range(500)])
    assert max(map(len, text.splitlines())) <= 120
    assert text.startswith("static const uint16_t a[500] = {\n")
    assert [int(n) for n in re.findall(r"\d+(?=,)", text)] == list(range(500))
    assert c.array("float", "b", []) == "static const float b[1] = {\n    0,\n};\n"
    assert "0x80000001u" in c.words("w", np.array([[0x80000001]], np.uint32))
