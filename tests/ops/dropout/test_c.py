"""The mask of dropout in C is the definition's."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike.ops.dropout import c as dropout_c
from bitspike.ops.dropout import reference as dropout
from helpers.layers import few, sizes

pytestmark = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")


@given(
    steps=st.integers(1, 9), batch=few, neurons=sizes, p=st.floats(0.01, 0.99), key=st.integers(-(2**63), 2**63 - 1),
    first=st.integers(0, 5),
)  # fmt: skip
def test_the_mask_is_that_of_the_definition(steps, batch, neurons, p, key, first):
    got = dropout_c.keep_mask((steps, batch, neurons), dropout_c.draw(p, torch.tensor(key), 3, first * neurons))
    wanted = dropout.keep_mask((steps, batch, neurons), p, torch.tensor(key), 3, first)
    assert torch.equal(got.bool(), wanted)
