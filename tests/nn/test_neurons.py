"""Neuron layers are shells around `lif`: they own thresholds and decays, and pass them on."""

import copy

import pytest
import torch

from bitspike import LIF, Adaptation, AdaptiveLIF, RecurrentLIF, binarize, lif


def current(*shape):
    return torch.randint(-3, 5, shape).float()


def assert_same(ours, wanted):
    assert torch.equal(ours.spikes, wanted.spikes)
    assert torch.equal(ours.membrane, wanted.membrane)


def test_a_layer_is_the_op_with_its_own_numbers():
    i = current(8, 2, 3)
    layer = LIF(0.5, 1.5, slope=3.0)
    assert_same(layer(i), lif(i, beta=0.5, theta=1.5, slope=3.0))
    assert_same(layer(i[0], steps=4), lif(i[0], beta=0.5, theta=1.5, slope=3.0, steps=4))
    first = layer(i[:3])
    assert torch.equal(layer(i[3:], first.state).membrane, layer(i).membrane[3:])
    assert layer(i, keep_membrane=False).membrane is None


def gradient(layer, value):
    i = torch.full((1, 1, 1), value, requires_grad=True)
    layer(i).spikes.sum().backward()
    return i.grad.item()


def test_slope_and_center_shape_the_gradient():
    assert gradient(LIF(0.5, 4.0, slope=1.0), 5.0) == 1 / 4
    assert gradient(LIF(0.5, 4.0, slope=3.0), 5.0) == 1 / 16
    assert gradient(LIF(0.5, 4.0, slope=2.0, surrogate="arctan"), 5.0) == pytest.approx(1 / 5)


@pytest.mark.parametrize(("center", "expected"), [("initial", 1 / 4), ("current", 1 / 16)])
def test_the_surrogate_stays_at_the_start_or_follows(center, expected):
    layer = LIF(0.5, 4.0, slope=1.0, surrogate_center=center)
    layer.set_theta(8.0, initial=4.0)
    # u = 5 is 1 from the start and 3 from the threshold now.
    assert gradient(layer, 5.0) == expected
    assert layer(torch.full((1, 1, 1), 7.9)).spikes.item() == 0
    assert layer(torch.full((1, 1, 1), 8.0)).spikes.item() == 1


def test_a_threshold_is_written_in_place():
    # A captured graph of a training step reads these addresses for ever.
    layer = LIF(0.5, 4.0)
    theta, center = layer.theta, layer.theta_grad
    addresses = theta.data_ptr(), center.data_ptr()
    layer.set_theta(7.0, initial=3.0)
    assert layer.theta is theta
    assert layer.theta_grad is center
    assert (layer.theta.data_ptr(), layer.theta_grad.data_ptr()) == addresses
    assert (theta.item(), center.item()) == (7.0, 3.0)
    assert theta.shape == center.shape == ()


def test_thresholds_are_saved_with_the_layer():
    layer = LIF(0.5, 4.0)
    layer.set_theta(7.0, initial=3.0)
    other = LIF(0.5, 1.0)
    other.load_state_dict(layer.state_dict())
    assert (other.theta.item(), other.theta_grad.item()) == (7.0, 3.0)


def test_a_fixed_decay_is_not_a_parameter():
    assert list(LIF(0.5).parameters()) == []
    layer = LIF(torch.tensor([0.25, 0.5, 1.0]), 100.0)
    assert torch.equal(layer(current(1, 2, 3) * 0 + 1).membrane, torch.ones(1, 2, 3))
    assert layer(torch.ones(2, 1, 3)).membrane[1].tolist() == [[1.25, 1.5, 2.0]]


@pytest.mark.parametrize(("neurons", "shape"), [(None, ()), (3, (3,)), ((2, 3), (2, 3))])
def test_a_learnt_decay_starts_where_told(neurons, shape):
    layer = LIF(0.8, learn_beta=True, neurons=neurons)
    (parameter,) = layer.parameters()
    assert parameter.shape == layer.beta.shape == shape
    torch.testing.assert_close(layer.beta.detach(), torch.full(shape, 0.8))


def test_each_neuron_learns_its_own_decay():
    layer = LIF(0.5, 100.0, learn_beta=True, neurons=3)
    layer(torch.tensor([1.0, 2, -4]).expand(2, 5, 3)).membrane[1].sum().backward()
    # d/dbeta is the membrane before, summed over the batch; the logit adds beta * (1 - beta).
    torch.testing.assert_close(layer.beta_logit.grad, 5 * torch.tensor([1.0, 2, -4]) * 0.25)


def test_no_optimizer_step_takes_a_decay_out_of_its_range():
    layer = LIF(0.5, learn_beta=True)
    for sign in (1, -1):
        with torch.no_grad():
            layer.beta_logit.fill_(sign * 1e4)
        assert 0 <= layer.beta <= 1
        layer(current(3, 1, 2))


def test_the_backend_is_passed_on():
    i = torch.ones(2, 1, 3, requires_grad=True)
    assert "Stack" in type(LIF(backend="reference")(i).spikes.grad_fn).__name__
    assert "LIF" in type(LIF(backend="torch")(i).spikes.grad_fn).__name__


def test_an_adaptive_layer_is_the_op_with_adaptation():
    i = current(12, 2, 3)
    wanted = lif(i, beta=0.5, theta=1.5, slope=25.0, adaptation=Adaptation(0.5, 2.0))
    assert_same(AdaptiveLIF(0.5, 1.5, rho=0.5, strength=2.0)(i), wanted)
    assert_same(LIF(0.5, 1.5, adaptation=Adaptation(0.5, 2.0))(i), wanted)
    assert not torch.equal(wanted.spikes, LIF(0.5, 1.5)(i).spikes)
    assert AdaptiveLIF().adaptation == Adaptation(0.97, 1.8)


def test_a_recurrent_layer_is_the_op_with_signs_of_its_weights():
    i, layer = current(12, 2, 3), RecurrentLIF(3, 0.5, 1.5)
    assert_same(layer(i), lif(i, beta=0.5, theta=1.5, slope=25.0, recurrent=binarize(layer.weight)))
    assert set(layer.recurrent_weight().unique().tolist()) <= {-1, 1}
    assert (layer.weight.abs() <= 3**-0.5).all()


def test_a_scale_multiplies_the_signs_of_recurrent_weights():
    i, layer = current(12, 2, 3), RecurrentLIF(3, 0.5, 1.5, recurrent_scale=0.5)
    assert_same(layer(i), lif(i, beta=0.5, theta=1.5, slope=25.0, recurrent=0.5 * binarize(layer.weight)))
    assert set(layer.recurrent_weight().unique().tolist()) <= {-0.5, 0.5}
    assert "recurrent_scale=0.5" in repr(layer)
    with pytest.raises(ValueError, match=r"RecurrentLIF: recurrent_scale must be .* > 0, but is 0"):
        RecurrentLIF(3, recurrent_scale=0)
    with pytest.raises(ValueError, match=r"recurrent_scale multiplies weights of -1/\+1, but binary is False"):
        RecurrentLIF(3, recurrent_scale=0.5, binary=False)


def test_a_recurrent_layers_float_twin_uses_the_weights():
    i, layer = current(12, 2, 3), RecurrentLIF(3, 0.5, 1.5, binary=False)
    assert_same(layer(i), lif(i, beta=0.5, theta=1.5, slope=25.0, recurrent=layer.weight))


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({}, 0.5),
        ({"binary": False}, 1.0),
        ({"recurrent_grad": 0.125}, 0.125),
        ({"recurrent_scale": 0.25}, 2.0),
        ({"recurrent_scale": 0.25, "recurrent_grad": 0.5}, 0.5),
    ],
)
def test_the_share_of_the_gradient_that_goes_back_is_that_of_weights_as_small_as_the_twins(options, share):
    layer, i = RecurrentLIF(4, 0.5, 1.5, slope=1.0, **options), current(6, 2, 4).requires_grad_()
    assert layer.recurrent_share() == share
    weight = binarize(layer.weight) * options.get("recurrent_scale", 1.0) if layer.binary else layer.weight
    (ours,) = torch.autograd.grad(layer(i).spikes.sum(), i)
    out = lif(i, beta=0.5, theta=1.5, slope=1.0, recurrent=weight, recurrent_grad=share)
    (wanted,) = torch.autograd.grad(out.spikes.sum(), i)
    assert torch.equal(ours, wanted)


@pytest.mark.parametrize("neurons", [64, 256])
def test_gradients_of_binary_recurrent_neurons_stay_near_those_of_the_twin(neurons):
    """Over 100 steps with a wide surrogate; with the whole gradient they are not finite."""
    torch.manual_seed(0)
    twin = RecurrentLIF(neurons, 0.9, 1.0, binary=False, slope=3.0)
    scale = (neurons / 3) ** 0.5  # what the twin's weights, uniform in +-1 / sqrt(neurons), are smaller than -1/+1
    layer = RecurrentLIF(neurons, 0.9, scale, slope=3.0 / scale)
    layer.load_state_dict({**twin.state_dict(), "theta": layer.theta, "theta_grad": layer.theta_grad})
    i = 0.5 * torch.randn(100, 4, neurons)

    def gradient(of, x):
        x = x.clone().requires_grad_()
        (found,) = torch.autograd.grad(of(x).spikes.sum(), x)
        return found.norm()

    ours, theirs = gradient(layer, scale * i), gradient(twin, i)
    assert theirs / 100 < ours < 100 * theirs
    layer.recurrent_grad = 1.0
    assert not gradient(layer, scale * i) < 1e12


def test_recurrent_weights_learn_through_their_signs():
    layer = RecurrentLIF(2, 0.5, 4.0, slope=1.0, clip=0.5)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.1, -0.2], [0.6, -0.3]]))
    i = torch.zeros(2, 1, 2)
    i[0, 0, 1] = 4.0
    out = layer(i)
    assert out.membrane[1].tolist() == [[-1.0, 2 - 1 - 4]]
    out.membrane[1].sum().backward()
    # Neuron 1 fired: column 1 gets the gradient, except beyond the clip.
    assert layer.weight.grad.tolist() == [[0, 1], [0, 1]]
    with torch.no_grad():
        layer.weight[1, 1] = -0.7
    layer.weight.grad = None
    layer(i).membrane[1].sum().backward()
    assert layer.weight.grad.tolist() == [[0, 1], [0, 0]]


def test_a_recurrent_layer_learns_a_decay_for_every_neuron():
    assert RecurrentLIF(4, 0.5, learn_beta=True).beta.shape == (4,)
    assert RecurrentLIF(4, 0.5).beta.shape == ()


def test_layers_say_what_they_are():
    assert (
        repr(LIF(0.5, 1.5, slope=3.0))
        == "LIF(beta=0.5, theta=1.5, slope=3, surrogate='fast_sigmoid', surrogate_center='initial')"
    )
    assert "surrogate='arctan'" in repr(LIF(surrogate="arctan"))
    assert "(learnt)" in repr(LIF(0.5, learn_beta=True))
    assert "[0.25..1]" in repr(LIF(torch.tensor([0.25, 1.0])))


@pytest.mark.parametrize(
    "layer", [LIF(0.5, 1.5), AdaptiveLIF(0.5), RecurrentLIF(3, 0.5)], ids=lambda x: type(x).__name__
)
def test_a_copy_is_its_own_layer(layer):
    other = copy.deepcopy(layer)
    other.set_theta(9.0, initial=9.0)
    assert layer.theta.item() != 9.0
    layer(current(3, 1, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_thresholds_and_decays_stay_float32_in_half_precision(dtype):
    layer = LIF(0.99, 15.983).to(dtype)
    assert layer.theta.item() == torch.tensor(15.983).item()
    assert layer.beta.item() == torch.tensor(0.99).item()
    assert LIF(0.99).double().theta.dtype == torch.float64


def test_autocast_does_not_reach_the_recurrent_products():
    layer = RecurrentLIF(777, 0.5, 1.0)
    current = torch.ones(5, 1, 777)
    with torch.no_grad():
        plain = layer(current)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            cast = layer(current)
    assert torch.equal(plain.membrane, cast.membrane)


def test_a_parameter_as_beta_is_a_value_not_a_graph():
    layer = LIF(torch.nn.Parameter(torch.tensor(0.5)))
    assert not layer.beta.requires_grad


def test_a_detached_state_ends_the_graph():
    out = LIF(0.5)(torch.ones(3, 1, 2, requires_grad=True))
    assert out.state.membrane.requires_grad
    assert not any(part.requires_grad for part in out.state.detach() if part is not None)
