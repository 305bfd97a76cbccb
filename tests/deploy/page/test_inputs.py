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


def test_the_whole_of_a_dim_picture_is_kept():
    pixels = np.random.default_rng(3).integers(0, 26, (1, 28, 28)) / 255
    assert np.array_equal(np.rint(framed(pixels, "whole") * 255), np.rint(pixels * 255))


def strokes(picture: np.ndarray) -> np.ndarray:
    """The page's strokes of a plane `[height, width]`, ink light."""
    function = """({ plane, width, height }) =>
      Array.from(strokesOnly(Float64Array.from(plane), width, { left: 0, top: 0, width, height }))"""
    job = {"plane": picture.ravel().tolist(), "width": picture.shape[1], "height": picture.shape[0]}
    return np.array(node.call(node.source("frame.js", "ground.js"), function, job)).reshape(picture.shape)


def ink(size=140) -> np.ndarray:
    """A seven: 0 or 1."""
    y, x = np.mgrid[0:size, 0:size] / size
    return (
        (abs(y - 0.25) < 0.04) & (abs(x - 0.5) < 0.25)
        | (abs(x - 0.75 + 0.5 * (y - 0.25)) < 0.05) & (y > 0.25) & (y < 0.8)
    ) * 1.0


@pytest.mark.parametrize("ground", [0, 0.11, 0.2, 0.5])
def test_strokes_do_not_depend_on_their_ground(ground):
    assert strokes(ground + (0.9 - ground) * ink()) == pytest.approx(ink(), abs=1e-9)


def test_a_soft_shade_and_the_grain_of_paper_are_no_ink():
    y, x = np.mgrid[0:140, 0:140] / 140
    grain = np.random.default_rng(4).normal(0, 0.02, (140, 140))
    found = strokes(np.clip(0.2 + 0.25 * x + 0.1 * y + grain + 0.5 * ink(), 0, 1))
    assert found[ink() == 0].max() < 0.1
    assert found[ink() == 1].min() > 0.4


def test_paper_without_ink_stays_empty():
    grain = np.random.default_rng(5).normal(0.5, 0.02, (140, 140))
    assert not strokes(grain).any()
    assert not strokes(np.full((140, 140), 0.5)).any()


def test_pictures_of_things_keep_their_greys_above_the_ground():
    function = "({ plane, level }) => Array.from(lifted(Float64Array.from(plane), level))"
    found = node.call(node.source("ground.js"), function, {"plane": [0.1, 0.2, 0.6, 1], "level": 0.2})
    assert found == pytest.approx([0, 0, 0.5, 1])


@pytest.mark.parametrize(
    ("network", "first"),
    [
        ({"classes": [str(k) for k in range(10)], "inputShape": [1, 28, 28]}, "0"),
        ({"classes": [str(k) for k in range(10)], "inputShape": [3, 32, 32]}, "ring"),
        (
            {"classes": [str(k) for k in range(10)], "inputShape": [784], "metadata": {"data": "FashionMNIST"}},
            "t-shirt",
        ),
        ({"classes": ["cat", "dog"], "inputShape": [1, 20, 30]}, "ring"),
    ],
)
def test_samples_are_of_what_the_network_knows(network, first):
    names = node.call(
        node.source("glyphs.js"), "(job) => samplesFor(job).map(([name]) => name)", {"metadata": {}} | network
    )
    assert names[0] == first
    assert len(names) > 3  # the page begins with the fourth


def test_a_rising_sweep_goes_to_channel_0():
    function = """() => Object.fromEntries(["rising sweep", "falling sweep"].map((name) => {
      const values = LINE_PATTERNS[name](40, 100);
      return [name, Array.from({ length: 40 }, (_, t) => values.slice(100 * t, 100 * (t + 1)).indexOf(1))];
    }))"""
    found = node.call(node.source("layer.js", "run.js", "patterns.js"), function, None)
    for name, sign in (("rising sweep", -1), ("falling sweep", 1)):
        active = [channel for channel in found[name] if channel >= 0]
        assert sign * (active[-1] - active[0]) > 50


def test_classes_that_are_all_alike_are_no_answer():
    leaders = "(job) => job.map(leaderOf)"
    assert node.call(node.source("answer.js"), leaders, [[0, 0], [2, 2, 2], [1, 3, 3], [-1, -2]]) == [-1, -1, 1, 0]


def facts(metadata: dict) -> tuple[str, list]:
    function = "(network) => [summaryOf(network), factsOf(network, 1000)]"
    code = node.source("layer.js", "events_file.js", "facts.js") + "\nconst formatted = (n) => n.toLocaleString('en');"
    network = {"notation": "6-5-3", "weights": 45, "steps": 7, "glances": 1, "input": {}, "metadata": metadata}
    return tuple(node.call(code, function, network))


def test_the_facts_of_the_page_are_its_own():
    _, rows = facts({"weights": "many", "network": "mine", "accuracy": "0.5"})
    rows = dict(rows)
    assert rows["network"] == "6-5-3"
    assert rows["weights"] == "45, one bit each: 6 bytes"
    assert rows["weights (metadata)"] == "many"
    assert rows["accuracy"] == "50.00 %"


def test_an_accuracy_says_of_how_many_samples():
    metadata = {"accuracy": "1", "data": "N-MNIST", "test_samples": "100"}
    assert facts(metadata)[0].endswith("100.0 % right on N-MNIST (of 100 test samples)")


def read(text: str, shape, unit: str | None = "us", **rule) -> dict:
    """The page's bins of a CSV; an error as its message."""
    defaults = {"binUs": 1000, "steps": 5, "downsample": 1, "polarity": True, "clip": None}
    rule = defaults | {"durationUs": None, "sensor": None, "origin": "zero"} | rule
    function = """({ text, network, unit }) => {
      try {
        const found = readEvents(text, network, unit), { values, counted, lost } = found;
        return { values: Array.from(values), counted, lost, unit: found.unit, doubts: doubtsOf(found, network) };
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
        ("t,channel\n0,0\n1,2", "ms", [1, 0, 0, 0, 0, 1]),
        ("0 0\n0.001 2\n", "s", [1, 0, 0, 0, 0, 1]),  # no names, spaces
        ("# from a cochlea\r\nchannel;t\r\n2;1.001\r\n", "ms", [0, 0, 0, 0, 0, 1]),  # names in any order
        ('"t","channel"\n"0","0"\n1,2', "ms", [1, 0, 0, 0, 0, 1]),  # quotes
        ("time,unit\n0,0\n1,2", "ms", [1, 0, 0, 0, 0, 1]),
        ("recording,t_ms,channel,gesture\n0,0,0,tap\n0,1,2,tap", "s", [1, 0, 0, 0, 0, 1]),  # the name says the unit
        ("timestamp (us),x\n0,0\n1000,2", "s", [1, 0, 0, 0, 0, 1]),
    ],
)
def test_ways_to_write_events(text, unit, values):
    found = read(text, [3], unit, steps=2)
    assert (found["values"], found["counted"], found["lost"]) == (values, values.count(1), 0)


@pytest.mark.parametrize("name", ["p", "pol", "Polarity"])
@pytest.mark.parametrize(
    ("off", "on"), [("0", "1"), ("-1", "1"), ("-1.0", "1.0"), ("False", "True"), ("false", "true")]
)
def test_ways_to_write_polarity(name, off, on):
    found = read(f"t,x,y,{name}\n0,0,0,{off}\n0,1,0,{on}\n", [2, 1, 2], steps=1)
    assert found["values"] == [1, 0, 0, 1]


def test_a_first_line_with_true_is_an_event():
    assert read("0,0,0,True\n", [2, 1, 1], steps=1)["values"] == [0, 1]


@pytest.mark.parametrize(("unit", "scale"), [("us", 1), ("ms", 1e-3), ("s", 1e-6)])
def test_the_unit_is_found_from_the_times(unit, scale):
    times = np.arange(0, 20_000, 700) * scale
    text = "\n".join(f"{t:.7f},0" for t in times)
    assert read(text, [1], None, steps=20)["unit"] == unit


def test_a_unit_that_does_not_fit_is_doubted():
    seconds = "t,channel\n" + "\n".join(f"{0.001 * k},0" for k in range(20))
    assert read(seconds, [1], "s", steps=20)["doubts"] == ""
    assert read(seconds, [1], "ms", steps=20)["doubts"] == "All events fall into one step of 20: are the times in ms?"
    late = "\n".join(f"{1000 * k},0" for k in range(20))
    said = "Nearly all events are left out: are the times in ms? are the columns t,channel?"
    assert read(late, [1], "ms", steps=20)["doubts"] == said


def test_time_may_begin_with_the_first_event():
    assert read("5000,1\n6000,0", [2], steps=2, origin="first")["values"] == [0, 1, 1, 0]
    found = read("5000,1\n6000,0", [2], steps=2)
    assert (found["values"], found["counted"], found["lost"]) == ([0] * 4, 0, 2)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("t,loudness\n1,2", "the first line must name t, channel, but has no channel"),
        ("1,2\n3,many\n", "line 2 must have numbers for t, channel, but is “3,many”"),
        ("# a\nt,channel\n\n1,2\n3,\n", "line 5 must have numbers for t, channel, but is “3,”"),  # an empty cell
    ],
)
def test_a_wrong_file_says_what_is_wrong(text, error):
    assert read(text, [3])["error"] == error


def test_a_polarity_that_is_none_is_named():
    error = "line 2: p must be 0 or 1 (or -1, True, False), but is “2”"
    assert read("t,x,y,p\n0,0,0,2", [2, 1, 1])["error"] == error
