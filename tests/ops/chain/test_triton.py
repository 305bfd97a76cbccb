"""The fused chain against the plain modules: spikes bit for bit, gradients to rounding.

Without a GPU the kernels run in Triton's interpreter, where the backward pass stores float32; a GPU stores bfloat16.
"""

import pytest
import torch

import bitspike
from bitspike.nn.fast.refusal import refused_network
from bitspike.nn.sharding import Shard

pytest.importorskip("triton")
from helpers.chains import batch, network, outputs, plainly
from helpers.kernels import CLOSE, DEVICE, off, rand

pytestmark = pytest.mark.usefixtures("poisoned")

IMAGE = {"theta": [0.5, 0.7, 1.5], "slope": 0.3, "beta": 0.8, "steps": 6}
CONV = "4Conv3-AP2-8Conv3-AP2-32Dense10"
CASES = {
    "image, norm a step, dropout": (CONV, (1, 14, 14), "image", {**IMAGE, "norm": "step", "dropout": 0.3}),
    "image, shared norm": (CONV, (1, 14, 14), "image", {**IMAGE, "norm": "shared"}),
    "image, no norm, clip": (CONV, (1, 14, 14), "image", {**IMAGE, "theta": [1.0, 1.0, 1.5], "clip": 0.1}),
    "image, one step": (CONV, (1, 14, 14), "image", {**IMAGE, "norm": "step", "steps": 1}),
    "image, arctan": (
        CONV,
        (1, 14, 14),
        "image",
        {**IMAGE, "norm": "step", "slope": [3.0, 2.0, 0.3], "surrogate": "arctan"},
    ),
    "image, triangular": (
        CONV,
        (1, 14, 14),
        "image",
        {**IMAGE, "norm": "step", "slope": [0.5, 0.4, 0.2], "surrogate": "triangular"},
    ),
    "image, sigmoid": (
        CONV,
        (1, 14, 14),
        "image",
        {**IMAGE, "norm": "step", "slope": [3.0, 2.0, 0.3], "surrogate": "sigmoid"},
    ),
    "dense, static, dropout": (
        "30-40-35-10",
        (30,),
        "image",
        {"theta": [2.0, 3.0, 2.0], "slope": 0.3, "dropout": 0.2, "steps": 9},
    ),
    "dense, counts": ("30-40-10", (30,), "counts", {"theta": [4.0, 3.0], "slope": 0.3, "dropout": [0.2, 0.3]}),
    "one dense layer, counts": ("30Dense10", (30,), "counts", {"theta": 4.0, "slope": 0.3}),
    "convolution, counts": (
        "6Conv5-AP2-8Conv3-AP2-32Dense11",
        (2, 16, 16),
        "counts",
        {"theta": [1.0, 2.0, 3.0], "slope": 0.3, "norm": "step"},
    ),
    "convolution, real sequence": (
        "4Conv3-AP3-8Conv3-16Dense11",
        (2, 14, 13),
        "sequence",
        {"theta": [2.0, 2.0, 3.0], "slope": 0.3, "norm": "step"},
    ),
}


# Cases that also run with a batch of one, and with a backward pass that computes again; the others do so where tests
# may be slow.
ALONE = ("image, shared norm", "dense, counts")
AGAIN = ("image, norm a step, dropout", "dense, static, dropout")
ANOTHER = ("image, triangular", "image, sigmoid")  # surrogates, where arctan is one already


def ways():
    for case, (_, _, _, settings) in CASES.items():
        for size, recompute in ((1, False), (3, False), (3, True)):
            if size == 1 and settings.get("norm") == "step":
                continue  # one value has no variance
            fast = case in (ALONE if size == 1 else AGAIN if recompute else CASES.keys() - set(ANOTHER))
            yield pytest.param(case, size, recompute, marks=() if fast else pytest.mark.slow)


@pytest.mark.parametrize(("case", "size", "recompute"), list(ways()))
def test_spikes_are_the_plain_modules_and_gradients_too(case, size, recompute):
    notation, shape, kind, settings = CASES[case]
    net, plain = network(notation, shape, **settings), plainly(network(notation, shape, **settings))
    x = batch(kind, shape, size)
    out, hidden = outputs(net, x, recompute=recompute)
    wanted = plain.run(x)
    for got, counts, layer in zip(hidden.spikes(), hidden.counts(), wanted[:-1], strict=True):
        assert torch.equal(got, layer.spikes)
        assert torch.equal(counts, layer.spikes.sum(0))
    assert torch.equal(out.spikes, wanted[-1].spikes)
    assert 0 < out.spikes.mean() < 1
    towards = rand(*out.spikes.shape, seed=6) - 0.5
    (out.spikes * towards).sum().backward()
    (wanted[-1].spikes * towards).sum().backward()
    for (name, p), q in zip(net.named_parameters(), plain.parameters(), strict=True):
        assert off(p.grad, q.grad) < CLOSE, name
    for (name, p), q in zip(net.named_buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize(
    ("glances", "norm", "recompute"),
    [
        (5, "step", False),
        (9, "shared", True),
        pytest.param(5, "step", True, marks=pytest.mark.slow),
        pytest.param(9, "shared", False, marks=pytest.mark.slow),
    ],
)
def test_glances_are_one_larger_batch(glances, norm, recompute, monkeypatch):
    settings = {**IMAGE, "steps": 4 * glances, "glances": glances, "norm": norm}
    net, plain = network(CONV, (1, 14, 14), **settings), plainly(network(CONV, (1, 14, 14), **settings))
    monkeypatch.setattr(net, "_fused", lambda x: True)
    net.recompute = recompute
    x = batch("image", (1, 14, 14), 2)
    seen, wanted = net.observe(x), plain.observe(x)
    assert seen.output.spikes.shape == (4 * glances, 2, 10)
    assert torch.equal(seen.output.spikes, wanted.output.spikes)
    assert 0 < seen.output.spikes.mean() < 1
    for ours, theirs in zip(seen.counts(), wanted.counts(), strict=True):
        assert torch.equal(ours, theirs)
    towards = rand(*seen.output.spikes.shape, seed=6) - 0.5
    (seen.output.spikes * towards).sum().backward()
    (wanted.output.spikes * towards).sum().backward()
    for (name, p), q in zip(net.named_parameters(), plain.parameters(), strict=True):
        assert off(p.grad, q.grad) < 2 * CLOSE, name  # sums over nine times the places, that cancel


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        ("image, norm a step, dropout", torch.bfloat16),
        ("dense, counts", torch.float64),
        ("convolution, counts", torch.float64),
        pytest.param("image, norm a step, dropout", torch.float64, marks=pytest.mark.slow),
        pytest.param("dense, counts", torch.bfloat16, marks=pytest.mark.slow),
        pytest.param("convolution, counts", torch.bfloat16, marks=pytest.mark.slow),
    ],
)
def test_pytorchs_default_dtype_changes_nothing(case, dtype):
    notation, shape, kind, settings = CASES[case]
    net, twin = network(notation, shape, **settings), network(notation, shape, **settings)
    x = batch(kind, shape)
    found = []
    for each, default in ((net, dtype), (twin, torch.float32)):
        torch.set_default_dtype(default)
        try:
            out, hidden = outputs(each, x)
            bitspike.count_loss(out.spikes, torch.arange(3, device=DEVICE)).backward()
            found.append((out.spikes, *hidden.spikes(), *hidden.counts(), *(p.grad for p in each.parameters())))
        finally:
            torch.set_default_dtype(torch.float32)
    for a, b in zip(*found, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def agree(net, plain, x, close=CLOSE):
    """The same spikes and, where the network learns, the same gradients."""
    out, hidden = outputs(net, x)
    wanted = plain.run(x)
    for got, layer in zip((*hidden.spikes(), out.spikes), wanted, strict=True):
        assert torch.equal(got, layer.spikes)
    if out.spikes.requires_grad:
        towards = rand(*out.spikes.shape, seed=6) - 0.5
        for spikes in (out.spikes, wanted[-1].spikes):
            (spikes * towards).sum().backward()
        for (name, p), q in zip(net.named_parameters(), plain.parameters(), strict=True):
            assert off(p.grad, q.grad) < close, name
    for (name, p), q in zip(net.named_buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize(
    "laid_out",
    [
        lambda x: torch.cat([x, x], 3)[..., 14:],  # a crop
        lambda x: torch.cat([x, x])[::2],
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x[:1].expand(3, -1, -1, -1),
    ],
)
def test_images_may_lie_anyhow(laid_out):
    settings = {**IMAGE, "norm": "step"}
    net, plain = network(CONV, (3, 14, 14), **settings), plainly(network(CONV, (3, 14, 14), **settings))
    agree(net, plain, laid_out(batch("image", (3, 14, 14))))


def test_weights_may_lie_anyhow():
    def turned(net):
        net.to(memory_format=torch.channels_last)
        for layer in net.layers:
            if layer.synapse.weight.dim() == 2:
                layer.synapse.weight = torch.nn.Parameter(layer.synapse.weight.detach().t().contiguous().t())
        return net

    settings = {**IMAGE, "norm": "step"}
    net, plain = (turned(network(CONV, (3, 14, 14), **settings)) for _ in range(2))
    agree(net, plainly(plain), batch("image", (3, 14, 14)))


@pytest.mark.parametrize("hardness", [0.5, 20.0, float("inf")])
def test_a_soft_first_layer_is_fused_with_its_own_gradient(hardness):
    net, plain = (network(CONV, (1, 14, 14), **IMAGE, norm="shared") for _ in range(2))
    for each in (net, plainly(plain)):
        each.layers[0].synapse.hardness = torch.tensor(hardness, device=DEVICE)
    x = batch("image", (1, 14, 14))
    agree(net, plain, x, 2 * CLOSE)  # bfloat16 alone moves the few biases of layer 1 by 0.95 % at hardness 20
    assert bool(net.layers[0].synapse.weight.grad.any()) == (hardness < float("inf"))
    with torch.no_grad():  # signs
        agree(net.eval(), plain.eval(), x)
        soft = net(x).spikes
        net.layers[0].synapse.hardness = None
        assert torch.equal(net(x).spikes, soft)


def test_soft_layers_on_spikes_are_not_fused():
    net = network(CONV, (1, 14, 14), **IMAGE)
    net.layers[1].synapse.hardness = torch.tensor(2.0, device=DEVICE)
    assert refused_network(list(net.layers), batch("image", (1, 14, 14))) == "layer 2 has real weights"


def test_images_far_from_zero_keep_their_gradients():
    settings = {**IMAGE, "norm": "step", "theta": [0.5, 0.7, 1.0]}
    net, plain = network(CONV, (1, 14, 14), **settings), plainly(network(CONV, (1, 14, 14), **settings))
    x = 30 + 0.05 * rand(4, 1, 14, 14)
    for each in (net, plain):
        loss = (outputs(each, x)[0] if each is net else each(x)).spikes
        (loss * (rand(*loss.shape, seed=6) - 0.5)).sum().backward()
    assert off(net.layers[0].norm.weight.grad, plain.layers[0].norm.weight.grad) < max(CLOSE, 1e-3)


def test_norms_and_dropouts_follow_their_own_mode():
    settings = {**IMAGE, "norm": "step", "dropout": 0.5}
    x = batch("image", (1, 14, 14))
    net, plain = network(CONV, (1, 14, 14), **settings), plainly(network(CONV, (1, 14, 14), **settings))
    for each in (net, plain):  # statistics are taken again, for evaluation
        each.eval()
        for layer in each.layers[:-1]:
            layer.norm.train()
    with torch.no_grad():
        agree(net, plain, x)
    for each in (net, plain):
        each.train()
        each.layers[-1].dropout.eval()
    agree(net, plain, x)


def test_evaluation_keeps_nothing_for_backward(monkeypatch):
    from bitspike.ops.chain import triton as chain

    kept = []
    real = chain.scan_forward
    monkeypatch.setattr(chain, "scan_forward", lambda *a, **k: kept.append(k["save"]) or real(*a, **k))
    net = network("30-40-10", (30,), theta=2.0)
    with torch.no_grad():
        outputs(net, batch("counts", (30,)))
    outputs(net, batch("counts", (30,)))
    assert kept == [False, True]


def test_pools_in_a_row_of_a_first_layer():
    net, plain = (network("4Conv3-AP2-AP2-16Dense10", (1, 11, 11), theta=0.6, steps=4) for _ in range(2))
    agree(net, plainly(plain), batch("image", (1, 11, 11)))


def test_a_map_of_one_place_keeps_its_shape():
    net, plain = (network("4Conv5-8Conv3-8Dense10", (1, 7, 7), theta=[0.6, 0.5, 0.5], steps=4) for _ in range(2))
    agree(net, plainly(plain), batch("image", (1, 7, 7)))


def test_one_value_a_channel_cannot_be_normalized():
    net = network("4Conv5-8Conv3-8Dense10", (1, 7, 7), norm="step", steps=4)
    with pytest.raises(ValueError, match=r"more than (one|1) value"):
        outputs(net, batch("image", (1, 7, 7), 1))


def test_evaluation_uses_the_running_averages():
    notation, shape, kind, settings = CASES["image, norm a step, dropout"]
    net, plain = network(notation, shape, **settings).eval(), plainly(network(notation, shape, **settings)).eval()
    x = batch(kind, shape)
    with torch.no_grad():
        assert torch.equal(outputs(net, x)[0].spikes, plain(x).spikes)


def test_thresholds_are_read_anew_at_every_call():
    net, plain = network("30-40-10", (30,), theta=2.0), plainly(network("30-40-10", (30,), theta=2.0))
    x = batch("counts", (30,))
    for theta in (1.0, 3.5, 2.25):
        for layer in (*net.layers, *plain.layers):
            layer.lif.set_theta(theta, initial=2.0)
        assert torch.equal(outputs(net, x)[0].spikes, plain(x).spikes)


def test_the_threshold_must_wait_for_backward_and_one_backward_is_all():
    net = network("30-40-10", (30,), theta=2.0)
    loss = outputs(net, batch("counts", (30,)))[0].spikes.sum()
    net.layers[0].lif.set_theta(3.0, initial=2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    loss = outputs(net, batch("counts", (30,)))[0].spikes.sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second backward pass"):
        loss.backward()


def test_nothing_is_kept_without_gradients():
    net = network("30-40-10", (30,), theta=2.0)
    with torch.no_grad():
        out, _ = outputs(net, batch("counts", (30,)))
    assert not out.spikes.requires_grad


@pytest.mark.parametrize(
    ("settings", "x", "reason"),
    [
        ({"backend": "reference"}, "counts", "asks for backend 'reference'"),
        ({"binary": False}, "counts", "has real weights"),
        ({"recurrent": True}, "counts", "recurrent"),
    ],
)
def test_what_is_not_fused_says_why(settings, x, reason):
    net = bitspike.build("30-40-10", (30,), **settings).to(DEVICE)
    assert reason in net.unfused(batch(x, (30,)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda layer: layer.register_forward_hook(lambda *a: None), "hooks of its own"),
        (lambda layer: layer.lif.register_forward_pre_hook(lambda *a: None), "hooks of its own"),
        (lambda layer: setattr(layer.lif, "theta", torch.ones(40, device=DEVICE)), "threshold for each neuron"),
        (lambda layer: setattr(layer.dropout, "shard", Shard(0, 1, 2, lambda t: t)), "draws of dropout with other"),
        (lambda layer: layer.half(), "weights of torch.float16"),
    ],
)
def test_changed_layers_are_not_fused(change, reason):
    net = bitspike.build("30-40-10", (30,), dropout=0.1).to(DEVICE)
    change(net.layers[0])
    assert reason in net.unfused(batch("counts", (30,)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda layer: setattr(layer.norm, "momentum", 1.0), "momentum 1"),
        (lambda layer: layer.norm.eval(), "evaluation mode"),
        (lambda layer: setattr(layer.norm, "shard", Shard(0, 1, 3, lambda t: t, False)), "that has no sample"),
        (lambda layer: setattr(layer.synapse, "padding", (1, 1)), "padding"),
        (lambda layer: setattr(layer.pools[0], "stride", 1), "plain average"),
        (lambda layer: setattr(layer.dropout, "p", 0.5), "dropout on a convolution"),
    ],
)
def test_changed_convolutions_are_not_fused(change, reason):
    net = bitspike.build(CONV, (1, 14, 14), norm="step").to(DEVICE)
    assert net.unfused(batch("image", (1, 14, 14))) is None
    change(net.layers[1])
    assert reason in net.unfused(batch("image", (1, 14, 14)))


def test_other_pools_and_one_real_layer_are_not_fused(monkeypatch):
    net = bitspike.build("4Conv3-MP2-8Conv3-MP2-32Dense10", (1, 14, 14)).to(DEVICE)
    assert "other pools" in net.unfused(batch("image", (1, 14, 14)))
    net = bitspike.build("30Dense10").to(DEVICE)
    assert "nothing to fuse" in net.unfused(batch("image", (30,)))
    net = bitspike.build("30-40-10").to(DEVICE)
    monkeypatch.setenv("BITSPIKE_BACKEND", "torch")
    assert "BITSPIKE_BACKEND" in net.unfused(batch("image", (30,)))
