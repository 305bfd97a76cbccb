"""One order of operations at test time: every way to compute a network gives the bits of `ops.current` and `lif`."""

import copy
import os

import pytest
import torch
from torch import nn

from bitspike import Adaptation, BinaryLinear, build
from bitspike.nn.fast.definition import synapse_form, undefined
from bitspike.nn.norm import fold_norm
from bitspike.nn.synapses import per_step
from bitspike.ops.current import reference
from bitspike.ops.native import library

IMAGES = "5Conv3p1-AP3-6Conv3s1-AP2-MP2-6Dense9Dense4"
NETS = {
    "plain": ("6Conv3-AP2-7Conv3-AP2-63Dense5", (2, 18, 18), {}),
    "step norm": ("6Conv3-AP2-7Conv3-AP3-28Dense5", (1, 18, 18), {"norm": "step"}),
    "shared norm": (IMAGES, (1, 18, 18), {"norm": "shared", "dense_norm": True}),
    "glances": ("4Conv5-AP2-36Dense4", (1, 10, 10), {"norm": "shared", "glances": 5}),
    "max": ("4Conv3p1-MP3s2-AP2-MP2-16Dense4", (3, 18, 18), {"norm": "step"}),
    "strides": ("4Conv3p2s2-4Conv3s2-36Dense4", (1, 14, 14), {"norm": "step", "neuron": "adaptive"}),
    "dense": ("30-20-10-4", None, {"dense_norm": True, "readout": "membrane", "learn_beta": True}),
    "recurrent": ("30-20-10-4", None, {"recurrent": True, "dense_norm": True}),
    "adaptive": ("30-20-4", None, {"adaptation": Adaptation(0.9, 0.7), "recurrent": True}),
    "delays": ("30-20-4", None, {"delays": 4, "dense_norm": True}),
}


def network(name, **options):
    """A network in evaluation mode with batch norms as after training: nothing in them is a round number."""
    torch.manual_seed(3)
    notation, shape, given = NETS[name]
    net = build(notation, shape, theta=1.1, beta=0.87, steps=10, **given, **options)
    random = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for norm in (m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
            n = norm.num_features
            norm.weight.copy_(torch.rand(n, generator=random) + 0.5)
            norm.bias.copy_(torch.randn(n, generator=random) + 0.5)
            norm.running_mean.copy_(torch.randn(n, generator=random))
            norm.running_var.copy_(torch.rand(n, generator=random) * 3 + 0.2)
    return net.eval()


def pixels(net, *lead, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (*lead, *net.input_shape), generator=random).float() / 255


def is_static(net):
    return len(net.input_shape) == 3


def batch(net, seed=0):
    return pixels(net, 3, seed=seed) if is_static(net) else pixels(net, 8, 3, seed=seed) * 2 - 0.7


def assert_same(ours, wanted):
    for i, (mine, other) in enumerate(zip(ours, wanted, strict=True)):
        assert torch.equal(mine.spikes, other.spikes), f"spikes of layer {i}"
        assert torch.equal(mine.membrane, other.membrane), f"membrane of layer {i}"


def defined(net, x):
    """Every layer's output, by the definitions alone; without delays and glances."""
    outputs, steps = [], net.steps if x.dim() == len(net.input_shape) + 1 else None
    for block in net.layers:
        synapse, neurons = block.synapse, block.lif
        if isinstance(synapse, BinaryLinear):
            x = x.flatten(1 if steps else 2)
        norm = None if block.norm is None else fold_norm(block.norm)

        def current(rows, synapse=synapse, block=block, norm=norm):
            return reference.current(rows, synapse.signs(), synapse_form(block), synapse.bias, norm)

        twin = copy.deepcopy(neurons)
        twin.backend = "reference"
        outputs.append(twin(per_step(current, x), steps=steps))
        x, steps = outputs[-1].spikes, None
    return outputs


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in NETS if name not in ("glances", "delays")])
def test_a_network_is_what_the_definitions_say(name):
    net = network(name)
    x = batch(net)
    outputs = net.run(x)
    assert_same(outputs, defined(net, x))
    for block, arriving in zip(net.layers, [x, *(out.spikes for out in outputs)], strict=False):
        assert undefined(block, arriving if block.synapse.weight.dim() == 4 else arriving.flatten(2)) is None
    hidden = torch.cat([out.spikes.flatten() for out in outputs[:-1]])
    assert 0.01 < hidden.mean() < 0.99, "a silent network would show nothing"


@torch.no_grad()
@pytest.mark.parametrize("name", NETS)
def test_every_backend_gives_the_same_bits(name, monkeypatch):
    net = network(name)
    x = batch(net)
    wanted, scores = net.run(x), net.scores(x)
    for backend in ("reference", "torch", "environment"):
        if backend == "environment":
            monkeypatch.setenv("BITSPIKE_BACKEND", "torch")
        other = network(name, backend="auto" if backend == "environment" else backend)
        assert_same(other.run(x), wanted)
        assert torch.equal(other.scores(x), scores)


@torch.no_grad()
@pytest.mark.parametrize("name", NETS)
def test_without_the_c_extension_the_bits_are_the_same(name, monkeypatch):
    net = network(name)
    x = batch(net)
    wanted, scores = net.run(x), net.scores(x)
    monkeypatch.setattr(library, "library", lambda: None)
    assert_same(net.run(x), wanted)
    assert torch.equal(net.scores(x), scores)


@torch.no_grad()
@pytest.mark.parametrize("name", ["plain", "shared norm", "dense"])
def test_the_number_of_threads_changes_nothing(name):
    net = network(name)
    x = pixels(net, 40) if is_static(net) else pixels(net, 20, 100)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(net.run(x))
    finally:
        torch.set_num_threads(before)
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


@pytest.mark.parametrize("name", NETS)
def test_recording_gradients_changes_no_bit(name):
    net = network(name)
    x = batch(net)
    with torch.no_grad():
        wanted = net.run(x)
    recorded = net.run(x.clone().requires_grad_())
    assert_same(recorded, wanted)
    recorded[-1].membrane.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for b in net.layers for p in [b.synapse.weight])


@torch.no_grad()
@pytest.mark.parametrize("name", ["plain", "max", "dense", "recurrent", "adaptive", "delays"])
@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_time_may_be_split_anywhere(name, backend):
    net = network(name, backend=backend)
    x = pixels(net, 9, 2)
    whole = net.run(x)
    for at in (1, 5):
        first = net.run(x[:at])
        rest = net.run(x[at:], states=[out.state for out in first])
        for out, a, b in zip(whole, first, rest, strict=True):
            assert torch.equal(out.spikes, torch.cat([a.spikes, b.spikes]))
            assert torch.equal(out.membrane, torch.cat([a.membrane, b.membrane]))


@torch.no_grad()
@pytest.mark.parametrize("name", ["plain", "step norm", "max", "strides"])
def test_a_static_image_is_the_same_image_in_every_step(name):
    net = network(name)
    x = pixels(net, 3)
    assert_same(net.run(x), net.run(x.expand(net.steps, *x.shape)))


@torch.no_grad()
def test_samples_do_not_depend_on_their_batch():
    """Not even on one whose sums round, and on none that MKL would add in another order."""
    net = network("plain")
    x = pixels(net, 6)
    x[3] = torch.randn(x[3].shape) * torch.exp2(torch.randint(-40, 8, x[3].shape))
    together = net(x).membrane
    for i in range(6):
        assert torch.equal(net(x[i : i + 1]).membrane, together[:, i : i + 1])


def test_gradients_of_gradients_go_through_the_definition():
    net = network("plain", backend="reference")
    x = pixels(net, 2).requires_grad_()
    (first,) = torch.autograd.grad(net(x, steps=3).membrane.square().sum(), x, create_graph=True)
    first.square().sum().backward()
    assert x.grad.isfinite().all()
    assert x.grad.abs().sum() > 0


def test_a_current_that_is_not_finite_is_an_error_as_before():
    net = network("plain")
    x = pixels(net, 2)
    x[1, 0, 4, 4] = float("nan")
    with pytest.raises(ValueError, match=r"layers\.0\.lif: lif: current must be finite"):
        net(x)


@pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")
def test_c_kernels_take_part_only_where_they_may(monkeypatch):
    from bitspike.ops.current import c

    seen = []
    finish = c.finish
    monkeypatch.setattr(c, "finish", lambda *args: seen.append(True) or finish(*args))
    with torch.no_grad():
        x = batch(network("step norm"))
        network("step norm", backend="torch")(x)
        assert not seen
        network("step norm")(x)
        assert len(seen) >= 2
