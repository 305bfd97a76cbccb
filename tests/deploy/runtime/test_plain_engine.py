"""The plain engine's formulas, each against numbers that were computed by hand or by PyTorch's own functions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bitspike.deploy.model import AdaptationModel, LayerModel, NetworkModel, PoolModel
from bitspike.deploy.runtime.plain_engine import current, moved, run, scores
from bitspike.image_steps import PLACES
from bitspike.nn.glances import at_places


def numbers(*values):
    return np.array(values, np.float32)


def one_neuron(**settings):
    given = {"beta": numbers(0.5), "theta": numbers(1.0), **settings}
    return LayerModel("dense", (1, 1, 1), (1, 1, 1), np.array([[True]]), **given)


def trace(layer, inputs):
    """Return spikes and membrane of a network of one neuron."""
    model = NetworkModel("1-1", (1,), 1, "spikes", (layer,))
    spikes, membrane = run(model, numbers(*inputs).reshape(-1, 1, 1))[0]
    return spikes.ravel().tolist(), membrane.ravel().tolist()


def test_a_membrane_decays_adds_and_is_reset_by_theta_at_the_next_step():
    assert trace(one_neuron(), [1.0, 0.0, 0.5, 2.0]) == ([1, 0, 0, 1], [1.0, -0.5, 0.25, 2.125])


def test_recurrent_spikes_come_back_one_step_later_times_the_scale():
    layer = one_neuron(recurrent=np.array([[False]]), recurrent_scale=0.25)
    assert trace(layer, [1.0, 0.0]) == ([1, 0], [1.0, 0.5 - 0.25 - 1.0])


def test_thresholds_rise_with_spikes_and_the_reset_takes_the_threshold_before():
    layer = one_neuron(adaptation=AdaptationModel(rho=0.5, strength=2.0))
    # a: 0, 0.5, 0.25; threshold: 1, 2, 1.5
    assert trace(layer, [1.0, 3.0, 2.0]) == ([1, 1, 0], [1.0, 2.5, 0.5 * 2.5 + 2.0 - 2.0])


def test_a_delay_shows_nothing_before_the_start():
    assert trace(one_neuron(delays=np.array([2], np.uint16), beta=numbers(0)), [3, 0.5, 0, 0])[1] == [0, 0, 3, -0.5]


def test_gains_multiply_what_arrives_after_the_delay_and_before_the_bias():
    parts = {"delays": np.array([1], np.uint16), "gains": np.array([3], np.uint8), "bias": numbers(0.5)}
    layer = one_neuron(**parts, beta=numbers(0), theta=None)
    assert trace(layer, [2.0, -0.5, 0.0])[1] == [0.5, 6.5, -1.0]


def test_each_input_has_its_gain_and_before_a_convolution_each_channel():
    rows = one_neuron()
    rows = replace(rows, input=(3, 1, 1), weight=np.array([[True, False, True]]), gains=np.array([5, 0, 255], np.uint8))
    assert current(rows, numbers(1, 7, 2).reshape(1, 3, 1, 1)).item() == 5 + 510
    weight = np.ones((1, 2, 1, 1), np.bool_)
    image = LayerModel("conv", (2, 1, 2), (1, 1, 2), weight, numbers(0.5), None, gains=np.array([10, 1], np.uint8))
    assert current(image, numbers(1, 2, 3, 4).reshape(1, 2, 1, 2)).ravel().tolist() == [10 + 3, 20 + 4]


def test_an_input_times_its_gain_is_rounded_to_float32():
    layer = replace(one_neuron(), input=(2, 1, 1), weight=np.array([[True, False]]), gains=np.array([3, 1], np.uint8))
    third = np.float32(1 / 3)
    assert current(layer, numbers(third, 1.0).reshape(1, 2, 1, 1)).item() == 0  # 3 * third is 1 + 2**-25


def test_a_leaky_readout_never_fires_and_its_score_is_the_mean_times_one_minus_beta():
    layer = one_neuron(theta=None)
    spikes, membrane = trace(layer, [4.0, 0.0, 1.0])
    assert (spikes, membrane) == ([0, 0, 0], [4.0, 2.0, 2.0])
    model = NetworkModel("1-1", (1,), 1, "membrane", (layer,))
    out = run(model, numbers(4, 0, 1).reshape(3, 1, 1))[0]
    assert scores(model, *(part.reshape(3, 1, 1) for part in out)).tolist() == [[np.float32(8 / 3) / 2]]


def test_bias_comes_before_scale_and_offset():
    layer = one_neuron(bias=numbers(2), scale=numbers(3), offset=numbers(-1))
    assert current(layer, numbers(5).reshape(1, 1, 1, 1)).item() == (5 + 2) * 3 - 1


@pytest.mark.parametrize("whole", [True, False])
def test_convolution_and_pools_are_pytorchs(whole):
    rng = np.random.default_rng(0)
    pools = (PoolModel("average", 2, 1), PoolModel("max", 2, 2))
    weight = rng.random((3, 2, 3, 3)) < 0.5
    layer = LayerModel(
        "conv", (2, 8, 9), (3, 1, 2), weight, numbers(0.5), numbers(1.0), stride=2, padding=1, pools=pools
    )
    x = rng.integers(0, 4, (2, 2, 8, 9)) + (0 if whole else rng.random((2, 2, 8, 9)))
    x = x.astype(np.float32)
    signs = torch.from_numpy(np.where(weight, 1.0, -1.0))
    expected = F.max_pool2d(F.avg_pool2d(F.conv2d(torch.from_numpy(x).double(), signs, stride=2, padding=1), 2, 1), 2)
    np.testing.assert_allclose(current(layer, x), expected.numpy(), rtol=1e-6)


def test_sums_of_real_numbers_go_in_ascending_order():
    weight = np.ones((1, 3), np.bool_)
    layer = LayerModel("dense", (3, 1, 1), (1, 1, 1), weight, numbers(0.5), numbers(1.0))
    x = numbers(1e20, 1.0, -1e20).reshape(1, 3, 1, 1)
    assert current(layer, x).item() == 0.0  # 1 is lost in 1e20; in another order it would not be
    assert current(layer, x[:, [0, 2, 1]]).item() == 1.0


@pytest.mark.parametrize("glances", [1, 5, 9])
def test_glances_are_moved_as_pytorchs(glances):
    images = np.random.default_rng(0).random((2, 3, 4, 5)).astype(np.float32)
    expected = at_places(torch.from_numpy(images), glances).view(2, glances, 3, 4, 5)
    for i, place in enumerate(PLACES[glances]):
        np.testing.assert_array_equal(moved(images, *place), expected[:, i].numpy())
