"""Dropout, soft delays and gains of a block in one pass in C: its modules' numbers, where they are understood."""

import copy
import os
from types import MethodType

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from bitspike import LIF, BinaryConv2d, BinaryLinear, Delay, LIFState
from bitspike.nn import Block, Gain
from bitspike.nn.dropout import set_dropout_key
from bitspike.nn.fast import c as fast_c
from bitspike.nn.fast.refusal import refused_filter
from helpers.layers import assert_close, inputs

pytestmark = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")
KEY = torch.tensor(123_456_789)
STEPS, BATCH, NEURONS = 9, 3, 6


def a_block(*, gained=True, share: float | None = 0.3, longest=4, conv=False, key: torch.Tensor | None = KEY):
    torch.manual_seed(0)
    synapse = BinaryConv2d(NEURONS, 4, 3) if conv else BinaryLinear(NEURONS, 5)
    gain = Gain(NEURONS, 15) if gained else None
    block = Block(
        synapse, LIF(0.9, 1.5, slope=0.7), delay=Delay(NEURONS, longest), gain=gain, spike_dropout=share
    ).train()
    block.delay.width = 0.8
    if gain is not None:
        gain.gains.data.uniform_(-2, 17)
    set_dropout_key(block, key)
    return block


def some(conv=False, kind="spikes"):
    return inputs(kind, STEPS, BATCH, NEURONS, *((5, 4) if conv else ()))


def by_modules(block, x, past=None):
    """What the modules make of `x`, in PyTorch."""
    other = copy.deepcopy(block)
    other.delay.backend = "reference"
    assert refused_filter(other, x, past)
    return other, other._filtered(other.delay, x, past)


@pytest.mark.parametrize("conv", [False, True], ids=["dense", "convolution"])
@pytest.mark.parametrize("kind", ["spikes", "counts"])
@pytest.mark.parametrize("key", [KEY, None], ids=["key", "generator"])
@pytest.mark.parametrize(("gained", "share"), [(True, 0.3), (False, 0.9), (True, None), (False, None), (True, 0.0)])
def test_it_is_its_modules(gained, share, conv, kind, key):
    block, x = a_block(gained=gained, share=share, conv=conv, key=key), some(conv, kind)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    torch.manual_seed(3)
    got = fast_c.filtered(block, mine, None)
    torch.manual_seed(3)
    other, wanted = by_modules(block, theirs)
    assert got is not None
    for a, b in zip(got, wanted, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(block.delay.state, other.delay.state)
    assert not block.delay.state.requires_grad
    towards = torch.randn(got[0].shape, generator=torch.Generator().manual_seed(1))
    for (out, held), one in ((got, block), (wanted, other)):
        ((out * towards).sum() + held.square().sum()).backward()
        assert one.delay.delays.grad.abs().max() > 0
    assert_close(mine.grad, theirs.grad, "x")
    assert_close(block.delay.delays.grad, other.delay.delays.grad, "delays")
    if gained:
        assert_close(block.gain.gains.grad, other.gain.gains.grad, "gains")
        assert 0 <= block.gain.gains.min() < block.gain.gains.max() <= 15  # both clamp the parameter


@pytest.mark.parametrize("cut", [1, 4, 8])
def test_parts_in_time_give_the_whole(cut):
    """Without dropout: each call draws its mask from its own first step on."""
    block, x = a_block(share=None), some()
    whole, held = fast_c.filtered(block, x, None)
    first, past = fast_c.filtered(block, x[:cut], None)
    rest, ending = fast_c.filtered(block, x[cut:], past)
    assert torch.equal(torch.cat([first, rest]), whole)
    assert torch.equal(ending, held)


def test_a_block_runs_in_one_pass_and_keeps_what_its_delay_holds(monkeypatch):
    block, x, calls = a_block(), some(), []
    monkeypatch.setattr(
        fast_c, "in_one_pass", lambda *given, run=fast_c.in_one_pass: calls.append(given) or run(*given)
    )
    out = block(x)
    assert len(calls) == 1
    other = copy.deepcopy(block)
    other.delay.backend = "reference"
    assert torch.equal(out.spikes, other(x).spikes)
    assert torch.equal(out.state.past, other.delay.state)
    again = block(x, out.state)
    assert torch.equal(again.spikes, other(x, out.state).spikes)
    assert len(calls) == 2


def test_a_shard_draws_the_mask_of_its_rows():
    whole, x = a_block(), some()
    together, _ = fast_c.filtered(whole, x, None)
    part = a_block()
    part.spike_dropout.shard = type("Shard", (), {"start": 1, "stop": 3, "total": 3})()
    mine, _ = fast_c.filtered(part, x[:, 1:].contiguous(), None)
    assert torch.equal(mine, together[:, 1:])


def evaluated(block):
    block.eval()


def of_float64(block):
    block.double()


def with_other_backend(block):
    block.delay.backend = "torch"


def with_neurons_of_another_backend(block):
    block.lif.backend = "reference"


def with_learnt_width(block):
    block.delay.width.requires_grad_()


def with_hook(part):
    def change(block):
        getattr(block, part).register_forward_hook(lambda *given: None)

    change.__name__ = f"with_hook_on_{part}"
    return change


def with_own_forward(part):
    def change(block):
        module = getattr(block, part)
        module.forward = MethodType(type(module).forward, module)

    change.__name__ = f"with_own_forward_of_{part}"
    return change


def with_own_method(block):
    block.gained = MethodType(Block.gained, block)


def with_own_memory(block):
    block.delay.remember = MethodType(Delay.remember, block.delay)


def of_another_class(block):
    class Longer(Delay):
        pass

    block.delay.__class__ = Longer


def parametrized(block):
    parametrize.register_parametrization(block.delay, "delays", nn.Identity())


def with_delays_of_float64(block):
    block.delay.delays.data = block.delay.delays.data.double()


CHANGES = [
    evaluated, of_float64, with_other_backend, with_neurons_of_another_backend, with_learnt_width, with_own_method,
    with_own_memory, of_another_class, parametrized, with_delays_of_float64,
    *(with_hook(part) for part in ("delay", "gain", "spike_dropout")),
    *(with_own_forward(part) for part in ("delay", "gain", "spike_dropout")),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_it_does_not_understand_is_left_to_the_modules(change):
    block, x = a_block(), some()
    change(block)
    if change is of_float64:
        x = x.double()
    assert refused_filter(block, x, None)
    assert fast_c.filtered(block, x, None) is None
    block(x)  # runs


def test_numbers_that_no_filter_takes_are_left_to_the_modules():
    for name, value in (("delays", float("nan")), ("width", 0.0), ("width", float("inf")), ("width", float("nan"))):
        block = a_block()
        getattr(block.delay, name).data.fill_(value)
        assert fast_c.filtered(block, some(), None) is None


@pytest.mark.parametrize(
    "wrong", [(STEPS, BATCH, NEURONS + 1), (BATCH, NEURONS), (STEPS, BATCH, NEURONS, 2), (0, BATCH, NEURONS)]
)
def test_shapes_that_do_not_fit_are_left_to_the_modules(wrong):
    assert fast_c.filtered(a_block(), torch.zeros(wrong), None) is None


def test_a_past_that_does_not_fit_is_left_to_the_modules_and_told():
    block, x = a_block(), some()
    state = LIFState(torch.zeros(BATCH, 5), torch.zeros(BATCH, 5), past=torch.zeros(3, BATCH, NEURONS))
    assert fast_c.filtered(block, x, state.past) is None
    with pytest.raises(ValueError, match="past must be"):
        block(x, state)


def test_transforms_and_autocast_go_to_the_modules():
    block, x = a_block(key=None, share=None), some()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert fast_c.filtered(block, x, None) is None
    seen = []

    def loss(delays):
        seen.append(refused_filter(block, x, None))
        return torch.func.functional_call(block, {"delay.delays": delays}, (x,)).membrane.square().sum()

    found = torch.func.grad(loss)(block.delay.delays.detach())
    assert seen[0]
    block(x).membrane.square().sum().backward()
    assert_close(block.delay.delays.grad, found, "delays")


def test_overwritten_spikes_are_an_error_not_a_wrong_gradient():
    block, x = a_block(), some()
    out, _ = fast_c.filtered(block, x, None)
    x.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
