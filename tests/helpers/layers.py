"""Layers in C against their modules: spikes, membranes, states bit for bit, gradients to 1e-5 of float64's.

Sums of whole numbers are exact in any order, so nothing has to be on a grid but the bias, which PyTorch may add before
or after the rest of a product.
"""

import copy

import pytest
import torch
from hypothesis import strategies as st

from bitspike import LIF, BinaryConv2d, BinaryLinear, LIFState
from bitspike.nn import StepBatchNorm2d
from bitspike.nn.block import Block
from bitspike.nn.fast import c as fast_c
from bitspike.ops.chain import c as dense

GRADIENTS = 1e-5  # of the largest of a tensor


sizes = st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 130])


few = st.integers(1, 3)


def inputs(kind, *shape, seed=0):
    random = torch.Generator().manual_seed(seed)
    if kind == "counts":
        return torch.poisson(torch.full(shape, 0.7), generator=random) * (torch.rand(shape, generator=random) < 0.6)
    return (torch.rand(shape, generator=random) < {"spikes": 0.3, "silent": 0.0, "full": 1.1}[kind]).float()


def dense_block(inputs, outputs, *, p=0.0, bias=True, seed=0, **options):
    torch.manual_seed(seed)
    block = Block(
        BinaryLinear(inputs, outputs, bias=bias), LIF(**{"beta": 0.5, "theta": 1.25, "slope": 0.7} | options), dropout=p
    )
    if bias:
        with torch.no_grad():
            block.synapse.bias.copy_(torch.randint(-8, 9, (outputs,)) / 8)
    return block


def conv_block(channels, filters, kernel, pools, *, norm=False, seed=0, **options):
    torch.manual_seed(seed)
    return Block(
        BinaryConv2d(channels, filters, kernel, **options),
        LIF(0.5, 1.25, slope=0.7),
        pools=pools,
        norm=StepBatchNorm2d(filters) if norm else None,
    )


def plain(block):
    """The same layer, by its modules."""
    other = copy.deepcopy(block)
    for module in other.modules():
        if isinstance(module, LIF):
            module.backend = "reference"
    return other


def assert_close(got, wanted, what, tolerance=GRADIENTS):
    scale = wanted.abs().max().item()
    worst = (got - wanted).abs().max().item()
    assert worst <= tolerance * scale, f"{what}: off by {worst:.1e} where the largest is {scale:.1e}"


def assert_same(block, x, state=None, **options):
    """Forward bit for bit against the modules in float32; every gradient against the modules in float64."""
    exact = plain(block).double()
    wide = None if state is None else LIFState(state.membrane.double(), state.spikes.double())
    x = x.clone().requires_grad_()
    x64 = x.detach().double().requires_grad_()
    got, wanted, truth = block(x, state, **options), plain(block)(x.detach(), state), exact(x64, wide)
    assert torch.equal(got.spikes, wanted.spikes)
    assert got.membrane is None or torch.equal(got.membrane, wanted.membrane)
    assert torch.equal(got.state.membrane, wanted.state.membrane)
    assert torch.equal(got.state.spikes, wanted.state.spikes)
    assert torch.equal(truth.spikes, got.spikes.double()), "not exact: the gradients cannot be compared"
    weights = torch.randn(got.spikes.shape, generator=torch.Generator().manual_seed(1))
    objective = (got.spikes * weights).sum() + got.state.membrane.square().sum() / 16
    target = (truth.spikes * weights).sum() + truth.state.membrane.square().sum() / 16
    if got.membrane is not None:
        objective, target = objective + (got.membrane * weights).sum(), target + (truth.membrane * weights).sum()
    objective.backward()
    target.backward()
    for (name, p), q in zip(block.named_parameters(), exact.parameters(), strict=True):
        assert p.grad.shape == p.shape
        assert_close(p.grad.double(), q.grad, name)
    assert_close(x.grad.double(), x64.grad, "x")


def assert_same_error(block, x, state, match):
    messages = []
    for layer in (block, plain(block)):
        with pytest.raises(ValueError, match=match) as error:
            layer(x, state)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


@pytest.fixture(scope="module")
def however_busy():
    """What is faster is not what is right: inputs that all fire run in C, too."""
    before, dense.BUSY = dense.BUSY, 1e9
    yield before
    dense.BUSY = before


@pytest.fixture
def in_c(monkeypatch):
    """A layer that falls back to its modules is an error."""

    def of(function):
        def must(*args):
            out = function(*args)
            assert out is not None, "fell back to the modules"
            return out

        return must

    monkeypatch.setattr(fast_c, "dense_layer", of(fast_c.dense_layer))
    monkeypatch.setattr(fast_c, "convolved", of(fast_c.convolved))
