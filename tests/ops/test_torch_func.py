"""torch.func goes through the definition: what it gives is what autograd gives; fast backends refuse."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from bitspike import Adaptation, binarize, build, count_loss, lif
from bitspike.train.losses import cross_entropy_loss

# PyTorch's forward mode loads rules of its own that it compiled so.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def scan(current, backend="reference", **options):
    return lif(current, beta=0.8, theta=1.0, theta_grad=1.2, slope=2.0, backend=backend, **options).spikes


OPTIONS = {
    "plain": {},
    "arctan": {"surrogate": "arctan"},
    "static": {"steps": 6},
    "recurrent": {"recurrent": normal(5, 5, seed=3)},
    "recurrent, a share of the gradient": {"recurrent": normal(5, 5, seed=3), "recurrent_grad": 0.3},
    "adaptive": {"adaptation": Adaptation(0.7, 0.5)},
}


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_transforms_of_the_scan_are_autograds(backend, options):
    x = normal(3, 5) if "steps" in options else normal(6, 3, 5)

    def f(current):
        return scan(current, backend, **options)

    weights, tangent = normal(6, 3, 5, seed=1), normal(*x.shape, seed=2)
    plain = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad((scan(plain, **options) * weights).sum(), plain, create_graph=True)
    assert wanted.abs().max() > 0.1
    torch.testing.assert_close(grad(lambda x: (f(x) * weights).sum())(x), wanted.detach())
    torch.testing.assert_close(vjp(f, x)[1](weights)[0], wanted.detach())
    out, moved = jvp(f, (x,), (tangent,))
    assert torch.equal(out, scan(x, **options))
    torch.testing.assert_close((moved * weights).sum(), (wanted * tangent).sum().detach())
    jacobian = jacrev(f)(x)
    torch.testing.assert_close(jacobian, jacfwd(f)(x))
    torch.testing.assert_close(torch.einsum("tbn,tbn...->...", weights, jacobian), wanted.detach())
    of_second = torch.autograd.grad(wanted.sum(), plain)[0]
    torch.testing.assert_close(hessian(lambda x: (f(x) * weights).sum())(x).flatten(x.dim()).sum(-1), of_second)


def test_a_batch_by_vmap_is_a_batch():
    x = normal(6, 4, 5)
    assert torch.equal(vmap(scan, in_dims=1, out_dims=1)(x.unsqueeze(2)).squeeze(2), scan(x))
    betas = torch.linspace(0.1, 0.9, 7, dtype=torch.float64)
    each = vmap(lambda beta: lif(x, beta=beta, theta=1.0, slope=2.0, backend="reference").spikes)(betas)
    for beta, one in zip(betas, each, strict=True):
        assert torch.equal(one, lif(x, beta=beta, theta=1.0, slope=2.0, backend="reference").spikes)


@pytest.mark.parametrize("clip", [None, 0.5])
def test_binary_weights_go_through(clip):
    w, x, tangent = normal(4, 5), normal(3, 5, seed=1), normal(4, 5, seed=2)

    def f(w):
        return (x @ binarize(w, clip).T).sin()

    plain = w.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(f(plain).sum(), plain)
    torch.testing.assert_close(grad(lambda w: f(w).sum())(w), wanted)
    torch.testing.assert_close(jvp(lambda w: f(w).sum(), (w,), (tangent,))[1], (wanted * tangent).sum())
    many = normal(6, 4, 5, seed=3)
    assert torch.equal(vmap(binarize)(many), binarize(many))


@pytest.mark.parametrize("loss", [count_loss, cross_entropy_loss])
@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("options", [{}, {"recurrent": True}, {"learn_beta": True}, {"adaptation": Adaptation(0.7, 1)}])
def test_gradients_of_each_sample_in_one_call(options, backend, loss):
    torch.manual_seed(0)
    net = build("30Dense20Dense5", theta=1.3, slope=0.5, backend=backend, **options)
    x, labels = (torch.rand(6, 4, 30) < 0.3).float(), torch.tensor([0, 1, 2, 3])

    def of_one(parameters, x, label):
        return loss(functional_call(net, parameters, (x.unsqueeze(1),)).spikes, label.unsqueeze(0))

    parameters = {name: p.detach() for name, p in net.named_parameters()}
    each = vmap(grad(of_one), in_dims=(None, 1, 0))(parameters, x, labels)
    for i in range(4):
        net.zero_grad()
        loss(net(x[:, i : i + 1]).spikes, labels[i : i + 1]).backward()
        for name, p in net.named_parameters():
            torch.testing.assert_close(each[name][i], p.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("norm", ["step", "shared"])
def test_a_network_with_batch_norm_has_its_gradient(norm):
    torch.manual_seed(0)
    net = build("3Conv3-AP2-12Dense4", (1, 6, 6), norm=norm, theta=0.5, slope=0.5)
    x, labels = (torch.rand(5, 4, 1, 6, 6) < 0.5).float(), torch.tensor([0, 1, 2, 3])
    kept = {name: buffer.clone() for name, buffer in net.named_buffers()}

    def loss(parameters):  # running averages move: torch.func wants them made inside
        buffers = {name: buffer.clone() for name, buffer in kept.items()}
        return count_loss(functional_call(net, {**parameters, **buffers}, (x,)).spikes, labels)

    got = grad(loss)({name: p.detach() for name, p in net.named_parameters()})
    count_loss(net(x).spikes, labels).backward()
    for name, p in net.named_parameters():
        assert p.grad.any()
        torch.testing.assert_close(got[name], p.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["torch", "c", "triton"])
@pytest.mark.parametrize("transform", [grad, lambda f: vmap(f, in_dims=1), lambda f: lambda x: jvp(f, (x,), (x,))])
def test_fast_backends_say_that_they_cannot(backend, transform):
    with pytest.raises(ValueError, match=r"torch\.func.*'reference' or 'auto'"):
        transform(lambda x: scan(x, backend).sum())(normal(6, 3, 5).float())
    net = build("5Dense4Dense3", backend=backend)
    with pytest.raises(ValueError, match=r"torch\.func.*'reference' or 'auto'"):
        transform(lambda x: net(x.view(6, -1, 5)).spikes.sum())(normal(6, 3, 5).float())


@pytest.mark.parametrize("backend", ["reference", "torch", "c", "auto"])
def test_dual_numbers_are_right_or_refused(backend):
    x, tangent = normal(6, 3, 5).float(), normal(6, 3, 5, seed=1).float()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        if backend != "reference":
            with pytest.raises(RuntimeError, match="forward"):
                scan(dual, backend)
            return
        moved = forward_ad.unpack_dual(scan(dual, backend)).tangent
    torch.testing.assert_close(moved, jvp(scan, (x,), (tangent,))[1])
