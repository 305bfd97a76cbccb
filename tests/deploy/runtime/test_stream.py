"""A stream, step by step or event by event, gives what the engine gives on the whole sequence."""

from dataclasses import replace

import numpy as np
import pytest

from bitspike.deploy import engine as engine_module
from bitspike.deploy.engine import Engine
from bitspike.deploy.model import LayerModel, NetworkModel
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


def dense(signs, beta, theta):
    """A layer of one row of signs for each neuron; without a theta it never fires."""
    weight = np.array(signs, np.int8) > 0
    theta = None if theta is None else np.full(1, theta, np.float32)
    return LayerModel(
        "dense", (weight.shape[1], 1, 1), (len(weight), 1, 1), weight, beta=np.full(1, beta, np.float32), theta=theta
    )


def network(*layers):
    inputs, readout = layers[0].input[0], "spikes" if layers[-1].theta is not None else "membrane"
    sizes = "-".join(str(size) for size in (inputs, *(layer.neurons for layer in layers)))
    return NetworkModel(sizes, (inputs,), 4, readout, layers)


LARGE = [  # networks, the value of all inputs, and the step whose membrane leaves float32 (None: none does)
    (network(dense([[1] * 20], 0.5, 1.0)), 3e38, 0),
    (network(dense([[1, 1]], 1.0, None)), 1e38, 1),
    (network(dense([[1, 1]] * 3, 1.0, 3e38), dense([[1] * 3], 0.5, 1.0)), 1e38, 1),
    (network(dense([[1, -1] * 50], 1.0, None)), 1e37, None),
    (network(dense([[1, -1] * 50], 0.5, 1.0), dense([[1]], 0.5, 1.0)), 1e37, None),
    (network(dense([[1, 1]], 0.5, None)), 4e37, None),
]


@pytest.mark.parametrize(("model", "value", "step"), LARGE)
def test_a_stream_refuses_the_sequences_that_a_batch_refuses(make_engine, model, value, step):
    """It does so in the step that leaves float32, and after a reset it is as new."""
    engine = make_engine(model)
    stream, x = engine.stream(reals=True), np.full((6, 1, *model.input_shape), value, np.float32)
    for _ in range(2):
        for frame in x[:step, 0]:
            stream.step(frame)
        if step is None:
            require_step(stream, engine(x), 5)
        elif step:
            require_step(stream, engine(x[:step]), step - 1)
        if step is not None:
            require_too_large(lambda: engine(x[: step + 1]), "Engine")
            require_too_large(lambda: stream.step(x[step, 0]), "Stream")
            require_too_large(lambda: stream.step(0 * x[0, 0]), "Stream")  # it stays so
        stream.reset()


def require_too_large(call, where):
    text = f"^{where}: a membrane is no longer finite: the inputs are too large for float32; scale them down"
    with pytest.raises(ValueError, match=text), np.errstate(all="ignore"):
        call()


def test_events_that_take_a_membrane_out_of_float32_are_refused(make_engine):
    one = np.ones(1, np.float32)
    engine = make_engine(network(replace(dense([[1]], 0.5, 1.0), scale=one * 3e36, offset=one * 0)))
    stream = engine.stream()
    stream.event(0, 100)
    stream.advance()
    stream.event(0, 200)
    require_too_large(stream.advance, "Stream")
    require_too_large(lambda: engine(np.full((1, 1, 1), 200, np.uint8)), "Engine")
    stream.reset()
    stream.advance()
    assert stream.scores() == 0


@pytest.mark.skipif(library() is None, reason="the C extension is not built")
def test_a_stream_of_real_inputs_with_delays_says_that_it_takes_frames():
    stream = Engine(random_model(4, "dd", delays=True)).stream(reals=True)
    with pytest.raises(ValueError, match="real inputs, which are frames"):
        stream.event(0)
