"""PyTorch's default device and dtype say where a user's new tensors go; what is computed does not depend on them.

`torch.set_default_device("meta")` and a network on the CPU ended in a segmentation fault: memory for C was made there.
"""

from contextlib import contextmanager

import pytest
import torch

from bitspike import (
    LIF,
    Adaptation,
    BinaryLinear,
    LIFState,
    Relax,
    ThresholdAnnealing,
    build,
    count_loss,
    latency,
    lif,
    poisson,
    trace_loss,
)
from bitspike.data.coding import coding_task, target_trace
from bitspike.data.samples import Images, frames_from_dense
from bitspike.data.splits import held_out, limited
from bitspike.data.thinning import thinned
from bitspike.nn.dropout import set_dropout_key
from bitspike.ops.batches.jitter import Jitter, factors, jittered, levels
from bitspike.ops.norm import c as norm
from bitspike.ops.product import c as conv
from bitspike.train.losses import cross_entropy_loss
from bitspike.train.seeds import order
from bitspike.train.tricks.recalibrate import calibration_rows


@contextmanager
def default_device(device):
    before = torch.get_default_device()
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None if before == torch.device("cpu") else before)


@contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


ELSEWHERE = {
    "set to meta": lambda: default_device("meta"),
    "in a block": lambda: torch.device("meta"),
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "float64": lambda: default_dtype(torch.float64),
}


@pytest.fixture(params=ELSEWHERE)
def elsewhere(request):
    """Within its block new tensors go elsewhere; tables that are made once are made there."""
    for table in (conv._geometry, norm.fused_here, levels):
        table.cache_clear()
    yield ELSEWHERE[request.param]
    for table in (conv._geometry, norm.fused_here, levels):
        table.cache_clear()


def spikes(*shape):
    return (torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.2).float()


CONV = "4Conv3-AP2-8Conv3-AP2-32Dense10"
NETS = {
    "dense": ("30Dense20Dense5", (30,), {}),
    "dense, large": ("300Dense700Dense5", (300,), {}),
    "dropout": ("30Dense20Dense5", (30,), {"dropout": 0.4}),
    "dropout by a key": ("30Dense20Dense5", (30,), {"dropout": 0.4, "keyed": True}),
    "learnt decay": ("30Dense20Dense5", (30,), {"learn_beta": True}),
    "recurrent": ("30Dense20Dense5", (30,), {"recurrent": True}),
    "adaptive": ("30Dense20Dense5", (30,), {"adaptation": Adaptation(0.9, 1.0)}),
    "conv": (CONV, (2, 14, 14), {}),
    "norm a step": (CONV, (2, 14, 14), {"norm": "step"}),
    "shared norm": (CONV, (2, 14, 14), {"norm": "shared"}),
    "real weights": (CONV, (2, 14, 14), {"binary": False, "norm": "step"}),
    "glances": (CONV, (2, 14, 14), {"glances": 5, "steps": 20, "static": True}),
}


@pytest.mark.parametrize("backend", ["auto", "reference", "torch", "c"])
@pytest.mark.parametrize("case", NETS)
def test_a_network_computes_the_same(elsewhere, case, backend):
    notation, shape, options = NETS[case]
    options = {"theta": 1.3, "slope": 0.5, **options}
    static = options.pop("static", False)
    if backend == "c" and {"recurrent", "adaptation"} & options.keys():
        pytest.skip("runs in PyTorch")
    key = torch.tensor(5) if options.pop("keyed", False) else None
    x = spikes(3, *shape) if static else spikes(20, 3, *shape)
    labels = torch.tensor([0, 1, 2])

    def learn(net):
        torch.manual_seed(7)
        outputs = net.run(x)
        count_loss(outputs[-1].spikes, labels).backward()
        return [out.spikes for out in outputs], [p.grad for p in net.parameters()], list(net.buffers())

    def network():
        net = build(notation, shape, backend=backend, generator=torch.Generator().manual_seed(0), **options)
        set_dropout_key(net, key)
        return net

    wanted, net = learn(network()), network()
    with elsewhere():
        got = learn(net)
    for a, b in zip(got, wanted, strict=True):
        for one, other in zip(a, b, strict=True):
            assert torch.equal(one, other)
            assert one.dtype == other.dtype


@pytest.mark.parametrize("state", [False, True])
def test_a_scan_computes_the_same(elsewhere, backend, state):
    current = spikes(6, 4, 5)
    start = LIFState(torch.ones(4, 5), torch.zeros(4, 5)) if state else None
    wanted = lif(current, beta=0.9, theta=1.1, slope=2.0, state=start, backend=backend)
    with elsewhere():
        got = lif(current, beta=0.9, theta=1.1, slope=2.0, state=start, backend=backend)
    assert torch.equal(got.membrane, wanted.membrane)
    assert torch.equal(got.spikes, wanted.spikes)


def helpers():
    """What else makes tensors, each with the tensors it gives."""
    generator = torch.Generator().manual_seed(3)
    rates, images = spikes(4, 2, 5, 5) * 0.5, spikes(6, 2, 8, 8)
    labels = torch.as_tensor([0, 1, 0, 1, 0, 1], device="cpu")
    key = torch.as_tensor(5, device="cpu")
    jitter = Jitter(shift=2, contrast=0.3)
    samples = Images((images * 255).to(torch.uint8), labels)
    frames = frames_from_dense(spikes(6, 4, 3), labels)
    silent = frames_from_dense(torch.zeros(6, 4, 3, device="cpu"), labels)
    return [
        poisson(rates, 7, generator=generator),
        latency(rates, 9),
        jittered(images, jitter, key),
        factors(jitter, 6, key),
        thinned(samples, 0.5, 1, "train").values,
        *held_out(labels, 0.3, 1),
        limited(10, 4, 1),
        limited(10, None, 1),
        order(9, 2, 1, 1),
        calibration_rows(9, 4, 1),
        frames.batch(limited(6, None, 0))[0],
        silent.batch(limited(6, None, 0))[0],
        coding_task(0).train.batch(limited(1, None, 0))[0],
        target_trace(2.0),
        cross_entropy_loss(images[:, :, 0, :5], labels[:2], 2.0, 0.1),
        trace_loss(images[:, 0, 0], images[:, 0, 1]),
    ]


def test_data_losses_and_draws_are_the_same(elsewhere, monkeypatch):
    real = torch.rand  # of this file's own spikes
    monkeypatch.setitem(globals(), "spikes", lambda *shape: made[shape])
    made = {}
    for shape in [(4, 2, 5, 5), (6, 2, 8, 8), (6, 4, 3)]:
        made[shape] = (real(shape, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    wanted = helpers()
    levels.cache_clear()
    with elsewhere():
        got = helpers()
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        assert a.dtype == b.dtype, i
        assert torch.equal(a, b), i


def test_annealing_moves_thresholds(elsewhere):
    net = build("6Dense5Dense4", theta=2.0)
    annealing = ThresholdAnnealing(net, Relax(2.0, 18.0, 0.25))
    with elsewhere():
        annealing.step()
    assert annealing.thresholds() == {"layers.0.lif": 6.0, "layers.1.lif": 6.0}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_thresholds_and_decays_are_never_made_in_half_precision(dtype):
    with default_dtype(dtype):
        layer = LIF(0.93, 17.95)
        net = build("6Dense5Dense4", theta=17.95, beta=0.93, learn_beta=True)
        annealing = ThresholdAnnealing(net, Relax(17.95, 20.0, 0.001))
        annealing.step()
    wide = torch.promote_types(dtype, torch.float32)
    for value, exact in ((layer.theta, 17.95), (layer.theta_grad, 17.95), (layer.beta, 0.93)):
        assert value.dtype == wide
        assert value.item() == torch.tensor(exact, dtype=wide).item()
    assert net.layers[0].synapse.weight.dtype == dtype
    assert net.layers[0].lif.theta.item() == pytest.approx(17.95 + 2.05 * 0.001, abs=1e-5)
    assert net.layers[0].lif.beta.detach().mean().item() == pytest.approx(0.93, abs=1e-5)


def test_a_network_may_be_made_without_memory():
    with torch.device("meta"):
        net = build(CONV, (2, 14, 14), norm="step", learn_beta=True, dropout=0.1)
        recurrent = build("6Dense5Dense4", recurrent=True)
    assert all(p.is_meta for each in (net, recurrent) for p in each.state_dict().values())
    assert "theta=" in repr(net)
    real = build(CONV, (2, 14, 14), norm="step", learn_beta=True, dropout=0.1)
    net.to_empty(device="cpu").load_state_dict(real.state_dict())
    x = spikes(6, 3, 2, 14, 14)
    assert torch.equal(net.eval()(x).spikes, real.eval()(x).spikes)
    with pytest.raises(ValueError, match="beta must be in"), torch.device("meta"):
        LIF(1.5)


def test_parameters_on_another_device_are_not_read_as_memory():
    """A bias on a device without memory: C would have read address 0."""
    net = build("30Dense20Dense5", theta=1.3)
    net.layers[0].synapse = BinaryLinear(30, 20, device="meta")
    with pytest.raises((RuntimeError, ValueError), match=r"device|meta"):
        net(spikes(6, 3, 30))
