"""Gradients stay the same where hooks of autograd return saved tensors in another order in memory."""

from contextlib import nullcontext

import pytest
import torch

from bitspike import lif

pytest.importorskip("triton")
from bitspike.ops.delay.triton import hard, soft
from bitspike.ops.norm.reference import Averages
from bitspike.ops.norm.torch import step_norm
from helpers.chains import BEST, batch, network, outputs
from helpers.kernels import DEVICE, off, rand

CONV = "3Conv3-AP2-48Dense12Dense5"


def turned(tensor):
    """The same numbers, the last dimension outermost in memory."""
    if tensor.dim() < 2:
        return torch.stack([tensor, tensor], -1)[..., 0]
    return tensor.transpose(0, -1).contiguous().transpose(0, -1)


def delayed(keeping, run):
    x, delays = rand(9, 2, 5, seed=1).requires_grad_(), (rand(5, seed=2) * 4).requires_grad_()
    with keeping:
        out = run(x, delays)
    return torch.autograd.grad(out, (x, delays), rand(9, 2, 5, seed=3) - 0.5, allow_unused=True)


def scanned(keeping, neurons=5, **options):
    current = (rand(9, 3, neurons, seed=4) * 2 - 0.3).requires_grad_()
    beta = torch.full((neurons,), 0.8, device=DEVICE, requires_grad=True)
    with keeping:
        out = lif(current, beta=beta, theta=1.0, slope=0.5, backend="triton", **options)
    return torch.autograd.grad((out.spikes * rand(9, 3, neurons, seed=5)).sum(), (current, beta))


def normed(keeping):
    x, scale = rand(4, 3, 2, 5, 5).requires_grad_(), rand(2, seed=1).requires_grad_()
    with keeping:
        out = step_norm(x, scale, torch.zeros_like(scale), Averages(None, None, 0.1), 1e-5, kernels=True)
    return torch.autograd.grad(out, (x, scale), rand(*out.shape, seed=2))


def fused(keeping, kind, notation="14-40-36-5", shape=(14,), **settings):
    net = network(notation, shape, **settings)
    with keeping:
        out, _ = outputs(net, batch(kind, shape))
    (out.membrane if net.readout == "membrane" else out.spikes).square().sum().backward()
    return [p.grad for p in net.parameters()]


FUNCTIONS = {
    "soft delays": lambda k: delayed(k, lambda x, delays: soft(x, delays, 4, torch.tensor(1.0, device=DEVICE))),
    "whole delays": lambda k: delayed(k, lambda x, delays: hard(x, delays.round().int())),
    "scan": scanned,
    "recurrent scan": lambda k: scanned(k, 40, recurrent=(rand(40, 40, seed=7) - 0.5).sign()),
    "batch norm": normed,
    "fused, filtered counts": lambda k: fused(k, "counts", **BEST),
    "fused, image": lambda k: fused(k, "image", gains=[0, 15, 15], slope=0.3, steps=9),
    "fused, convolved image": lambda k: fused(k, "image", CONV, (2, 10, 10), norm="step", slope=0.3, steps=9),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_saved_tensors_may_come_back_in_another_order(name):
    function = FUNCTIONS[name]
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, turned)
    for got, wanted in zip(function(hooks), function(nullcontext()), strict=True):
        assert (got is None) == (wanted is None)
        if wanted is not None:
            assert wanted.any()
            assert off(got, wanted) < 1e-6
