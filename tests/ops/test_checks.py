"""Numbers that are not finite: NotFiniteError is what training loops look for; other wrong numbers are ValueErrors."""

import numpy as np
import pytest
import torch

from bitspike import build, lif
from bitspike.ops.checks import NotFiniteError, as_number, as_positive

NAN = float("nan")
CALL = {"theta": 1.0, "slope": 2.0}


def learnt_network():
    """A network whose first layer's learnt decay has diverged."""
    net = build("6Dense5Dense3", learn_beta=True, steps=4)
    with torch.no_grad():
        net.layers[0].lif.beta_logit[2] = NAN
    return net


def test_a_learnt_beta_that_diverged_is_not_finite(backend):
    beta = torch.tensor([0.5, NAN, NAN], requires_grad=True)
    says = r"^lif: the learnt beta must be finite, but 2 of 3 values are not; look for a diverged training upstream$"
    with pytest.raises(NotFiniteError, match=says):
        lif(torch.ones(2, 1, 3), beta=beta, backend=backend, **CALL)


@pytest.mark.parametrize("static", [True, False])
def test_a_network_names_the_layer_whose_beta_diverged(static):
    x = torch.ones(2, 6) if static else (torch.rand(4, 2, 6) < 0.2).float()
    with pytest.raises(
        NotFiniteError, match=r"^layers\.0\.lif: lif: the learnt beta must be finite, but 1 of 5 values"
    ):
        learnt_network()(x)
    # Without gradients, as in evaluation, nobody knows that it is learnt.
    with (
        torch.no_grad(),
        pytest.raises(NotFiniteError, match=r"^layers\.0\.lif: lif: beta must be in \[0, 1\], .* nan"),
    ):
        learnt_network()(x)


@pytest.mark.parametrize("beta", [NAN, torch.tensor(NAN), torch.tensor([0.5, NAN, 0.5])])
def test_a_beta_of_nan_keeps_its_line(beta):
    with pytest.raises(
        ValueError, match=r"^lif: beta must be in \[0, 1\], but is nan; it is the share of the membrane"
    ):
        lif(torch.ones(2, 1, 3), beta=beta, **CALL)


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_finite_beta_out_of_range_is_no_divergence(requires_grad):
    beta = torch.tensor([0.5, 1.5, 0.5], requires_grad=requires_grad)
    with pytest.raises(ValueError, match=r"^lif: beta must be in \[0, 1\], but is 1.5") as raised:
        lif(torch.ones(2, 1, 3), beta=beta, **CALL)
    assert not isinstance(raised.value, NotFiniteError)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int64(2), torch.tensor(2.0), torch.tensor([2])])
def test_any_real_number_becomes_a_float(value):
    assert as_number("f", "x", value) == as_positive("f", "x", value) == 2.0
    assert type(as_number("f", "x", value)) is float


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        ("2", TypeError, "f: x must be a number, but is '2', a str"),
        (b"2", TypeError, "f: x must be a number, but is b'2', a bytes"),
        (True, TypeError, "f: x must be a number, but is True"),
        (None, TypeError, "f: x must be a number, but is None"),
        (torch.ones(2), ValueError, "f: x must be one number, but is a tensor of shape [2]"),
        (-1, ValueError, "f: x must be a finite number > 0, but is -1.0"),
        (float("inf"), ValueError, "f: x must be a finite number > 0, but is inf"),
    ],
)
def test_what_is_no_positive_number_is_refused(value, error, says):
    with pytest.raises(error) as raised:
        as_positive("f", "x", value)
    assert str(raised.value) == says
