"""PyTorch's products against the definition: the same bits for every geometry, pool and kind of number."""

import math
import os
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bitspike.ops.current import Form, Pool, current, reference
from bitspike.ops.current import torch as twin

sides = st.integers(1, 3)
NATIVE = (False,) if os.environ.get("BITSPIKE_NO_C") == "1" else (False, True)
KINDS = ("spikes", "counts", "pixels", "negative", "normal", "wild", "large", "tiny", "cancelling")


def numbers(kind, *shape, seed=0):
    """Inputs of a kind; the last ones of the list have float64 sums that round, so that their order shows."""
    random = torch.Generator().manual_seed(seed)
    uniform, normal = torch.rand(shape, generator=random), torch.randn(shape, generator=random)
    return {
        "spikes": lambda: (uniform < 0.4).float(),
        "counts": lambda: torch.randint(0, 300, shape, generator=random).float(),
        "pixels": lambda: torch.randint(0, 256, shape, generator=random).float() / 255,
        "negative": lambda: torch.randint(-5, 6, shape, generator=random).float(),
        "normal": lambda: normal,
        "wild": lambda: normal * torch.exp2(torch.randint(-60, 60, shape, generator=random)),
        "large": lambda: normal * 2.0**100,
        "tiny": lambda: normal * 2.0**-140,
        "cancelling": lambda: torch.where(uniform < 0.5, normal * 2.0**-30, normal.sign() * 2.0**40),
    }[kind]()


def signs_of(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).sign()


def equal(ours, wanted):
    """Whether all bits are equal, except for the sign of a zero, which changes no membrane."""
    return ours.dtype == wanted.dtype and torch.equal(ours, wanted)


@st.composite
def forms(draw):
    pools = draw(
        st.lists(st.builds(Pool, st.sampled_from(["average", "max"]), st.integers(1, 3), st.integers(1, 3)), max_size=3)
    )
    return Form((draw(sides), draw(sides)), (draw(st.integers(0, 2)), draw(st.integers(0, 2))), tuple(pools))


@given(
    kind=st.sampled_from(KINDS),
    form=forms(),
    kernel=st.tuples(sides, sides),
    size=st.tuples(st.integers(3, 12), st.integers(3, 12)),
    seed=st.integers(0, 99),
    extra=st.tuples(st.booleans(), st.booleans(), st.sampled_from(NATIVE)),
)
@settings(max_examples=60, deadline=None)
def test_a_convolution_has_the_definitions_bits(kind, form, kernel, size, seed, extra):
    if not form.fits(*size, *kernel):
        return
    x, signs = numbers(kind, 2, 3, *size, seed=seed), signs_of(4, 3, *kernel, seed=seed)
    bias = torch.randn(4) if extra[0] else None
    norm = (torch.randn(4), torch.randn(4)) if extra[1] else None
    assert equal(current(x, signs, form, bias, norm, native=extra[2]), reference.current(x, signs, form, bias, norm))


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # PyTorch's own, as its switch is moved
def test_the_bits_do_not_depend_on_onednn():
    """Without it PyTorch may take NNPACK, which is not exact. Its switch is of the whole process, and is left alone."""
    x, signs = numbers("counts", 64, 3, 28, 28), signs_of(16, 3, 5, 5)
    left_alone = mock.patch("torch._C._set_nnpack_enabled", side_effect=AssertionError)
    with torch.backends.mkldnn.flags(enabled=False), left_alone:
        for form in (Form(), Form(pools=(Pool("average", 2, 2),))):
            assert equal(twin.current(x, signs, form), reference.current(x, signs, form))


@pytest.mark.parametrize("kind", ["spikes", "counts", "pixels", "normal"])
@pytest.mark.parametrize(("size", "stride"), [(18, 18), (17, 1), (16, 5)])
def test_a_large_pool_has_the_definitions_bits_and_no_larger_kernel(kind, size, stride, monkeypatch):
    """A kernel over all that a pool's place sees would take gigabytes in a network of ordinary widths."""
    kernels, convolve = [], torch.nn.functional.conv2d
    monkeypatch.setattr(twin.F, "conv2d", lambda x, kernel, *rest: kernels.append(kernel) or convolve(x, kernel, *rest))
    form = Form(padding=(1, 0), pools=(Pool("average", size, stride), Pool("max", 2, 1)))
    x, signs = numbers(kind, 2, 3, 40, 38), signs_of(4, 3, 3, 2)
    assert equal(twin.current(x, signs, form), reference.current(x, signs, form))
    assert {kernel.shape for kernel in kernels} == {signs.shape}


@given(kind=st.sampled_from(KINDS), inputs=st.integers(1, 70), outputs=st.integers(1, 20), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_dense_layer_has_the_definitions_bits(kind, inputs, outputs, seed):
    x, signs = numbers(kind, 5, inputs, seed=seed), signs_of(outputs, inputs, seed=seed)
    bias, norm = torch.randn(outputs), (torch.randn(outputs), torch.randn(outputs))
    assert equal(current(x, signs, Form(), bias, norm), reference.current(x, signs, Form(), bias, norm))


def test_the_order_shows_where_float64_rounds():
    """Otherwise the tests above would say nothing about the order."""
    x, signs = numbers("cancelling", 30, 200, seed=3), signs_of(50, 200)
    backwards = reference.current(x.flip(1), signs.flip(1), Form())
    assert not equal(backwards, reference.current(x, signs, Form()))
    assert equal(current(x, signs, Form()), reference.current(x, signs, Form()))


def test_rows_beside_a_row_that_rounds_keep_their_exact_sums(monkeypatch):
    x = numbers("pixels", 6, 40)
    x[2] = numbers("wild", 40)
    summed = []
    ordered = twin._ordered
    monkeypatch.setattr(twin, "_ordered", lambda rows, *rest: summed.append(len(rows)) or ordered(rows, *rest))
    signs = signs_of(7, 40)
    assert equal(current(x, signs, Form()), reference.current(x, signs, Form()))
    assert summed == [1]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_rows_that_count_as_exact_are(values):
    """Python's integers say so: the sum of all magnitudes over the finest step has at most 53 binary digits."""
    x = torch.tensor([values])
    if not twin.exact_rows(x, len(values)).item():
        return
    units = [top * (2**149 // bottom) for top, bottom in (value.as_integer_ratio() for value in values)]
    step = math.gcd(*units) or 1
    assert sum(map(abs, units)) <= 2**53 * (step & -step)


@pytest.mark.parametrize(
    ("values", "terms", "whole"),
    [
        ([0.0, 1.0, -3.0], 10, True),
        ([0.5], 1, False),
        ([256.0], 2**16, True),
        ([256.0], 2**16 + 1, False),
        ([257.0], 1, False),
        ([-257.0], 1, False),
        ([float("nan")], 1, False),
        ([float("inf")], 1, False),
    ],
)
def test_whole_numbers_are_those_whose_float32_sums_are_exact(values, terms, whole):
    assert twin.whole_numbers(torch.tensor([values]), terms) is whole


@pytest.mark.parametrize("kind", ["spikes", "pixels", "wild"])
@pytest.mark.parametrize("dense", [True, False])
def test_gradients_are_those_of_the_definition(kind, dense):
    form = Form() if dense else Form((1, 2), (1, 0), (Pool("average", 2, 2), Pool("max", 2, 1)))
    x = numbers(kind, *((4, 30) if dense else (2, 2, 9, 9)))
    x = x / x.abs().max()
    leaves = [x, signs_of(*((6, 30) if dense else (6, 2, 3, 3))), torch.randn(6), torch.randn(6), torch.randn(6)]
    found = []
    for function in (current, reference.current):
        own = [leaf.clone().requires_grad_() for leaf in leaves]
        out = function(own[0], own[1], form, own[2], (own[3], own[4]))
        assert out.requires_grad
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        found.append([out.detach(), *(leaf.grad for leaf in own)])
    assert equal(found[0][0], found[1][0])
    for ours, wanted in zip(found[0][1:], found[1][1:], strict=True):
        assert (ours - wanted).abs().max() <= 1e-6 * wanted.abs().max()


def test_without_gradients_no_input_is_changed():
    x, signs, bias, norm = torch.ones(3, 4), torch.ones(2, 4), torch.ones(2), (torch.full((2,), 3.0), torch.ones(2))
    assert current(x, signs, Form(), bias, norm).tolist() == [[16.0, 16.0]] * 3
    assert [float(part.sum()) for part in (x, signs, bias, *norm)] == [12, 8, 2, 6, 2]


def test_numbers_that_are_not_finite_give_a_current_that_is_not():
    x = torch.tensor([[1.0, float("inf")], [float("nan"), 0.5], [0.1, 0.2]])
    finite = current(x, torch.tensor([[1.0, -1.0]]), Form()).isfinite()
    assert finite.flatten().tolist() == [False, False, True]


@pytest.mark.parametrize("kind", ["pixels", "wild", "counts"])
def test_images_in_any_layout_of_memory_and_in_parts_are_the_same(kind, monkeypatch):
    x, signs = numbers(kind, 7, 3, 8, 8), signs_of(5, 3, 3, 3)
    form, rest = Form(pools=(Pool("average", 3, 3),)), (torch.randn(5), (torch.randn(5), torch.randn(5)))
    wanted = reference.current(x, signs, form, *rest)
    assert equal(current(x.to(memory_format=torch.channels_last), signs, form, *rest), wanted)
    monkeypatch.setattr(twin, "_AT_ONCE", 700)
    monkeypatch.setattr(twin, "_IN_CACHE", 64)
    assert equal(current(x, signs, form, *rest), wanted)
