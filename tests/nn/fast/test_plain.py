"""Fast paths take only what they fully understand: whatever is odd about a layer runs by its modules, on CPU and GPU.

One table of oddities. On the CPU each gives the spikes of the plain modules and calls what it put there; the chain of
fused kernels (in Triton's interpreter, or on a GPU) refuses each with its reason.
"""

import copy
import types
from contextlib import ExitStack

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrize, prune

from bitspike import LIF, BinaryConv2d, BinaryLinear, build
from bitspike.nn import StepBatchNorm2d
from bitspike.nn.block import Block
from bitspike.nn.dropout import Dropout
from bitspike.nn.fast import refusal
from bitspike.ops.chain import c as dense_kernels

NETS = {"dense": ("25Dense30Dense20Dense5", (25,)), "conv": ("3Conv3-AP2-4Conv3-AP2-16Dense5", (2, 14, 14))}


@pytest.fixture(autouse=True)
def however_busy(monkeypatch):
    monkeypatch.setattr(dense_kernels, "BUSY", 1e9)


def network(kind, device="cpu", **options):
    notation, shape = NETS[kind]
    net = build(
        notation, shape, theta=1.25, beta=0.5, slope=0.7, dropout=0.25, norm="step" if kind == "conv" else None,
        generator=torch.Generator().manual_seed(1), **options,
    ).to(device)  # fmt: skip
    with torch.no_grad():  # multiples of 1/8: whatever the order of a sum, it is exact
        for name, p in net.named_parameters():
            if name.endswith("synapse.bias"):
                p.mul_(64).round_().div_(8)
    return net


def events(kind, device="cpu"):
    """Spikes; with a gradient, since PyTorch warns of a backward hook on a layer whose input has none."""
    draws = torch.rand(6, 3, *NETS[kind][1], generator=torch.Generator().manual_seed(2))
    return (draws < 0.4).float().to(device).requires_grad_()


class Halved(nn.Module):
    def forward(self, w):
        return w.roll(1, 0)


class Stronger(LIF):
    def forward(self, current, state=None, **options):
        return super().forward(2 * current, state, **options)


class Shifted(BinaryLinear):
    def forward(self, x):
        return super().forward(x) + 1


class ShiftedConv(BinaryConv2d):
    def forward(self, x):
        return super().forward(x) + 1


class Sum(nn.AvgPool2d):
    def forward(self, x):
        return 4 * super().forward(x)


class Bright(StepBatchNorm2d):
    def forward(self, x, steps=1):
        return super().forward(x, steps, plain=True) + 1


class Nothing(Dropout):
    def forward(self, x):
        return x * 0.5


def hook(kind, part):
    """A hook of that kind, that counts its calls, on a part of a layer."""

    def apply(layer, calls):
        module = layer.get_submodule(part) if part else layer
        counting = {
            "forward": lambda m, args, out: calls.append(1),
            "forward_pre": lambda m, args: calls.append(1),
            "full_backward": lambda m, gi, go: calls.append(1),
            "full_backward_pre": lambda m, go: calls.append(1),
        }[kind]
        return getattr(module, f"register_{kind}_hook")(counting)

    return apply


def everywhere(kind):
    """A hook of that kind on every module there is."""

    def apply(layer, calls):
        def count(module, *rest):
            if module is layer.synapse or module is layer.lif:
                calls.append(1)

        return getattr(torch_module, f"register_module_{kind}_hook")(count)

    return apply


def put(part, make):
    """Another module in the place of a part, made from the old one."""

    def apply(layer, calls):
        setattr(layer, part, make(layer, getattr(layer, part)))

    return apply


def like(cls, old, *args, **options):
    new = cls(*args, **options).to(next(old.parameters(), torch.empty(0)).device)
    new.load_state_dict(old.state_dict())
    return new


def own_forward(part):
    def apply(layer, calls):
        module = layer.get_submodule(part)

        def forward(self, *args, **options):
            calls.append(1)
            return type(self).forward(self, *args, **options)

        module.forward = types.MethodType(forward, module)

    return apply


def padded(layer, calls):
    layer.synapse.padding, layer.pools[0] = (1, 1), nn.AvgPool2d(3)


def parametrized(part, name):
    return lambda layer, calls: parametrize.register_parametrization(layer.get_submodule(part), name, Halved()) and None


KINDS = ("forward", "forward_pre", "full_backward", "full_backward_pre")

# Each by name: what it does to a layer, and what the chain says. Where it counts calls, the plain modules are called.
EITHER = {
    **{f"{k} hook on {p}": (hook(k, p), "hooks of its own") for k in KINDS for p in ("synapse", "lif")},
    **{f"global {k} hook": (everywhere(k), "hooks of its own") for k in KINDS},
    **{f"own forward of {p}": (own_forward(p), "forward pass of its own") for p in ("synapse", "lif")},
    "parametrized weight": (parametrized("synapse", "weight"), "in place of a BinaryLinear or BinaryConv2d"),
    "pruned weight": (lambda layer, calls: prune.l1_unstructured(layer.synapse, "weight", 0.5) and None, "hooks"),
    "neurons of a subclass": (
        put("lif", lambda _, old: like(Stronger, old, 0.5, 1.25, slope=0.7)),
        "Stronger in place",
    ),
    "dropout of a subclass": (put("dropout", lambda _, old: Nothing(0.5)), "Nothing in place of a"),
    "PyTorch's dropout": (put("dropout", lambda _, old: nn.Dropout(0.5)), "Dropout in place of a"),
    "no dropout at all": (put("dropout", lambda _, old: nn.Identity()), "Identity in place of a"),
    "threshold in float64": (lambda layer, calls: setattr(layer.lif, "theta", layer.lif.theta.double()), "float64"),
    "an extra module": (lambda layer, calls: layer.add_module("probe", nn.Identity()), "'probe' beside its own"),
}
DENSE = {
    **EITHER,
    **{f"{k} hook on dropout": (hook(k, "dropout"), "hooks of its own") for k in KINDS},
    "own forward of dropout": (own_forward("dropout"), "forward pass of its own"),
    "a layer norm among the pools": (
        lambda layer, calls: layer.pools.append(nn.LayerNorm(20).to(layer.synapse.weight.device)) and None,
        "pools behind a dense synapse",
    ),
    "another module as norm": (put("norm", lambda layer, _: nn.LayerNorm(20).to(layer.lif.theta.device)), "LayerNorm"),
    "synapse of a subclass": (put("synapse", lambda _, old: like(Shifted, old, 30, 20)), "Shifted in place of a"),
    "a row of synapses": (
        put("synapse", lambda _, old: nn.Sequential(old, nn.LayerNorm(20).to(old.weight.device))),
        "Sequential in place of a",
    ),
    "fewer neurons than made": (
        lambda layer, calls: (
            [
                setattr(layer.synapse, name, nn.Parameter(getattr(layer.synapse, name).detach()[:20].clone()))
                for name in ("weight", "bias")
            ]
            and setattr(layer.synapse, "out_features", 7)
        ),
        "has weights of torch.float32 [20, 30]",
    ),
}
CONV = {
    **EITHER,
    **{f"{k} hook on a pool": (hook(k, "pools.0"), "hooks of its own") for k in KINDS},
    **{f"{k} hook on the norm": (hook(k, "norm"), "hooks of its own") for k in KINDS},
    "own forward of a pool": (own_forward("pools.0"), "other pools than a plain average"),
    "pool of a subclass": (lambda layer, calls: setattr(layer.pools, "0", Sum(2)), "other pools than a plain average"),
    "norm of a subclass": (put("norm", lambda _, old: like(Bright, old, 4)), "Bright in place of a"),
    "parametrized norm": (parametrized("norm", "weight"), "in place of a StepBatchNorm2d or SharedBatchNorm2d"),
    "another module as norm": (
        put("norm", lambda layer, _: nn.GroupNorm(2, 4).to(layer.lif.theta.device)),
        "GroupNorm",
    ),
    "synapse of a subclass": (
        put("synapse", lambda _, old: like(ShiftedConv, old, 3, 4, 3)),
        "ShiftedConv in place",
    ),
    "a row of synapses": (put("synapse", lambda _, old: nn.Sequential(old, nn.ReLU())), "Sequential in place of a"),
    "padding": (padded, "padding"),
    "strided averages": (
        lambda layer, calls: layer.norm.register_buffer(
            "running_mean", torch.zeros(8, device=layer.norm.weight.device)[::2]
        ),
        "do not lie in a row",
    ),
}
# The block's own hooks are called on the CPU, where the block is called; the chain calls no block.
BLOCK = {f"{k} hook on the block": (hook(k, ""), "hooks of its own") for k in KINDS}
CASES = [
    pytest.param(kind, *odd, id=f"{kind}, {name}")
    for kind, table in (("dense", DENSE | BLOCK), ("conv", CONV | BLOCK))
    for name, odd in table.items()
]
LAYER = 1  # a hidden layer on spikes


def counts(apply):
    """Whether an oddity counts calls."""
    return apply.__closure__ is not None and apply.__qualname__.split(".")[0] in ("hook", "everywhere", "own_forward")


def odd(kind, apply, **options):
    """A network with the oddity, what its calls are noted in, and what takes it away again."""
    net, calls = network(kind, **options), []
    torch.manual_seed(3)
    handle = apply(net.layers[LAYER], calls)
    return net, calls, handle


def learn(net, x):
    torch.manual_seed(4)
    out = net(x)
    out.spikes.mul(torch.linspace(-1, 1, out.spikes.numel(), device=x.device).view_as(out.spikes)).sum().backward()
    return out.spikes.detach(), [p.grad for p in net.parameters()]


@pytest.mark.parametrize(("kind", "apply", "reason"), CASES)
def test_on_the_cpu_odd_layers_are_their_modules(kind, apply, reason):
    x = events(kind)
    found = []
    for backend in ("auto", "reference"):
        with ExitStack() as stack:
            net, calls, handle = odd(kind, apply, backend=backend)
            if handle is not None:
                stack.callback(handle.remove)
            found.append((*learn(net, x), len(calls)))
    (spikes, grads, called), (wanted, right, should) = found
    assert called == should
    assert called or not counts(apply)
    assert wanted.any()
    assert torch.equal(spikes, wanted)
    for a, b in zip(grads, right, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * b.abs().max().item())


@pytest.mark.parametrize(("kind", "apply", "reason"), CASES)
def test_in_kernels_odd_layers_are_refused_with_the_reason(kind, apply, reason):
    pytest.importorskip("triton")
    from helpers.kernels import DEVICE

    x = events(kind, DEVICE)
    net, _, handle = odd(kind, apply, device=DEVICE)
    try:
        refused = net.unfused(x)
    finally:
        if handle is not None:
            handle.remove()
    assert refused.startswith("layer ")
    assert reason in refused
    assert network(kind, device=DEVICE).unfused(x) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("kind", "apply", "reason"), CASES)
def test_on_a_gpu_odd_layers_are_their_modules(kind, apply, reason):
    x = events(kind, "cuda")
    found = []
    for backend in ("auto", "reference"):
        net, calls, handle = odd(kind, apply, backend=backend, device="cuda")
        try:
            found.append((*learn(net, x), len(calls)))
        finally:
            if handle is not None:
                handle.remove()
    (spikes, _, called), (wanted, _, should) = found
    assert called == should
    assert called or not counts(apply)
    assert torch.equal(spikes, wanted)


def test_the_c_path_says_why_not():
    block, x = network("dense").layers[0], events("dense")
    assert refusal.refused_dense(block, x) is None
    block.pools.append(nn.Identity())
    assert refusal.refused_dense(block, x) == "has pools or a batch norm behind a dense synapse"
    conv, x = network("conv").layers[0], events("conv")
    assert refusal.refused_convolution(conv, x) is None
    conv.synapse.stride = (2, 2)
    assert refusal.refused_convolution(conv, x) == "has a convolution with stride, padding, dilation or groups"


@pytest.mark.parametrize("part", ["weight", "bias"])
def test_parameters_of_another_kind_are_the_modules_matter(part):
    """A float64 bias was read as float32; now the modules say what is wrong with it."""
    block = network("dense").layers[0]
    setattr(block.synapse, part, nn.Parameter(getattr(block.synapse, part).detach().double()))
    with pytest.raises(RuntimeError, match="dtype"):
        block(events("dense"))


@pytest.mark.parametrize("value", [-3.0, 0.0, float("nan"), "steep"])
def test_a_slope_that_lif_refuses_is_refused_in_c_too(value):
    block = network("dense").layers[0]
    try:
        block.lif.slope = value
    except (TypeError, ValueError):
        return  # refused where it is set
    assert refusal.refused_dense(block, events("dense")) is not None


@pytest.mark.parametrize("static", [False, True], ids=["sequence", "static"])
def test_pools_of_a_dense_layer_act_on_each_step(static):
    torch.manual_seed(0)
    block = Block(BinaryLinear(25, 20), LIF(0.5, 0.5, slope=0.7), pools=[nn.LayerNorm(20)])
    x = events("dense")
    out = block(x[0], steps=6) if static else block(x)
    wanted = block.lif(block.pools[0](block.synapse(x[:1].expand_as(x) if static else x)))
    assert torch.equal(out.spikes, wanted.spikes)
    assert out.spikes.any()


def test_a_strided_running_mean_is_moved_in_place_and_nothing_beside_it():
    torch.manual_seed(0)
    ours = StepBatchNorm2d(4)
    theirs = copy.deepcopy(ours)
    memory = torch.zeros(8)
    ours.running_mean = memory[::2]
    x = torch.randn(5, 3, 4, 6, 6)
    ours(x)
    theirs(x)
    assert torch.equal(memory[::2], theirs.running_mean)
    assert not memory[1::2].any()
