"""Fixed-point membranes: exact where nothing is rounded, within rounding elsewhere, and never out of their range."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.deploy.engine import Engine
from bitspike.deploy.model import AdaptationModel, LayerModel, NetworkModel
from bitspike.deploy.runtime.c_engine import CEngine
from bitspike.deploy.runtime.layout import FACTOR_BITS, NUMBER_BITS, fixed_point
from bitspike.ops.native.library import library
from helpers.random_models import random_input, random_model

pytestmark = pytest.mark.skipif(library() is None, reason="the C extension is not built")


def rounded(values, step):
    """Return values that fixed point holds exactly, even after products with one another."""
    return None if values is None else (np.rint(values / step) * step).astype(np.float32)


def exact_layer(layer):
    """Return a layer of whose products and sums fixed point loses nothing."""
    adaptation = AdaptationModel(0.0, 0.5) if layer.adaptation else None
    return replace(
        layer,
        beta=np.ones(1, np.float32),
        theta=None if layer.theta is None else rounded(layer.theta, 2**-4) + np.float32(2**-4),
        bias=rounded(layer.bias, 2**-4),
        scale=rounded(layer.scale, 2**-4),
        offset=rounded(layer.offset, 2**-4),
        recurrent_scale=0.5,
        adaptation=adaptation,
        pools=tuple(replace(pool, kind="max") for pool in layer.pools),
    )


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["dd", "cd", "c"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 15]),
)
def test_where_nothing_is_rounded_it_equals_float32(seed, kinds, delays, leaky, gains):
    model = random_model(seed, kinds, delays=delays, leaky=leaky, gains=gains)
    model = replace(model, layers=tuple(exact_layer(layer) for layer in model.layers))
    x = random_input(seed, model, "counts", 2, 5)
    plain, fixed = Engine(model)(x, record=True), Engine(model, fixed_point=True)(x, record=True)
    for mine, theirs in zip(fixed.layers, plain.layers, strict=True):
        np.testing.assert_array_equal(mine.spikes, theirs.spikes)
        np.testing.assert_array_equal(mine.membrane, theirs.membrane)


def test_a_real_input_that_is_no_number_counts_as_the_smallest():
    """Python refuses NaN; a program on a microcontroller may still get one from a sensor."""
    model = random_model(11, "d", leaky=True)
    inputs = model.input_shape[0]
    membranes = []
    for value in (np.nan, -np.inf, -2047.0, 2047.0):
        engine = CEngine(model, 1, fixed=True)
        c_model = engine.c_model(reals=True, image=False)
        state, frame = engine.new_state(c_model), np.full(inputs, value, np.float32)
        at = ctypes.byref(c_model), state.ctypes.data
        engine.call("reset", *at)
        assert engine.call("step", *at, frame.ctypes.data) == 0
        address = engine.call("membrane", *at, 0)
        membranes.append(np.ctypeslib.as_array((ctypes.c_int32 * model.classes).from_address(address)).copy())
    np.testing.assert_array_equal(membranes[0], membranes[2])
    np.testing.assert_array_equal(membranes[1], membranes[2])
    assert (membranes[2] != membranes[3]).any()


@pytest.mark.parametrize("kind", ["counts", "pixels"])
def test_a_leaky_membrane_stays_within_rounding(kind):
    model = random_model(11, "d", leaky=True, steps=50)
    x = random_input(11, model, kind, 2, 50)
    plain, fixed = Engine(model)(x), Engine(model, fixed_point=True)(x)
    largest = np.abs(plain.membrane).max()
    assert np.abs(plain.membrane - fixed.membrane).max() < 50 * (2.0**-14 + largest * 2.0**-23)
    np.testing.assert_allclose(fixed.scores, plain.scores, atol=1e-2)


def test_what_leaves_the_range_stays_at_its_end():
    one = np.ones(1, np.float32)
    layer = LayerModel("dense", (200, 1, 1), (1, 1, 1), np.ones((1, 200), np.bool_), beta=one, theta=None)
    model = NetworkModel("200-1", (200,), 4, "membrane", (layer,))
    out = Engine(model, fixed_point=True)(np.full((4, 1, 200), 200, np.uint8))
    np.testing.assert_allclose(out.membrane.ravel(), 32768, rtol=1e-6)


def test_numbers_are_rounded_to_the_nearest_and_limited():
    assert fixed_point(0.5, FACTOR_BITS) == 2**23
    assert fixed_point(np.float32([1.5, -3e9]), NUMBER_BITS).tolist() == [3 * 2**15, 1 - 2**31]


def test_a_stream_equals_the_whole():
    model = random_model(12, "dd", delays=True, leaky=True, gains=15)
    x = random_input(12, model, "counts", 1, 8)
    engine = Engine(model, fixed_point=True)
    whole, stream = engine(x), engine.stream()
    for frame in x[:, 0]:
        stream.step(frame)
    np.testing.assert_array_equal(stream.membrane, whole.membrane[-1, 0])
    np.testing.assert_array_equal(stream.scores(), whole.scores[0])
