"""A drawn digit as events of a camera that moves, in Node and, with the shipped network, in a browser."""

from pathlib import Path

import numpy as np
import pytest

from bitspike.experiments.exports import export_run
from helpers import chromium, node
from helpers.page import after, click, middle, opened, text

SHIPPED = Path(__file__).parents[3] / "results" / "nmnist-small-best"
CODE = ("layer.js", "events_file.js", "saccades.js")
NETWORK = {"inputShape": [2, 34, 34], "steps": 100, "input": {"binUs": 10000, "steps": 31, "clip": None}}

in_node = pytest.mark.skipif(node.PROGRAM is None, reason=node.WHY_NOT)


def saccades(pixels: np.ndarray) -> np.ndarray:
    function = "({ pixels, network }) => Array.from(saccades(Float32Array.from(pixels), network))"
    found = node.call(node.source(*CODE), function, {"pixels": pixels.ravel().tolist(), "network": NETWORK})
    return np.array(found).reshape(31, 2, 34, 34)


def square() -> np.ndarray:
    pixels = np.zeros((28, 28))
    pixels[10:18, 10:18] = 1
    return pixels


@in_node
def test_nothing_drawn_gives_no_events():
    assert not saccades(np.zeros((28, 28))).any()


@in_node
def test_events_lie_where_the_digit_begins_and_ends():
    events = saccades(square())
    row, column = np.arange(34)[:, None], np.arange(34)
    for steps, axis, sign in [(slice(1, 8), row, 1), (slice(11, 19), row, -1), (slice(22, 30), column, -1)]:
        lighter, darker = (
            (events[steps, p].sum(0) * axis).sum() / events[steps, p].sum() for p in (0, 1)
        )  # the places in front of the digit and behind it, on its way down, up and left
        assert sign * (lighter - darker) > 3
    assert not events[8:10].any()  # it rests


@in_node
def test_what_grows_lighter_by_1_gives_five_events_of_a_fifth():
    events = saccades(square())[:8]
    assert events[:, 0].sum(0).max() == 5
    assert events[:, 1].sum(0).max() == 5


@in_node
@pytest.mark.parametrize(
    ("change", "expected"),
    [({}, True), ({"metadata": {"data": "gestures"}}, False), ({"inputShape": [2, 32, 32]}, False)],
)
def test_only_networks_on_nmnist_have_the_pad(change, expected):
    network = NETWORK | {"classes": ["a"] * 10, "metadata": {"data": "N-MNIST, small"}} | change
    assert node.call(node.source(*CODE), "isOfSaccades", network) is expected


@pytest.mark.skipif(chromium.PROGRAM is None, reason=chromium.WHY_NOT)
def test_the_shipped_network_reads_digits(tmp_path):
    export_run(SHIPPED, "html", tmp_path / "nmnist.html")
    with chromium.browser() as tab:
        tab.prefer(prefers_reduced_motion="reduce")
        opened(tab, (tmp_path, {"nmnist": None}), "nmnist")
        answers = []
        for digit in range(10):
            after(tab, lambda digit=digit: click(tab, f"#digits button:nth-child({digit + 1})"))
            answers.append(text(tab, "#verdict").partition("after")[0].strip())
        assert answers == [*"0123456789"]
        at = middle(tab, "#digit")
        after(tab, lambda: tab.drag(at(0.3, 0.2), at(0.7, 0.2), at(0.45, 0.85)))
        assert text(tab, "#verdict").startswith("7")
        after(tab, lambda: click(tab, "#patterns button"))
        assert text(tab, "#verdict").endswith("a pattern has no right answer")
        assert tab.problems() == []
