"""The C runtime gives the plain engine's bits: with every processor's code, with wide weights or not, over threads."""

import ctypes
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.deploy.model import NetworkModel, PoolModel
from bitspike.deploy.runtime import layout, plain_engine
from bitspike.deploy.runtime.c_engine import CEngine
from bitspike.deploy.runtime.layout import pack_rows
from bitspike.ops.native.library import library
from helpers.random_models import random_input, random_layer, random_model

pytestmark = pytest.mark.skipif(library() is None, reason="the C extension is not built")

KINDS = ("spikes", "dense", "counts", "reals", "pixels", "bytes")
VECTORS = {"portable": 1, "AVX2": 2, "AVX-512": 3, "all": 0}  # bs_vectors of runtime_x86.h


@pytest.fixture(params=VECTORS)
def vectors(request):
    """Run a test with the code of each kind of processor that this one can run."""
    chosen = ctypes.c_int.in_dll(library(), "bs_vectors")
    chosen.value = VECTORS[request.param]
    yield request.param
    chosen.value = 0


def require_equal(model, x, *, wide=True, threads=1):
    """Compare spikes, membranes, counts and scores of all layers with the plain engine's; return the spikes."""
    static = x.ndim == len(model.input_shape) + 1
    engine, recorded = CEngine(model, threads, wide=wide), set(range(len(model.layers)))
    if static:
        ran = engine.run_images(x, model.steps, recorded)
    else:
        ran = engine.run_counts(x, recorded) or engine.run_reals(x.astype(np.float32), recorded)
    expected = plain_engine.run(model, x.astype(np.float32), model.steps if static else None)
    for mine, plain in zip(ran.layers, expected, strict=True):
        np.testing.assert_array_equal(mine.spikes, plain.spikes)
        np.testing.assert_array_equal(mine.membrane, plain.membrane)
    spikes, membrane = (part.reshape(*part.shape[:2], -1) for part in expected[-1])
    np.testing.assert_array_equal(ran.counts, spikes.sum(0))
    np.testing.assert_array_equal(ran.scores, plain_engine.scores(model, spikes, membrane))
    return sum(layer.spikes.sum() for layer in expected)


def draw(seed):
    """Return a random network and an input that suits it."""
    rng = np.random.default_rng(seed)
    kinds = str(rng.choice(["d", "dd", "c", "cc", "cd", "ccd", "cdd"]))
    delays, leaky = rng.random() < 0.3, rng.random() < 0.3
    static = not delays and rng.random() < 0.4
    glances = int(rng.choice([1, 5, 9])) if static else 1
    gains = int(rng.choice([0, 0, 1, 15, 255]))
    model = random_model(seed, kinds, delays=delays, leaky=leaky, gains=gains, glances=glances)
    kind = str(rng.choice(KINDS[:-1] if static else KINDS))
    return model, random_input(seed, model, kind, 2, None if static else 7)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_c_equals_the_definition_on_random_networks(seed, wide):
    require_equal(*draw(seed), wide=wide)


@pytest.mark.parametrize("wide", [False, True])
def test_every_processors_code_equals_the_definition(vectors, wide):
    assert sum(require_equal(*draw(seed), wide=wide) for seed in range(12)) > 1000


@pytest.mark.parametrize("kind", KINDS)
def test_wide_layers_on_every_input(vectors, kind):
    """More than 512 lanes, more than 255 events in a step, and rests in every direction."""
    rng = np.random.default_rng(7)
    first = _resized(rng, 333, 1291)
    model = NetworkModel("333-1291-20", (333,), 5, "spikes", (first, _resized(rng, 1291, 20)))
    assert require_equal(model, random_input(3, model, kind, 1, 5)) > 100


def test_a_first_average_pool_with_another_stride_and_more_pools_behind(vectors):
    rng = np.random.default_rng(1)
    pools = (PoolModel("average", 3, 2), PoolModel("max", 2, 1), PoolModel("average", 2, 2))
    layer = random_layer(rng, "conv", (2, 14, 13))
    layer = _with(layer, pools=pools, stride=1, padding=1, weight=rng.random((70, 2, 3, 3)) < 0.5, rng=rng)
    model = NetworkModel("conv", (2, 14, 13), 6, "spikes", (layer,))
    for kind in KINDS:
        require_equal(model, random_input(2, model, kind, 2, 6))
    require_equal(model, random_input(2, model, "pixels", 2))


def test_pixels_of_sixteen_channels(vectors):
    """Two of them share a word; an odd number leaves one over."""
    rng = np.random.default_rng(4)
    layer = _with(random_layer(rng, "conv", (16, 7, 9)), weight=rng.random((40, 16, 3, 3)) < 0.5, rng=rng, pools=())
    model = NetworkModel("conv", (16, 7, 9), 6, "spikes", (layer,))
    for kind in KINDS:
        require_equal(model, random_input(2, model, kind, 2, 6))


@pytest.mark.parametrize("channels", [1, 3, 16, 20, 33, 64])
@pytest.mark.parametrize("wide", [False, True])
def test_gains_of_channels_come_again_in_each_pixel(vectors, channels, wide):
    """Also where a pixel begins within a word, and where all pixels have fewer bits than the gains' row could hold."""
    for shape in ((channels, 5, 7), (channels, 1, 2)):
        layer = random_layer(np.random.default_rng(channels), "conv", shape, gains=255)
        model = NetworkModel("conv", shape, 6, "spikes", (layer,))
        for kind in KINDS:
            require_equal(model, random_input(2, model, kind, 2, 6), wide=wide)


@pytest.mark.parametrize("largest", [0, 1, 2, 255])
@pytest.mark.parametrize("kinds", ["dd", "cc", "cd"])
def test_a_layer_with_one_gain_for_all(vectors, kinds, largest):
    model = random_model(6, kinds, gains=1, delays=True)
    layers = (replace(layer, gains=np.full_like(layer.gains, largest)) for layer in model.layers)
    model = replace(model, layers=tuple(layers))
    for kind in KINDS:
        require_equal(model, random_input(2, model, kind, 2, 6))


def test_a_step_without_events_brings_nothing_of_the_step_before():
    model = random_model(9, "cd", gains=15)
    x = random_input(9, model, "bytes", 2, 6)
    x[1::2] = 0
    require_equal(model, x)


def test_gains_leave_fewer_planes_to_counts():
    """300 inputs times 255 events times a gain of 255 are more than 2^24, so counts have 7 bits, and C agrees."""
    layer = replace(_resized(np.random.default_rng(0), 300, 5), gains=np.full(300, 255, np.uint8))
    model = NetworkModel("300-5", (300,), 5, "spikes", (layer,))
    engine = CEngine(model, 1)
    assert engine.planes == 7
    c_model = engine.c_model(reals=False, image=False)
    c_model.planes = 8
    assert engine.call("check", ctypes.byref(c_model)) == 1
    require_equal(model, random_input(2, model, "bytes", 2, 6))


@pytest.mark.parametrize(
    ("field", "value"),
    [("gain_words", 0), ("gain_words", 1), ("gain_words", 9), ("largest_gain", 0), ("largest_gain", 256)],
)
def test_gains_that_would_be_read_beside_their_array_are_refused(field, value):
    model = NetworkModel(
        "conv", (5, 6, 4), 3, "spikes", (random_layer(np.random.default_rng(0), "conv", (5, 6, 4), gains=9),)
    )
    engine = CEngine(model, 1)
    c_model = engine.c_model(reals=False, image=False)
    assert engine.call("check", ctypes.byref(c_model)) == 0
    setattr(engine._layers[0], field, value)
    assert engine.call("check", ctypes.byref(c_model)) == 1


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_glances_share_the_first_convolutions_sums(vectors, stride, padding):
    """Also where an image loses pixels at its edge that a kernel in the padding would meet in the sums they share."""
    rng = np.random.default_rng(10 * stride + padding)
    for pools in ((), (PoolModel("average", 2, 2),), (PoolModel("average", 3, 1), PoolModel("max", 2, 1))):
        layer = random_layer(rng, "conv", (2, 16, 19))
        weight = rng.random((37, 2, 3, 3)) < 0.5
        layer = _with(layer, pools=pools, stride=stride, padding=padding, weight=weight, rng=rng)
        model = NetworkModel("conv", (2, 16, 19), 18, "spikes", (layer,), glances=9)
        x = rng.random((2, 2, 16, 19)).astype(np.float32)  # nothing is 0, least of all at the edge
        assert require_equal(model, x) > 100


def test_threads_share_the_batch_and_change_nothing():
    model = random_model(5, "cd")
    x = random_input(5, model, "counts", 23, 6)
    require_equal(model, x, threads=4)


def test_counts_beyond_the_planes_are_taken_as_real_numbers():
    model = random_model(8, "dd")
    x = random_input(8, model, "counts", 2, 6)
    x[3, 1, 0] = 256
    require_equal(model, x)
    x[3, 1, 0] = -1
    require_equal(model, x)


def test_watched_layers_are_looked_at_and_not_kept():
    """A file may declare thresholds near the end of float32 and many steps: no output of all steps is kept for that."""
    rng = np.random.default_rng(3)
    first = replace(_resized(rng, 30, 500), theta=np.full(1, 3e38, np.float32))
    engine = CEngine(NetworkModel("30-500-2", (30,), 5, "spikes", (first, _resized(rng, 500, 2))), 1)
    x = np.zeros((2000, 1, 30), np.float32)
    tracemalloc.start()
    ran = engine.run_counts(x, {1}, {0})
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ran.finite
    assert ran.layers[0] is None
    assert taken < 500_000  # two floats for 500 neurons in 2,000 steps would be 8,000,000 bytes
    x[1000, 0] = 3e38
    assert not engine.run_reals(x, {1}, {0}).finite
    assert not engine.run_reals(x, {0, 1}).finite  # what is recorded is looked at too
    assert engine.run_reals(x[:1000], {1}, {0}).finite


def test_rows_of_bits_are_packed_in_parts():
    """One bit a row makes a word of it: packing takes these words, and no array of 32 times as many bits."""
    bits = np.random.default_rng(0).random((300_000, 1)) < 0.5
    tracemalloc.start()
    words = pack_rows(bits)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(words[:, 0], bits[:, 0])
    assert taken < words.nbytes + 2_500_000


@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 100), st.integers(0, 99))
def test_rows_of_bits_in_another_order(rows, lanes, at_once, seed):
    rng = np.random.default_rng(seed)
    bits, order = rng.random((rows, lanes)) < 0.5, rng.permutation(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "_AT_ONCE", at_once)
        words = pack_rows(bits, order)
    whole = np.unpackbits(words.astype("<u4").view(np.uint8), axis=1, bitorder="little")
    np.testing.assert_array_equal(whole[:, :lanes], bits[order])
    assert not whole[:, lanes:].any()


def test_a_convolution_takes_only_the_extents_that_arrive():
    """A convolution with as many inputs in other rows and columns would read beside the image."""
    model = NetworkModel("conv", (2, 6, 4), 3, "spikes", (random_layer(np.random.default_rng(0), "conv", (2, 6, 4)),))
    engine = CEngine(model, 1)
    c_model = engine.c_model(reals=True, image=True)
    assert engine.call("check", ctypes.byref(c_model)) == 0
    c_model.in_channels, c_model.in_rows = 6, 2
    assert engine.call("check", ctypes.byref(c_model)) == 1
    dense = CEngine(random_model(5, "d", glances=5), 1)
    c_model = dense.c_model(reals=True, image=True)
    c_model.in_rows, c_model.in_columns = c_model.in_columns, c_model.in_rows
    assert dense.call("check", ctypes.byref(c_model)) == 0  # all values in a row


def _resized(rng, inputs, outputs):
    layer = random_layer(rng, "dense", (inputs, 1, 1))
    return _with(layer, weight=rng.random((outputs, inputs)) < 0.5, rng=rng)


def _with(layer, *, weight, rng, **settings):
    """Return a plain layer with these weights and pools, and thresholds that are reached."""
    new = replace(layer, weight=weight, **settings)
    if layer.kind == "dense":
        output = (len(weight), 1, 1)
    else:
        sides = [(n + 2 * new.padding - weight.shape[-1]) // new.stride + 1 for n in layer.input[1:]]
        for pool in new.pools:
            sides = [(n - pool.size) // pool.stride + 1 for n in sides]
        output = (len(weight), *sides)
    channels = output[0]
    return replace(
        new,
        output=output,
        beta=rng.uniform(0.5, 1, 1).astype(np.float32),
        theta=np.full(1, 2, np.float32),
        bias=rng.normal(size=channels).astype(np.float32),
        scale=rng.normal(0.3, 0.2, channels).astype(np.float32),
        offset=rng.normal(size=channels).astype(np.float32),
        recurrent=None,
        adaptation=None,
    )
