"""The size of a sensor: given, or found unless a few events lie far from all others."""

from pathlib import Path

import numpy as np
import pytest

from bitspike.data.sensors import sensor_size

PATH = Path("mine.npz")
OFFSETS = np.array([0, 1000, 4000])


def camera(x=(), y=(), events=4000):
    """Coordinates of a camera of 100 x 128 pixels, with those of the first events of sample 1 replaced."""
    rng = np.random.default_rng(0)
    columns = {"y": rng.integers(0, 100, events), "x": rng.integers(0, 128, events)}
    columns["y"][7], columns["x"][7] = 99, 127
    for name, values in (("x", x), ("y", y)):
        columns[name][1000 : 1000 + len(values)] = values
    return columns


def test_the_largest_coordinates_give_the_size():
    assert sensor_size(PATH, camera(), OFFSETS, None) == (100, 128)
    assert sensor_size(PATH, {"x": np.array([3, 63])}, np.array([0, 2]), None) == (64,)
    assert sensor_size(PATH, {"x": np.zeros(0, int)}, np.array([0, 0]), None) == (1,)
    assert sensor_size(PATH, camera(), OFFSETS, (240, 304)) == (240, 304)


def test_one_damaged_event_is_named():
    with pytest.raises(ValueError, match="mine") as caught:
        sensor_size(PATH, camera(x=[60_000]), OFFSETS, None)
    assert str(caught.value) == (
        "mine.npz: the largest x is 60000 (event 1000 of all, in sample 1), but all except 1 of 4,000 events have "
        "x <= 127; leave the far events out, or give data.sensor = [100, 60001] if they are right"
    )
    with pytest.raises(ValueError, match=r"the largest y is 9000 .*in sample 1.* y <= 99; .*sensor = \[9001, 128\]"):
        sensor_size(PATH, camera(y=[9_000]), OFFSETS, None)
    assert sensor_size(PATH, camera(x=[60_000]), OFFSETS, (100, 60_001)) == (100, 60_001)


@pytest.mark.parametrize(
    ("x", "refused"), [([1_200] * 4, True), ([1_200] * 5, False), ([1_024] * 4, True), ([1_015] * 4, False)]
)
def test_events_are_far_if_they_are_few_and_eight_times_as_far_out(x, refused):
    if refused:
        with pytest.raises(ValueError, match="all except 4 of 4,000 events have x <= 127"):
            sensor_size(PATH, camera(x=x), OFFSETS, None)
    else:
        assert sensor_size(PATH, camera(x=x), OFFSETS, None) == (100, max(x) + 1)


def test_a_small_sensor_may_have_rare_events():
    x = np.zeros(4000, int)
    x[0] = 62
    assert sensor_size(PATH, {"x": x}, OFFSETS, None) == (63,)


def test_a_size_that_is_too_small_names_the_event():
    with pytest.raises(ValueError, match="mine") as caught:
        sensor_size(PATH, camera(), OFFSETS, (100, 120))
    assert str(caught.value) == (
        "mine.npz: sensor must be [height, width], at least [100, 128] for these events, but is [100, 120]: the "
        f"largest x is 127 (event {int(camera()['x'].argmax())} of all, in sample 0); give data.sensor = [100, 128]"
    )
    with pytest.raises(
        ValueError, match=r"mine.npz: sensor must be \[units\], at least \[4\], but is \[4, 4\]: .* no y; give"
    ):
        sensor_size(PATH, {"x": np.arange(4)}, np.array([0, 4]), (4, 4))


def test_coordinates_that_count_from_1_are_told():
    with pytest.raises(ValueError, match=r"the largest x is 6 \(.*; coordinates count from 0, so subtract 1$"):
        sensor_size(PATH, {"x": np.arange(1, 7)}, np.array([0, 6]), (6,))
    with pytest.raises(ValueError, match=r"in sample 0\); give data.sensor = \[7\]$"):
        sensor_size(PATH, {"x": np.arange(0, 7)}, np.array([0, 7]), (6,))


def test_x_in_place_of_y_is_told():
    with pytest.raises(ValueError, match=r"the largest x is 127 \(.*\); are x and y in the wrong order\?$"):
        sensor_size(PATH, camera(), OFFSETS, (128, 100))
