"""The spike, the shapes of the derivative that stands in for its own, and how they reach every layer of a network."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import LIF, AdaptiveLIF, RecurrentLIF, build, lif
from bitspike.nn import native
from bitspike.ops import arctan_grad, fast_sigmoid_grad, spike
from bitspike.ops.cpu import dense, library
from bitspike.ops.surrogate import GRADS


def antiderivative(surrogate, away, slope):
    """What the gradient is the derivative of."""
    return (slope * away).atan() / slope if surrogate == "arctan" else away / (1 + slope * away.abs())


def test_by_hand():
    u = torch.tensor([3.0, 4.0, 2.0, 3.5, 0.0], dtype=torch.float64)
    # slope 2 around 3: 1, (1 + 2)**-2 on both sides, (1 + 1)**-2, (1 + 6)**-2
    expected = torch.tensor([1, 1 / 9, 1 / 9, 1 / 4, 1 / 49], dtype=torch.float64)
    torch.testing.assert_close(fast_sigmoid_grad(u, 3.0, 2.0), expected, rtol=1e-15, atol=0)
    # and 1, 1 / (1 + 2**2) on both sides, 1 / (1 + 1**2), 1 / (1 + 6**2)
    expected = torch.tensor([1, 1 / 5, 1 / 5, 1 / 2, 1 / 37], dtype=torch.float64)
    torch.testing.assert_close(arctan_grad(u, 3.0, 2.0), expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("surrogate", GRADS)
@given(st.floats(-20, 20), st.floats(0.1, 20), st.floats(0.01, 50))
def test_it_is_the_derivative_of_its_function(surrogate, u, center, slope):
    x = torch.tensor(u, dtype=torch.float64, requires_grad=True)
    antiderivative(surrogate, x - center, slope).backward()
    expected = x.grad.item()
    assert GRADS[surrogate](x.detach(), center, slope).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("surrogate", GRADS)
def test_far_from_the_center_it_fades_without_becoming_nan(surrogate):
    assert GRADS[surrogate](torch.tensor([-1e38, 1e38]), 1.0, 1e3).tolist() == [0, 0]


@pytest.mark.parametrize("surrogate", GRADS)
def test_a_spike_needs_the_threshold_not_more(surrogate):
    u = torch.tensor([1.4999999, 1.5, 1.5000001, -9.0, 9.0])
    z = spike(u, torch.tensor(1.5), torch.tensor(100.0), 1.0, surrogate)
    assert z.tolist() == [0, 1, 1, 0, 1]


@pytest.mark.parametrize(("shape", "expected"), [((), [1 / 4, -2.0, 3 / 25]), (("arctan",), [1 / 2, -2.0, 3 / 17])])
def test_the_gradient_is_centered_on_center_and_none_reaches_theta(shape, expected):
    u = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64, requires_grad=True)
    theta = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
    center = torch.tensor(2.0, dtype=torch.float64)
    arriving = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    spike(u, theta, center, 1.0, *shape).backward(arriving)
    assert u.grad.tolist() == pytest.approx(expected, rel=1e-15)
    assert theta.grad is None


@pytest.mark.parametrize(("shape", "expected"), [((), [2.0, 3.0]), (("arctan",), [4.0, 3.0])])
def test_a_center_that_depends_on_spikes_gets_minus_the_gradient(shape, expected):
    u = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    center = torch.tensor([2.0, 2.0], dtype=torch.float64, requires_grad=True)
    spike(u, torch.tensor(1.0), center, 1.0, *shape).backward(torch.tensor([8.0, 3.0], dtype=torch.float64))
    assert u.grad.tolist() == expected
    assert center.grad.tolist() == [-g for g in expected]


@pytest.mark.parametrize("wrong", ["atan", "", None, 2.0, ["arctan"]])
def test_a_wrong_name_lists_the_known_ones(wrong):
    calls = {
        "spike": lambda: spike(torch.ones(1), torch.tensor(1.0), torch.tensor(1.0), 1.0, wrong),
        "lif": lambda: lif(torch.ones(2, 1, 3), beta=0.5, theta=1.0, slope=1.0, surrogate=wrong),
        "LIF": lambda: LIF(surrogate=wrong),
        "RecurrentLIF": lambda: RecurrentLIF(3, surrogate=wrong),
    }
    for where, call in calls.items():
        with pytest.raises(ValueError, match=rf"^{where}: surrogate must be one of fast_sigmoid, arctan, but is ") as e:
            call()
        assert str(e.value).endswith(repr(wrong))


# ---- Layers and networks


def test_the_shape_reaches_every_layer_of_a_network():
    net = build("4Conv3-AP2-36Dense10", (1, 8, 8), slope=[3.0, 0.5], surrogate="arctan", recurrent=True)
    assert [(layer.lif.surrogate, layer.lif.slope) for layer in net.layers] == [("arctan", 3.0), ("arctan", 0.5)]
    assert {layer.lif.surrogate for layer in build("4-3-2").layers} == {"fast_sigmoid"}


@pytest.mark.parametrize("kind", [LIF, AdaptiveLIF, lambda **options: RecurrentLIF(5, **options)])
def test_a_layer_hands_its_shape_to_the_op(kind):
    found = []
    for surrogate in GRADS:
        torch.manual_seed(0)
        current = torch.randn(6, 2, 5).requires_grad_()
        out = kind(beta=0.5, theta=1.5, slope=1.0, surrogate=surrogate)(current)
        out.spikes.sum().backward()
        found.append((out.spikes, current.grad))
    assert torch.equal(found[0][0], found[1][0])  # the shape is of the gradient only
    assert not torch.allclose(found[0][1], found[1][1])


@pytest.mark.skipif(library.library() is None, reason="no compiled kernels")
@pytest.mark.parametrize(("notation", "shape"), [("40-30-10", (40,)), ("4Conv3-AP2-36Dense10", (1, 8, 8))])
def test_layers_in_c_have_the_gradients_of_the_modules(notation, shape, monkeypatch):
    in_c, true = [], native.dense_layer
    monkeypatch.setattr(dense, "BUSY", 1e9)  # however many fire
    monkeypatch.setattr(native, "dense_layer", lambda *given: in_c.append(true(*given)) or in_c[-1])
    x = (torch.rand(9, 3, *shape) < 0.2).float()
    found = []
    for backend in ("auto", "reference"):
        settings = {"beta": 0.5, "theta": 1.25, "slope": [3.0, 0.7], "surrogate": "arctan", "backend": backend}
        net = build(notation, shape, generator=torch.Generator().manual_seed(0), **settings)
        spikes = net(x).spikes
        (spikes * torch.randn(spikes.shape, generator=torch.Generator().manual_seed(1))).sum().backward()
        found.append((spikes, [p.grad for p in net.parameters()]))
    assert in_c
    assert None not in in_c
    (spikes, grads), (wanted, exact) = found
    assert torch.equal(spikes, wanted)
    assert spikes.any()
    for grad, same in zip(grads, exact, strict=True):
        assert (grad - same).abs().max() <= 1e-5 * same.abs().max()
