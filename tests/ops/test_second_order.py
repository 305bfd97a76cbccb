"""Second derivatives: the definition's are those of a plain loop; a fast path's are an error, never a wrong number."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad

from bitspike import Adaptation, binarize, build, count_loss, delay, lif
from bitspike.nn import StepBatchNorm2d
from bitspike.ops import soften
from bitspike.ops.chain import c as dense_kernels
from bitspike.ops.native.library import library
from bitspike.ops.norm.reference import Averages
from bitspike.ops.norm.torch import step_norm
from bitspike.ops.product.conv_pool import conv_pool
from bitspike.ops.product.grouped import grouped_linear
from bitspike.train.losses import cross_entropy_loss

REFUSED = 'backend="reference"'
PRIMITIVES = {
    "fast_sigmoid": lambda d, k: d / (1 + k * d.abs()),
    "arctan": lambda d, k: torch.atan(k * d) / k,
}


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def loop(current, beta, theta, center, slope, surrogate, recurrent=None, adaptation=None):
    """Eq. 1-2, with spikes that are their surrogate's primitive to autograd: derivatives of any order are right."""
    u = z = a = torch.zeros_like(current[0])
    out = []
    rho, strength = adaptation or (0.0, 0.0)
    for i in current.unbind():
        u = beta * u + i - ((theta + strength * a) * z).detach()
        if recurrent is not None:
            u = u + z @ recurrent.T
        a = rho * a + (1 - rho) * z
        smooth = PRIMITIVES[surrogate](u - (center + strength * a), slope)
        z = smooth + ((u >= theta + strength * a).to(u.dtype) - smooth).detach()
        out.append(z)
    return torch.stack(out)


def second(function, *inputs):
    """The gradients of |gradient|**2 + the gradient's sum: of first and of second order in one."""
    inputs = [x.clone().requires_grad_() for x in inputs]
    out = function(*inputs)
    weights = normal(*out.shape, seed=9).to(out.dtype)
    first = torch.autograd.grad((out * weights).sum(), inputs, create_graph=True)
    total = sum((g.pow(2).sum() + g.sum()) for g in first)
    return [*first, *torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)]


def assert_same(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("surrogate", PRIMITIVES)
@pytest.mark.parametrize("kind", ["plain", "recurrent", "adaptive"])
def test_the_definition_of_lif_has_right_second_derivatives(kind, surrogate):
    w, x, beta = normal(4, 5), normal(6, 3, 5, seed=1), torch.full((4,), 0.8, dtype=torch.float64)
    recurrent = normal(4, 4, seed=2) if kind == "recurrent" else None
    adaptation = (0.7, 0.5) if kind == "adaptive" else None

    def ours(w, x, beta, *v):
        return lif(
            x @ w.T, beta=beta, theta=1.0, theta_grad=1.2, slope=2.0, surrogate=surrogate, backend="reference",
            recurrent=v[0] if v else None, adaptation=Adaptation(*adaptation) if adaptation else None,
        ).spikes  # fmt: skip

    def theirs(w, x, beta, *v):
        return loop(x @ w.T, beta, 1.0, 1.2, 2.0, surrogate, v[0] if v else None, adaptation)

    inputs = (w, x, beta) if recurrent is None else (w, x, beta, recurrent)
    got = second(ours, *inputs)
    assert got[-1].abs().max() > 0.1
    assert_same(got, second(theirs, *inputs))


@pytest.mark.parametrize("clip", [None, 0.7])
def test_binary_weights_have_right_second_derivatives(clip):
    def theirs(w):
        through = w if clip is None else w * (w.abs() <= clip)
        return through + (torch.where(w < 0, -1.0, 1.0) - through).detach()

    w, x = normal(4, 5), normal(3, 5, seed=1)
    assert_same(
        second(lambda w, x: (x @ binarize(w, clip).T).sin(), w, x), second(lambda w, x: (x @ theirs(w).T).sin(), w, x)
    )


def test_soft_weights_have_right_second_derivatives():
    hardness = torch.tensor(1.5, dtype=torch.float64)

    def theirs(w):
        soft = torch.tanh(1.5 * w)
        return soft / soft.square().mean().sqrt()

    assert_same(second(lambda w: soften(w, hardness), normal(4, 5)), second(theirs, normal(4, 5)))
    assert torch.autograd.gradgradcheck(lambda w: soften(w, hardness), normal(3, 3).requires_grad_())


@pytest.mark.parametrize("loss", [count_loss, cross_entropy_loss])
@pytest.mark.parametrize("norm", [None, "step", "shared"])
def test_a_reference_network_has_right_second_derivatives(loss, norm):
    net = build("3Conv3-AP2-12Dense4", (1, 6, 6), theta=0.5, slope=1.5, norm=norm, backend="reference").double()
    conv, dense = net.layers
    x, labels = normal(5, 3, 1, 6, 6, seed=1), torch.tensor([0, 1, 2])

    def straight(w):
        return w + (torch.where(w < 0, -1.0, 1.0) - w).detach()

    def theirs(w, gamma, v, b, x):
        current = F.avg_pool2d(F.conv2d(x.flatten(0, 1), straight(w)), 2).view(5, 3, 3, 2, 2)
        if norm == "step":
            current = torch.stack([F.batch_norm(step, None, None, gamma, None, True) for step in current.unbind()])
        elif norm:
            current = F.batch_norm(current.flatten(0, 1), None, None, gamma, None, True).view_as(current)
        spikes = loop(current, 0.9, 0.5, 0.5, 1.5, "fast_sigmoid").flatten(2)
        return loss(loop(spikes @ straight(v).T + b, 0.9, 0.5, 0.5, 1.5, "fast_sigmoid"), labels)

    def ours(w, gamma, v, b, x):
        for module, name, value in (
            (conv.synapse, "weight", w), (dense.synapse, "weight", v), (dense.synapse, "bias", b),
            *([(conv.norm, "weight", gamma)] if norm else []),
        ):  # fmt: skip
            module._parameters[name] = value
        return loss(net(x).spikes, labels)

    net.layers[0].lif._buffers["_beta"].fill_(0.9)
    net.layers[1].lif._buffers["_beta"].fill_(0.9)
    inputs = [conv.synapse.weight, torch.ones(3).double(), dense.synapse.weight, dense.synapse.bias, x]
    inputs = [value.detach().clone() for value in inputs]
    if not norm:  # gamma is then not part of the loss
        got, wanted = (
            [second(lambda w, v, b, x, f=f: f(w, None, v, b, x), inputs[0], *inputs[2:])] for f in (ours, theirs)
        )
        assert_same(*got, *wanted)
    else:
        assert_same(second(ours, *inputs), second(theirs, *inputs))


@pytest.mark.parametrize("backend", ["reference", "torch", "c", "auto"])
def test_the_case_that_was_wrong(backend):
    """`reference` gave 73.9, the others 51.8 without a word."""
    x, w = normal(7, 3, 5, dtype=torch.float32).requires_grad_(), normal(4, 5, dtype=torch.float32).requires_grad_()
    out = lif(x @ w.T, beta=0.9, theta=1.0, slope=2.0, backend=backend).spikes
    (first,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    if backend != "reference":
        with pytest.raises(RuntimeError, match=REFUSED):
            first.pow(2).sum().backward()
        return
    first.pow(2).sum().backward()
    (plain,) = torch.autograd.grad(loop(x @ w.T, 0.9, 1.0, 1.0, 2.0, "fast_sigmoid").sum(), x, create_graph=True)
    torch.testing.assert_close(w.grad, torch.autograd.grad(plain.pow(2).sum(), w)[0])


def spikes(*shape):
    return (normal(*shape, dtype=torch.float32) > 0.8).float()


def network(notation, shape, x, **options):
    torch.manual_seed(0)
    net = build(notation, shape, theta=1.3, slope=0.5, **options)
    x = x.requires_grad_()
    return net(x).spikes, [x, *net.parameters()]


def functions():
    """Of every autograd function written by hand: what it gives, and what that depends on."""

    def tensors(*values):
        return [value.requires_grad_() for value in values]

    def scan(backend, **options):
        x, w = tensors(normal(6, 3, 5, dtype=torch.float32), normal(40, 5, dtype=torch.float32))
        out = lif(x @ w.T, beta=0.9, theta=1.0, slope=2.0, backend=backend, **options)
        return out.spikes, [x, w]

    def norm(kernel):
        x, w, b = tensors(normal(4, 3, 2, 5, 5, dtype=torch.float32), torch.ones(2), torch.zeros(2))
        return kernel(x.exp(), w, b), [x, w, b]

    def stepwise(x, w, b):
        return step_norm(x, w, b, Averages(None, None, 0.1), 1e-5)

    def in_c(x, w, b):
        layer = StepBatchNorm2d(2)
        layer._parameters.update(weight=w, bias=b)
        return layer(x)

    def real():
        x, w = tensors(normal(3, 2, 8, 8, dtype=torch.float32), normal(4, 2, 3, 3, dtype=torch.float32))
        return conv_pool(x, w, None, 2), [x, w]

    def grouped():
        x, w = tensors(normal(6, 2, 5, dtype=torch.float32), normal(2, 4, 5, dtype=torch.float32))
        return grouped_linear(x, w, torch.zeros(2, 4)), [x, w]

    weights = normal(40, 40, seed=4, dtype=torch.float32)
    return {
        "torch": lambda: scan("torch"),
        "torch, recurrent": lambda: scan("torch", recurrent=weights),
        "torch, adaptive": lambda: scan("torch", adaptation=Adaptation(0.7, 0.5)),
        "c": lambda: scan("c"),
        "triton": lambda: scan("triton"),
        "triton, recurrent": lambda: scan("triton", recurrent=weights),
        "triton, adaptive": lambda: scan("triton", adaptation=Adaptation(0.7, 0.5)),
        "norm in passes": lambda: norm(stepwise),
        "norm in C": lambda: norm(in_c),
        "conv and pool": real,
        "grouped": grouped,
        "dense layer in C": lambda: network("30Dense20Dense5", (30,), spikes(6, 3, 30)),
        "dropout in C": lambda: network("30Dense20Dense5", (30,), spikes(6, 3, 30), dropout=0.3),
        "convolution in C": lambda: network("3Conv3-AP2-12Dense5", (2, 6, 6), spikes(6, 3, 2, 6, 6)),
        "fused chain": lambda: fused("counts"),
        "fused chain on images": lambda: fused("image"),
        "fused dropout": lambda: fused("dropout"),
        "fused loss": lambda: fused("loss"),
    }


def fused(kind):
    from bitspike.nn.fast import triton as chain
    from helpers.kernels import DEVICE

    if kind == "dropout":
        from bitspike.ops.dropout.triton import dropout

        x = normal(5, 3, 8, dtype=torch.float32).to(DEVICE).requires_grad_()
        return dropout(x.exp(), 0.3, torch.tensor(3, device=DEVICE), 1), [x]
    if kind == "loss":
        from bitspike.ops.loss.triton import count_loss as in_a_kernel

        x = normal(5, 3, 8, dtype=torch.float32).to(DEVICE).requires_grad_()
        return in_a_kernel(x.exp(), torch.arange(3, device=DEVICE), 4, 1)[0], [x]
    torch.manual_seed(0)
    if kind == "counts":
        net, x = build("30Dense20Dense5", theta=1.3).to(DEVICE), spikes(6, 3, 30).byte().to(DEVICE)
    else:
        net, x = (
            build("3Conv3-AP2-4Conv2-16Dense5", (1, 8, 8), theta=0.5, steps=6).to(DEVICE),
            spikes(3, 1, 8, 8).to(DEVICE),
        )
    out, _ = chain.run(list(net.layers), x, net._steps(x, None), recompute=False)
    return out.spikes, list(net.parameters())


NEEDS = {"c": "c", "norm in C": "c", "dense layer in C": "c", "dropout in C": "c", "convolution in C": "c"}


@pytest.mark.parametrize(
    "of", [0, pytest.param(1, marks=pytest.mark.slow), 2], ids=["first input", "another input", "incoming gradient"]
)
@pytest.mark.parametrize("name", functions())
def test_a_second_derivative_of_a_fast_path_is_refused(monkeypatch, name, of):
    monkeypatch.setattr(dense_kernels, "BUSY", 1e9)
    if name.startswith(("triton", "fused")):
        pytest.importorskip("triton")
        if name.startswith("triton") and torch.cuda.is_available():
            pytest.skip("kernels are not interpreted where there is a GPU")
    if NEEDS.get(name) == "c" and library() is None:
        pytest.skip("no C compiler here")
    out, inputs = functions()[name]()
    incoming = torch.ones_like(out).requires_grad_(of == 2)
    first = torch.autograd.grad(out, inputs, incoming, create_graph=True, allow_unused=True)
    found = [g for g in first if g is not None]
    assert all(g.isfinite().all() for g in found)  # with create_graph alone, all is as ever
    towards = incoming if of == 2 else inputs[min(of, len(inputs) - 1)]
    with pytest.raises(RuntimeError, match=REFUSED):
        torch.autograd.grad(sum(g.pow(2).sum() for g in found), towards)


@pytest.mark.parametrize("name", ["torch", "c", "dense layer in C", "convolution in C", "norm in C"])
def test_create_graph_alone_changes_no_gradient(name):
    if NEEDS.get(name) == "c" and library() is None:
        pytest.skip("no C compiler here")
    grads = []
    for create in (False, True):
        out, inputs = functions()[name]()
        grads.append(torch.autograd.grad(out.sum(), inputs, create_graph=create, allow_unused=True))
    for a, b in zip(*grads, strict=True):
        assert a is b is None or torch.equal(a, b)


def test_what_a_graph_keeps_alive_is_let_go():
    """The link from a gradient to its function's inputs is no cycle: without one, memory goes with the last name."""
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        x = normal(6, 3, 5, dtype=torch.float32).requires_grad_()
        current = x * 2
        gone = weakref.ref(current)
        out = lif(current, beta=0.9, theta=1.0, slope=2.0, backend="torch")
        del current
        assert gone() is None  # nothing of the input but its graph
        node = weakref.ref(out.spikes.grad_fn)
        out.spikes.sum().backward()
        del out
        assert node() is None
    finally:
        gc.enable()


def test_modules_may_hold_a_penalty_on_gradients_of_other_parts():
    """create_graph=True for one part of a model must not break another part that is fast."""
    torch.manual_seed(0)
    net, other = build("30Dense20Dense5", theta=1.3), nn.Linear(30, 1)
    x = spikes(6, 3, 30).requires_grad_()
    smooth = other(x).sin().sum()
    (first,) = torch.autograd.grad(smooth, x, create_graph=True)
    (net(x.detach()).spikes.sum() + first.pow(2).sum()).backward()
    assert other.weight.grad.any()
    assert net.layers[0].synapse.weight.grad.any()


@pytest.mark.skipif(library() is None, reason="no C compiler here")
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # PyTorch's own, at first
@pytest.mark.parametrize("width", [None, 0.7])
def test_batches_of_gradients_and_forward_mode_are_refused_with_advice(width):
    x, delays = normal(5, 2, 3, dtype=torch.float32), torch.tensor([0.0, 1.5, 3.0])

    def run(spikes):
        return delay(spikes, delays, longest=3, width=width)

    with pytest.raises(RuntimeError, match=f"one gradient at a time, but got a batch of them; .*{REFUSED}"):
        torch.autograd.functional.jacobian(run, x, vectorize=True)
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match=f"no forward-mode .*{REFUSED}"):
        run(forward_ad.make_dual(x, x))
    torch.autograd.functional.jacobian(run, x)
