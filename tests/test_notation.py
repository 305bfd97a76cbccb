"""The paper's notation, with the sizes that reach each token."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

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


@given(st.lists(st.integers(1, 2000), min_size=2, max_size=6))
def test_any_row_of_sizes_is_a_dense_network(sizes):
    layers, shape = parse("-".join(map(str, sizes)), None)
    assert shape == (sizes[0],)
    assert layers == tuple(Dense(i, o) for i, o in pairwise(sizes))
