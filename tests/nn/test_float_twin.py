"""Layers with real weights as a GPU runs them: pools in the kernels, all steps of a batch norm at once, one dropout."""

import copy

import pytest
import torch
from torch import nn

from bitspike import LIF, BinaryConv2d, BinaryLinear, build
from bitspike.nn import block, norm
from bitspike.nn.dropout import set_dropout_key
from bitspike.nn.sharding import Shard, set_shard


@pytest.fixture
def reordered(monkeypatch):
    """Sums in the order that a GPU takes; the sizes of pools that went into a kernel, the steps normalized at once."""
    folded, normed, conv_pool, step_norm = [], [], block.conv_pool, norm.step_norm
    monkeypatch.setattr(block, "usable", lambda x, backend: False)
    monkeypatch.setattr(block, "_reorders", lambda x, backend: True)
    monkeypatch.setattr(norm.library, "usable", lambda x, backend="auto": False)
    monkeypatch.setattr(norm, "_parallel", lambda x: True)
    monkeypatch.setattr(norm, "step_norm", lambda *args: normed.append(len(args[0])) or step_norm(*args))
    monkeypatch.setattr(block, "conv_pool", lambda *args: folded.append(args[-1]) or conv_pool(*args))
    return folded, normed


TWIN = {"binary": False, "norm": "step", "steps": 5, "beta": 0.5, "theta": 0.3, "slope": 2.0}


def gradients_of(net, x):
    out = net(x)
    loss = (out.spikes * torch.linspace(-1, 1, out.spikes.numel()).view_as(out.spikes)).sum()
    return out.spikes, torch.autograd.grad(loss, list(net.parameters()))


@pytest.mark.parametrize("static", [True, False])
def test_the_float_twins_reordered_sums_change_rounding_only(reordered, static):
    net = build("4Conv5-AP2-6Conv3-AP2-24Dense5", (2, 16, 16), generator=torch.Generator().manual_seed(0), **TWIN)
    net.double()  # where rounding flips no spike
    plain = copy.deepcopy(net)
    x = torch.rand(3, 2, 16, 16) if static else torch.rand(5, 3, 2, 16, 16)
    spikes, grads = gradients_of(net, x.double())
    assert reordered == ([2, 2], [5] if static else [5, 5])
    seen = copy.deepcopy(reordered)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block, "_reorders", lambda x, backend: False)
        wanted, right = gradients_of(plain, x.double())
    assert reordered == seen
    assert torch.equal(spikes, wanted)
    assert spikes.any()
    torch.testing.assert_close(grads, right)
    torch.testing.assert_close(net.state_dict(), plain.state_dict())


@pytest.mark.parametrize(
    "layer",
    [
        block.Block(BinaryConv2d(2, 3, 3), LIF(), pools=[nn.AvgPool2d(2)]),
        block.Block(BinaryConv2d(2, 3, 3, binary=False), LIF(), pools=[nn.MaxPool2d(2)]),
        block.Block(BinaryConv2d(2, 3, 3, binary=False), LIF(), pools=[nn.AvgPool2d(2, stride=1)]),
        block.Block(BinaryConv2d(2, 3, 3, binary=False), LIF(), pools=[nn.AvgPool2d(2, padding=1)]),
        block.Block(BinaryConv2d(2, 3, 3, binary=False), LIF(), pools=[nn.AvgPool2d(2, ceil_mode=True)]),
        block.Block(BinaryConv2d(2, 3, 3, binary=False), LIF(), pools=[nn.AvgPool2d(2, divisor_override=3)]),
        block.Block(BinaryConv2d(2, 3, 3, binary=False), LIF()),
        block.Block(BinaryConv2d(2, 3, 3, binary=False, stride=2), LIF(), pools=[nn.AvgPool2d(2)]),
        block.Block(BinaryConv2d(2, 3, 3, binary=False, padding=1), LIF(), pools=[nn.AvgPool2d(2)]),
        block.Block(BinaryConv2d(2, 3, 3, binary=False, dilation=2), LIF(), pools=[nn.AvgPool2d(2)]),
        block.Block(BinaryConv2d(2, 4, 3, binary=False, groups=2), LIF(), pools=[nn.AvgPool2d(2)]),
    ],
)
def test_other_convolutions_and_pools_stay_as_they_are(reordered, layer):
    x = torch.rand(4, 2, 2, 9, 9)
    wanted = layer.synapse(x).flatten(0, 1)
    for pool in layer.pools:
        wanted = pool(wanted)
    assert torch.equal(layer.pooled(x, fold=True), wanted.view(4, 2, *wanted.shape[1:]))
    assert not reordered[0]


def test_only_the_first_pool_goes_into_the_kernel_and_hooks_are_heard(reordered):
    layer = block.Block(BinaryConv2d(2, 3, 3, binary=False), LIF(), pools=[nn.AvgPool2d(2), nn.MaxPool2d(2)])
    x = torch.rand(4, 2, 2, 11, 11)
    torch.testing.assert_close(layer.pooled(x, fold=True), layer.pooled(x))
    assert reordered[0] == [2]
    heard = []
    handle = layer.pools[0].register_forward_hook(lambda *_: heard.append(1))
    layer.pooled(x, fold=True)
    assert (heard, reordered[0]) == ([1], [2])
    handle.remove()
    with torch.autocast("cpu", torch.bfloat16):
        layer.pooled(x, fold=True)
    assert reordered[0] == [2]


def test_an_image_too_small_is_told_by_the_modules(reordered):
    layer = block.Block(BinaryConv2d(2, 3, 3, binary=False), LIF(), pools=[nn.AvgPool2d(2)])
    with pytest.raises(RuntimeError, match="too small"):
        layer.pooled(torch.rand(1, 2, 3, 3), fold=True)
    with pytest.raises(ValueError, match=r"BinaryConv2d: input must be \[B, 2, H, W\]"):
        layer.pooled(torch.rand(1, 3, 9, 9), fold=True)


def test_dropout_in_one_kernel_is_the_modules(reordered, monkeypatch):
    pytest.importorskip("triton")
    layer = block.Block(BinaryLinear(5, 7, binary=False), LIF(), dropout=0.4)
    layer.dropout.layer, key = 2, torch.tensor(1234567890123)
    current = torch.rand(6, 3, 7, requires_grad=True)
    set_dropout_key(layer, key)
    wanted = layer.dropout(current)
    assert torch.equal(block._dropped(layer.dropout, current, one_kernel=True), wanted)
    monkeypatch.setattr(block, "fused_on_gpu", lambda device: True)
    got = block._dropped(layer.dropout, current, one_kernel=True)
    assert "Dropout" in type(got.grad_fn).__name__
    assert torch.equal(got, wanted)
    assert torch.equal(*(torch.autograd.grad(out.sum(), current)[0] for out in (got, wanted)))
    assert block._dropped(layer.dropout, current[:, :0], one_kernel=True).shape == (6, 0, 7)
    set_shard(layer, Shard(start=3, stop=6, total=6, sum=None))
    assert torch.equal(block._dropped(layer.dropout, current, one_kernel=True), layer.dropout(current))
    assert not torch.equal(block._dropped(layer.dropout, current, one_kernel=True), wanted)
    set_shard(layer, None)
    set_dropout_key(layer, None)
    torch.manual_seed(0)
    drawn = block._dropped(layer.dropout, current, one_kernel=True)
    torch.manual_seed(0)
    assert torch.equal(drawn, layer.dropout(current))


def test_sums_are_reordered_on_a_gpu_alone_and_never_for_another_backend(monkeypatch):
    class OnGPU:
        is_cuda = True

    assert block._reorders(OnGPU(), "auto")
    assert not block._reorders(OnGPU(), "triton")
    assert not block._reorders(torch.ones(1), "auto")
    monkeypatch.setenv("BITSPIKE_BACKEND", "reference")
    assert not block._reorders(OnGPU(), "auto")
    monkeypatch.setenv("BITSPIKE_BACKEND", "auto")
    assert block._reorders(OnGPU(), "auto")
