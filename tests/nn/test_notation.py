"""The paper's notation, with the sizes that reach each token."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bitspike import build
from bitspike.nn.notation import Conv, Dense, Pool, parse


def test_the_papers_static_network():
    layers, shape = parse("16Conv5-AP2-64Conv5-AP2-1024Dense10", (1, 28, 28))
    assert shape == (1, 28, 28)
    assert layers == (
        Conv(1, 16, 5, (Pool("AP", 2),), (16, 12, 12)),
        Conv(16, 64, 5, (Pool("AP", 2),), (64, 4, 4)),
        Dense(1024, 10),
    )


def test_the_papers_gesture_network():
    layers, _ = parse("16Conv5-AP2-32Conv5-AP2-800Dense11", (2, 32, 32))
    assert layers == (
        Conv(2, 16, 5, (Pool("AP", 2),), (16, 14, 14)),
        Conv(16, 32, 5, (Pool("AP", 2),), (32, 5, 5)),
        Dense(800, 11),
    )


def test_the_papers_speech_network_says_its_own_input():
    assert parse("700Dense3000Dense20", None) == ((Dense(700, 3000), Dense(3000, 20)), (700,))


def test_three_ways_to_write_dense_layers():
    wanted = ((Dense(100, 1000), Dense(1000, 1)), (100,))
    for notation in ("100-1000-1", "100Dense1000Dense1", "100Dense1000-1000Dense1"):
        assert parse(notation, None) == wanted


def test_dense_layers_flatten_the_input():
    layers, shape = parse("784-10", (1, 28, 28))
    assert (layers, shape) == ((Dense(784, 10),), (1, 28, 28))


def test_max_pools_and_pools_in_a_row():
    layers, _ = parse("3Conv1-MP2-AP3", (2, 13, 12))
    assert layers == (Conv(2, 3, 1, (Pool("MP", 2), Pool("AP", 3)), (3, 2, 2)),)


def test_a_pool_drops_the_rest_as_pytorch_does():
    (layer,), _ = parse("1Conv1-AP2", (1, 7, 5))
    assert layer.output == (1, 3, 2)


def test_spaces_around_tokens_are_ignored():
    assert parse("2Conv3 - AP2 - 18Dense3", (1, 8, 8)) == parse("2Conv3-AP2-18Dense3", (1, 8, 8))


def test_a_list_is_a_shape():
    assert parse("9Dense2", [9])[1] == (9,)


def test_padding_and_stride_in_any_order():
    wanted = (Conv(3, 32, 3, (), (32, 16, 15), padding=1, stride=2),)
    for notation in ("32Conv3p1s2", "32Conv3s2p1"):
        assert parse(notation, (3, 32, 30))[0] == wanted
    assert parse("32Conv3p1", (3, 32, 30))[0] == (Conv(3, 32, 3, (), (32, 32, 30), padding=1),)
    assert parse("32Conv3s2", (3, 32, 30))[0] == (Conv(3, 32, 3, (), (32, 15, 14), stride=2),)
    assert parse("32Conv3p0s1", (3, 32, 30)) == parse("32Conv3", (3, 32, 30))


def test_a_pool_may_have_a_stride():
    (layer,), _ = parse("1Conv1-MP3s2-AP2s1", (1, 9, 8))
    assert layer.pools == (Pool("MP", 3, 2), Pool("AP", 2, 1))
    assert layer.output == (1, 3, 2)
    assert parse("1Conv1-MP2s2", (1, 9, 8)) == parse("1Conv1-MP2", (1, 9, 8))


sizes = st.integers(1, 4)


@given(
    st.integers(1, 12), st.integers(1, 12), sizes, st.integers(0, 3), sizes,
    st.sampled_from(["AP", "MP"]), sizes, st.none() | sizes,
)  # fmt: skip
def test_sizes_are_those_that_the_modules_make(height, width, kernel, padding, stride, kind, pool, pool_stride):
    token = f"3Conv{kernel}p{padding}s{stride}-{kind}{pool}" + (f"s{pool_stride}" if pool_stride else "")
    pooling = {"AP": nn.AvgPool2d, "MP": nn.MaxPool2d}[kind](pool, pool_stride)
    try:
        out = pooling(nn.Conv2d(2, 3, kernel, padding=padding, stride=stride)(torch.zeros(1, 2, height, width)))
    except RuntimeError:
        out = None
    if out is None or padding >= kernel:
        with pytest.raises(ValueError, match="token"):
            parse(token, (2, height, width))
        return
    (layer,), _ = parse(token, (2, height, width))
    assert layer.output == tuple(out.shape[1:])
    net = build(f"{token}-{out.numel()}Dense2", (2, height, width))
    assert net(torch.rand(2, 1, 2, height, width)).spikes.shape == (2, 1, 2)


@pytest.mark.parametrize(
    ("notation", "says"),
    [
        ("4Conv9", "'4Conv9': a kernel of 9 does not fit its input of 8x6; at most 6, or more padding: 4Conv9p2"),
        ("4Conv9p1s2", "does not fit its input of 8x6, padded to 10x8; at most 8, or more padding: 4Conv9p2s2"),
        ("4Conv3p3", "a kernel of 3 sees only zeros at the edge of a padding of 3; at most p2"),
        ("4Conv3s0", "sizes must be >= 1"),
        ("4Conv3-AP2s0", "sizes must be >= 1"),
        ("4Conv3p1p2", "padding (p) and stride (s) are given once each, as in 32Conv3p1s2"),
        ("4Conv3s1p1s2", "padding (p) and stride (s) are given once each"),
        ("4Conv3x2", "not understood; use {filters}Conv{kernel}, with p{padding} and s{stride} behind it if need be "
         "(32Conv3p1s2), AP{size}, MP{size}, with s{stride} behind it (MP3s2), {inputs}Dense{outputs}, or sizes"),
        ("4Conv3p1s2-99Dense10", "99 inputs, but 48 arrive (4x4x3); write 48Dense10"),
        ("4Conv3-AP5s2", "a pool of 5 does not fit its input of 6x4; at most 4"),
        ("p1", "not understood"),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_what_would(notation, says):
    with pytest.raises(ValueError, match=r"^build: token ") as raised:
        parse(notation, (1, 8, 6))
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@given(st.lists(st.integers(1, 2000), min_size=2, max_size=6))
def test_any_row_of_sizes_is_a_dense_network(sizes):
    layers, shape = parse("-".join(map(str, sizes)), None)
    assert shape == (sizes[0],)
    assert layers == tuple(Dense(i, o) for i, o in pairwise(sizes))
