"""The surrogates in Triton, for all scan kernels, with instructions that are accurate to 22 bits."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit
def _surrogate(u, center, slope, SURROGATE: tl.constexpr):
    """Return ds/du, as defined in surrogate.py."""
    away = slope * tl.abs(center - u)
    if SURROGATE == "fast_sigmoid":
        root = tl.rsqrt(1.0 + away)
        square = root * root
        grad = square * square
    elif SURROGATE == "arctan":
        root = tl.rsqrt(1.0 + away * away)
        grad = root * root
    elif SURROGATE == "triangular":
        grad = tl.maximum(1.0 - away, 0.0)
    else:
        tl.static_assert(SURROGATE == "sigmoid")
        e = tl.exp(-away)  # of a number <= 0: far away it is 0, where exp(+) would overflow
        root = tl.rsqrt(1.0 + e)
        square = root * root
        grad = 4.0 * e * square * square
    return grad
