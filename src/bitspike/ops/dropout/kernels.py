"""Dropout from a key in Triton: kernels draw the mask of reference.py wherever they need it."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl

from bitspike.ops.dropout.reference import ROUNDS as _ROUNDS

ROUNDS = tl.constexpr(_ROUNDS)


@triton.jit(do_not_specialize=["T", "below", "first"])
def _dropout_kernel(
    x, out, key, T, total, first, below: tl.uint32, keep, LAYER: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out[t, i] = x[t, i] * keep where the mask keeps, else 0; a program takes four steps of BLOCK places.

    The mask is that of place `first` + i.
    """
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    t = tl.program_id(1) * 4
    d0, d1, d2, d3 = tl.philox(tl.load(key), place + first, tl.program_id(1), LAYER, 0, ROUNDS)
    total = tl.full([], 0, tl.int64) + total
    for k in tl.static_range(4):
        draw = d0 if k == 0 else d1 if k == 1 else d2 if k == 2 else d3
        at = (t + k) * total + place
        held = (place < total) & (t + k < T)
        value = tl.load(x + at, mask=held, other=0.0)
        tl.store(out + at, tl.where(draw >= below, value * keep, 0.0), mask=held)
