"""Padded and strided convolutions and strided pools: every fast path leaves them to the modules, and says so."""

import pytest
import torch

from bitspike import build
from bitspike.nn import BinaryConv2d
from bitspike.nn.fast import c as fast_c
from bitspike.nn.fast import triton as fused
from bitspike.nn.fast.refusal import refused_network

NETWORKS = {
    "padding": "4Conv3p1-AP2-6Conv3p1-AP2-24Dense5",
    "stride": "4Conv3s2-6Conv2s2-6Dense5",
    "both": "4Conv3p1s2-6Conv3s1p1-96Dense5",
    "strided pools": "4Conv3-AP3s2-6Conv1-MP2s1-6Dense5",
}
SHAPE = (2, 8, 8)
SETTINGS = {"beta": 0.5, "theta": [1.0, 2.0, 1.5], "slope": 0.5, "norm": "step"}


def network(notation, **options):
    return build(notation, SHAPE, generator=torch.Generator().manual_seed(1), **SETTINGS | options)


def batch(kind):
    random = torch.Generator().manual_seed(2)
    if kind == "image":
        return torch.rand(3, *SHAPE, generator=random)
    return (torch.rand(9, 3, *SHAPE, generator=random) < 0.4).float()


def results(net, x):
    spikes = net(x, steps=9 if x.dim() == 4 else None).spikes
    (spikes * torch.randn(spikes.shape, generator=torch.Generator().manual_seed(3))).sum().backward()
    return spikes, [p.grad for p in net.parameters()], list(net.buffers())


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("kind", ["image", "spikes"])
@pytest.mark.parametrize("case", NETWORKS)
def test_the_fastest_way_is_the_definition(case, kind, binary):
    notation, x = NETWORKS[case], batch(kind)
    options = {"binary": binary, "theta": [1.0, 2.0, 1.5] if binary else [0.5, 0.5, 0.125]}
    spikes, grads, buffers = results(network(notation, **options), x)
    wanted, exact, kept = results(network(notation, **options, backend="reference"), x)
    assert torch.equal(spikes, wanted)
    assert 0 < spikes.mean() < 1
    for ours, theirs in zip([*grads, *buffers], [*exact, *kept], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * float(theirs.abs().max()))


def test_the_layers_are_what_the_notation_says():
    net = network("4Conv3p1s2-6Conv3s1p1-96Dense5")
    convolutions = [layer.synapse for layer in net.layers if isinstance(layer.synapse, BinaryConv2d)]
    assert [(c.padding, c.stride) for c in convolutions] == [((1, 1), (2, 2)), ((1, 1), (1, 1))]


@pytest.mark.parametrize("token", ["4Conv3p1", "4Conv3s2", "4Conv3p2s3"])
def test_c_leaves_them_to_the_modules(token):
    block = build(token, SHAPE).layers[0]
    assert fast_c.convolved(block, batch("spikes")) is None
    assert fast_c.convolved(build("4Conv3", SHAPE).layers[0], batch("spikes")) is not None


# ---- The fused chain, in Triton's interpreter or on a GPU


@pytest.mark.parametrize(
    ("notation", "why"),
    [
        ("4Conv3-6Conv3p1-216Dense5", "layer 2 has a convolution with stride, padding, dilation or groups"),
        ("4Conv3-6Conv3s2-24Dense5", "layer 2 has a convolution with stride, padding, dilation or groups"),
        ("4Conv3-6Conv1-AP3s2-24Dense5", "layer 2 has other pools than a plain average"),
    ],
)
def test_the_chain_says_why_not(notation, why):
    pytest.importorskip("triton")
    from helpers.kernels import DEVICE

    net = network(notation).to(DEVICE)
    assert net.unfused(batch("image").to(DEVICE)) == why
    counts = batch("spikes").to(DEVICE, torch.uint8)
    assert net.unfused(counts) == why
    assert refused_network(list(network("4Conv3p1-256Dense5", theta=1.0).to(DEVICE).layers), counts).startswith(
        "layer 1 has a conv"
    )


@pytest.mark.parametrize(
    "token",
    [
        *(pytest.param(token, marks=pytest.mark.slow) for token in ("4Conv3p1-AP2", "4Conv3p1s2")),
        "4Conv2-MP3s2",
        "4Conv3p2s2-AP2s1",
    ],
)
def test_a_first_layer_on_an_image_is_its_own_modules_in_the_chain(token):
    pytest.importorskip("triton")
    from helpers.kernels import CLOSE, DEVICE, off

    first = build(token, SHAPE)
    channels, height, width = first.run(batch("image"), steps=1)[0].spikes.shape[2:]
    notation = f"{token}-6Conv2-{6 * (height - 1) * (width - 1)}Dense5"
    assert channels == 4
    net, plain = (network(notation, steps=6, backend=way).to(DEVICE) for way in ("auto", "reference"))
    x = batch("image").to(DEVICE)
    assert net.unfused(x) is None
    out, _ = fused.run(list(net.layers), x, 6, recompute=False)
    wanted = plain(x)
    assert torch.equal(out.spikes, wanted.spikes)
    assert 0 < out.spikes.mean() < 1
    towards = torch.randn(out.spikes.shape, generator=torch.Generator().manual_seed(3)).to(DEVICE)
    (out.spikes * towards).sum().backward()
    (wanted.spikes * towards).sum().backward()
    for (name, p), q in zip(net.named_parameters(), plain.named_parameters(), strict=True):
        assert off(p.grad, q[1].grad) < CLOSE, name
