"""The Triton twin of the surrogates, for every kernel that scans: from one instruction that is good to 22 bits."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

import triton
import triton.language as tl


@triton.jit
def _surrogate(u, center, slope, SURROGATE: tl.constexpr):
    """ds/du: 1 / (1 + (slope * (center - u))**2) of "arctan", 1 / (1 + slope * |center - u|)**2 of "fast_sigmoid"."""
    tl.static_assert(SURROGATE == "fast_sigmoid" or SURROGATE == "arctan")
    if SURROGATE == "arctan":
        away = slope * (center - u)
        root = tl.rsqrt(1.0 + away * away)
        grad = root * root
    else:
        root = tl.rsqrt(1.0 + slope * tl.abs(center - u))
        square = root * root
        grad = square * square
    return grad
