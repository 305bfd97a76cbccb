"""A batch in several processes: the fused chain has the spikes of one process bit for bit, gradients to rounding."""

import pytest
import torch

from bitspike.nn import DecayRange
from bitspike.nn.sharding import Shard, set_shard

pytest.importorskip("triton")
from helpers.chains import BEST, batch, network
from helpers.kernels import GPU, off, rand
from helpers.ranks import Ranks

pytestmark = pytest.mark.usefixtures("poisoned")

CONV = "4Conv3-AP2-8Conv3-AP2-32Dense10"
IMAGE = {"theta": [0.5, 0.7, 1.5], "slope": 0.3, "beta": 0.8, "steps": 6}
COUNTS = {"theta": [1.0, 2.0, 3.0], "slope": 0.3}
CASES = {
    "image, norm a step, dropout": (CONV, (1, 14, 14), "image", {**IMAGE, "norm": "step", "dropout": 0.3}),
    "image, shared norm": (CONV, (1, 14, 14), "image", {**IMAGE, "norm": "shared"}),
    "counts, norm a step": ("6Conv5-AP2-8Conv3-AP2-32Dense11", (2, 16, 16), "counts", {**COUNTS, "norm": "step"}),
    "delays, dense norm, dropout on spikes": ("30-40-35-10", (30,), "counts", {"theta": 0.6, **BEST}),
    "dropout before a dense norm": (
        "30-40-10",
        (30,),
        "counts",
        {"theta": 0.4, "slope": 0.3, "dropout": 0.2, "dense_norm": True, "beta": [DecayRange(0.5, 0.9), 0.8]},
    ),
    "static, dropout": ("30-40-35-10", (30,), "image", {**IMAGE, "theta": [2.0, 3.0, 2.0], "dropout": 0.2}),
}
# Messages: two a layer that needs statistics, one a direction; on the CPU layer 1 on real numbers sends three.
MESSAGES = {"image, norm a step, dropout": 5, "image, shared norm": 5, "counts, norm a step": 4, "static, dropout": 0}
GRADS = 2e-3 if GPU else 2e-6  # of the largest; on a GPU the factors are bfloat16


def run(net, x, towards, cost=0.0, recompute=False):
    net._fused = lambda x: net.unfused(x) is None
    net.recompute, net.spike_cost = recompute, cost
    out, hidden = net._run_fused(x, None)
    (out.membrane if net.readout == "membrane" else out.spikes).mul(towards).sum().backward()
    return [out.spikes, *hidden.spikes()], out.membrane


@pytest.mark.parametrize(
    ("case", "size", "recompute"),
    [
        ("image, norm a step, dropout", 2, False),
        ("image, shared norm", 3, True),
        ("counts, norm a step", 2, False),
        ("delays, dense norm, dropout on spikes", 2, False),
        ("static, dropout", 2, False),
        pytest.param("dropout before a dense norm", 2, False, marks=pytest.mark.slow),
        pytest.param("image, shared norm", 2, False, marks=pytest.mark.slow),
        pytest.param("counts, norm a step", 3, True, marks=pytest.mark.slow),
        pytest.param("delays, dense norm, dropout on spikes", 3, True, marks=pytest.mark.slow),
    ],
)
def test_processes_give_the_spikes_and_gradients_of_one(case, size, recompute):
    notation, shape, kind, settings = CASES[case]
    whole, nets = network(notation, shape, **settings), [network(notation, shape, **settings) for _ in range(size)]
    x = batch(kind, shape, 5)
    steps = net_steps(whole, x)
    towards = rand(steps, 5, whole.layers[-1].synapse.out_features, seed=6) - 0.5
    wanted, membrane = run(whole, x, towards, cost=0.01)
    ranks = Ranks(size)
    shards = ranks.shards(5)

    def body(rank):
        mine = slice(shards[rank].start, shards[rank].stop)
        set_shard(nets[rank], shards[rank])
        return run(nets[rank], x[mine] if kind == "image" else x[:, mine], towards[:, mine], 0.01, recompute)

    found = ranks.run(body)
    assert 0 < wanted[1].mean() < 1
    if GPU and kind == "image":  # PyTorch sums layer 1 there, real numbers in float32, in an order of its own
        return
    for i, spikes in enumerate(wanted):
        assert torch.equal(torch.cat([each[0][i] for each in found], 1), spikes), i
    assert torch.equal(torch.cat([each[1] for each in found], 1), membrane)
    if case in MESSAGES and not GPU:
        assert len(ranks.messages) == MESSAGES[case]
    for (name, p), *parts in zip(whole.named_parameters(), *(net.parameters() for net in nets), strict=True):
        assert off(sum(part.grad for part in parts), p.grad) < GRADS, name
    for (name, buffer), *others in zip(whole.named_buffers(), *(net.buffers() for net in nets), strict=True):
        for other in others:
            assert torch.equal(other, buffer), name


def net_steps(net, x):
    steps = net._steps(x, None)
    return len(x) if steps is None else steps


def test_a_process_without_a_sample_makes_all_run_the_plain_modules():
    net = network(CONV, (1, 14, 14), **IMAGE, norm="step")
    set_shard(net, Shard(0, 1, 2, lambda tensor: tensor, everywhere=False))
    assert "a process that has no sample" in net.unfused(batch("image", (1, 14, 14), 1))
    set_shard(net, Shard(0, 1, 2, lambda tensor: tensor))
    assert net.unfused(batch("image", (1, 14, 14), 1)) is None
