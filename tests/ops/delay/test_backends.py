"""Fast delays equal the definition: outputs bit for bit in C, gradients to float32's rounding of the float64 ones."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import functional_call, grad, jvp, vmap

from bitspike import Delay, delay
from bitspike.ops.delay import c as delay_c
from helpers.delays import SHAPES, calls, learn

# PyTorch's forward mode loads rules of its own that it compiled so.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

ROUNDING = 2e-6  # of the largest: gradients are sums of up to a few hundred float32 products


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def assert_equals_the_definition(call, fast):
    incoming = normal(*call["spikes"].shape, seed=1)
    out, grads = learn(call, incoming, backend=fast)
    wanted, _ = learn(call, incoming, backend="reference")
    _, exact = learn(call, incoming, torch.float64, backend="reference")
    if fast == "c" or call["width"] is None:
        assert torch.equal(out, wanted)
    else:
        torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-6)
    assert grads.keys() == exact.keys()
    for name, right in exact.items():
        if call["width"] is None:
            assert torch.equal(grads[name].double(), right), name
        elif right.numel():
            # The gradient of a delay is a difference of taps over a width: its terms are as large as that.
            terms = incoming.abs().sum() / call["width"] if name == "delays" else 1
            bound = ROUNDING * max(right.abs().max().item(), float(terms), 1)
            assert (grads[name].double() - right).abs().max() <= bound, name


@given(call=calls())
def test_it_is_the_definition(fast, call):
    assert_equals_the_definition(call, fast)


@pytest.mark.parametrize("width", [None, 2.0])
@pytest.mark.parametrize("shape", [(5, 2, 33), (130, 9, 70), (7, 3, 5, 4, 3), (100, 1, 31)])
@pytest.mark.parametrize("with_past", [True, False])
def test_blocks_and_parts_of_any_size(fast, poisoned, shape, width, with_past):
    """Whole blocks of columns and a rest, more samples than threads; memory shows what is not written."""
    call = {
        "spikes": normal(*shape).gt(0.5).float(),
        "delays": torch.rand(shape[2]) * 11,
        "longest": 11,
        "past": normal(11, *shape[1:], seed=3) if with_past else None,
        "width": width,
    }
    assert_equals_the_definition(call, fast)


@pytest.mark.parametrize("longest", [49, 50, 51, 120])
@pytest.mark.parametrize("steps", [1, 49, 99, 100, 101, 151])
def test_products_of_matrices_cover_every_step(steps, longest):
    call = {"spikes": normal(steps, 1, 2), "delays": torch.tensor([0.0, longest - 0.5]), "longest": longest}
    assert_equals_the_definition(call | {"past": normal(longest, 1, 2), "width": 3.0}, "torch")


@pytest.mark.parametrize(
    ("name", "width"), [("spikes", None), ("past", None), ("spikes", 0.8), ("past", 0.8), ("delays", 0.8)]
)
def test_a_gradient_alone_is_the_one_among_all(fast, name, width):
    call = {"spikes": normal(7, 3, 40), "delays": torch.rand(40) * 4, "longest": 4, "past": normal(4, 3, 40, seed=2)}
    incoming = normal(7, 3, 40, seed=1)
    _, grads = learn(call | {"width": width}, incoming, backend=fast)
    alone = call[name].clone().requires_grad_()
    delay(**call | {name: alone}, width=width, backend=fast).backward(incoming)
    torch.testing.assert_close(alone.grad, grads[name])


def test_threads_change_no_bit():
    call = {"spikes": normal(50, 20, 40), "delays": torch.rand(40) * 6, "longest": 6, "past": None, "width": 1.5}
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(learn(call, normal(50, 20, 40, seed=1)))
    finally:
        torch.set_num_threads(before)
    for out, grads in found[1:]:
        assert torch.equal(out, found[0][0])
        assert all(torch.equal(grads[name], found[0][1][name]) for name in grads)


@given(shape=st.sampled_from(SHAPES), order=st.permutations(range(5)), width=st.sampled_from([None, 0.8]))
def test_inputs_and_gradients_may_lie_anyhow(fast, shape, order, width):
    def laid_out(x):
        turned = [d for d in order if d < x.dim()]
        return x.permute(turned).contiguous().permute([turned.index(d) for d in range(x.dim())])

    call = {"spikes": normal(6, *shape), "delays": torch.rand(shape[1]) * 3, "longest": 3, "width": width}
    call["past"] = normal(3, *shape, seed=2)
    incoming = normal(6, *shape, seed=1)
    out, grads = learn(call, incoming, backend=fast)
    turned = {n: laid_out(v) if isinstance(v, torch.Tensor) else v for n, v in call.items()}
    got, found = learn(turned, laid_out(incoming), backend=fast)
    assert torch.equal(got, out)
    for name in grads:
        torch.testing.assert_close(found[name], grads[name], rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("mode", [True, False])
def test_a_layer_on_a_gpu_is_that_on_the_cpu_and_nothing_waits(mode):
    made, incoming = Delay(40, 7).train(mode), normal(30, 6, 40, seed=1)
    found = {}
    for device in ("cpu", "cuda"):
        layer, given = copy.deepcopy(made).to(device), incoming.to(device)
        moved = normal(30, 6, 40).to(device).requires_grad_()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error" if device == "cuda" else "default")
        try:
            out = layer(moved)
            out.backward(given)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        found[device] = [out, moved.grad, *([layer.delays.grad] if mode else []), layer.state]
    for ours, right in zip(found["cuda"], found["cpu"], strict=True):
        torch.testing.assert_close(ours.cpu(), right, rtol=1e-4, atol=1e-4 if mode else 0)


# ---- The choice of a backend


def test_float32_on_the_cpu_runs_in_c_and_all_else_does_not(monkeypatch):
    if delay_c.refusal(torch.rand(2, 1, 1)) is not None:
        pytest.skip("no C compiler here")
    ran, shifted, filtered = [], delay_c.shifted, delay_c.filtered
    monkeypatch.setattr(delay_c, "shifted", lambda *a: ran.append(1) or shifted(*a))
    monkeypatch.setattr(delay_c, "filtered", lambda *a: ran.append(1) or filtered(*a))

    def in_c(dtype=torch.float32, width=None):
        ran.clear()
        delay(torch.rand(5, 2, 3, dtype=dtype), torch.ones(3), width=width)
        return bool(ran)

    assert in_c()
    assert in_c(width=0.5)
    assert not in_c(torch.float64)
    assert not in_c(torch.float64, 0.5)
    monkeypatch.setenv("BITSPIKE_BACKEND", "reference")
    assert not in_c()
    assert not in_c(width=0.5)
    monkeypatch.setenv("BITSPIKE_BACKEND", "triton")  # of the scan: a delay that has none goes on
    assert not in_c(width=0.5)


@pytest.mark.parametrize("width", [None, 0.5])
@pytest.mark.parametrize(
    ("backend", "spikes", "says"),
    [
        ("c", torch.zeros(4, 2, 3, dtype=torch.float64), "the numbers are torch.float64, not float32"),
        ("c", torch.zeros(4, 2, 3, device="meta"), "the spikes are on meta"),
    ],
)
def test_a_backend_that_cannot_says_why(backend, spikes, says, width):
    delays = torch.ones(3, device=spikes.device)
    with pytest.raises(ValueError, match=f"^delay: backend {backend!r} cannot run this call: {says}.*; use 'auto'$"):
        delay(spikes, delays, longest=2, width=width, backend=backend)


@pytest.mark.parametrize("width", [None, 0.5])
def test_a_second_derivative_in_c_is_refused(width):
    spikes = normal(5, 2, 3).requires_grad_()
    if delay_c.refusal(spikes) is not None:
        pytest.skip("no C compiler here")
    out = delay(spikes.exp(), torch.ones(3), width=width, longest=2, backend="c")
    (first,) = torch.autograd.grad(out.sum(), spikes, create_graph=True)
    with pytest.raises(RuntimeError, match='backend="reference"'):
        torch.autograd.grad(first.square().sum(), spikes)


@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_second_derivatives_are_finite_differences(backend):
    spikes = normal(5, 2, 3).double().requires_grad_()
    delays = torch.tensor([0.3, 1.5, 2.6], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda spikes, delays: delay(spikes, delays, longest=3, width=0.7, backend=backend), (spikes, delays)
    )


# ---- torch.func


@pytest.mark.parametrize("width", [None, 0.5])
@pytest.mark.parametrize("backend", ["torch", "c"])
def test_fast_backends_refuse_transforms(backend, width):
    with pytest.raises(ValueError, match=r"^delay: .*torch\.func.*'reference' or 'auto'"):
        grad(lambda x: delay(x, torch.ones(3), longest=2, width=width, backend=backend).sum())(normal(5, 2, 3))


def test_a_transform_needs_the_longest_delay():
    with pytest.raises(ValueError, match=r"^delay: longest must be given within a transform of torch\.func"):
        grad(lambda d: delay(normal(5, 2, 3), d, width=1.0).sum())(torch.ones(3))


@pytest.mark.parametrize("width", [None, 0.5])
def test_transforms_are_autograds(width):
    spikes, delays, weights = normal(5, 2, 3), torch.tensor([0.3, 1.5, 2.6]), normal(5, 2, 3, seed=1)

    def f(spikes, delays):
        return (delay(spikes, delays, longest=3, width=width) * weights).sum()

    leaves = spikes.clone().requires_grad_(), delays.clone().requires_grad_()
    wanted = torch.autograd.grad(f(*leaves), leaves, allow_unused=True, materialize_grads=True)
    for got, right in zip(grad(f, (0, 1))(spikes, delays), wanted, strict=True):
        torch.testing.assert_close(got, right)
    tangent = normal(5, 2, 3, seed=2)
    torch.testing.assert_close(jvp(lambda x: f(x, delays), (spikes,), (tangent,))[1], (wanted[0] * tangent).sum())
    each = vmap(lambda x: delay(x.unsqueeze(1), delays, longest=3, width=width), in_dims=1, out_dims=1)(spikes)
    torch.testing.assert_close(each.squeeze(2), delay(spikes, delays, longest=3, width=width))


@pytest.mark.parametrize("width", [None, 0.5])
def test_delays_that_must_not_be_read_are_clamped(width):
    """Within a transform as on a GPU: no check looks at them, and none reads memory that is not its own."""
    spikes, strayed = normal(5, 2, 3), torch.tensor([[-7.0, 1.4, 99.0], [0.6, -0.1, 3.2]])
    found = vmap(lambda delays: delay(spikes, delays, longest=3, width=width))(strayed)
    for ours, delays in zip(found, strayed.clamp(0, 3), strict=True):
        torch.testing.assert_close(ours, delay(spikes, delays, longest=3, width=width))


@pytest.mark.parametrize("mode", [True, False])
def test_a_layer_within_a_transform_has_its_gradient_and_keeps_no_state(mode):
    layer, x = Delay(3, 4).train(mode), normal(6, 2, 3)
    layer(x)
    strayed = {"delays": torch.tensor([-1.0, 2.3, 3.0])}
    got = grad(lambda p: (functional_call(layer, p, (x,)) ** 2).sum())(strayed)["delays"]
    assert layer.state is None
    assert strayed["delays"][0] == -1
    if mode:
        layer.delays.data = torch.tensor([0.0, 2.3, 3.0])
        (layer(x) ** 2).sum().backward()
        torch.testing.assert_close(got[1:], layer.delays.grad[1:])
    else:
        assert not got.any()
