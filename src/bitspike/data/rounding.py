"""Rounding of numbers that a person is told to set."""

from __future__ import annotations

import math


def two_digits_up(value: float) -> float:
    """Return the smallest number of two digits, times a power of ten, that is not below `value`, which is above 0.

    Examples:
        >>> from bitspike.data.rounding import two_digits_up
        >>> [two_digits_up(value) for value in (1234, 101, 99.01, 0.0123, 17.0)]
        [1300.0, 110.0, 100.0, 0.013, 17.0]
    """
    power = math.floor(math.log10(value)) - 1
    digits = math.ceil(round(value / 10.0**power, 9))  # 1.1 / 0.1 is a little more than 11
    return digits * 10.0**power if power >= 0 else digits / 10.0**-power
