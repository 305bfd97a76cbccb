"""The Triton backend equals the definition: spikes and membranes bit for bit, gradients to the surrogate's bf16.

Without a GPU the kernels run in Triton's interpreter, which is slow: sizes are small, and so are the kernels' tiles.
"""

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bitspike import LIFState, lif
from bitspike.ops.lif.surrogate import GRADS
from helpers.lif import (
    ADAPTIVE,
    DEVICE,
    OUTPUTS,
    assert_same_outputs,
    calls,
    check,
    draw,
    gradients,
    incoming,
    moved,
    with_state,
)

pytest.importorskip("triton")
from bitspike.ops.lif import kernels as lif_triton_kernels
from bitspike.ops.lif import triton as lif_triton
from helpers.interpreter import mend

mend()
TILE = lif_triton.tile


@pytest.fixture(autouse=True, scope="module")
def _small_tiles():
    """Tiles that a few dozen neurons and a dozen steps fill more than once, and never to the edge."""
    lif_triton.tile = lambda neurons: lif_triton.Tile(16, 1, 4)
    yield
    lif_triton.tile = TILE


@pytest.fixture(autouse=True, scope="module")
def _poison():
    """Memory that is handed out holds NaN, so that whatever a kernel forgets to write shows."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


# ---- Equality with the definition


@settings(max_examples=12)
@given(call=calls())
def test_any_call_fires_as_the_definition(call):
    ours = lif(**moved(call), backend="triton")
    assert_same_outputs(ours, lif(**moved(call), backend="reference"))


@pytest.mark.parametrize("static", [False, True], ids=["sequence", "static"])
@pytest.mark.parametrize("adaptation", [None, ADAPTIVE], ids=["plain", "adaptive"])
@pytest.mark.parametrize(("steps", "shape"), [(1, (1, 1)), (4, (2, 16)), (9, (3, 7)), (5, (2, 3, 3))])
def test_outputs_and_gradients_of_any_size(steps, shape, adaptation, static):
    call = {"current": draw(1, *(() if static else (steps,)), *shape), "beta": 0.5, "theta": 1.5, "theta_grad": 0.75}
    call |= {"slope": 1.0, "adaptation": adaptation} | ({"steps": steps} if static else {})
    check(with_state(call, adaptation is not None))


WIRES = {"plain": {}, "adaptive": {"adaptation": ADAPTIVE}, "recurrent": {"recurrent": (draw(3, 36, 36) > 0) * 2.0 - 1}}


@pytest.mark.parametrize("static", [False, True], ids=["sequence", "static"])
@pytest.mark.parametrize("wired", WIRES)
@pytest.mark.parametrize("surrogate", [name for name in GRADS if name != "fast_sigmoid"])
def test_other_surrogates(surrogate, wired, static):
    neurons = 36 if wired == "recurrent" else 9  # on a GPU recurrence starts at 33
    call = {"current": draw(1, *(() if static else (6,)), 3, neurons), "beta": 0.5, "theta": 1.5, "theta_grad": 0.75}
    call |= {"slope": 1.5, "surrogate": surrogate} | WIRES[wired] | ({"steps": 6} if static else {})
    check(with_state(call, wired == "adaptive"), share=2**-6 if wired == "recurrent" else 2**-7)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of the interpreter's NumPy: infinity is meant
@pytest.mark.parametrize("surrogate", GRADS)
def test_far_from_the_center_no_surrogate_is_nan(surrogate):
    far = torch.tensor([3.0, 90.0, -90.0, 1e4, -1e4, 1e20, 1e30, -1e30])
    for current, steps in ((far.expand(1, 1, 8), {}), (far.expand(1, 8), {"steps": 1})):
        u = current.clone().to(DEVICE).requires_grad_()
        out = lif(u, beta=0.5, theta=3.0, slope=1e10, surrogate=surrogate, backend="triton", **steps)
        out.spikes.sum().backward()
        near, *others = u.grad.flatten().tolist()
        assert near == pytest.approx(1, rel=1e-6)
        assert all(0 <= grad < 2e-10 for grad in others), others


def test_negative_currents_never_fire():
    call = {"current": -draw(1, 6, 2, 20).abs() - 1, "beta": 0.5, "theta": 1.5, "slope": 1.0}
    check(call)
    assert not lif(**moved(call), backend="triton").spikes.any()


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("form", ["one", "a neuron", "a sample", "each", "strided"])
def test_parameters_of_every_form(form, static):
    def values(low, high):
        every = torch.linspace(low, high, 30).mul(8).round().div(8).view(3, 10)  # multiples of 1/8 are exact
        forms = {"one": every[1, 1], "a neuron": every[0], "a sample": every[:, :1], "each": every}
        return forms.get(form, every.T.contiguous().T)

    call = {"current": draw(1, *(() if static else (5,)), 3, 10), "beta": values(0, 1), "theta": values(1, 4)}
    call |= {"theta_grad": values(0.5, 2), "slope": 2.0} | ({"steps": 5} if static else {})
    check(call)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("names", [(name,) for name in OUTPUTS])
@pytest.mark.parametrize("adaptation", [None, ADAPTIVE], ids=["plain", "adaptive"])
def test_a_gradient_that_comes_through_one_output_only(names, static, adaptation):
    if names == ("a",) and adaptation is None:
        pytest.skip("no adaptation, no gradient of it")
    call = {"current": draw(1, *(() if static else (5,)), 2, 6), "beta": 0.5, "theta": 1.5, "slope": 1.0}
    call |= {"adaptation": adaptation} | ({"steps": 5} if static else {})
    check(with_state(call, adaptation is not None), names)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("static", [False, True])
def test_half_precision_currents(dtype, static):
    current = (draw(1, *(() if static else (6,)), 2, 20, exact=False) * 2).to(DEVICE, dtype)
    call = {"beta": 0.8, "theta": 1.3, "slope": 1.0, **({"steps": 6} if static else {})}
    weights, found = draw(2, 6, 2, 20).to(DEVICE), []
    for backend in ("triton", "reference"):
        leaf = current.clone().requires_grad_()
        out = lif(leaf, backend=backend, **call)
        ((out.spikes + out.membrane) * weights).sum().backward()
        found.append((out, leaf.grad))
    (ours, grad), (reference, wanted) = found
    assert (ours.spikes.dtype, ours.membrane.dtype, grad.dtype) == (dtype, torch.float32, dtype)
    assert_same_outputs(ours, reference)
    assert (grad - wanted).abs().max() <= 2**-6 * wanted.abs().max()


def test_every_gradient_is_within_a_rounding_and_without_bias(monkeypatch):
    monkeypatch.setattr(lif_triton, "tile", lambda neurons: lif_triton.Tile(1024, 4, 4))
    # Rounding s to bf16 is a relative 2**-8 at most; positive gradients cannot cancel.
    current = (draw(1, 8, 1, 2048, exact=False) * 3).to(DEVICE)
    found = []
    for backend, dtype in (("triton", torch.float32), ("reference", torch.float64)):
        leaf = current.to(dtype, copy=True).requires_grad_()
        out = lif(leaf, beta=0.5, theta=2.0, slope=0.7, backend=backend)
        out.spikes.sum().backward()
        found.append((out.spikes.detach(), leaf.grad.double()))
    (ours, grad), (spikes, exact) = found
    same = (ours == spikes).all(0)  # float64 may fire otherwise, rarely
    assert same.float().mean() > 0.99
    error = ((grad - exact) / exact)[:, same]
    assert error.abs().max() <= 1.001 * 2**-8
    assert error.mean().abs() <= 5e-5  # cutting off instead of rounding would give -3e-3


# ---- Laws of time, thresholds that move


@pytest.mark.parametrize("adaptation", [None, ADAPTIVE], ids=["plain", "adaptive"])
def test_a_static_current_is_a_repeated_one(adaptation):
    call = {"current": draw(1, 2, 9), "beta": 0.5, "theta": 1.5, "slope": 1.0, "adaptation": adaptation, "steps": 7}
    call |= {"beta": torch.tensor(0.5)}
    given = incoming(call)
    static, grads = gradients("triton", call, given)
    sequence = {name: value for name, value in call.items() if name != "steps"}
    sequence["current"] = call["current"].expand(7, 2, 9)
    repeated, same = gradients("triton", sequence, given)
    assert_same_outputs(static, repeated)
    assert torch.allclose(grads["current"], same["current"].sum(0), rtol=0, atol=0.05)
    assert torch.allclose(grads["beta"], same["beta"], rtol=0, atol=0.5)


@pytest.mark.parametrize("cut", [1, 6])
@pytest.mark.parametrize("adaptation", [None, ADAPTIVE], ids=["plain", "adaptive"])
def test_splitting_time_changes_nothing(cut, adaptation):
    call = {"theta": 1.5, "slope": 1.0, "adaptation": adaptation, "backend": "triton", "beta": 0.8}
    made, weights, found = draw(1, 9, 2, 6, exact=False).to(DEVICE), draw(2, 9, 2, 6).to(DEVICE), []
    for pieces in ([9], [cut, 9 - cut]):
        current, state, spikes = made.clone().requires_grad_(), None, []
        for piece in current.split(pieces):
            out = lif(piece, state=state, **call)
            state = out.state
            spikes.append(out.spikes)
        torch.cat(spikes).mul(weights).sum().backward()
        found.append((torch.cat(spikes), *state[:2], current.grad))
    for whole, split in zip(*found, strict=True):
        assert torch.equal(whole, split)


def test_a_threshold_written_in_place_is_seen_by_the_next_call():
    theta, current = torch.tensor(1.5, device=DEVICE), draw(1, 5, 2, 9).to(DEVICE)
    for value in (1.5, 3.0):
        theta.fill_(value)
        call = {"beta": 0.5, "theta": theta, "slope": 1.0}
        assert_same_outputs(
            lif(current, backend="triton", **call), lif(current, backend="reference", **call | {"theta": value})
        )


def test_a_threshold_written_before_the_backward_pass_changes_nothing():
    # The surrogate was kept, so annealing need not wait for the backward pass.
    grads = []
    for later in (1.5, 3.0):
        theta, current = torch.tensor(1.5, device=DEVICE), draw(1, 5, 2, 9).to(DEVICE).requires_grad_()
        out = lif(current, beta=0.5, theta=theta, slope=1.0, backend="triton")
        theta.fill_(later)
        out.spikes.sum().backward()
        grads.append(current.grad)
    assert torch.equal(*grads)


@pytest.mark.parametrize("what", ["theta", "theta_grad", "beta", "current"])
def test_overwriting_what_a_static_scan_is_run_again_from_is_an_error(what):
    given = {name: torch.tensor(1.5, device=DEVICE) for name in ("theta", "theta_grad")}
    given |= {"beta": torch.tensor(0.5, device=DEVICE), "current": draw(1, 1, 3).to(DEVICE).requires_grad_() * 1}
    out = lif(**given, slope=1.0, steps=4, backend="triton")
    with torch.no_grad():
        given[what].fill_(0.25)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.spikes.sum().backward()


# ---- Layout in memory, and how much of it


LAYOUTS = ("sum over time", "one number", "a neuron, a sample strided", "neurons strided", "time last in memory")


@pytest.mark.parametrize(
    ("shape", "static"),
    [
        *((shape, False) for shape in LAYOUTS),
        *((shape, True) for shape in LAYOUTS[:1] + LAYOUTS[-1:]),
        *(pytest.param(shape, True, marks=pytest.mark.slow) for shape in LAYOUTS[1:-1]),
    ],
)
def test_gradients_are_read_where_they_lie(shape, static):
    grad = {
        "sum over time": lambda: draw(2, 3, 6).expand(6, 3, 6),
        "one number": lambda: torch.tensor(1.5).expand(6, 3, 6),
        "a neuron, a sample strided": lambda: draw(2, 6, 3).T.expand(6, 3, 6),
        "neurons strided": lambda: draw(2, 6, 3, 12)[..., ::2],
        "time last in memory": lambda: draw(2, 3, 6, 6).movedim(-1, 0),
    }[shape]().to(DEVICE)
    current = draw(1, *(() if static else (6,)), 3, 6).to(DEVICE)
    found = []
    for received in (grad, grad.contiguous()):
        leaf = current.clone().requires_grad_()
        out = lif(leaf, beta=0.5, theta=1.5, slope=1.0, backend="triton", **({"steps": 6} if static else {}))
        torch.autograd.backward([out.spikes, out.membrane], [received, received * 1])
        found.append(leaf.grad)
    assert torch.equal(*found)


@pytest.mark.parametrize("static", [False, True])
def test_a_gradient_that_repeats_over_time_is_read_once(launched, static):
    current = draw(1, *(() if static else (6,)), 3, 6).to(DEVICE).requires_grad_()
    out = lif(current, beta=0.5, theta=1.5, slope=1.0, backend="triton", **({"steps": 6} if static else {}))
    out.spikes.sum(0).sum().backward()
    assert launched[-1][1]["STILL"]


def test_strided_states_and_their_gradients():
    def strided(seed):
        return draw(seed, 6, 3).T

    call = {"current": draw(1, 3, 3, 6), "beta": 0.5, "theta": 1.5, "slope": 1.0, "adaptation": ADAPTIVE}
    check(call | {"state": LIFState(strided(2), strided(3).gt(0).float(), strided(4).abs())})
    found = []
    for grad in (strided(5), strided(5).contiguous()):
        leaf = call["current"].to(DEVICE).requires_grad_()
        out = lif(leaf, beta=0.5, theta=1.5, slope=1.0, backend="triton")
        torch.autograd.backward([out.state.membrane, out.state.spikes], [grad.to(DEVICE)] * 2)
        found.append(leaf.grad.clone())
        leaf.grad = None
    assert torch.equal(*found)


def test_a_gradient_that_repeats_over_time_is_not_written_out():
    form = lif_triton.Form(9, False, torch.Size((3, 11)), 1.0, "arctan", 0.0, 0.0, False, True, 1.0, recurrent_grad=1.0)
    for grad, neuron in ((draw(2, 3, 11).expand(9, 3, 11), 1), (torch.tensor(1.5).expand(9, 3, 11), 0)):
        read, *strides = lif_triton.rows_of(grad, form)
        assert (read.data_ptr(), *strides) == (grad.data_ptr(), 0, neuron)
    turned = draw(2, 11, 3).T.expand(9, 3, 11)
    assert lif_triton.rows_of(turned, form)[0].shape == (3, 11)


@pytest.mark.parametrize(
    "twist",
    [
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        lambda x: x.repeat_interleave(2, 2)[..., ::2],
        lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0),
        lambda x: x[:1].expand_as(x),
    ],
    ids=["transposed", "every second", "time last in memory", "repeated"],
)
def test_the_currents_layout_in_memory_does_not_matter(twist):
    check({"current": twist(draw(8, 6, 3, 5)), "beta": 0.5, "theta": 1.5, "slope": 1.0})


@pytest.mark.parametrize(("learnt", "static", "bytes_a_step"), [(False, False, 2), (True, False, 4), (True, True, 0)])
@pytest.mark.parametrize("membrane", [False, True])
def test_what_is_kept_for_the_backward_pass(learnt, static, bytes_a_step, membrane):
    kept = []
    beta = torch.tensor(0.5, device=DEVICE, requires_grad=learnt)
    current = draw(1, *(() if static else (10,)), 4, 8).to(DEVICE).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        lif(current, beta=beta, theta=1.5, slope=1.0, keep_membrane=membrane, backend="triton",
            steps=10 if static else None)  # fmt: skip
    large = sum(x.numel() * x.element_size() for x in kept if x.numel() > 4 * 8)
    assert large == 10 * 4 * 8 * bytes_a_step


@pytest.fixture
def launched(monkeypatch):
    """What kernels were launched with."""
    calls, true = [], lif_triton.launch
    monkeypatch.setattr(
        lif_triton, "launch", lambda *args, **kwargs: calls.append((args, kwargs)) or true(*args, **kwargs)
    )
    return calls


def test_inference_keeps_no_step(launched):
    with torch.no_grad():
        out = lif(draw(1, 10, 4, 8).to(DEVICE), beta=0.5, theta=1.5, slope=1.0, keep_membrane=False, backend="triton")
    assert out.membrane is None
    large = [x for x in launched[0][0] if isinstance(x, torch.Tensor) and x.numel() > 4 * 8]
    assert [x.dtype for x in large] == [torch.float32] * 2  # current and spikes
    assert [part.untyped_storage().nbytes() for part in out.state[:2]] == [4 * 8 * 4] * 2


def test_an_empty_batch_gives_empty_outputs():
    current = torch.zeros(3, 0, 4, device=DEVICE, requires_grad=True)
    beta = torch.full((4,), 0.5, device=DEVICE, requires_grad=True)
    out = lif(current, beta=beta, theta=1.0, slope=1.0, backend="triton")
    assert out.spikes.shape == out.membrane.shape == (3, 0, 4)
    out.membrane.sum().backward()
    assert current.grad.shape == (3, 0, 4)
    assert beta.grad.tolist() == [0, 0, 0, 0]


def test_a_second_derivative_is_refused():
    current = draw(1, 4, 1, 3).to(DEVICE).requires_grad_()
    out = lif(current, beta=0.5, theta=1.5, slope=1.0, backend="triton")
    (grad,) = torch.autograd.grad((out.membrane**2).sum(), current, create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        grad.sum().backward()


def test_a_static_current_may_be_one_number():
    current = torch.tensor(1.0, device=DEVICE, requires_grad=True)
    out = lif(current, beta=0.5, theta=9.0, slope=1.0, steps=3, backend="triton")
    out.state.membrane.backward()
    assert current.grad.item() == 1.75


@given(neurons=st.integers(1, 1 << 24))
def test_tiles_are_powers_of_two_that_fill_their_threads(neurons):
    block, warps, ahead = TILE(neurons)
    for number in (block, warps, ahead):
        assert number & (number - 1) == 0
    assert block >= 32 * warps


# ---- When it runs


def refused(current, **call):
    with pytest.raises(ValueError, match="lif: backend 'triton' cannot run this call") as raised:
        lif(current, beta=0.5, theta=1.5, slope=1.0, backend="triton", **call)
    assert str(raised.value).endswith("; use 'auto'")
    return str(raised.value)


def test_float64_is_refused():
    assert "torch.float64, not float32, bfloat16 or float16" in refused(torch.ones(2, 1, 3, dtype=torch.float64))


def test_without_triton_the_reason_is_said(monkeypatch):
    monkeypatch.delitem(sys.modules, "bitspike.ops.lif.kernels")
    monkeypatch.setitem(sys.modules, "triton", None)
    assert "Triton is not installed" in refused(torch.ones(2, 1, 3))


def test_the_cpu_is_refused_where_kernels_are_compiled(monkeypatch):
    monkeypatch.setattr(lif_triton_kernels, "INTERPRETED", False)
    assert "on the CPU, where Triton only runs interpreted" in refused(torch.ones(2, 1, 3))


def test_a_lean_import_and_the_cpus_own_path_never_import_triton():
    code = (
        "import sys, torch, bitspike\n"
        "x = torch.ones(2, 1, 3, requires_grad=True)\n"
        "bitspike.lif(x, beta=0.5, theta=1.0, slope=1.0).spikes.sum().backward()\n"
        "print('triton' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr
