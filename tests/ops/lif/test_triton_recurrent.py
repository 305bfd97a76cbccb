"""The Triton backend on neurons that hear each other equals the definition, for weights of -1 and +1 bit for bit."""

import pytest
import torch

from bitspike import LIFState, lif
from helpers.lif import ADAPTIVE, DEVICE, OUTPUTS, assert_same_outputs, check, draw, with_state

pytest.importorskip("triton")
from helpers.interpreter import mend

mend()


@pytest.fixture(autouse=True, scope="module")
def _poison():
    """Memory that is handed out holds NaN, so that whatever a kernel forgets to write shows."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def signs(neurons):
    return (draw(3, neurons, neurons) > 0).float() * 2 - 1


@pytest.mark.parametrize("static", [False, True], ids=["sequence", "static"])
@pytest.mark.parametrize("adaptation", [None, ADAPTIVE], ids=["plain", "adaptive"])
@pytest.mark.parametrize(("steps", "shape"), [(1, (1, 1)), (5, (17, 3)), (4, (2, 40)), (3, (2, 9, 5))])
def test_recurrent_neurons_of_any_number(steps, shape, adaptation, static):
    call = {"current": draw(1, *(() if static else (steps,)), *shape), "recurrent": signs(shape[-1]), "beta": 0.5}
    call |= {"theta": 3.5, "slope": 4.0, "adaptation": adaptation} | ({"steps": steps} if static else {})
    check(with_state(call, adaptation is not None), share=2**-6)


@pytest.mark.parametrize("adaptation", [None, ADAPTIVE], ids=["plain", "adaptive"])
@pytest.mark.parametrize("neurons", [17, 40])
def test_a_scaled_sum_is_rounded_once(neurons, adaptation):
    """With a scale and decays that are not round numbers, every membrane has the definition's bits."""
    call = {"current": draw(1, 12, 5, neurons, exact=False).to(DEVICE), "recurrent": signs(neurons).to(DEVICE)}
    call |= {"beta": 0.87, "theta": 1.1, "slope": 4.0, "adaptation": adaptation, "recurrent_scale": neurons**-0.5}
    current = call.pop("current")
    ours, reference = (lif(current, backend=backend, **call) for backend in ("triton", "reference"))
    assert 0.05 < reference.spikes.mean() < 0.95
    assert_same_outputs(ours, reference)


def test_gradients_through_a_scale():
    call = {"current": draw(1, 4, 3, 6), "recurrent": signs(6), "beta": 0.5, "theta": 3.5, "slope": 4.0}
    check(with_state(call | {"recurrent_scale": 0.25, "recurrent_grad": 0.5}), share=2**-6)


@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("names", [(name,) for name in OUTPUTS[:4]])
def test_a_gradient_through_one_output_of_recurrent_neurons(names, share):
    call = {"current": draw(1, 4, 3, 6), "recurrent": signs(6).T, "beta": 0.5, "theta": 3.5, "slope": 4.0}
    call["recurrent_grad"] = share
    check(call, names, share=2**-6)
    check(with_state(call), names, share=2**-6)


def test_recurrent_neurons_in_half_precision_and_any_layout():
    current, weight = draw(1, 4, 6, 3).transpose(1, 2).to(DEVICE, torch.bfloat16), signs(6).to(DEVICE).T
    beta = torch.linspace(0, 1, 6).mul(4).round().div(4).to(DEVICE)
    call = {"beta": beta, "theta": 1.5 + beta, "slope": 1.0, "recurrent": weight}
    ours, reference = (lif(current, backend=backend, **call) for backend in ("triton", "reference"))
    assert ours.spikes.dtype == torch.bfloat16
    assert_same_outputs(ours, reference)


def test_splitting_time_of_recurrent_neurons_changes_nothing():
    call = {"beta": 0.5, "theta": 1.5, "slope": 1.0, "recurrent": signs(6).to(DEVICE), "backend": "triton"}
    current = draw(1, 7, 3, 6).to(DEVICE)
    whole, first = lif(current, **call), lif(current[:3], **call)
    second = lif(current[3:], state=first.state, **call)
    assert_same_outputs(
        type(whole)(torch.cat([first[0], second[0]]), torch.cat([first[1], second[1]]), second.state), whole
    )


def test_the_state_given_to_recurrent_neurons_is_not_written_to():
    state = LIFState(torch.zeros(2, 3, device=DEVICE), torch.ones(2, 3, device=DEVICE))
    call = {"beta": 0.5, "theta": 9.0, "slope": 1.0, "recurrent": signs(3).to(DEVICE), "backend": "triton"}
    lif(draw(1, 4, 2, 3).to(DEVICE), state=state, **call)
    assert state.spikes.all()


def test_an_empty_batch_of_recurrent_neurons():
    current = torch.zeros(3, 0, 4, device=DEVICE, requires_grad=True)
    weight = signs(4).to(DEVICE).requires_grad_()
    lif(current, beta=0.5, theta=1.0, slope=1.0, recurrent=weight, backend="triton").membrane.sum().backward()
    assert current.grad.shape == (3, 0, 4)
    assert not weight.grad.any()


def test_wide_layers_are_left_to_pytorch():
    with pytest.raises(ValueError, match="'triton' cannot run this call: 513 recurrent neurons are more than 512"):
        lif(torch.ones(2, 1, 513), beta=0.5, theta=1.5, slope=1.0, recurrent=torch.ones(513, 513), backend="triton")
