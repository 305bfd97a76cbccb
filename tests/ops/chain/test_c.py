"""Layers in C on the CPU are the plain modules: spikes, membranes, states bit for bit, gradients to 1e-5 of float64's.

Sums of whole numbers are exact in any order, so nothing has to be on a grid but the bias, which PyTorch may add before
or after the rest of a product.
"""

import copy
import os

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bitspike import LIF, BinaryConv2d, BinaryLinear, LIFState, build, count_loss
from bitspike.nn import StepBatchNorm2d
from bitspike.nn.block import Block
from bitspike.nn.dropout import set_dropout_key
from bitspike.nn.fast import c as fast_c
from bitspike.nn.sharding import Shard, set_shard
from bitspike.ops.chain import c as dense
from bitspike.ops.dropout import c as dropout_c
from bitspike.ops.dropout import reference as dropout
from bitspike.ops.native import library
from bitspike.ops.norm import c as norm
from bitspike.ops.product import c as conv
from bitspike.ops.product.pack import pack

pytestmark = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="no C compiler here")

GRADIENTS = 1e-5  # of the largest of a tensor
sizes = st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 130])
few = st.integers(1, 3)


@pytest.fixture(autouse=True, scope="module")
def however_busy():
    """What is faster is not what is right: inputs that all fire run in C here, too."""
    before, dense.BUSY = dense.BUSY, 1e9
    yield before
    dense.BUSY = before


def test_the_kernels_are_there():
    assert library.library() is not None, "not compiled; set BITSPIKE_NO_C=1 where there is no C compiler"
    assert norm._fused() is not None, "this PyTorch's batch norm has bits of its own: step_norm is never used"


def inputs(kind, *shape, seed=0):
    random = torch.Generator().manual_seed(seed)
    if kind == "counts":
        return torch.poisson(torch.full(shape, 0.7), generator=random) * (torch.rand(shape, generator=random) < 0.6)
    return (torch.rand(shape, generator=random) < {"spikes": 0.3, "silent": 0.0, "full": 1.1}[kind]).float()


def dense_block(inputs, outputs, *, p=0.0, bias=True, seed=0, **options):
    torch.manual_seed(seed)
    block = Block(
        BinaryLinear(inputs, outputs, bias=bias), LIF(**{"beta": 0.5, "theta": 1.25, "slope": 0.7} | options), dropout=p
    )
    if bias:
        with torch.no_grad():
            block.synapse.bias.copy_(torch.randint(-8, 9, (outputs,)) / 8)
    return block


def conv_block(channels, filters, kernel, pools, *, norm=False, seed=0, **options):
    torch.manual_seed(seed)
    return Block(
        BinaryConv2d(channels, filters, kernel, **options),
        LIF(0.5, 1.25, slope=0.7),
        pools=pools,
        norm=StepBatchNorm2d(filters) if norm else None,
    )


def plain(block):
    """The same layer, by its modules."""
    other = copy.deepcopy(block)
    for module in other.modules():
        if isinstance(module, LIF):
            module.backend = "reference"
    return other


def assert_close(got, wanted, what, tolerance=GRADIENTS):
    scale = wanted.abs().max().item()
    worst = (got - wanted).abs().max().item()
    assert worst <= tolerance * scale, f"{what}: off by {worst:.1e} where the largest is {scale:.1e}"


def assert_same(block, x, state=None, **options):
    """Forward bit for bit against the modules in float32; every gradient against the modules in float64."""
    exact = plain(block).double()
    wide = None if state is None else LIFState(state.membrane.double(), state.spikes.double())
    x = x.clone().requires_grad_()
    x64 = x.detach().double().requires_grad_()
    got, wanted, truth = block(x, state, **options), plain(block)(x.detach(), state), exact(x64, wide)
    assert torch.equal(got.spikes, wanted.spikes)
    assert got.membrane is None or torch.equal(got.membrane, wanted.membrane)
    assert torch.equal(got.state.membrane, wanted.state.membrane)
    assert torch.equal(got.state.spikes, wanted.state.spikes)
    assert torch.equal(truth.spikes, got.spikes.double()), "not exact: the gradients cannot be compared"
    weights = torch.randn(got.spikes.shape, generator=torch.Generator().manual_seed(1))
    objective = (got.spikes * weights).sum() + got.state.membrane.square().sum() / 16
    target = (truth.spikes * weights).sum() + truth.state.membrane.square().sum() / 16
    if got.membrane is not None:
        objective, target = objective + (got.membrane * weights).sum(), target + (truth.membrane * weights).sum()
    objective.backward()
    target.backward()
    for (name, p), q in zip(block.named_parameters(), exact.parameters(), strict=True):
        assert p.grad.shape == p.shape
        assert_close(p.grad.double(), q.grad, name)
    assert_close(x.grad.double(), x64.grad, "x")


@pytest.fixture
def _in_c(monkeypatch):
    """A layer that falls back to its modules is an error."""

    def of(function):
        def must(*args):
            out = function(*args)
            assert out is not None, "fell back to the modules"
            return out

        return must

    monkeypatch.setattr(fast_c, "dense_layer", of(fast_c.dense_layer))
    monkeypatch.setattr(fast_c, "convolved", of(fast_c.convolved))


# ---- Dense layers


@pytest.mark.parametrize("kind", ["spikes", "counts", "silent", "full"])
@pytest.mark.parametrize("keep_membrane", [True, False])
@given(steps=st.integers(1, 9), batch=few, inputs_=sizes, outputs=sizes, bias=st.booleans(), seed=st.integers(0, 99))
def test_a_dense_layer_is_its_modules(kind, keep_membrane, steps, batch, inputs_, outputs, bias, seed):
    block = dense_block(inputs_, outputs, bias=bias, seed=seed)
    assert fast_c.dense_layer(block, inputs(kind, steps, batch, inputs_), None, True) is not None
    assert_same(block, inputs(kind, steps, batch, inputs_, seed=seed), keep_membrane=keep_membrane)


@pytest.mark.usefixtures("_in_c")
def test_a_dense_layer_of_many_blocks_of_neurons_and_words_of_time():
    assert_same(dense_block(700, 1500, theta=16.25), inputs("counts", 70, 3, 700).clamp_(max=3))


@pytest.mark.usefixtures("_in_c")
@pytest.mark.parametrize("outputs", [3, 40])
def test_a_learnt_decay_and_a_state_have_their_gradients(outputs):
    block = dense_block(50, outputs, learn_beta=True, neurons=outputs)
    state = LIFState(torch.randint(-4, 5, (3, outputs)) / 4, torch.randint(0, 2, (3, outputs)).float())
    assert_same(block, inputs("spikes", 6, 3, 50), state)
    shared = dense_block(50, outputs, learn_beta=True)
    assert_same(shared, inputs("spikes", 6, 3, 50), state)
    before = state.membrane.clone().requires_grad_()
    shared(inputs("spikes", 6, 3, 50), LIFState(before, state.spikes)).membrane.sum().backward()
    again = state.membrane.clone().requires_grad_()
    plain(shared)(inputs("spikes", 6, 3, 50), LIFState(again, state.spikes)).membrane.sum().backward()
    assert_close(before.grad, again.grad, "u0")


@pytest.mark.usefixtures("_in_c")
@given(cut=st.integers(1, 8))
def test_splitting_time_changes_nothing(cut):
    block, x = dense_block(40, 20), inputs("counts", 9, 2, 40)
    whole, first = block(x), block(x[:cut])
    second = block(x[cut:], first.state)
    assert torch.equal(torch.cat((first.spikes, second.spikes)), whole.spikes)
    assert torch.equal(second.state.membrane, whole.state.membrane)


def test_a_current_is_rounded_once_when_any_bias_is_added():
    block, x = dense_block(700, 33, theta=1e6), inputs("counts", 2, 3, 700)
    with torch.no_grad():
        block.synapse.bias.normal_()
    total = (x.double() @ block.synapse.signs().double().T).float()
    assert torch.equal(block(x).membrane[0], (total + block.synapse.bias)[0])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_spike(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert_same(dense_block(100, 20), inputs("spikes", 40, 9, 100))
        assert_same(conv_block(3, 5, 3, [nn.AvgPool2d(2)]), inputs("spikes", 9, 13, 3, 8, 8))
    finally:
        torch.set_num_threads(before)


# ---- Dropout


@given(
    steps=st.integers(1, 9), batch=few, neurons=sizes, p=st.floats(0.01, 0.99), key=st.integers(-(2**63), 2**63 - 1),
    first=st.integers(0, 5),
)  # fmt: skip
def test_the_mask_is_that_of_the_definition(steps, batch, neurons, p, key, first):
    got = dropout_c.keep_mask((steps, batch, neurons), dropout_c.draw(p, torch.tensor(key), 3, first * neurons))
    wanted = dropout.keep_mask((steps, batch, neurons), p, torch.tensor(key), 3, first)
    assert torch.equal(got.bool(), wanted)


@pytest.mark.usefixtures("_in_c")
@pytest.mark.parametrize("p", [0.5, 0.186])
@pytest.mark.parametrize("keyed", [True, False])
@given(steps=st.integers(1, 9), outputs=sizes)
def test_dropout_is_the_modules(p, keyed, steps, outputs):
    block, x = dense_block(40, outputs, p=p), inputs("spikes", steps, 3, 40)
    twin = plain(block)
    for layer in (block, twin):
        set_dropout_key(layer, torch.tensor(17) if keyed else None)
    torch.manual_seed(5)
    got, after = block(x), torch.rand(3)
    torch.manual_seed(5)
    wanted = twin(x)
    assert torch.equal(got.spikes, wanted.spikes)
    assert torch.equal(got.membrane, wanted.membrane)
    assert torch.equal(after, torch.rand(3)), "PyTorch's generator was left elsewhere"
    for out in (got, wanted):
        (out.spikes.sum() + out.membrane.square().mean()).backward()
    for (name, a), b in zip(block.named_parameters(), twin.parameters(), strict=True):
        assert_close(a.grad, b.grad, name)


@pytest.mark.parametrize("keyed", [True, False])
def test_a_shard_drops_what_the_whole_batch_drops(keyed):
    block, x = dense_block(40, 20, p=0.4), inputs("spikes", 6, 5, 40)
    set_dropout_key(block, torch.tensor(3) if keyed else None)
    set_shard(block, Shard(0, 5, 5, lambda t: t))
    torch.manual_seed(0)
    whole = block(x)
    set_shard(block, Shard(2, 4, 5, lambda t: t))
    torch.manual_seed(0)
    assert torch.equal(block(x[:, 2:4]).spikes, whole.spikes[:, 2:4])


def test_nothing_is_drawn_for_an_input_that_c_cannot_take():
    block, x = dense_block(40, 20, p=0.4), torch.rand(4, 3, 40)
    torch.manual_seed(0)
    got = block(x).spikes
    torch.manual_seed(0)
    assert torch.equal(got, plain(block)(x).spikes)


# ---- Convolutions


@pytest.mark.parametrize("kind", ["spikes", "counts", "full"])
@given(
    steps=few, batch=st.sampled_from([1, 2, 7]), channels=st.sampled_from([1, 3, 16, 17]), filters=sizes,
    kernel=st.tuples(few, few), pool=st.integers(0, 3), side=st.tuples(st.integers(5, 9), st.integers(5, 9)),
)  # fmt: skip
def test_a_convolution_with_its_pool_is_its_modules(kind, steps, batch, channels, filters, kernel, pool, side):
    # A third is not exact: pools of 3 x 3 are compared by their currents alone.
    x, kernels = inputs(kind, steps, batch, channels, *side), torch.randn(filters, channels, *kernel).sign()
    pools = [nn.AvgPool2d(pool)] if pool else []
    got, wanted = conv.conv_pool(x, kernels, pool or 1), F.conv2d(x.flatten(0, 1), kernels)
    for layer in pools:
        wanted = layer(wanted)
    assert torch.equal(got, wanted.view_as(got))
    if pool != 3:
        assert_same(conv_block(channels, filters, kernel, pools), x)


@pytest.mark.usefixtures("_in_c")
@pytest.mark.parametrize(
    "pools",
    [
        [nn.AvgPool2d(2), nn.AvgPool2d(2)],
        [nn.MaxPool2d(2)],
        [nn.AvgPool2d(2), nn.MaxPool2d(2)],
        [nn.AvgPool2d(2, 1)],
        [nn.AvgPool2d(2, padding=1)],
        [nn.AvgPool2d((2, 1))],
        [nn.AvgPool2d(4, ceil_mode=True)],
        [nn.AvgPool2d(2, divisor_override=1)],
    ],
    ids=["two", "max", "mixed", "overlapping", "padded", "oblong", "ceil", "divisor"],
)
def test_pools_that_do_not_fold_run_behind(pools):
    assert_same(conv_block(2, 5, 3, pools), inputs("spikes", 3, 2, 2, 12, 12))


@pytest.mark.parametrize(
    "options", [{"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}, {"bias": True}, {"binary": False}]
)
def test_other_convolutions_run_by_their_modules(options):
    block, x = conv_block(2, 4, 3, [], **options), inputs("spikes", 3, 2, 2, 8, 8)
    assert fast_c.convolved(block, x) is None
    assert torch.equal(block(x).spikes, plain(block)(x).spikes)


def test_an_image_smaller_than_the_folded_kernel_is_the_modules_matter():
    assert conv.conv_pool(inputs("spikes", 1, 1, 2, 4, 4), torch.ones(3, 2, 4, 4), 2) is None
    with pytest.raises(RuntimeError, match="too small"):
        conv_block(2, 3, 4, [nn.AvgPool2d(2)])(inputs("spikes", 1, 1, 2, 4, 4))


def test_a_long_sum_of_gradients_keeps_its_digits():
    # 100 steps of 20 images: float32 all the way would lose 2e-5.
    random = torch.Generator().manual_seed(0)
    x = (torch.rand(100, 20, 2, 8, 8, generator=random) < 0.5).float()
    grad = torch.rand(100, 20, 3, 3, 3, generator=random)
    kernels = torch.randn(3, 2, 3, 3).sign().requires_grad_()
    (conv.conv_pool(x, kernels, 2) * grad).sum().backward()
    exact = kernels.detach().double().requires_grad_()
    (F.avg_pool2d(F.conv2d(x.flatten(0, 1).double(), exact), 2) * grad.flatten(0, 1).double()).sum().backward()
    assert_close(kernels.grad.double(), exact.grad, "kernel", 5e-7)


# ---- Batch norm per step


@given(
    steps=st.integers(1, 6), batch=st.integers(1, 5), channels=st.sampled_from([1, 2, 7, 8, 9, 19]),
    side=st.integers(2, 5), momentum=st.sampled_from([0.1, 0.37, 1.0]), tracked=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_all_steps_at_once_have_the_bits_of_t_calls(steps, batch, channels, side, momentum, tracked, seed):
    torch.manual_seed(seed)
    ours = StepBatchNorm2d(channels, momentum=momentum, track_running_stats=tracked)
    with torch.no_grad():
        ours.weight.normal_()
        ours.bias.normal_()
    theirs, exact = copy.deepcopy(ours), copy.deepcopy(ours).double()
    x = (torch.randn(steps, batch, channels, side, side) * 3 + 1).requires_grad_()
    x64 = x.detach().double().requires_grad_()
    out = ours(x)
    assert type(out.grad_fn).__name__ == "_StepNormBackward"
    assert torch.equal(out, theirs(x.detach(), plain=True))
    for a, b in zip(ours.buffers(), theirs.buffers(), strict=True):
        assert torch.equal(a, b)
    weights = torch.randn(out.shape)
    (out * weights).sum().backward()
    (exact(x64) * weights.double()).sum().backward()
    if batch * side * side > 4:  # of few values the gradient is a difference of like numbers
        assert_close(x.grad.double(), x64.grad, "x")
    assert_close(ours.weight.grad.double(), exact.weight.grad, "weight")
    assert_close(ours.bias.grad.double(), exact.bias.grad, "bias")


def test_a_norm_without_parameters_is_pytorchs_matter():
    ours, x = StepBatchNorm2d(7, affine=False), torch.randn(4, 3, 7, 2, 2)
    assert torch.equal(ours(x), copy.deepcopy(ours)(x, plain=True))


def test_images_of_one_pixel_are_pytorchs_matter():
    ours, x = StepBatchNorm2d(7), torch.randn(4, 3, 7, 1, 1)
    assert torch.equal(ours(x), copy.deepcopy(ours)(x, plain=True))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        StepBatchNorm2d(3)(torch.randn(4, 1, 3, 1, 1))


# ---- When it applies


@pytest.mark.parametrize("value", [-1.0, 0.5, 256.0, float("nan"), float("inf")])
def test_what_is_not_a_small_whole_number_is_left_alone(value):
    x = inputs("counts", 3, 2, 70)
    assert pack(x, 70) is not None
    x[2, 1, 69] = value
    assert pack(x, 70) is None


def test_sums_that_float32_or_16_bits_cannot_hold_are_left_alone():
    spikes, counts = torch.ones(1, 1, 3), torch.full((1, 1, 3), 2.0)
    assert pack(spikes, 2**24 - 1) is not None
    assert pack(spikes, 2**24) is None
    assert pack(counts, 2**24 // 255) is not None
    assert pack(counts, 2**24 // 255 + 1) is None
    assert dense.pack_inputs(torch.ones(1, 1, 2**15 - 1), 1) is not None
    assert dense.pack_inputs(torch.ones(1, 1, 2**15), 1) is None
    images, kernels = torch.ones(1, 1, 1829, 4, 4), torch.ones(1, 1829, 3, 3)
    assert conv.conv_pool(images, kernels, 2) is not None
    assert conv.conv_pool(2 * images, kernels, 2) is None  # might reach 255 * 1829 * 9 * 4


def test_layers_whose_inputs_mostly_fire_are_left_alone(monkeypatch, however_busy):
    monkeypatch.setattr(dense, "BUSY", however_busy)
    assert dense.pack_inputs(inputs("spikes", 20, 5, 64) * inputs("spikes", 20, 5, 64, seed=1), 64) is not None
    assert dense.pack_inputs(inputs("full", 20, 5, 64), 64) is None
    few_of_many = (torch.rand(2, 2, 8192, generator=torch.Generator().manual_seed(0)) < 0.1).float()
    assert dense.pack_inputs(few_of_many, 16) is not None
    assert dense.pack_inputs(few_of_many, 8192) is None


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
    monkeypatch.setattr("bitspike.nn.norm.step_norm", forbidden)
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


@pytest.mark.parametrize("fault", ["missing", "not a library", "another interface"])
def test_kernels_that_do_not_load_are_done_without(monkeypatch, tmp_path, fault):
    from types import SimpleNamespace

    origin = library.importlib.util.find_spec("bitspike.ops.native._native").origin
    if fault == "not a library":
        (tmp_path / "broken.so").write_bytes(b"no")
        origin = str(tmp_path / "broken.so")
    spec = None if fault == "missing" else SimpleNamespace(origin=origin)
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: spec)
    if fault == "another interface":
        monkeypatch.setattr(library, "_INTERFACE", -1)
    assert library.library.__wrapped__() is None


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


def assert_same_error(block, x, state, match):
    messages = []
    for layer in (block, plain(block)):
        with pytest.raises(ValueError, match=match) as error:
            layer(x, state)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


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
