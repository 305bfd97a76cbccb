"""The engine equals the PyTorch network in evaluation mode, bit for bit, and says clearly what it cannot take."""

import copy
import os
import pickle
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bitspike
from bitspike.deploy import engine as engine_module
from bitspike.deploy.describe import describe
from bitspike.deploy.engine import Engine, load_packed
from bitspike.deploy.model import InputModel, LayerModel, NetworkModel, PoolModel
from bitspike.ops.native.library import library
from helpers.bad_input import case, require_clear_line
from helpers.random_models import random_model
from helpers.random_networks import random_input, random_network


def require_pytorchs(engine, net, x):
    """Compare every layer's spikes and membrane, and the scores, with those of PyTorch's modules."""
    with torch.no_grad():
        expected, scores = net.run(x), net.scores(x)
    out = engine(x, record=True)
    for mine, theirs in zip(out.layers, expected, strict=True):
        np.testing.assert_array_equal(mine.spikes.ravel(), theirs.spikes.numpy().ravel())
        np.testing.assert_array_equal(mine.membrane.ravel(), theirs.membrane.numpy().ravel())
    np.testing.assert_array_equal(out.spikes.ravel(), expected[-1].spikes.numpy().ravel())
    np.testing.assert_array_equal(out.membrane.ravel(), expected[-1].membrane.numpy().ravel())
    np.testing.assert_array_equal(out.counts.ravel(), expected[-1].spikes.sum(0).numpy().ravel())
    np.testing.assert_array_equal(out.scores.ravel(), scores.numpy().ravel())


@given(st.integers(0, 2**32 - 1))
def test_the_engine_equals_pytorch_on_random_networks(seed):
    net = random_network(seed)
    require_pytorchs(Engine(describe(net)), net, random_input(net, seed))


def test_without_a_compiler_numpy_gives_the_same_and_warns_once(monkeypatch):
    monkeypatch.setattr(engine_module, "library", lambda: None)
    for seed in range(6):
        net = random_network(seed)
        with pytest.warns(UserWarning, match="install a C compiler") as warned:
            engine = Engine(describe(net))
        assert len(warned) == 1
        require_pytorchs(engine, net, random_input(net, seed))


def test_images_of_bytes_are_divided_by_255_and_sequences_of_bytes_are_counts():
    images = bitspike.build("2Conv3-AP2-18Dense3", (1, 8, 8), steps=5, theta=0.5).eval()
    engine, rng = Engine(describe(images)), np.random.default_rng(0)
    x = rng.integers(0, 256, (3, 1, 8, 8)).astype(np.uint8)
    expected = images(torch.from_numpy(x).float() / 255).spikes.detach().numpy()
    assert expected.any()
    np.testing.assert_array_equal(engine(x).spikes, expected)
    np.testing.assert_array_equal(engine(torch.from_numpy(x)).spikes, expected)
    counts = rng.poisson(0.5, (6, 3, 1, 8, 8)).astype(np.uint8)
    np.testing.assert_array_equal(engine(counts).spikes, engine(counts.astype(np.float32)).spikes)


def test_steps_may_be_given_for_static_input_and_layers_are_kept_on_request():
    net = bitspike.build("2Conv3-AP2-18Dense3", (1, 8, 8), steps=5, theta=0.5).eval()
    engine, x = Engine(describe(net)), torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(engine(x, steps=9).spikes, net(x, steps=9).spikes.detach().numpy())
    assert engine(x).layers == ()
    assert [layer.spikes.shape for layer in engine(x, record=True).layers] == [(5, 2, 2, 3, 3), (5, 2, 3, 1, 1)]


def test_arrays_that_are_not_contiguous_are_taken_as_they_read():
    model = random_model(4, "dd")
    x = np.random.default_rng(0).poisson(0.4, (6, 3, *model.input_shape)).astype(np.float32)
    turned = np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1)
    np.testing.assert_array_equal(Engine(model)(turned).membrane, Engine(model)(x).membrane)


@pytest.mark.skipif(library() is None, reason="the C extension is not built")
def test_a_packed_file_is_loaded_as_an_engine(tmp_path):
    from bitspike.deploy.packed import save_packed

    net = bitspike.build("20-10-5", theta=1.0).eval()
    save_packed(net, tmp_path / "net.safetensors")
    x = torch.poisson(torch.full((9, 2, 20), 0.5), generator=torch.Generator().manual_seed(0))
    require_pytorchs(load_packed(tmp_path / "net.safetensors", threads=1), net, x)


ROWS = random_model(0, "dd")
WIDTH = ROWS.input_shape[0]
DELAYED = random_model(1, "d", delays=True)
GLANCING = random_model(2, "cd", glances=5)
PICTURED = replace(ROWS, input=InputModel("image"))


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


BAD = [
    case("bfloat16", TypeError, lambda: Engine(ROWS)(torch.zeros(3, WIDTH).bfloat16()), "Engine: | float32 | bfloat16"),
    case("sparse", TypeError, lambda: Engine(ROWS)(torch.zeros(3, WIDTH).to_sparse()), "Engine: | dense | sparse"),
    case(
        "most steps", ValueError, lambda: Engine(ROWS)(zeros(2, WIDTH), steps=10**12), "Engine: steps | at most 65536"
    ),
    case(
        "no file", FileNotFoundError, lambda: load_packed("nowhere.safetensors"), "nowhere.safetensors does not exist"
    ),
    case(
        "input",
        TypeError,
        lambda: describe(bitspike.build("2-1"), input="image"),
        "describe: input must be an InputModel | 'image'",
    ),
    case(
        "names",
        TypeError,
        lambda: describe(bitspike.build("2-3"), class_names="abc"),
        "describe: class_names must be a list | 'abc'",
    ),
    case("a list", TypeError, lambda: Engine(ROWS)([1, 2]), "Engine: input | NumPy array | list | np.asarray"),
    case(
        "float64", TypeError, lambda: Engine(ROWS)(zeros(3, WIDTH, dtype=float)), "Engine: | float32 | float64 | astype"
    ),
    case("width", ValueError, lambda: Engine(ROWS)(zeros(3, WIDTH + 1)), f"Engine: | [B, {WIDTH}] | [3, {WIDTH + 1}]"),
    case("no batch", ValueError, lambda: Engine(ROWS)(zeros(WIDTH)), f"Engine: input | but has shape [{WIDTH}]"),
    case("no step", ValueError, lambda: Engine(ROWS)(zeros(0, 4, WIDTH)), "Engine: | at least one step | [0, 4"),
    case(
        "whole numbers",
        TypeError,
        lambda: Engine(ROWS)(zeros(3, WIDTH, dtype=int)),
        "Engine: | int64 | astype('uint8') for images of 0 to 255",
    ),
    case(
        "a tensor of whole numbers",
        TypeError,
        lambda: Engine(ROWS)(torch.zeros(3, WIDTH, dtype=torch.int64)),
        "Engine: | torch.int64 | x.byte() for images of 0 to 255",
    ),
    case(
        "pixels in time",
        ValueError,
        lambda: Engine(PICTURED)(zeros(3, 2, WIDTH, dtype=np.uint8) + np.uint8(2)),
        "Engine: bytes of a sequence are event counts | images | 2 is among | / 255",
    ),
    case(
        "pixels in a stream",
        ValueError,
        lambda: Engine(PICTURED).stream().step(zeros(WIDTH, dtype=np.uint8) + np.uint8(255)),
        "Stream: bytes of a sequence are event counts | 255 is among",
    ),
    case("a network", TypeError, lambda: Engine(bitspike.build("2-3")), "Engine: model | SpikingNetwork | describe"),
    case("a path", TypeError, lambda: Engine("net.safetensors"), "Engine: model | str | load_packed"),
    case("glances in a stream", ValueError, lambda: Engine(GLANCING).stream(), "Engine: | 5 glances | engine(images)"),
    case("nan", ValueError, lambda: Engine(ROWS)(zeros(2, WIDTH) + np.nan), "Engine: all inputs must be finite"),
    case("nan in time", ValueError, lambda: Engine(ROWS)(zeros(3, 2, WIDTH) + np.nan), "Engine: all inputs | finite"),
    case("steps", ValueError, lambda: Engine(ROWS)(zeros(3, 2, WIDTH), steps=4), "Engine: | 3 steps | steps=4"),
    case("no steps", ValueError, lambda: Engine(ROWS)(zeros(2, WIDTH), steps=0), "Engine: steps | is 0"),
    case("threads", ValueError, lambda: Engine(ROWS, threads=0), "Engine: threads | >= 1 | is 0"),
    case(
        "static with delays",
        ValueError,
        lambda: Engine(DELAYED)(zeros(2, *DELAYED.input_shape)),
        "Engine: delays need a sequence | static",
    ),
    case(
        "glances in time",
        ValueError,
        lambda: Engine(GLANCING)(zeros(3, 2, *GLANCING.input_shape)),
        "Engine: 5 glances | is a sequence",
    ),
    case(
        "7 steps for 5 glances",
        ValueError,
        lambda: Engine(GLANCING)(zeros(2, *GLANCING.input_shape), steps=7),
        "Engine: steps | multiple | 7",
    ),
    case("frame", ValueError, lambda: Engine(ROWS).stream().step(zeros(WIDTH + 1)), f"Stream: a frame | [{WIDTH}]"),
    case(
        "nan frame", ValueError, lambda: Engine(ROWS).stream().step(zeros(WIDTH) + np.nan), "Stream: a frame | finite"
    ),
    case("event", ValueError, lambda: Engine(ROWS).stream().event(WIDTH), f"Stream: an input's index | {WIDTH - 1}"),
    case("events", ValueError, lambda: Engine(ROWS).stream().event(0, 256), "Stream: an input may have 0 to 255"),
    case(
        "reals with delays",
        ValueError,
        lambda: Engine(DELAYED).stream().step(zeros(*DELAYED.input_shape) + 0.5),
        "Stream: this network has delays | stream(reals=True)",
    ),
]


@pytest.mark.parametrize("record", [False, True])
def test_a_batch_without_samples_is_answered_as_in_pytorch(record):
    net = bitspike.build("6-5-3", steps=7).eval()
    engine = Engine(describe(net))
    for x in (torch.zeros(0, 6), torch.zeros(4, 0, 6)):
        wanted, found = net(x), engine(x, record=record)
        assert found.spikes.shape == wanted.spikes.shape
        assert found.counts.shape == found.scores.shape == net.scores(x).shape
        assert [layer.spikes.shape[1] for layer in found.layers] == [0, 0] * record


def test_bytes_of_0_and_1_are_spikes_for_a_network_on_images_too():
    spikes = np.ones((3, 2, WIDTH), np.uint8)
    assert np.array_equal(Engine(PICTURED)(spikes).scores, Engine(ROWS)(spikes).scores)


@pytest.mark.skipif(library() is None, reason="the C extension is not built")
@pytest.mark.parametrize(("call", "error", "says"), BAD)
def test_bad_input_is_refused_in_one_clear_line(call, error, says):
    require_clear_line(call, error, says)


def test_what_overflows_is_an_error_in_pytorch_and_in_the_engine_whatever_is_recorded():
    net = bitspike.build("20-10-5", generator=torch.Generator().manual_seed(0)).eval()
    x = torch.full((3, 1, 20), 3e38)
    with pytest.raises(ValueError, match="finite"):
        net(x)
    engine = Engine(describe(net))
    for record in (False, True):
        with pytest.raises(ValueError, match="too large for float32"):
            engine(x, record=record)
    assert np.isfinite(engine(x * 1e-3).scores).all()  # large, but no sum overflows


def test_without_a_compiler_only_what_is_recorded_is_kept(monkeypatch):
    model = describe(bitspike.build("20-400-5", generator=torch.Generator().manual_seed(0)))
    x = np.ones((300, 1, 20), np.float32)
    expected = Engine(model)(x).spikes
    monkeypatch.setattr("bitspike.deploy.engine.library", lambda: None)
    with pytest.warns(UserWarning, match="NumPy runs the network"):
        engine = Engine(model)
    tracemalloc.start()
    found = engine(x)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(found.spikes, expected)
    assert found.layers == ()
    assert taken < 400_000  # the hidden layer's output of 300 steps would be 960,000 bytes
    assert len(engine(x, record=True).layers) == 2
    with pytest.raises(ValueError, match="too large for float32"), np.errstate(all="ignore"):
        engine(x * np.float32(3e38))


FORKS = """
import os, signal
import numpy as np, torch
import bitspike
from bitspike.deploy.describe import describe
from bitspike.deploy.engine import Engine

engine = Engine(describe(bitspike.build("20-10-5")), threads=2)
x = np.ones((5, 8, 20), np.float32)
expected = engine(x).spikes  # its threads are there now, and a fork does not copy them
child = os.fork()
if child == 0:
    signal.alarm(20)  # ends a child that hangs
    os._exit(0 if np.array_equal(engine(x).spikes, expected) else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_an_engine_goes_on_in_a_forked_process():
    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=120)


def test_an_engine_can_be_copied_and_pickled():
    net = bitspike.build("20-10-5").eval()
    x = torch.rand(5, 3, 20).round()
    engine = Engine(describe(net), threads=1)
    for other in (pickle.loads(pickle.dumps(engine)), copy.deepcopy(engine)):
        np.testing.assert_array_equal(other(x).spikes, engine(x).spikes)


def test_arrays_of_the_other_order_of_bytes_are_taken():
    net = bitspike.build("20-10-5").eval()
    x = np.random.default_rng(0).random((5, 3, 20)).astype(np.float32)
    engine = Engine(describe(net))
    np.testing.assert_array_equal(engine(x.astype(x.dtype.newbyteorder())).spikes, engine(x).spikes)


@pytest.mark.skipif(library() is None, reason="the C extension is not built")
def test_a_tall_narrow_convolution_takes_no_padded_row_for_each_of_its_places():
    rows, one = 1 << 20, np.ones(1, np.float32)
    conv = LayerModel("conv", (1, rows, 1), (1, 256, 1), np.ones((1, 1, 1, 1), bool), one / 2, one)
    conv = replace(conv, pools=(PoolModel("max", 1, 4096),))
    engine = Engine(NetworkModel("tall", (1, rows, 1), steps=4, readout="spikes", layers=(conv,)), threads=1)
    assert engine._c is not None
    assert engine._c.new_state(engine._c.c_model(reals=False, image=True)).nbytes < 10 * rows
