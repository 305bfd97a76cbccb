"""A layer at test time: its current is what `ops.current` says; a layer that is not known runs by its modules."""

import copy
import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bitspike import LIF, BinaryConv2d, BinaryLinear, RecurrentLIF, lif
from bitspike.nn import Block, SharedBatchNorm1d, SharedBatchNorm2d, StepBatchNorm2d
from bitspike.nn.fast.definition import evaluated_current, synapse_form, undefined
from bitspike.nn.norm import fold_norm
from bitspike.nn.synapses import per_step
from bitspike.ops.current import reference

NO_C = os.environ.get("BITSPIKE_NO_C") == "1"


@st.composite
def blocks(draw):
    """A convolution with any pools, bias and batch norm, its input's size, and whether that is spikes or pixels."""
    options = {"stride": draw(st.integers(1, 2)), "padding": draw(st.integers(0, 2)), "bias": draw(st.booleans())}
    pool = st.builds(
        lambda kind, size, stride: kind(size, stride),
        st.sampled_from([nn.AvgPool2d, nn.MaxPool2d]),
        st.integers(1, 3),
        st.sampled_from([None, 1, 2]),
    )
    norm = draw(st.sampled_from([None, StepBatchNorm2d, SharedBatchNorm2d]))
    torch.manual_seed(draw(st.integers(0, 99)))
    block = Block(
        BinaryConv2d(2, 3, draw(st.integers(1, 3)), **options),
        LIF(0.9, 1.0),
        pools=draw(st.lists(pool, max_size=2)),
        norm=None if norm is None else norm(3),
    )
    if norm is not None:
        block.norm.running_mean.normal_()
        block.norm.running_var.uniform_(0.1, 2)
    return block.eval(), draw(st.integers(8, 13)), draw(st.sampled_from(["spikes", "counts", "pixels"]))


@torch.no_grad()
@given(blocks())
@settings(max_examples=40)
def test_any_convolution_is_what_the_definition_says(case):
    block, side, kind = case
    x = {
        "spikes": lambda: torch.rand(2, 2, 2, side, side).round(),
        "counts": lambda: torch.randint(0, 9, (2, 2, 2, side, side)).float(),
        "pixels": lambda: torch.rand(2, 2, 2, side, side),
    }[kind]()
    form = synapse_form(block)
    if not form.fits(side, side, *block.synapse.kernel_size):
        return
    assert undefined(block, x) is None
    norm = None if block.norm is None else fold_norm(block.norm)
    wanted = per_step(lambda rows: reference.current(rows, block.synapse.signs(), form, block.synapse.bias, norm), x)
    found = lif(wanted, beta=block.lif.beta, theta=1.0, slope=1.0, backend="reference")
    for backend in ("auto", "torch"):
        block.lif.backend = backend
        assert torch.equal(block(x).membrane, found.membrane)


POOLS = {
    "one": [nn.AvgPool2d(3)],
    "averages": [nn.AvgPool2d(2), nn.AvgPool2d(3)],
    "averages that round": [nn.AvgPool2d(3), nn.AvgPool2d(2)],
    "overlapping": [nn.AvgPool2d(3, 1), nn.AvgPool2d(2, 1)],
    "largest first": [nn.MaxPool2d(2), nn.AvgPool2d(3)],
    "largest last": [nn.AvgPool2d(3), nn.MaxPool2d(2)],
    "all": [nn.AvgPool2d(3, 2), nn.MaxPool2d(2, 1), nn.AvgPool2d(2)],
}


@pytest.mark.parametrize("pools", POOLS)
@pytest.mark.parametrize("largest", [1, 9])
@pytest.mark.parametrize("learning", [False, True])
def test_any_pools_behind_a_convolution_on_spikes(pools, largest, learning):
    torch.manual_seed(0)
    x = torch.randint(0, largest + 1, (3, 2, 2, 17, 17)).float()
    norm = StepBatchNorm2d(3)
    norm.running_mean.normal_()
    block = Block(BinaryConv2d(2, 3, 3, bias=True), LIF(0.9, 1.0), pools=copy.deepcopy(POOLS[pools]), norm=norm).eval()
    synapse, form = block.synapse, synapse_form(block)
    with torch.set_grad_enabled(learning):
        rest = (synapse.bias, fold_norm(norm))
        wanted = per_step(lambda rows: reference.current(rows, synapse.signs(), form, *rest), x)
        found = [evaluated_current(block, x, native=native) for native in ((False,) if NO_C else (False, True))]
    for ours in found:
        assert torch.equal(ours, wanted)
    if learning:
        gradients = [torch.autograd.grad(c.square().sum(), synapse.weight)[0] for c in (wanted, *found)]
        for ours in gradients[1:]:
            assert (ours - gradients[0]).abs().max() <= 1e-5 * gradients[0].abs().max()


def test_training_mode_alone_is_enough_for_the_modules():
    block = Block(BinaryLinear(6, 4), LIF(0.9, 1.0))
    assert undefined(block, torch.rand(2, 6)) == "is in training mode"


def hooked(block):
    block.synapse.register_forward_hook(lambda *args: None)


def replaced(block):
    block.pools[0] = nn.Sequential(block.pools[0])


def untracked(block):
    block.norm = StepBatchNorm2d(3, track_running_stats=False).eval()


CHANGES = {
    "training": lambda block: block.train(),
    "batch norm in training": lambda block: block.norm.train(),
    "a hook": hooked,
    "another pool": replaced,
    "a pool with padding": lambda block: block.pools.__setitem__(0, nn.AvgPool2d(2, padding=1)),
    "no averages": untracked,
    "real weights": lambda block: setattr(block.synapse, "binary", False),
    "dilation": lambda block: setattr(block.synapse, "dilation", (2, 2)),
    "padding by itself": lambda block: setattr(block.synapse, "padding_mode", "circular"),
    "a forward pass of its own": lambda block: setattr(block.synapse, "forward", block.synapse.forward),
    "float64": lambda block: block.double(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_known_runs_by_its_modules(change):
    torch.manual_seed(0)
    block = Block(
        BinaryConv2d(2, 3, 3), LIF(0.9, 1.0, backend="torch"), pools=[nn.AvgPool2d(2)], norm=StepBatchNorm2d(3)
    ).eval()
    x = torch.rand(2, 2, 2, 9, 9)
    assert undefined(block, x) is None
    CHANGES[change](block)
    x = x.to(block.synapse.weight.dtype)
    assert undefined(block, x) is not None
    other = copy.deepcopy(block)
    current = per_step(other.pools[0], other.synapse(x))
    assert torch.equal(block(x).membrane, other.lif(other.norm(current, 1)).membrane)


def test_autocast_hardness_and_other_inputs_run_by_the_modules():
    block = Block(BinaryLinear(6, 4), LIF(0.9, 1.0), norm=SharedBatchNorm1d(4)).eval()
    x = torch.rand(2, 6)
    assert undefined(block, x) is None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert undefined(block, x) is not None
    assert undefined(block, x[:0]) is not None
    assert undefined(block, torch.rand(2, 5)) is not None
    block.synapse.hardness = torch.tensor(2.0)
    assert undefined(block, x) == "has real weights"
    with torch.no_grad():
        assert undefined(block, x) is None


def test_a_batch_norm_without_parameters_folds_too():
    torch.manual_seed(0)
    block = Block(BinaryLinear(6, 4, bias=False), LIF(0.9, 1.0), norm=SharedBatchNorm1d(4, affine=False)).eval()
    block.norm.running_mean.normal_()
    x = torch.rand(5, 2, 6)
    assert undefined(block, x) is None
    torch.testing.assert_close(
        block(x).membrane, LIF(0.9, 1.0)(block.norm(block.synapse(x))).membrane, rtol=1e-5, atol=1e-5
    )


def test_gradients_are_those_of_the_modules():
    """A surrogate that is wide, so that gradients reach every part, and weights that are wide apart from zero."""
    torch.manual_seed(0)
    block = Block(
        BinaryConv2d(2, 3, 3, bias=True), LIF(0.9, 1.0, slope=0.3), pools=[nn.AvgPool2d(3)], norm=StepBatchNorm2d(3)
    ).eval()
    block.norm.running_mean.normal_()
    x = torch.rand(4, 2, 2, 9, 9)
    exact, wide = copy.deepcopy(block).double(), x.double().requires_grad_()
    x.requires_grad_()
    assert torch.equal(block(x).spikes.double(), exact(wide).spikes)
    for layer, images in ((block, x), (exact, wide)):
        out = layer(images)
        (out.membrane + out.spikes).square().sum().backward()
    pairs = [*zip(block.parameters(), exact.parameters(), strict=True), (x, wide)]
    for ours, wanted in pairs:
        assert (ours.grad.double() - wanted.grad).abs().max() <= 1e-5 * wanted.grad.abs().max()


def test_recurrent_sums_are_exact_before_they_are_scaled():
    """0.1 * 3 is one rounding; three additions of 0.1 are another number."""
    scale = 0.1
    for backend in ("auto", "reference", "torch"):
        neurons = RecurrentLIF(3, beta=0.0, theta=1.0, recurrent_scale=scale, backend=backend)
        with torch.no_grad():
            neurons.weight.fill_(1.0)
        current = torch.zeros(2, 1, 3)
        current[0] = 1.0  # all fire, and reset by 1
        membrane = neurons(current).membrane[1]
        wanted = torch.tensor(3.0) * scale - 1
        assert torch.equal(membrane, wanted.expand(1, 3))
