"""The C runtime gives the plain engine's bits: with every processor's code, with wide weights or not, over threads."""

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitspike.deploy.model import NetworkModel, PoolModel
from bitspike.deploy.runtime import plain_engine
from bitspike.deploy.runtime.c_engine import CEngine
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
    ran = engine.run_images(x, model.steps, recorded) if static else engine.run_sequence(x, recorded)
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
    model = random_model(seed, kinds, delays=delays, leaky=leaky, glances=glances)
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


def _resized(rng, inputs, outputs):
    layer = random_layer(rng, "dense", (inputs, 1, 1))
    return _with(layer, weight=rng.random((outputs, inputs)) < 0.5, rng=rng)


def _with(layer, *, weight, rng, **settings):
    """Return a plain layer with these weights and pools, and thresholds that are reached."""
    from dataclasses import replace

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
