"""When layers run in C: only where that is asked for and understood, and with the errors of the modules."""

import os

import pytest
import torch
from torch import nn

from bitspike import LIFState, build, count_loss
from bitspike.nn.dropout import set_dropout_key
from bitspike.nn.fast import c as fast_c
from bitspike.ops.native import library
from helpers.layers import assert_close, assert_same_error, conv_block, dense_block, inputs, plain

pytestmark = [
    pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here"),
    pytest.mark.usefixtures("however_busy"),
]


NET = "4Conv3-AP2-20Conv3-AP2-80Dense10Dense3"


def net(**options):
    torch.manual_seed(0)
    return build(NET, (2, 14, 14), theta=1.3, beta=0.9, slope=0.5, norm="step", dropout=0.3, steps=12, **options)


@pytest.mark.parametrize("way", ["reference", "torch", "c", "environment", "missing", "autocast", "float64"])
def test_who_asks_for_the_modules_gets_them(monkeypatch, way):
    def forbidden(*args):
        raise AssertionError("ran in C")

    monkeypatch.setattr(fast_c, "dense_layer", forbidden)
    monkeypatch.setattr(fast_c, "convolved", forbidden)
    monkeypatch.setattr("bitspike.nn.norm.step_norm_c", forbidden)
    x = inputs("spikes", 12, 2, 2, 14, 14)
    with pytest.raises(AssertionError, match="ran in C"):
        net()(x)
    if way == "environment":
        monkeypatch.setenv("BITSPIKE_BACKEND", "reference")
    if way == "missing":
        monkeypatch.setattr(library, "library", lambda: None)
    if way == "autocast":
        with torch.autocast("cpu", dtype=torch.float16, enabled=True):
            net()(x)
    elif way == "float64":
        net().double()(x.double())
    else:
        net(backend=way if way in ("reference", "torch", "c") else "auto")(x)


def test_hooks_are_called():
    block, x = dense_block(40, 20, p=0.5), inputs("spikes", 3, 2, 40)
    for module in (block.synapse, block.dropout, block.lif):
        seen = []
        handle = module.register_forward_hook(lambda *args, seen=seen: seen.append(args))
        block(x)
        assert len(seen) == 1
        handle.remove()
        assert fast_c.dense_layer(block, x, None, True) is not None
    block, x, seen = conv_block(2, 3, 3, [nn.AvgPool2d(2)]), inputs("spikes", 3, 2, 2, 8, 8), []
    block.pools[0].register_forward_hook(lambda *args: seen.append(args))
    block(x)
    assert len(seen) == 1


def test_a_diverged_weight_is_reported_as_by_the_modules():
    for block, x, part in (
        (dense_block(40, 20), inputs("silent", 3, 2, 40), "weight"),
        (dense_block(40, 20), inputs("silent", 3, 2, 40), "bias"),
        (conv_block(2, 3, 3, []), inputs("silent", 3, 2, 2, 6, 6), "weight"),
    ):
        with torch.no_grad():
            getattr(block.synapse, part).view(-1)[0] = float("nan")
        assert_same_error(block, x, None, "current must be finite")


def test_what_lif_refuses_is_refused_as_by_the_modules():
    x = inputs("spikes", 3, 2, 40)
    assert_same_error(dense_block(40, 20), x, LIFState(torch.zeros(2, 19), torch.zeros(2, 19)), "state")
    for buffer, value in (("theta", -1.0), ("theta_grad", float("inf")), ("_beta", 1.5)):
        block = dense_block(40, 20)
        block.lif.get_buffer(buffer).fill_(value)
        assert_same_error(block, x, None, buffer.strip("_"))


def test_recurrent_and_adaptive_neurons_run_by_their_modules():
    from bitspike import Adaptation

    for options in ({"recurrent": True}, {"adaptation": Adaptation(0.9, 1.0)}):
        torch.manual_seed(0)
        ours = build("30-20-5", theta=2.3, steps=6, **options)
        x = inputs("spikes", 6, 3, 30)
        theirs = plain(ours)
        assert torch.equal(ours(x).spikes, theirs(x).spikes)


@pytest.mark.parametrize("static", [True, False], ids=["image", "sequence"])
def test_whole_networks_are_their_modules(static):
    ours = net()
    theirs = plain(ours)
    x = torch.rand(3, 2, 14, 14) if static else inputs("counts", 12, 3, 2, 14, 14)
    labels = torch.tensor([0, 1, 2])
    for one in (ours, theirs):
        set_dropout_key(one, torch.tensor(9))
        count_loss(one(x).spikes, labels).backward()
    got, wanted = ours.run(x), theirs.run(x)
    for a, b in zip(got, wanted, strict=True):
        assert a.spikes.any()
        assert torch.equal(a.spikes, b.spikes)
        assert torch.equal(a.membrane, b.membrane)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert_close(a.grad, b.grad, name)
    for a, b in zip(ours.buffers(), theirs.buffers(), strict=True):
        assert torch.equal(a, b)
