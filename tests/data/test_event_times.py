"""Times of events: microseconds from any unit and type of number, and time from a sample's first event."""

import numpy as np
import pytest

from bitspike.data.event_times import MICROSECONDS, microseconds, require_different_times, times_from_first


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.uint64, np.float32, np.float64])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_every_type_of_number_gives_the_same_microseconds(dtype, unit):
    times = microseconds("here", "t", np.array([0, 3, 250], dtype), MICROSECONDS[unit])
    assert times.dtype == np.int64
    assert times.tolist() == [0, 3 * MICROSECONDS[unit], 250 * MICROSECONDS[unit]]


def test_units():
    assert MICROSECONDS == {"s": 1_000_000, "ms": 1_000, "us": 1}
    assert microseconds("here", "t", np.array([0.0014996, -0.5]), 1000).tolist() == [1, -500]


@pytest.mark.parametrize(
    ("t", "says"),
    [
        (np.array([2**53], np.int64), r"here: t must be numbers within 2\*\*53 us"),
        (np.array([np.nan]), "here: t must be numbers, but 1 of 1 are NaN"),
        (np.array(["1"]), r"here: t must be numbers, but is text; write t\.astype\('int64'\)"),
        (np.array([0], "M8[ms]"), r"t must be numbers, but is datetime64\[ms\]; write t\.astype\('M8\[us\]'\)\.astype"),
        (np.zeros((2, 2)), "here: t must have one dimension"),
    ],
)
def test_times_that_are_none(t, says):
    with pytest.raises(ValueError, match=says):
        microseconds("here", "t", t, 1000)


def test_time_from_the_first_event_of_each_sample():
    t, offsets = np.array([5, 7, -2, 40]), np.array([0, 0, 2, 3, 3, 4, 4])  # some samples are silent
    assert times_from_first(t, offsets).tolist() == [0, 2, 0, 0]
    assert t.tolist() == [5, 7, -2, 40]
    assert times_from_first(np.zeros(0, np.int64), np.zeros(3, np.int64)).tolist() == []


def test_times_that_become_equal_are_in_another_unit():
    seconds = np.linspace(0, 0.4, 100)
    with pytest.raises(ValueError, match="here") as caught:
        require_different_times("here", "t", seconds, 1)
    assert str(caught.value) == (
        "here: 100 different times in t are only 1 in whole microseconds: data.time_unit is too small a unit; try "
        "'s' or 'ms'"
    )
    require_different_times("here", "t", seconds, 1_000_000)
    require_different_times("here", "t", seconds[:99], 1)  # so few may well be within a microsecond
    require_different_times("here", "t", np.arange(500) / 8, 1)  # a clock of 8 MHz
    require_different_times("here", "t", np.repeat([0, 1], 500), 1)


def test_times_of_too_few_digits_are_told():
    t = (1.7e9 + np.arange(3) / 10).astype(np.float32)  # seconds since 1970
    with pytest.raises(ValueError, match="here") as caught:
        require_different_times("here", "t", t, 1_000_000)
    assert str(caught.value) == (
        "here: t is float32, which holds a time of 1.7e+09 only to 1.3e+02 s; write it as float64, or count from the "
        "beginning of the recording"
    )
    for fine in (t.astype(np.float64), t / 1e5, t[:0]):  # float32 holds 17,000 s to 2 ms
        require_different_times("here", "t", fine, 1_000_000)
