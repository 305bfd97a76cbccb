"""The spike, the shapes of the derivative that stands in for its own, and how they reach every layer of a network."""

import itertools
import math
import re
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import LIF, AdaptiveLIF, RecurrentLIF, build, c_library, lif
from bitspike.experiments.net_config import NetConfig
from bitspike.nn.fast import c as fast_c
from bitspike.ops import arctan_grad, fast_sigmoid_grad, sigmoid_grad, spike, triangular_grad
from bitspike.ops.chain import c as dense
from bitspike.ops.lif import c as lif_c
from bitspike.ops.lif.surrogate import CODES, GRADS, Surrogate
from bitspike.ops.native import library
from helpers.peers import snntorch

FOLDER = Path(lif_c.__file__).parent

# The formulas once more, in Python's numbers: x = slope * (u - center).
DEFINITIONS = {
    "fast_sigmoid": lambda x: (1 + abs(x)) ** -2,
    "arctan": lambda x: 1 / (1 + x * x),
    "triangular": lambda x: max(0.0, 1 - abs(x)),
    "sigmoid": lambda x: 1 / math.cosh(x / 2) ** 2 if abs(x) < 700 else 0.0,  # 4 p (1 - p), p logistic
}


def antiderivative(surrogate, away, slope):
    """What the gradient is the derivative of."""
    if surrogate == "triangular":
        inside = (slope * away).clamp(-1, 1)
        return (inside - inside * inside.abs() / 2) / slope
    if surrogate == "sigmoid":
        return 4 * torch.sigmoid(slope * away) / slope
    return (slope * away).atan() / slope if surrogate == "arctan" else away / (1 + slope * away.abs())


def test_by_hand():
    u = torch.tensor([3.0, 4.0, 2.0, 3.5, 0.0], dtype=torch.float64)
    # slope 2 around 3: 1, (1 + 2)**-2 on both sides, (1 + 1)**-2, (1 + 6)**-2
    expected = torch.tensor([1, 1 / 9, 1 / 9, 1 / 4, 1 / 49], dtype=torch.float64)
    torch.testing.assert_close(fast_sigmoid_grad(u, 3.0, 2.0), expected, rtol=1e-15, atol=0)
    # and 1, 1 / (1 + 2**2) on both sides, 1 / (1 + 1**2), 1 / (1 + 6**2)
    expected = torch.tensor([1, 1 / 5, 1 / 5, 1 / 2, 1 / 37], dtype=torch.float64)
    torch.testing.assert_close(arctan_grad(u, 3.0, 2.0), expected, rtol=1e-15, atol=0)
    # slope 1/2: 1, 1/2 on both sides, 3/4, and nothing at a distance of 3 > 1 / slope
    expected = torch.tensor([1, 1 / 2, 1 / 2, 3 / 4, 0], dtype=torch.float64)
    torch.testing.assert_close(triangular_grad(u, 3.0, 0.5), expected, rtol=1e-15, atol=0)
    # slope ln 3: p = 3/4 and 1/4 at a distance of 1, so 4 * 3/16; p = 1/28 at 3, so 4 * 27/784
    expected = torch.tensor([1, 3 / 4, 3 / 4, 27 / 196], dtype=torch.float64)
    torch.testing.assert_close(sigmoid_grad(u[[0, 1, 2, 4]], 3.0, math.log(3)), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("surrogate", GRADS)
@given(st.floats(-20, 20), st.floats(0.1, 20), st.floats(0.01, 50))
def test_it_is_its_formula_and_one_at_the_center(surrogate, u, center, slope):
    grad = GRADS[surrogate](torch.tensor([u, center], dtype=torch.float64), center, slope)
    assert grad[0].item() == pytest.approx(DEFINITIONS[surrogate](slope * (u - center)), rel=1e-9, abs=1e-13)
    assert grad[1].item() == 1


# ---- One table


def test_every_list_of_surrogates_is_the_table():
    assert tuple(GRADS) == get_args(Surrogate) == tuple(DEFINITIONS)
    assert tuple(GRADS) == get_args(NetConfig.model_fields["surrogate"].annotation)
    (names,) = re.findall(r"enum \{ ([A-Z_, ]+), SURROGATES \};", (FOLDER / "scan.h").read_text())
    assert {name.lower(): code for code, name in enumerate(names.split(", "))} == CODES
    cases = re.findall(r"case ([A-Z_]+):\s+WALK_BACK_BY\(\1\)", (FOLDER / "scan.h").read_text())
    assert {"FAST_SIGMOID", *cases} == set(names.split(", "))  # which is the default
    assert set(re.findall(r'SURROGATE == "(\w+)"', (FOLDER / "kernels_surrogate.py").read_text())) == set(GRADS)


def test_kernels_built_before_a_surrogate_was_added_are_done_without(monkeypatch):
    # They would have taken its number for the fast sigmoid's.
    if library.library() is None:
        pytest.skip("no compiled kernels")
    assert c_library._answers["bitspike_surrogates"] == len(CODES)
    monkeypatch.setitem(c_library._answers, "bitspike_surrogates", len(CODES) + 1)
    assert c_library.library.__wrapped__() is None


@pytest.mark.parametrize("slope", [0.5, 25.0, 1e4, 1e38])
@pytest.mark.parametrize("backend", ["reference", "torch", "c"])
@pytest.mark.parametrize("surrogate", GRADS)
def test_every_backend_has_the_formula_near_and_far(surrogate, backend, slope):
    if backend == "c" and library.library() is None:
        pytest.skip("no compiled kernels")
    away = torch.tensor([0.0, 0.25, 0.9, 1, 2, 10, 40, 86.5, 87.5, 88, 104, 1e3, 1e20, 3e38]) / slope
    u = torch.cat([3.0 + away, 3.0 - away]).clamp(-3e38, 3e38).expand(1, 1, -1).clone().requires_grad_()
    out = lif(u, beta=0.5, theta=3.0, slope=slope, surrogate=surrogate, backend=backend)
    out.spikes.sum().backward()
    wanted = [DEFINITIONS[surrogate](slope * min(abs(x - 3.0), 1e30 / slope)) for x in u.flatten().tolist()]
    torch.testing.assert_close(u.grad.flatten().double(), torch.tensor(wanted).double(), rtol=2e-5, atol=1e-37)


@pytest.mark.parametrize("version", ["1.0.0", "0.4.11"])
def test_the_sigmoid_is_snntorchs_but_for_its_height(version):
    slope = 5.0
    u = torch.linspace(-2, 2, 101, dtype=torch.float64).requires_grad_()
    snntorch(version).surrogate.sigmoid(slope)(u).sum().backward()
    torch.testing.assert_close(u.grad, sigmoid_grad(u.detach(), 0.0, slope) * slope / 4, rtol=1e-9, atol=0)


def test_two_shapes_are_spikingjellys_but_for_their_height():
    theirs = pytest.importorskip("spikingjelly.activation_based.surrogate")
    slope = 1.5
    for other, grad, height in (
        (theirs.PiecewiseQuadratic, triangular_grad, slope),
        (theirs.Sigmoid, sigmoid_grad, slope / 4),
    ):
        u = torch.linspace(-2, 2, 101).requires_grad_()
        other(alpha=slope)(u).sum().backward()
        torch.testing.assert_close(u.grad, grad(u.detach(), 0.0, slope) * height, rtol=1e-5, atol=1e-6)


# ---- The derivative of a function


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
        with pytest.raises(ValueError, match=rf"^{where}: surrogate must be one of {', '.join(GRADS)}, but is ") as e:
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
    for (spikes, grad), (others, other) in itertools.combinations(found, 2):
        assert torch.equal(spikes, others)  # the shape is of the gradient only
        assert not torch.allclose(grad, other)


@pytest.mark.skipif(library.library() is None, reason="no compiled kernels")
@pytest.mark.parametrize("surrogate", [name for name in GRADS if name != "fast_sigmoid"])
@pytest.mark.parametrize(("notation", "shape"), [("40-30-10", (40,)), ("4Conv3-AP2-36Dense10", (1, 8, 8))])
def test_layers_in_c_have_the_gradients_of_the_modules(notation, shape, surrogate, monkeypatch):
    in_c, true = [], fast_c.dense_layer
    monkeypatch.setattr(dense, "BUSY", 1e9)  # however many fire
    monkeypatch.setattr(fast_c, "dense_layer", lambda *given: in_c.append(true(*given)) or in_c[-1])
    x = (torch.rand(9, 3, *shape) < 0.2).float()
    found = []
    for backend in ("auto", "reference"):
        settings = {"beta": 0.5, "theta": 1.25, "slope": [0.3, 0.2], "surrogate": surrogate, "backend": backend}
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
