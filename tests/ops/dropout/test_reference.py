"""Dropout from a key: Philox by its published answers, and masks that depend on key, layer and place alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bitspike
from bitspike.nn.dropout import Dropout, set_dropout_key
from bitspike.ops.dropout.reference import dropout, keep_mask, philox


def drawn(counter, key, rounds):
    words = philox(tuple(torch.tensor(c) for c in counter), torch.tensor(key), rounds)
    return [f"{int(word):08x}" for word in words]


# The known answers that come with Random123, the authors' implementation.
@pytest.mark.parametrize(
    ("rounds", "counter", "key", "answer"),
    [
        (7, (0, 0, 0, 0), 0, "5f6fb709 0d893f64 4f121f81 4f730a48"),
        (10, (0, 0, 0, 0), 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (10, (0xFFFFFFFF,) * 4, -1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ],
)
def test_philox_gives_the_published_answers(rounds, counter, key, answer):
    assert drawn(counter, key, rounds) == answer.split()


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 9), st.integers(0, 4), st.integers(1, 9))
def test_a_mask_is_the_same_for_a_part_of_the_batch_and_of_time(key, layer, first, steps):
    key = torch.tensor(key)
    whole = keep_mask((9, 7, 5), 0.4, key, layer)
    part = keep_mask((steps, 7 - first, 5), 0.4, key, layer, first_row=first)
    assert torch.equal(part, whole[:steps, first:])


def test_masks_keep_the_right_share_and_differ_by_key_layer_and_step():
    shape = (40, 50, 60)
    one = keep_mask(shape, 0.3, torch.tensor(1), 0)
    assert one.float().mean().item() == pytest.approx(0.7, abs=0.005)
    for other in (keep_mask(shape, 0.3, torch.tensor(2), 0), keep_mask(shape, 0.3, torch.tensor(1), 1), one.roll(1, 0)):
        assert (one == other).float().mean().item() == pytest.approx(0.7**2 + 0.3**2, abs=0.01)


def test_what_is_kept_is_scaled_so_that_the_mean_stays():
    x = torch.ones(100, 20, 30)
    y = dropout(x, 0.25, torch.tensor(5), 0)
    assert set(y.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert y.mean().item() == pytest.approx(1, abs=0.01)


def test_a_key_decides_the_masks_of_a_network_whatever_the_generator():
    net = bitspike.build("6Dense8Dense4", dropout=0.5, theta=0.5)
    key = torch.tensor(3)
    set_dropout_key(net, key)
    x = torch.rand(5, 2, 6)
    first = net(x).membrane
    torch.manual_seed(99)
    assert torch.equal(net(x).membrane, first)
    key.fill_(4)
    assert not torch.equal(net(x).membrane, first)
    set_dropout_key(net, None)
    torch.manual_seed(1)
    drawn_by_torch = net(x).membrane
    torch.manual_seed(1)
    assert torch.equal(net(x).membrane, drawn_by_torch)


def test_nothing_is_dropped_in_evaluation():
    drop = Dropout(0.5)
    drop.key = torch.tensor(1)
    x = torch.rand(3, 2, 4)
    assert torch.equal(drop.eval()(x), x)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_only_the_dropouts_own_mode_decides(backend):
    """As with PyTorch's: one in evaluation mode drops nothing, one in training mode does (Monte Carlo dropout)."""
    net = bitspike.build("20Dense8Dense6", (20,), dropout=0.5, backend=backend)
    x = (torch.rand(9, 4, 20) < 0.5).float()
    modules = [module for module in net.modules() if isinstance(module, Dropout)]
    wanted = net.eval()(x).membrane
    for module in modules:
        module.train()
    assert not torch.equal(net(x).membrane, wanted)
    net.train()
    for module in modules:
        module.eval()
    assert torch.equal(net(x).membrane, wanted)
