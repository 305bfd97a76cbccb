"""Numbers of two digits that are not smaller."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.data.rounding import two_digits_up


@given(st.integers(10, 99), st.integers(-6, 9))
def test_a_number_of_two_digits_stays(digits, power):
    value = digits * 10.0**power if power >= 0 else digits / 10.0**-power
    assert two_digits_up(value) == value


@given(st.floats(1e-6, 1e12))
def test_others_become_the_next(value):
    rounded = two_digits_up(value)
    assert value * (1 - 1e-9) <= rounded <= value * 1.1
    assert len(f"{rounded:.10e}".partition("e")[0].replace(".", "").rstrip("0")) <= 2


@pytest.mark.parametrize(("value", "expected"), [(1.01, 1.1), (99.1, 100), (0.00951, 0.0096), (123_456, 130_000)])
def test_examples(value, expected):
    assert two_digits_up(value) == expected
