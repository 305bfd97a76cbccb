"""Networks for data whose file names no layers: each fits its data, whatever the size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.experiments.default_network import default_notation, dense_notation
from bitspike.nn.notation import parse

HIDDEN, FILTERS = [256, 256], [16, 32]


@pytest.mark.parametrize(
    ("shape", "notation"),
    [
        ((6,), "6-256-256-10"),
        ((2, 64), "128-256-256-10"),  # a row of channels with two polarities
        ((1, 28, 28), "16Conv5-AP2-32Conv5-AP2-512Dense10"),
        ((2, 12, 40), "16Conv5-AP2-32Conv3-AP2-256Dense10"),
        ((1, 4, 4), "16Conv3-AP2-16Dense10"),
        ((3, 3, 50), "450-256-256-10"),
        ((3, 224, 224), "16Conv5-AP4-32Conv5-AP4-4608Dense10"),
    ],
)
def test_the_kind_and_the_size_decide(shape, notation):
    assert default_notation(shape, HIDDEN, FILTERS, 10) == notation


@given(st.integers(1, 3), st.integers(1, 130), st.integers(1, 130), st.integers(2, 30))
def test_every_size_gets_a_network_that_fits(channels, height, width, classes):
    layers, _ = parse(default_notation((channels, height, width), HIDDEN, FILTERS, classes), (channels, height, width))
    assert layers[-1].outputs == classes


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.lists(st.integers(1, 99), max_size=3))
def test_hidden_widths_fit_any_shape(shape, hidden):
    layers, _ = parse(dense_notation(shape, hidden, 7), tuple(shape))
    assert [layer.outputs for layer in layers] == [*hidden, 7]
