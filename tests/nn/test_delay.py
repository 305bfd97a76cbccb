"""nn.Delay: soft in training, rounded in evaluation, clamped, and with a state."""

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import Delay, delay
from bitspike.nn import Delay as from_nn
from bitspike.ops.checks import NotFiniteError


def a_layer(longest=4, neurons=3):
    return Delay(neurons, longest)


def test_it_is_one_class():
    assert Delay is from_nn


def test_delays_start_uniform_and_the_width_wide():
    layer = Delay(10_000, 8)
    assert layer.delays.dtype == torch.float32
    assert 0 <= layer.delays.min() < 0.01
    assert 7.99 < layer.delays.max() <= 8
    assert layer.delays.histc(8, 0, 8) == pytest.approx([1250] * 8, rel=0.15)
    assert [Delay(1, d).width.item() for d in (8, 3, 1)] == [4, 1.5, 0.5]
    assert Delay(1, 0).width.item() == pytest.approx(0.3)


def test_the_state_dict_holds_delays_alone():
    assert list(a_layer().state_dict()) == ["delays"]
    assert dict(a_layer().named_buffers()).keys() == {"width"}


def test_training_is_soft_and_evaluation_rounded():
    layer, x = a_layer(), torch.rand(7, 2, 3)
    layer.delays.data = torch.tensor([0.4, 2.5, 3.9])
    layer.width.fill_(0.6)
    soft = layer.train()(x)
    assert torch.equal(soft, delay(x, layer.delays, longest=4, width=0.6))
    assert soft.requires_grad
    hard = layer.eval()(x)
    assert torch.equal(hard, delay(x, torch.tensor([0.0, 2, 4])))
    assert layer.rounded().tolist() == [0, 2, 4]
    assert layer.rounded().dtype == torch.int64
    assert not hard.requires_grad


def test_a_call_in_training_clamps_and_one_in_evaluation_writes_nothing():
    layer, x = a_layer(), torch.rand(7, 2, 3)
    strayed = torch.tensor([-2.0, 2.2, 9.0])
    layer.delays.data = strayed.clone()
    assert layer.rounded().tolist() == [0, 2, 4]
    assert torch.equal(layer.eval()(x), delay(x, torch.tensor([0.0, 2, 4])))
    assert torch.equal(layer.delays, strayed)
    layer.train()(x).sum().backward()
    assert torch.equal(layer.delays, torch.tensor([0.0, 2.2, 4.0]))
    assert layer.delays.grad.abs().min() > 0  # those at the border learn as well


@pytest.mark.parametrize("mode", [True, False])
@given(longest=st.integers(0, 6), cuts=st.lists(st.integers(0, 9), max_size=3), sites=st.sampled_from([(), (2, 2)]))
def test_parts_in_time_give_the_whole(mode, longest, cuts, sites):
    torch.manual_seed(0)
    layer, x = a_layer(longest).train(mode).double(), torch.rand(9, 2, 3, *sites, dtype=torch.float64)
    whole = layer(x)
    ending = layer.state
    parts, past = [], None
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), 9], strict=True):
        if last > first:
            parts.append(layer(x[first:last], past))
            remembered = layer.remember(x[first:last], past)
            past = layer.state
            assert torch.equal(remembered, past)
            assert past.shape == (longest, 2, 3, *sites)
    torch.testing.assert_close(torch.cat(parts), whole)
    assert torch.equal(past, ending)


def test_the_state_is_a_copy_without_a_graph():
    layer, x = a_layer(2), torch.rand(5, 2, 3, requires_grad=True)
    layer(x * 2)
    assert torch.equal(layer.state, 2 * x[-2:])
    assert not layer.state.requires_grad
    y = torch.rand(5, 2, 3)
    layer(y)
    kept = layer.state.clone()
    y.zero_()
    assert torch.equal(layer.state, kept)
    assert layer.remember(x * 2).requires_grad


def test_a_copy_and_a_pickle_are_the_layer():
    layer, x = a_layer(), torch.rand(7, 2, 3)
    layer.train()(x).sum().backward()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x), layer(x))


def test_delays_are_learnt():
    """The layer finds the delays that made its target, as the width shrinks."""
    torch.manual_seed(0)
    x = torch.rand(40, 8, 3).lt(0.1).float()
    target = delay(x, torch.tensor([0.0, 5.0, 9.0]))
    layer = Delay(3, 10)
    optimizer = torch.optim.Adam(layer.parameters(), 0.1)
    for step in range(200):
        layer.width.fill_(5 * (0.3 / 5) ** (step / 200))
        loss = (layer(x) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert layer.rounded().tolist() == [0, 5, 9]
    assert torch.equal(layer.eval()(x), target)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0, 3), "neurons must be a whole number >= 1, but is 0"),
        ((2.0, 3), "neurons must be a whole number >= 1, but is 2.0"),
        ((True, 3), "neurons must be a whole number >= 1, but is True"),
        ((2, -1), "longest must be a whole number of steps >= 0, but is -1"),
        ((2, 2.5), "longest must be a whole number of steps >= 0, but is 2.5"),
        ((2, None), "longest must be a whole number of steps >= 0, but is None"),
    ],
)
def test_a_wrong_size_is_refused(arguments, says):
    with pytest.raises(ValueError, match=f"^Delay: {says}$"):
        Delay(*arguments)


@pytest.mark.parametrize("name", ["longest", "backend"])
def test_settings_are_checked_where_they_are_set(name):
    layer = a_layer()
    with pytest.raises(ValueError, match=f"^Delay: {name} must be "):
        setattr(layer, name, -3)


@pytest.mark.parametrize("mode", [True, False])
def test_delays_that_diverged_are_said_to_be_so(mode):
    layer = a_layer().train(mode)
    layer.delays.data[1] = float("nan")
    with pytest.raises(NotFiniteError, match=r"^delay: delays must be finite, but 1 of 3 are not"):
        layer(torch.rand(7, 2, 3))


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("shape", [(7, 2, 4), (2, 3), (0, 2, 3), (7, 2, 2, 3)])
def test_a_wrong_input_is_refused(mode, shape):
    with pytest.raises(ValueError, match=r"^Delay: input must be \[T, B, 3, ...\] with at least one step, but has"):
        a_layer().train(mode)(torch.zeros(shape))


def test_a_number_sets_the_width():
    layer = a_layer()
    place = layer.width
    layer.width = 0.7
    assert layer.width is place
    assert place.item() == pytest.approx(0.7)
    assert dict(layer.named_buffers()).keys() == {"width"}
    with pytest.raises(ValueError, match=r"Delay: width must be .*, but is 0"):
        layer.width = 0


@pytest.mark.parametrize("narrow", [0.099, 1e-6, torch.tensor(0.05)])
def test_a_width_that_leaves_no_gradient_is_refused(narrow):
    layer = a_layer()
    kept = layer.width.item()
    with pytest.raises(
        ValueError, match=r"^Delay: width must be at least 0.1 steps, but is .*; call eval\(\) for whole"
    ):
        layer.width = narrow
    assert layer.width.item() == kept
    for wide in (0.1, torch.tensor(0.1)):
        layer.width = wide
        assert layer.width.item() == pytest.approx(0.1)


@pytest.mark.parametrize("mode", [True, False])
def test_a_past_of_another_batch_is_refused(mode):
    layer, past = a_layer().train(mode), torch.zeros(4, 5, 3)
    for call in (layer, layer.remember):
        with pytest.raises(ValueError, match=r"past must be .*\[4, 2, 3\].* but has shape \[4, 5, 3\]"):
            call(torch.rand(7, 2, 3), past)


def test_half_precision_leaves_the_delays():
    layer = a_layer(longest=40)
    layer.delays.data = torch.tensor([17.499, 31.51, 0.499])
    before = layer.rounded()
    layer.bfloat16()
    assert layer.delays.dtype == layer.width.dtype == torch.float32
    assert layer.rounded().equal(before)
    assert layer.double().delays.dtype == torch.float64


def test_longer_delays_of_a_saved_layer_are_refused():
    long = a_layer(longest=8)
    long.delays.data.fill_(7.84)
    with pytest.raises(RuntimeError, match=r"delays go up to 7.84 steps, but this layer's longest is 4; build"):
        a_layer(longest=4).load_state_dict(long.state_dict())
    a_layer(longest=8).load_state_dict(long.state_dict())


def test_delays_that_an_optimizer_has_moved_too_far_are_saved_as_they_are_used():
    layer, same = a_layer(), a_layer()
    layer.delays.data[:2] = torch.tensor([-3.0, layer.longest + 2.5])
    same.load_state_dict(layer.state_dict())
    assert same.delays[:2].tolist() == [0.0, layer.longest]
    assert same.rounded().equal(layer.rounded())
