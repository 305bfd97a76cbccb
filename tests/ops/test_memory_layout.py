"""How a tensor lies in memory changes no number: any strides give the spikes and gradients of a contiguous input.

PyTorch's batch norm has wrong gradients for one sample whose channels lie side by side; kernels read memory themselves.
"""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bitspike import LIF, Adaptation, BinaryConv2d, BinaryLinear, LIFState, lif
from bitspike.nn import RecurrentLIF, SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.block import Block
from bitspike.ops.chain import c as dense_kernels
from bitspike.ops.product.grouped import grouped_linear

T, B, C, SIDE = 5, 3, 2, 6


@pytest.fixture(autouse=True, scope="module")
def however_busy():
    before, dense_kernels.BUSY = dense_kernels.BUSY, 1e9
    yield
    dense_kernels.BUSY = before


@st.composite
def layouts(draw, dims):
    """How to lay out a tensor of so many dimensions: the order in memory, gaps, and strides of size 1."""
    return (
        draw(st.permutations(range(dims))),
        [draw(st.integers(1, 2)) for _ in range(dims)],
        draw(st.integers(0, 3)),
        [draw(st.integers(0, 9)) for _ in range(dims)],
    )


def laid_out(x, layout):
    """The same numbers with other strides; the stride of a dimension of size 1 means nothing, so it is anything."""
    order, gaps, offset, loose = layout
    stride, strides = 1, [0] * x.dim()
    for dim in order:
        strides[dim] = stride * gaps[dim]
        stride = strides[dim] * x.shape[dim]
    strides = [extra if size == 1 else step for size, step, extra in zip(x.shape, strides, loose, strict=True)]
    memory = torch.full((offset + stride + 1,), float("nan"), dtype=x.dtype)
    return memory.as_strided(x.shape, strides, offset).copy_(x)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def spikes(*shape):
    return (normal(*shape) > 0.3).float()


def conv(norm=None, binary=True, pools=1, **options):
    return Block(
        BinaryConv2d(C, 4, 3, binary=binary, **options), LIF(0.5, 0.75, slope=0.7),
        pools=[nn.AvgPool2d(2)] * pools, norm=norm(4) if norm else None,
    )  # fmt: skip


def dense(lif=None, **options):
    return Block(BinaryLinear(C * SIDE * SIDE, 7, **options), lif or LIF(0.5, 1.25, slope=0.7))


BLOCKS = {
    "conv": lambda: conv(),
    "conv, norm a step": lambda: conv(StepBatchNorm2d),
    "conv, norm a step, no pool": lambda: conv(StepBatchNorm2d, pools=0),
    "conv, shared norm": lambda: conv(SharedBatchNorm2d),
    "real conv, norm a step": lambda: conv(StepBatchNorm2d, binary=False),
    "padded conv, norm a step": lambda: conv(StepBatchNorm2d, padding=1),
    "dense": lambda: dense(),
    "dense, no bias": lambda: dense(bias=False),
    "real dense": lambda: dense(binary=False),
    "recurrent": lambda: dense(RecurrentLIF(7, 0.5, 1.25, slope=0.7)),
    "adaptive": lambda: dense(LIF(0.5, 1.25, slope=0.7, adaptation=Adaptation(0.5, 0.25))),
}


def learn(block, x, weights, **options):
    block = copy.deepcopy(block)
    x = x.detach().requires_grad_()
    out = block(x, **options)
    (out.spikes * weights).sum().backward()
    return out, [x.grad, *(p.grad for p in block.parameters())], list(block.buffers())


def assert_same(got, wanted):
    """Sums of floats may be taken in another order; spikes here are of sums that are exact, or far from theta."""
    (out, grads, buffers), (right, true, kept) = got, wanted
    assert torch.equal(out.spikes, right.spikes)
    for a, b in zip((*grads, *buffers), (*true, *kept), strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-5 * max(b.abs().max().item(), 1e-3))


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("kind", BLOCKS)
@settings(max_examples=15)
@given(
    layout=layouts(5), of_gradient=layouts(5), batch=st.sampled_from([1, B]), static=st.booleans(), mode=st.booleans()
)
def test_inputs_and_gradients_may_lie_anyhow(kind, backend, layout, of_gradient, batch, static, mode):
    torch.manual_seed(0)
    block = BLOCKS[kind]().train(mode)
    block.lif.backend = backend
    x = spikes(T, batch, C, SIDE, SIDE)
    weights = normal(*block(x).spikes.shape, seed=1)
    odd = laid_out(x, layout)
    steps = {"steps": T} if static else {}
    if static:
        x, odd = x[0], odd[0]
    rest = of_gradient if weights.dim() == 5 else ([d for d in of_gradient[0] if d < 3], *of_gradient[1:])
    strided = laid_out(weights, (rest[0], rest[1][: weights.dim()], rest[2], rest[3][: weights.dim()]))
    assert_same(learn(block, odd, strided, **steps), learn(block, x, weights, **steps))


@pytest.mark.parametrize("norm", [StepBatchNorm2d, SharedBatchNorm2d])
@pytest.mark.parametrize("plain", [False, True])
@given(
    layout=layouts(5), of_gradient=layouts(5), batch=st.sampled_from([1, B]), mode=st.booleans(), of_average=layouts(1)
)
def test_batch_norm_is_that_of_a_contiguous_input(norm, plain, layout, of_gradient, batch, mode, of_average):
    torch.manual_seed(0)
    layer = norm(C).train(mode)
    nn.init.normal_(layer.weight)
    x, weights = normal(T, batch, C, SIDE, SIDE) * 3, normal(T, batch, C, SIDE, SIDE, seed=1)
    options = {"plain": plain} if norm is StepBatchNorm2d else {}

    def run(x, grad, averages=None):
        twin = copy.deepcopy(layer)
        if averages:
            twin.running_mean, twin.running_var = (
                laid_out(twin.running_mean, averages),
                laid_out(twin.running_var, averages),
            )
        x = x.detach().requires_grad_()
        out = twin(x, **options)
        out.backward(grad)
        return [out.detach(), x.grad, twin.weight.grad, twin.bias.grad, twin.running_mean, twin.running_var]

    wanted = run(x, weights)
    for got in (run(laid_out(x, layout), weights), run(x, laid_out(weights, of_gradient)), run(x, weights, of_average)):
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_one_sample_with_its_channels_side_by_side_has_its_gradient():
    """As a view splits a channels-last batch into steps of one: gradients were off by 100 %."""
    torch.manual_seed(0)
    layer = StepBatchNorm2d(4)
    x, weights = normal(6, 1, 4, 5, 5), normal(6, 1, 4, 5, 5, seed=1)
    grads = []
    for each in (x, x.flatten(0, 1).to(memory_format=torch.channels_last).view(x.shape)):
        each = each.detach().requires_grad_()
        (layer(each, plain=True) * weights).sum().backward()
        grads.append(each.grad)
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("kind", ["conv, norm a step", "dense", "recurrent", "real conv, norm a step"])
@given(turned=st.permutations(range(4)))
def test_parameters_may_lie_anyhow(kind, turned):
    torch.manual_seed(0)
    block = BLOCKS[kind]()
    x = spikes(T, B, C, SIDE, SIDE)
    weights = normal(*block(x).spikes.shape, seed=1)
    other = copy.deepcopy(block)
    for module in other.modules():
        for name, p in list(module.named_parameters(recurse=False)):
            order = [d for d in turned if d < p.dim()]
            module._parameters[name] = nn.Parameter(laid_out(p.detach(), (order, [2] * p.dim(), 1, [3] * p.dim())))
    assert_same(learn(other, x, weights), learn(block, x, weights))


@given(
    layout=layouts(3), of_gradient=layouts(3), of_state=layouts(2), batch=st.sampled_from([1, 4]), static=st.booleans()
)
def test_a_scan_takes_currents_states_and_gradients_as_they_lie(backend, layout, of_gradient, of_state, batch, static):
    current, weights = normal(T, batch, 5), normal(T, batch, 5, seed=1)
    state = LIFState(normal(batch, 5, seed=2), spikes(batch, 5))

    def run(current, weights, state):
        current = current.detach().requires_grad_()
        u0 = state.membrane.detach().requires_grad_()
        out = lif(
            current, beta=0.5, theta=0.75, slope=0.7, state=LIFState(u0, state.spikes), backend=backend,
            **({"steps": T} if static else {}),
        )  # fmt: skip
        ((out.spikes * weights).sum() + (out.membrane * weights).sum()).backward()
        return out.spikes, out.membrane, current.grad, u0.grad

    odd = laid_out(current, layout)
    odd_state = LIFState(*(laid_out(part, of_state) for part in state[:2]))
    if static:
        current, odd = current[0], odd[0]
    got, wanted = run(odd, laid_out(weights, of_gradient), odd_state), run(current, weights, state)
    assert torch.equal(got[0], wanted[0])
    for a, b in zip(got[1:], wanted[1:], strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1), (2,)], ids=["in time", "over samples", "both", "over channels"])
def test_inputs_that_repeat_without_memory_are_as_if_copied(kind, backend, dims):
    torch.manual_seed(0)
    block = BLOCKS[kind]()
    block.lif.backend = backend
    x = spikes(T, B, C, SIDE, SIDE)
    for dim in dims:
        x = x.narrow(dim, 0, 1).expand(T, B, C, SIDE, SIDE)
    weights = normal(*block(x).spikes.shape, seed=1)
    assert_same(learn(block, x, weights), learn(block, x.clone(memory_format=torch.contiguous_format), weights))


@given(layout=layouts(3), of_weight=layouts(3))
def test_grouped_layers_take_what_lies_anyhow(layout, of_weight):
    x, w, b = normal(4, 2, 5), normal(2, 3, 5, seed=1), normal(2, 3, seed=2)

    def run(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        out = grouped_linear(x, w, b)
        (out * normal(4, 2, 3, seed=3)).sum().backward()
        return out.detach(), x.grad, w.grad

    for a, b_ in zip(run(laid_out(x, layout), laid_out(w, of_weight)), run(x, w), strict=True):
        torch.testing.assert_close(a, b_)
