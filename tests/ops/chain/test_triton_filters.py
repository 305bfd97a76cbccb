"""Fused networks with delays, gains, dropped spikes, norms of dense layers and decays of each neuron, and the modules.

Delayed spikes are numbers of 22 bits, so that everything forward equals the modules to rounding. Backward a GPU rounds
to bfloat16, Triton's interpreter to float32.
"""

import pytest
import torch

import bitspike
from bitspike.nn import DecayRange

pytest.importorskip("triton")
from helpers import chains
from helpers.chains import BEST, outputs, plainly
from helpers.kernels import CLOSE, DEVICE, GPU, off, rand

pytestmark = pytest.mark.usefixtures("poisoned")

FLIPS = 1e-3 if GPU else 0.0  # of spikes that may differ: where a membrane is within rounding of theta
NEAR = 3 * CLOSE  # of delays: a difference of two larger sums

DENSE = "14-40-36-5"
CASES = {
    "all of it": (DENSE, "counts", BEST),
    "delays": (DENSE, "counts", {"delays": 5, "theta": [3.0, 2.0, 2.0], "slope": 0.3}),
    "delays of one step": (DENSE, "counts", {"delays": 1, "theta": [3.0, 2.0, 2.0], "slope": 0.3}),
    "delays behind the first layer": (DENSE, "counts", {**BEST, "delays": [0, 5, 3]}),
    "delays of inputs": (DENSE, "counts", {**BEST, "delays": [5, 0, 0]}),
    "delays, dropout on currents": (
        DENSE,
        "counts",
        {"delays": 12, "dropout": 0.2, "spike_dropout": [0.5, 0.0], "theta": [3.0, 2.0, 2.0], "slope": 0.3},
    ),
    "gains": (DENSE, "counts", {"gains": 15, "theta": [9.0, 6.0, 6.0], "slope": 0.1}),
    "gains of hidden layers": (DENSE, "counts", {**BEST, "gains": [0, 3, 15], "delays": [5, 0, 5]}),
    "gains, dropout on spikes": (
        DENSE,
        "counts",
        {"gains": 255, "spike_dropout": 0.5, "theta": [9.0, 6.0, 6.0], "slope": 0.1},
    ),
    "gains, static": (
        DENSE,
        "image",
        {"gains": 15, "spike_dropout": [0.5, 0.0], "theta": [4.0, 6.0, 6.0], "slope": 0.1, "steps": 9},
    ),
    "delays without gains": (DENSE, "counts", {**BEST, "gains": 0}),
    "dropout on spikes": (DENSE, "counts", {"spike_dropout": 0.5, "theta": [3.0, 2.0, 2.0], "slope": 0.3}),
    "dropout on spikes, static": (DENSE, "image", {"spike_dropout": 0.5, "theta": 1.0, "slope": 0.3, "steps": 9}),
    "norms": (DENSE, "counts", {"dense_norm": True, "slope": 1.5}),
    "norms, real sequence": (DENSE, "sequence", {**BEST, "spike_dropout": 0.0}),
    "decays": (DENSE, "counts", {"beta": DecayRange(0.5, 0.99), "theta": [3.0, 2.0, 2.0], "slope": 0.3}),
    "decays, static": (DENSE, "image", {"beta": DecayRange(0.5, 0.99), "slope": 0.3, "steps": 9}),
    "learnt decays": (DENSE, "counts", {"beta": 0.8, "learn_beta": True, "theta": [3.0, 2.0, 2.0], "slope": 0.3}),
    "one layer": ("14Dense5", "counts", {"delays": 5, "dense_norm": True, "readout": "membrane"}),
    "a learnt decay of a convolution": (
        "3Conv3-27Dense40Dense5",
        "image counts",
        {"learn_beta": True, "beta": 0.8, "theta": [3.0, 2.0, 2.0], "slope": 0.3},
    ),
}


def network(notation, shape, **settings):
    """A network as in other tests of chains, with sharper delays that are drawn anew."""
    net = chains.network(notation, shape, **settings)
    for layer in net.layers:
        if layer.delay is not None:
            layer.delay.delays.data = rand(len(layer.delay.delays), seed=7) * layer.delay.longest
            layer.delay.width.fill_(0.8)
    return net


# On a GPU, other cases than these repeat what they cover, and each takes seconds to compile.
TELLING = ("all of it", "delays, dropout on currents", "norms, real sequence")


def slow_on_a_gpu(test):
    return pytest.mark.slow(test) if GPU else test


def batch(kind, size=3, seed=5):
    shape = (2, 5, 5) if kind == "image counts" else (14,)
    return chains.batch(kind.removeprefix("image "), shape, size, steps=11, seed=seed)


def both(case):
    notation, kind, settings = CASES[case]
    shape = (2, 5, 5) if kind == "image counts" else (14,)
    return network(notation, shape, **settings), plainly(network(notation, shape, **settings)), kind


def close_spikes(a, b):
    assert (a != b).float().mean() <= FLIPS


def compare(net, plain, x, *, recompute=False):
    """The same spikes, membranes and buffers; return both outputs."""
    out, hidden = outputs(net, x, recompute=recompute)
    wanted = plain.run(x)
    for got, layer in zip(hidden.spikes(), wanted[:-1], strict=True):
        assert 0 < layer.spikes.mean() < 1
        close_spikes(got, layer.spikes)
    close_spikes(out.spikes, wanted[-1].spikes)
    if FLIPS:
        assert off(out.membrane, wanted[-1].membrane) < 2e-2
    else:
        torch.testing.assert_close(out.membrane, wanted[-1].membrane, rtol=1e-5, atol=1e-5)
    for (name, p), q in zip(net.named_buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3 if FLIPS else 1e-5, atol=1e-3 if FLIPS else 1e-6, msg=name)
    return out, wanted[-1]


def ways():
    """Each case, with a batch of one, and computed again in the backward pass; most of the latter are slow tests."""
    for case in CASES:
        best = case == "all of it"
        for size, recompute, telling in (
            (3, False, case in TELLING or not GPU),
            (1, False, best and not GPU),
            (3, True, best or (case == "dropout on spikes, static" and not GPU)),
        ):
            yield pytest.param(case, size, recompute, marks=() if telling else pytest.mark.slow)


@pytest.mark.parametrize(("case", "size", "recompute"), list(ways()))
def test_training_is_that_of_the_modules(case, size, recompute):
    net, plain, kind = both(case)
    out, wanted = compare(net, plain, batch(kind, size), recompute=recompute)
    membrane = net.readout == "membrane"
    towards = rand(*out.spikes.shape, seed=6) - 0.5
    for each in (out, wanted):
        ((each.membrane if membrane else each.spikes) * towards).sum().backward()
    for (name, p), q in zip(net.named_parameters(), plain.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if q.grad is not None:
            assert off(p.grad, q.grad) < (NEAR if "delays" in name or "beta" in name else 2 * CLOSE), name
            assert torch.equal(p, q), name  # delays are clamped alike


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs a CUDA device")
@pytest.mark.parametrize("width", [12.5, 0.3])
def test_a_wide_network_trains_as_its_modules(width):
    """With 11 bits in place of 22, 4e-2 of the second layer's spikes differ: a network multiplies small differences."""
    settings = {**BEST, "delays": 25}
    net, plain = (network("140-256-256-20", (140,), **settings) for _ in range(2))
    plainly(plain)
    for each in (net, plain):
        for layer in each.layers:
            layer.delay.width.fill_(width)
    x = (rand(100, 32, 140, seed=5) * 2.3).floor().to(torch.uint8)
    out, hidden = outputs(net, x)
    wanted = plain.run(x)
    for got, layer, differ in zip(hidden.spikes(), wanted, (1e-5, 1e-3), strict=False):
        assert (got != layer.spikes).float().mean() <= differ
    towards = rand(32, 20, seed=6) - 0.5
    for each, output in ((net, out), (plain, wanted[-1])):
        (each.output_scores(output) * towards).sum().backward()
    for (name, p), q in zip(net.named_parameters(), plain.parameters(), strict=True):
        assert torch.cosine_similarity(p.grad.flatten(), q.grad.flatten(), 0) > 0.995, name


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in TELLING or not GPU else pytest.mark.slow) for case in CASES]
)
def test_evaluation_is_that_of_the_modules(case):
    net, plain, kind = both(case)
    for each in (net, plain):
        each.eval()
        for name, buffer in each.named_buffers():
            if "running_var" in name:
                buffer.fill_(4.0)
            if "running_mean" in name:
                buffer.fill_(0.25)
    with torch.no_grad():
        x = batch(kind)
        out, hidden = outputs(net, x)
        wanted = plain.run(x)
    for got, layer in zip(hidden.spikes(), wanted[:-1], strict=True):
        assert torch.equal(got, layer.spikes)
    assert torch.equal(out.spikes, wanted[-1].spikes)
    torch.testing.assert_close(out.membrane, wanted[-1].membrane, rtol=1e-5, atol=1e-5)


def test_statistics_are_measured_again_with_rounded_delays():
    net, plain, kind = both("all of it")
    for each in (net, plain):
        each.eval()
        for layer in each.layers:
            layer.norm.train()
    with torch.no_grad():
        compare(net, plain, batch(kind))


@slow_on_a_gpu
def test_delays_outside_of_their_range_are_clamped():
    net, plain, kind = both("delays")
    for each in (net, plain):
        with torch.no_grad():
            each.layers[1].delay.delays[:2] = torch.tensor([-1.0, 7.5])
    compare(net, plain, batch(kind))
    assert net.layers[1].delay.delays[:2].tolist() == [0.0, 5.0]


@slow_on_a_gpu
def test_gains_outside_of_their_range_are_clamped_and_halves_are_even():
    net, plain, kind = both("gains")
    strayed = torch.tensor([-1.0, 17.5, 0.5, 1.5, 2.5, 0.49999997], device=DEVICE)
    for each in (net, plain):
        for layer in each.layers[:2]:
            with torch.no_grad():
                layer.gain.gains[:6] = strayed
    compare(net, plain, batch(kind))
    assert net.layers[1].gain.gains[:2].tolist() == [0.0, 15.0]


@slow_on_a_gpu
def test_in_evaluation_gains_outside_of_their_range_have_no_gradient():
    net, plain, kind = both("gains")
    towards, found = rand(11, 3, 5, seed=6) - 0.5, []
    for each in (net.eval(), plain.eval()):
        with torch.no_grad():
            each.layers[1].gain.gains[:3] = torch.tensor([-1.0, 17.5, 3.0])
        out = outputs(each, batch(kind))[0] if each is net else each.run(batch(kind))[-1]
        (out.spikes * towards).sum().backward()
        assert each.layers[1].gain.gains[:2].tolist() == [-1.0, 17.5]
        found.append(each.layers[1].gain.gains.grad)
    assert off(*found) < 2 * CLOSE
    assert (found[0][:2] == 0).all()
    assert found[0].any()


@slow_on_a_gpu
def test_gains_without_gradient_get_none():
    net, _, kind = both("all of it")
    for layer in net.layers:
        layer.gain.gains.requires_grad_(False)
    outputs(net, batch(kind))[0].membrane.sum().backward()
    assert all((p.grad is None) == ("gains" in name) for name, p in net.named_parameters())


@slow_on_a_gpu
def test_a_width_is_read_anew_at_every_call_and_must_wait_for_backward():
    net, plain, kind = both("delays")
    x = batch(kind)
    for width in (3.0, 0.3, 0.01):
        for each in (net, plain):
            for layer in each.layers:
                layer.delay.width.fill_(width)
        compare(net, plain, x)
    out, _ = outputs(net, x)
    net.layers[1].delay.width.fill_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.spikes.sum().backward()


@slow_on_a_gpu
def test_delays_without_gradient_get_none():
    net, plain, kind = both("all of it")
    for each in (net, plain):
        for layer in each.layers:
            layer.delay.delays.requires_grad_(False)
    out, wanted = compare(net, plain, batch(kind))
    towards = rand(*out.spikes.shape, seed=6) - 0.5
    for each in (out, wanted):
        (each.membrane * towards).sum().backward()
    for (name, p), q in zip(net.named_parameters(), plain.parameters(), strict=True):
        assert (p.grad is None) == ("delays" in name)
        if p.grad is not None:
            assert off(p.grad, q.grad) < 2 * CLOSE, name


@pytest.mark.parametrize(
    ("notation", "shape", "settings", "reason"),
    [
        ("2Conv3-18Dense5", (2, 5, 5), {"delays": 3}, "layer 1 has delays, gains or dropout on spikes before a conv"),
        (
            "2Conv3-18Dense5",
            (2, 5, 5),
            {"spike_dropout": 0.5},
            "layer 2 has delays, gains or dropout on spikes behind a conv",
        ),
        ("2Conv3-18Dense5", (2, 5, 5), {"gains": 3}, "layer 1 has delays, gains or dropout on spikes before a conv"),
        ("14-20-5", (14,), {"delays": 64}, "layer 1 has delays of up to 64 steps, more than the 63"),
        ("14-20-5", (14,), {"spike_dropout": 0.9975}, "layer 2 drops 0.9975 of its spikes: counts of those that stay"),
        ("14-20-5", (14,), {"recurrent": True}, "layer 1 has recurrent neurons: a step needs the spikes of all"),
    ],
)
def test_what_is_not_fused_says_why(notation, shape, settings, reason):
    net = bitspike.build(notation, shape, **settings).to(DEVICE)
    assert reason in net.unfused(torch.ones(4, 2, *shape, dtype=torch.uint8, device=DEVICE))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda layer: layer.delay.eval(), "delays in evaluation mode, and gradients are on"),
        (lambda layer: layer.delay.width.requires_grad_(), "layer 2 learns the width of its delays"),
        (lambda layer: setattr(layer.delay, "backend", "torch"), "backend 'torch' of its delays"),
        (lambda layer: layer.delay.register_forward_hook(lambda *a: None), "a Delay with hooks of its own"),
        (lambda layer: layer.spike_dropout.register_forward_hook(lambda *a: None), "a Dropout with hooks of its own"),
        (lambda layer: layer.delay.double(), "has delays with delays of torch.float64"),
        (lambda layer: layer.gain.register_forward_hook(lambda *a: None), "a Gain with hooks of its own"),
        (lambda layer: layer.gain.double(), "has gains of torch.float64"),
        (lambda layer: layer.norm.double(), "has a batch norm with a weight of torch.float64"),
        (
            lambda layer: setattr(layer, "norm", bitspike.nn.SharedBatchNorm2d(36).to(DEVICE)),
            "has a SharedBatchNorm2d behind a BinaryLinear",
        ),
    ],
)
def test_changed_layers_are_not_fused(change, reason):
    net, _, kind = both("all of it")
    assert net.unfused(batch(kind)) is None
    change(net.layers[1])
    assert reason in net.unfused(batch(kind))


@pytest.mark.parametrize(("steps", "reason"), [(65535, None), (65536, "the input has 65536 steps, more than 65535")])
def test_sequences_that_are_longer_than_a_launch_is_wide_are_not_fused(steps, reason):
    net, _, _ = both("all of it")
    assert net.unfused(torch.zeros(steps, 1, 14, dtype=torch.uint8, device=DEVICE)) == reason
    static, _, _ = both("gains, static")
    assert static.unfused(torch.zeros(steps, 14, device=DEVICE)) is None


def test_a_bias_before_a_batch_norm_is_not_fused():
    net, _, kind = both("norms")
    net.layers[0].synapse = bitspike.BinaryLinear(14, 40).to(DEVICE)
    assert "has a bias before its batch norm" in net.unfused(batch(kind))


def test_learnt_decays_behind_real_inputs_are_not_fused():
    net, _, _ = both("learnt decays")
    assert "learnt decays and an input of real numbers" in net.unfused(batch("sequence"))
