"""Batch norm of all steps at once is the definition, by plain passes and in Triton's kernels."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from bitspike.ops.norm.reference import Averages
from bitspike.ops.norm.torch import _fit_kernels, step_norm

pytest.importorskip("triton")
from helpers.kernels import DEVICE, GPU, off

SHAPES = [
    (6, 3, 4, 5, 5),
    (2, 40, 2, 1, 2),
    (2, 17, 70, 4, 4),
    (66, 2, 1, 3, 1),
    (1, 4, 1, 12, 12),
    (5, 2, 65, 3, 2),
    (3, 1, 5, 4, 3),
]
KERNELS = pytest.mark.parametrize("kernels", [False, True])


def numbers(shape, seed=0, mean=1.0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE) * 3 + mean


def parameters(channels):
    """Weight, bias, running mean and variance that are not their defaults."""
    weight, bias, mean, spread = numbers((4, channels), seed=1).unbind()
    return weight.clone(), bias.clone(), mean.clone(), spread.square()


def loop(x, weight, bias, averages, eps):
    return torch.stack([
        F.batch_norm(step, averages.mean, averages.variance, weight, bias, True, averages.momentum, eps) for step in x
    ])  # fmt: skip


def outcome(norm, x, momentum=0.1, eps=1e-5, dtype=torch.float32, **kwargs):
    """Output, gradients of x, weight and bias, running mean and variance."""
    weight, bias, mean, variance = (part.to(dtype) for part in parameters(x.shape[2]))
    leaves = [x.clone().requires_grad_(), weight.requires_grad_(), bias.requires_grad_()]
    averages = Averages(mean, variance, momentum)
    out = norm(*leaves, averages, eps, **kwargs)
    (out.to(dtype) * numbers(x.shape, seed=2).to(dtype)).sum().backward()
    return {
        "out": out.detach(), "x": leaves[0].grad, "weight": leaves[1].grad, "bias": leaves[2].grad,
        "mean": averages.mean, "variance": averages.variance,
    }  # fmt: skip


@KERNELS
@pytest.mark.parametrize(
    ("shape", "momentum"),
    [
        *((shape, 0.37) for shape in SHAPES),
        *((shape, 2**-24) for shape in SHAPES[:2]),
        *(pytest.param(shape, 2**-24, marks=pytest.mark.slow) for shape in SHAPES[2:]),
    ],
)
@pytest.mark.usefixtures("poisoned")
def test_all_steps_at_once_are_a_call_each(shape, momentum, kernels):
    x = numbers(shape)
    wanted = outcome(loop, x.double(), momentum, dtype=torch.float64)
    got = outcome(step_norm, x, momentum, kernels=kernels)
    for name, value in got.items():
        assert value.dtype == torch.float32
        near = 1e-6 if name in ("out", "mean", "variance") else 3e-6  # gradients are sums that cancel
        assert off(value.double(), wanted[name]) < near, name


@KERNELS
def test_a_mean_far_from_zero_does_not_drown_the_spread(kernels):
    x = numbers((3, 9, 2, 4, 4), mean=3000.0)
    wanted = outcome(loop, x.double(), dtype=torch.float64)
    got = outcome(step_norm, x, kernels=kernels)
    assert off(got["out"].double(), wanted["out"]) < 1e-4
    assert off(got["variance"].double(), wanted["variance"]) < 1e-4


@KERNELS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_only_stores(kernels, dtype):
    x = numbers((2, 17, 3, 4, 4)).to(dtype)
    wanted = outcome(loop, x.double(), dtype=torch.float64)
    got = outcome(step_norm, x, kernels=kernels)
    assert got["out"].dtype == got["x"].dtype == dtype
    stored = 2**-8 if dtype == torch.bfloat16 else 2**-11
    for name, value in got.items():
        # the gradient that comes in is rounded, too; the averages see x alone
        near = 1e-6 if name in ("mean", "variance") else stored
        assert off(value.double(), wanted[name]) < near, name


@KERNELS
def test_averages_need_not_be_kept(kernels):
    x = numbers((3, 4, 2, 3, 3))
    weight, bias, *_ = parameters(2)
    kept = weight.clone()
    out = step_norm(x, weight, bias, Averages(None, None, 0.1), 1e-5, kernels=kernels)
    assert off(out, loop(x, weight, bias, Averages(None, None, 0.1), 1e-5)) < 1e-6
    assert torch.equal(weight, kept)


@KERNELS
def test_strided_inputs_and_repeated_gradients(kernels):
    x = numbers((2, 3, 4, 4, 5)).permute(0, 1, 4, 2, 3)
    weight, bias, *_ = parameters(5)
    grads = []
    for norm in (lambda *a: step_norm(*a, kernels=kernels), loop):
        leaf = x.clone(memory_format=torch.preserve_format).requires_grad_()
        out = norm(leaf, weight, bias, Averages(None, None, 0.1), 1e-5)
        (out[0] ** 3).sum().backward()
        grads.append(leaf.grad)
    assert off(*grads) < 2e-6
    leaf = x.clone().requires_grad_()
    step_norm(leaf, weight, bias, Averages(None, None, 0.1), 1e-5, kernels=kernels).sum().backward()
    assert leaf.grad.abs().max() < 1e-5


def test_gradients_are_those_of_the_formula():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(3, 2, 2, 2, 3, generator=g, dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.randn(2, generator=g, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(
        lambda *leaves: step_norm(*leaves, Averages(None, None, 0.1), 1e-5), (x, weight, bias)
    )


@given(st.integers(1, 40), st.floats(0, 1))
def test_t_moves_of_an_average_have_a_closed_form(steps, momentum):
    x = torch.randn(steps, 3, 2, 2, 1, generator=torch.Generator().manual_seed(steps), dtype=torch.float64)
    one, two = (Averages(torch.full((2,), 5.0).double(), torch.full((2,), 7.0).double(), momentum) for _ in range(2))
    ones, zeros = torch.ones(2).double(), torch.zeros(2).double()
    step_norm(x, ones, zeros, one, 1e-5)
    loop(x, ones, zeros, two, 1e-5)
    torch.testing.assert_close(one.mean, two.mean)
    torch.testing.assert_close(one.variance, two.variance)


def test_the_same_numbers_every_time():
    x = numbers((2, 17, 3, 4, 4))
    first, again = (outcome(step_norm, x, kernels=True) for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_kernels_take_what_they_can():
    x, (weight, bias, mean, variance) = numbers((2, 2, 2, 2, 2)), parameters(2)
    assert _fit_kernels(x, weight, bias, Averages(mean, variance, 0.1))
    assert _fit_kernels(x.half(), weight, bias, Averages(None, None, 0.1))
    assert not _fit_kernels(x.double(), weight, bias, Averages(None, None, 0.1))
    assert not _fit_kernels(x, weight, bias, Averages(mean, variance.double(), 0.1))
    assert not _fit_kernels(x, weight.half(), bias, Averages(mean, variance, 0.1))
    assert not _fit_kernels(x, weight, bias, Averages(mean, variance, 1.0))


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_on_a_gpu_kernels_and_plain_passes_agree():
    x = numbers((100, 128, 64, 4, 4))
    kernels, plain = (outcome(step_norm, x, kernels=use) for use in (None, False))
    assert all(off(kernels[name], plain[name]) < 1e-5 for name in kernels)
