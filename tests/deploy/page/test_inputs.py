"""What the page makes of drawings, pictures and event files, in Node."""

import csv
import io

import numpy as np
import pytest

from bitspike.data.binning import Binning, bin_events
from bitspike.data.events import Events
from helpers import node

pytestmark = pytest.mark.skipif(node.PROGRAM is None, reason=node.WHY_NOT)


def framed(picture: np.ndarray, framing: str, shape=(1, 28, 28)) -> np.ndarray:
    """The page's pixels for planes `[channels, height, width]` of numbers 0..1."""
    function = """({ planes, width, height, shape, framing }) =>
      Array.from(framed(planes.map((plane) => Float64Array.from(plane)), width, height, shape, framing))"""
    channels, height, width = picture.shape
    job = {"planes": picture.reshape(channels, -1).tolist(), "width": width, "height": height}
    job |= {"shape": shape, "framing": framing}
    return np.array(node.call(node.source("layer.js", "frame.js"), function, job)).reshape(shape)


def blob(size=280, top=30, left=50, tall=80, wide=40):
    picture = np.zeros((1, size, size))
    picture[0, top : top + tall, left : left + wide] = 1
    return picture


def test_a_picture_of_the_networks_size_keeps_its_bytes():
    pixels = np.random.default_rng(0).integers(0, 256, (1, 28, 28)) / 255
    large = pixels.repeat(10, 1).repeat(10, 2)
    assert np.array_equal(np.rint(framed(large, "whole") * 255), np.rint(pixels * 255))


def test_pixels_are_float32_of_bytes_divided_by_255():
    out = framed(np.random.default_rng(1).random((1, 100, 90)), "whole")
    assert np.array_equal(out, (np.rint(out * 255).astype(np.float32) / np.float32(255)).astype(np.float64))


@pytest.mark.parametrize(("tall", "wide"), [(80, 40), (40, 160), (5, 5), (200, 200)])
def test_ink_is_scaled_into_20_of_28_with_its_mass_in_the_middle(tall, wide):
    out = framed(blob(tall=tall, wide=wide), "mass")[0]
    rows, columns = np.nonzero(out)
    assert max(np.ptp(rows), np.ptp(columns)) + 1 == 20
    assert (out * (np.arange(28)[:, None] + 0.5)).sum() / out.sum() == pytest.approx(14, abs=0.5)
    assert (out * (np.arange(28) + 0.5)).sum() / out.sum() == pytest.approx(14, abs=0.5)


def test_the_mean_place_counts_not_the_middle_of_the_box():
    picture = blob(top=40, left=40, tall=100, wide=100)
    picture[0, 60:140, 60:140] = 0  # an L, whose mass is up and left
    rows, columns = np.nonzero(framed(picture, "mass")[0])
    assert (rows.min() + rows.max() + 1) / 2 > 14
    assert (columns.min() + columns.max() + 1) / 2 > 14


def test_fill_uses_the_whole_frame():
    rows, columns = np.nonzero(framed(blob(tall=80, wide=40), "fill")[0])
    assert (rows.min(), rows.max()) == (0, 27)
    assert np.ptp(columns) + 1 == 14


def test_brightness_is_kept_where_a_picture_shrinks():
    picture = np.random.default_rng(2).random((1, 97, 131))
    assert framed(picture, "whole").mean() == pytest.approx(picture.mean(), abs=2e-3)


def test_an_empty_pad_gives_zeros():
    assert not framed(np.zeros((1, 50, 50)), "mass").any()


def read(text: str, shape, unit=1.0, **rule) -> dict:
    """The page's bins of a CSV; an error as its message."""
    defaults = {"binUs": 1000, "steps": 5, "downsample": 1, "polarity": True, "clip": None}
    rule = defaults | {"durationUs": None, "sensor": None, "origin": "zero"} | rule
    function = """({ text, network, unit }) => {
      try {
        const { values, counted, lost } = readEvents(text, network, unit);
        return { values: Array.from(values), counted, lost };
      } catch (error) { return { error: error.message }; } }"""
    job = {"text": text, "network": {"inputShape": shape, "input": rule, "steps": 100}, "unit": unit}
    return node.call(node.source("layer.js", "events_file.js"), function, job)


def as_csv(columns: dict[str, np.ndarray]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return out.getvalue()


@pytest.mark.parametrize("camera", [False, True])
@pytest.mark.parametrize("rule", [{}, {"downsample": 3}, {"clip": 1}, {"duration_us": 3500}])
def test_events_fall_into_the_bins_of_the_library(camera, rule):
    chance = np.random.default_rng(5)
    count, sensor = 400, (8, 10) if camera else (10,)
    t = np.sort(chance.integers(0, 6000, count))
    x, y, p = chance.integers(0, 10, count), chance.integers(0, 8, count), chance.integers(0, 2, count)
    own = {"y": y.astype(np.int16), "p": p.astype(np.int8)} if camera else {"y": None, "p": None}
    events = Events(t=t, x=x.astype(np.int16), offsets=np.array([0, count]), labels=np.array([0]), sensor=sensor, **own)
    frames = bin_events(events, Binning(1000, 5, **rule))
    expected = frames[0][0].numpy()  # [T, *shape]
    columns = {"t": t, "x": x, "y": y, "p": p} if camera else {"t": t, "channel": x}
    names = {"duration_us": "durationUs"}
    found = read(as_csv(columns), list(expected.shape[1:]), **{names.get(k, k): v for k, v in rule.items()})
    assert found["values"] == expected.ravel().tolist()
    assert found["counted"] + found["lost"] == count


@pytest.mark.parametrize(
    ("text", "unit", "values"),
    [
        ("t,channel\n0,0\n1,2", 1000.0, [1, 0, 0, 0, 0, 1]),  # milliseconds
        ("0 0\n0.001 2\n", 1e6, [1, 0, 0, 0, 0, 1]),  # seconds, no names, spaces
        ("# from a cochlea\r\nchannel;t\r\n2;1.001\r\n", 1000.0, [0, 0, 0, 0, 0, 1]),  # names in any order
    ],
)
def test_ways_to_write_events(text, unit, values):
    assert read(text, [3], unit, steps=2) == {"values": values, "counted": values.count(1), "lost": 0}


def test_time_may_begin_with_the_first_event():
    assert read("5000,1\n6000,0", [2], steps=2, origin="first")["values"] == [0, 1, 1, 0]
    assert read("5000,1\n6000,0", [2], steps=2) == {"values": [0] * 4, "counted": 0, "lost": 2}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("t,loudness\n1,2", "the first line must name t, channel, but has no channel"),
        ("1,2\n3,many\n", "line 2 of the events must be t,channel, but is “3,many”"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(text, error):
    assert read(text, [3])["error"] == error
