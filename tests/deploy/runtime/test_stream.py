"""A stream, step by step or event by event, gives what the engine gives on the whole sequence."""

import numpy as np
import pytest

from bitspike.deploy import engine as engine_module
from bitspike.deploy.engine import Engine
from bitspike.ops.native.library import library
from helpers.random_models import random_input, random_model

# Kinds of layers, whether there are delays and a leaky readout, and the largest gain.
NETWORKS = [
    ("dd", False, False, 0),
    ("dd", True, True, 0),
    ("cd", False, True, 0),
    ("c", True, False, 0),
    ("dd", True, False, 15),
    ("cd", False, True, 255),
    ("cc", True, False, 255),
]


@pytest.fixture(params=["C", "NumPy"])
def make_engine(request, monkeypatch):
    """Return a function that makes an engine of each kind."""
    if request.param == "C":
        if library() is None:
            pytest.skip("the C extension is not built")
        return Engine
    monkeypatch.setattr(engine_module, "library", lambda: None)

    def make(model):
        with pytest.warns(UserWarning, match="NumPy runs the network"):
            return Engine(model)

    return make


def require_step(stream, whole, t):
    np.testing.assert_array_equal(stream.spikes, whole.spikes[t, 0])
    np.testing.assert_array_equal(stream.membrane, whole.membrane[t, 0])
    np.testing.assert_array_equal(stream.counts, whole.spikes[: t + 1, 0].sum(0))


@pytest.mark.parametrize(("kinds", "delays", "leaky", "gains"), NETWORKS)
@pytest.mark.parametrize("kind", ["counts", "reals"])
def test_steps_equal_the_whole(make_engine, kinds, delays, leaky, gains, kind):
    model = random_model(3, kinds, delays=delays, leaky=leaky, gains=gains)
    x = random_input(3, model, kind, 1, 9)
    engine = make_engine(model)
    whole, stream = engine(x), engine.stream(reals=True)
    for _ in range(2):  # the second time after a reset
        assert not stream.scores().any()
        for t, frame in enumerate(x[:, 0]):
            stream.step(frame)
            require_step(stream, whole, t)
        np.testing.assert_array_equal(stream.scores(), whole.scores[0])
        assert stream.steps == 9
        stream.reset()


@pytest.mark.parametrize(("kinds", "delays", "leaky", "gains"), NETWORKS)
def test_events_equal_frames(make_engine, kinds, delays, leaky, gains):
    model = random_model(4, kinds, delays=delays, leaky=leaky, gains=gains)
    x = random_input(4, model, "counts", 1, 9)
    engine = make_engine(model)
    whole, stream = engine(x), engine.stream()
    for t, frame in enumerate(x[:, 0]):
        flat = frame.ravel()
        stream.event(np.flatnonzero(flat))
        for index in np.flatnonzero(flat > 1):  # the others one by one, as they may come
            stream.event(int(index), int(flat[index]) - 1)
        stream.advance()
        require_step(stream, whole, t)
    np.testing.assert_array_equal(stream.scores(), whole.scores[0])


@pytest.mark.skipif(library() is None, reason="the C extension is not built")
def test_too_many_events_change_nothing():
    model = random_model(4, "dd")
    stream, other = Engine(model).stream(), Engine(model).stream()
    for each in (stream, other):
        each.event(0, 200)
    with pytest.raises(ValueError, match="0 to 255 events"):
        stream.event(0, 56)
    for each in (stream, other):
        each.event(0, 55)
        each.advance()
    np.testing.assert_array_equal(stream.membrane, other.membrane)


def test_a_frame_beside_events_that_wait_is_refused(make_engine):
    model = random_model(4, "dd")
    engine, frame = make_engine(model), np.zeros(model.input_shape, np.float32)
    stream, fresh = engine.stream(), engine.stream()
    stream.event(0, 5)
    with pytest.raises(ValueError, match=r"call advance\(\) first"):
        stream.step(frame)
    stream.advance()
    stream.step(frame)
    stream.event(0)
    stream.reset()  # it forgets the event
    for each in (stream, fresh):
        each.step(frame)
    np.testing.assert_array_equal(stream.membrane, fresh.membrane)


@pytest.mark.parametrize(
    ("index", "count", "error", "says"),
    [
        (1.5, 1, TypeError, "whole number, but is 1.5"),
        ("ab", 1, TypeError, "whole number, but is 'a'"),
        (0, 2.0, TypeError, "count must be a whole number"),
        (0, 300, ValueError, "0 to 255 events"),
        (0, -3, ValueError, "0 to 255 events"),
        (10**6, 1, ValueError, "index must be 0 to"),
        (-1, 1, ValueError, "index must be 0 to"),
    ],
)
def test_wrong_events_are_refused_by_both_engines(make_engine, index, count, error, says):
    stream = make_engine(random_model(4, "dd")).stream()
    stream.event(np.int64(0))  # NumPy's whole numbers are as good as Python's
    with pytest.raises(error, match=says):
        stream.event(index, count)


def test_frames_too_large_for_float32_are_refused(make_engine):
    model = random_model(4, "dd")
    stream = make_engine(model).stream(reals=True)
    with pytest.raises(ValueError, match="too large for float32"):
        stream.step(np.full(model.input_shape, 3e38, np.float32))


@pytest.mark.skipif(library() is None, reason="the C extension is not built")
def test_a_stream_of_real_inputs_with_delays_says_that_it_takes_frames():
    stream = Engine(random_model(4, "dd", delays=True)).stream(reals=True)
    with pytest.raises(ValueError, match="real inputs, which are frames"):
        stream.event(0)
