"""Every fast backend equals the plain definition: spikes and membranes bit for bit, gradients to float32's rounding."""

import importlib.util
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import Adaptation, LIFState, lif
from bitspike.ops.lif import c as lif_c
from bitspike.ops.lif import reference as lif_reference
from bitspike.ops.lif import torch as lif_torch
from bitspike.ops.lif import triton as lif_triton
from bitspike.ops.lif.surrogate import GRADS
from bitspike.ops.native import library
from helpers.lif import assert_same_outputs, calls, draw

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no Triton")
needs_c = pytest.mark.skipif(os.environ.get("BITSPIKE_NO_C") == "1", reason="BITSPIKE_NO_C=1")


WIRES = {
    "plain": {},
    "adaptive": {"adaptation": Adaptation(0.5, 1.0)},
    "recurrent": {"recurrent": (draw(3, 5, 5) > 0).float() * 2 - 1},
    "recurrent, a share of the gradient": {"recurrent": (draw(3, 5, 5) > 0).float() * 2 - 1, "recurrent_grad": 0.3},
}
every_form = pytest.mark.parametrize(
    ("backend", "wired"),
    [(name, wired) for name in ("reference", "torch") for wired in WIRES] + [pytest.param("c", "plain", marks=needs_c)],
)


def run(backend, call, *, through=("spikes", "membrane", "state"), seed=0):
    """Outputs of a call, and the gradients of a random loss on some of them for every input that can have one."""
    leaves = {
        name: value.detach().clone().requires_grad_()
        for name, value in call.items()
        if name in ("current", "beta", "recurrent") and isinstance(value, torch.Tensor)
    }
    if call.get("state") is not None:
        parts = zip(("u0", "z0", "a0"), call["state"][:3], strict=True)
        leaves |= {name: part.detach().clone().requires_grad_() for name, part in parts if part is not None}
    given = call | {name: leaves[name] for name in leaves.keys() & call.keys()}
    if call.get("state") is not None:
        given["state"] = LIFState(leaves["u0"], leaves["z0"], leaves.get("a0"))
    current = given.pop("current")
    out = lif(current, backend=backend, **given)
    parts = {"spikes": out.spikes, "membrane": out.membrane, "state": out.state.membrane}
    parts["level"] = out.state.adaptation
    loss = sum(
        (part * draw(seed + i, *part.shape, exact=False)).sum()
        for i, (name, part) in enumerate(parts.items())
        if part is not None and name in (*through, "level")
    )
    loss.backward()
    return out, {name: leaf.grad for name, leaf in leaves.items()}


def assert_close(ours, reference):
    """To a relative 1e-5 of the largest value: a sum may cancel, its rounding does not."""
    assert (ours - reference).abs().max() <= 1e-5 * reference.abs().max().clamp(min=1)


def assert_same_gradients(ours, reference):
    for name, wanted in reference.items():
        if wanted is None:  # the plain scan's start spikes only meet the reset, which has no gradient
            assert ours[name] is None or not ours[name].any(), name
        else:
            assert_close(ours[name], wanted)


def assert_same(ours, reference):
    assert_same_outputs(ours[0], reference[0])
    assert_same_gradients(ours[1], reference[1])


@st.composite
def wired_calls(draw_one):
    """A call on recurrent or adaptive neurons; weights of -1 and +1, whose sums of spikes no order can round."""
    call = draw_one(calls().filter(lambda call: call["current"].dim() - ("steps" not in call) == 2))
    neurons = call["current"].shape[-1]
    kind = draw_one(st.sampled_from(["recurrent", "adaptive", "both"]))
    if kind != "adaptive":
        call["recurrent"] = (draw(neurons, neurons, neurons) > 0).float() * 2 - 1
        call["recurrent_grad"] = draw_one(st.sampled_from([1.0, 0.3]))
    if kind != "recurrent":
        call["adaptation"] = Adaptation(
            draw_one(st.sampled_from([0.0, 0.5, 0.97, 1.0])), draw_one(st.sampled_from([0.5, 1.8]))
        )
        if "state" in call:
            call["state"] = call["state"]._replace(adaptation=torch.rand_like(call["state"].membrane))
    return call


# ---- Equality with the definition


def test_the_c_kernel_is_here():
    if os.environ.get("BITSPIKE_NO_C") == "1":
        pytest.skip("BITSPIKE_NO_C=1")
    assert library.library() is not None, "not compiled; set BITSPIKE_NO_C=1 where there is no C compiler"


@given(call=calls())
def test_any_call_equals_the_definition(fast, call):
    assert_same(run(fast, call), run("reference", call))


@given(call=wired_calls())
def test_recurrent_and_adaptive_calls_equal_the_definition(call):
    assert_same(run("torch", call), run("reference", call))


@every_form
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("membrane", [torch.float32, torch.float64])
@pytest.mark.parametrize("surrogate", [name for name in GRADS if name != "fast_sigmoid"])
def test_other_surrogates_in_every_form(backend, wired, static, membrane, surrogate):
    if backend == "c" and membrane == torch.float64:
        pytest.skip("C has float32 only")
    call = {"current": draw(8, *(() if static else (6,)), 2, 5), "beta": torch.tensor(0.5), "theta": 1.5, "slope": 2.0}
    call |= WIRES[wired] | {"theta_grad": 0.75, "surrogate": surrogate} | ({"steps": 6} if static else {})
    call = {name: value.to(membrane) if isinstance(value, torch.Tensor) else value for name, value in call.items()}
    ours = run(backend, call)
    assert_same(ours, run("reference", call))
    other = run(backend, call | {"surrogate": "fast_sigmoid"})
    assert_same_outputs(ours[0], other[0])
    assert not torch.allclose(ours[1]["current"], other[1]["current"])


def test_real_recurrent_weights_equal_the_definition():
    call = {"current": draw(1, 20, 3, 7, exact=False), "beta": 0.8, "theta": 1.3, "slope": 1.0}
    call["recurrent"] = torch.randn(7, 7, generator=torch.Generator().manual_seed(3))
    ours, reference = run("torch", call), run("reference", call)
    assert torch.equal(ours[0].spikes, reference[0].spikes)
    assert_close(ours[0].membrane, reference[0].membrane)
    for name, wanted in reference[1].items():
        assert_close(ours[1][name], wanted)


# 1024 neurons are a block of the C kernel; odd counts leave a tail behind its vectors.
@pytest.mark.parametrize("neurons", [1, 3, 15, 16, 17, 1023, 1024, 1025, 2049])
@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize("exact", [True, False])
def test_any_number_of_neurons(fast, neurons, steps, exact):
    # Patterns of three do not repeat with the blocks.
    call = {
        "current": draw(neurons, steps, 1, neurons, exact=exact),
        "beta": torch.tensor([0.25, 0.5, 1.0]).repeat(neurons)[:neurons],
        "theta": torch.tensor([1.5, 3.0, 2.0]).repeat(neurons)[:neurons],
        "theta_grad": torch.tensor([1.0, 0.5, 2.0]).repeat(neurons)[:neurons],
        "slope": 1.0,
        "state": LIFState(draw(2, 1, neurons), draw(3, 1, neurons).gt(0).float()),
    }
    assert_same(run(fast, call), run("reference", call))


# C's scratch for the backward pass holds fewer neurons the longer time is: 640, 16 and, at its least, 16 again.
@pytest.mark.parametrize(
    ("fast", "steps", "neurons"),
    [
        pytest.param("c", 200, 1301, marks=needs_c),
        pytest.param("c", 5000, 40, marks=needs_c),
        pytest.param("c", 9000, 19, marks=needs_c),
        ("torch", 200, 1301),
        pytest.param("torch", 5000, 40, marks=pytest.mark.slow),
        pytest.param("torch", 9000, 19, marks=pytest.mark.slow),
    ],
)
def test_long_time(fast, steps, neurons):
    call = {
        "current": draw(7, steps, 1, neurons, exact=False),
        "beta": torch.full((neurons,), 0.9),
        "theta": 1.3,
        "theta_grad": 0.7,
        "slope": 2.0,
    }
    assert_same(run(fast, call), run("reference", call))


@pytest.mark.parametrize("through", ["spikes", "membrane", "state"])
def test_a_gradient_that_comes_through_one_output_only(fast, through):
    call = {
        "current": draw(5, 9, 2, 33, exact=False),
        "beta": torch.tensor(0.75),
        "theta": 1.5,
        "theta_grad": 0.5,
        "slope": 1.0,
        "state": LIFState(draw(6, 2, 33), torch.ones(2, 33)),
    }
    assert_same(run(fast, call, through=(through,)), run("reference", call, through=(through,)))


@needs_c
def test_the_state_spikes_have_the_gradient_of_the_definition_in_c():
    found = []
    for backend in ("c", "reference"):
        current = draw(5, 4, 1, 3).requires_grad_()
        lif(current, beta=0.5, theta=1.5, slope=1.0, backend=backend).state.spikes.sum().backward()
        found.append(current.grad)
    assert_close(*found)


def test_the_state_spikes_have_the_gradient_of_the_definition_in_torch():
    found = []
    for backend in ("torch", "reference"):
        current = draw(5, 4, 1, 3).requires_grad_()
        lif(current, beta=0.5, theta=1.5, slope=1.0, backend=backend).state.spikes.sum().backward()
        found.append(current.grad)
    assert_close(*found)


@pytest.mark.parametrize(
    "twist",
    [
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        lambda x: x.repeat_interleave(2, 2)[..., ::2],
        lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0),
    ],
    ids=["transposed", "every second", "time last in memory"],
)
def test_the_currents_layout_in_memory_does_not_matter(fast, twist):
    plain = draw(8, 6, 3, 5, exact=False)
    twisted = twist(plain).requires_grad_()
    assert torch.equal(plain, twisted)
    assert not twisted.is_contiguous()
    reference, grads = run("reference", {"current": plain, "beta": 0.6, "theta": 1.1, "slope": 1.0})
    out = lif(twisted, beta=0.6, theta=1.1, slope=1.0, backend=fast)
    assert_same_outputs(out, reference)
    weights = [draw(i, *part.shape, exact=False) for i, part in enumerate((out.spikes, out.membrane, out.state[0]))]
    sum((p * w).sum() for p, w in zip((out.spikes, out.membrane, out.state[0]), weights, strict=True)).backward()
    assert_close(twisted.grad, grads["current"])


def test_strided_parameters_and_states(fast):
    call = {
        "current": draw(8, 6, 2, 5, exact=False),
        "beta": torch.linspace(0, 1, 10)[::2],
        "theta": torch.linspace(1, 2, 10).view(5, 2)[:, 0],
        "slope": 1.0,
        "state": LIFState(draw(1, 5, 2).T, draw(2, 5, 2).gt(0).float().T),
    }
    assert_same(run(fast, call), run("reference", call))


def test_one_beta_and_theta_for_each_sample(fast):
    call = {
        "current": draw(8, 6, 4, 5),
        "beta": torch.tensor([[0.25], [0.5], [1.0], [0.0]]),
        "theta": torch.tensor([[1.5], [2.0], [3.0], [1.0]]),
        "slope": 1.0,
    }
    assert_same(run(fast, call), run("reference", call))


# ---- What is kept, and what is not


@every_form
@pytest.mark.parametrize("static", [False, True])
def test_leaving_the_membrane_out_changes_nothing_else(backend, wired, static):
    call = {"current": draw(8, *(() if static else (6,)), 2, 5), "beta": torch.tensor(0.5), "theta": 1.5, "slope": 1.0}
    call |= WIRES[wired] | ({"steps": 6} if static else {})
    kept, grads = run(backend, call, through=("spikes", "state"))
    out, same = run(backend, call | {"keep_membrane": False}, through=("spikes", "state"))
    assert out.membrane is None
    assert_same_outputs(out, kept)
    for name, grad in grads.items():
        assert torch.equal(same[name], grad)
    with torch.no_grad():
        call = call | {"keep_membrane": False}
        current = call.pop("current")
        inferred = lif(current, backend=backend, **call)
    assert inferred.membrane is None
    assert_same_outputs(inferred, kept)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("wired", [{}, {"adaptation": Adaptation(0.5, 1.0)}])
def test_inference_gives_the_numbers_of_training(fast, context, wired):
    backend = "torch" if wired else fast
    call = {"beta": torch.tensor(0.5, requires_grad=True), "theta": 1.5, "slope": 1.0, **wired}
    current = draw(9, 7, 2, 5, exact=False).requires_grad_()
    with context():
        out = lif(current, backend=backend, **call)
    assert not out.spikes.requires_grad
    assert_same_outputs(out, lif(current, backend="reference", **call))


def test_an_empty_batch_gives_empty_outputs(backend):
    current, beta = torch.zeros(3, 0, 4, requires_grad=True), torch.full((4,), 0.5, requires_grad=True)
    out = lif(current, beta=beta, theta=1.0, slope=1.0, backend=backend)
    assert out.spikes.shape == out.membrane.shape == (3, 0, 4)
    assert out.state.membrane.shape == out.state.spikes.shape == (0, 4)
    out.membrane.sum().backward()
    assert current.grad.shape == (3, 0, 4)
    assert beta.grad.tolist() == [0, 0, 0, 0]


def test_inputs_are_not_written_to(backend):
    current, u0, z0 = draw(1, 5, 2, 3), draw(2, 2, 3), torch.ones(2, 3)
    copies = [x.clone() for x in (current, u0, z0)]
    lif(current, beta=0.5, theta=1.5, slope=1.0, state=LIFState(u0, z0), backend=backend)
    for now, before in zip((current, u0, z0), copies, strict=True):
        assert torch.equal(now, before)


@pytest.mark.parametrize("backend", ["reference", "torch", pytest.param("c", marks=needs_c)])
def test_the_state_does_not_hold_the_outputs_memory(backend):
    # A stream keeps only states between its calls; a view would keep every step's spikes, and share writes.
    with torch.no_grad():
        out = lif(draw(1, 50, 2, 3), beta=0.5, theta=1.5, slope=1.0, backend=backend)
    one_step = 2 * 3 * 4
    assert [part.untyped_storage().nbytes() for part in out.state[:2]] == [one_step, one_step]


# ---- Laws of time


@given(call=calls().filter(lambda call: "steps" in call))
def test_a_static_current_is_a_repeated_one(backend, call):
    static = run(backend, call)
    steps, sequence = call["steps"], {name: value for name, value in call.items() if name != "steps"}
    sequence["current"] = call["current"].expand(steps, *call["current"].shape)
    repeated = run(backend, sequence)
    assert_same_outputs(static[0], repeated[0])
    repeated[1]["current"] = repeated[1]["current"].sum(0)
    assert_same_gradients(static[1], repeated[1])


def split_run(backend, current, cut, kwargs, beta):
    first = lif(current[:cut], backend=backend, beta=beta, **kwargs)
    second = lif(current[cut:], backend=backend, beta=beta, state=first.state, **kwargs)
    return torch.cat([first.spikes, second.spikes]), torch.cat([first.membrane, second.membrane]), second.state


@pytest.mark.parametrize("cut", [1, 4, 9])
@every_form
@pytest.mark.parametrize("exact", [True, False])
def test_splitting_time_changes_nothing(backend, cut, wired, exact):
    kwargs = {"theta": 1.5, "theta_grad": 0.5, "slope": 1.0, **WIRES[wired]}
    made, weights = draw(4, 10, 2, 5, exact=exact), draw(5, 2, 10, 2, 5, exact=False)
    grads = []
    for cut_at in (None, cut):
        current, beta = made.clone().requires_grad_(), torch.tensor(0.5, requires_grad=True)
        if cut_at is None:
            spikes, membrane, state = whole = lif(current, beta=beta, backend=backend, **kwargs)
        else:
            spikes, membrane, state = split_run(backend, current, cut_at, kwargs, beta)
            assert_same_outputs(type(whole)(spikes, membrane, state), whole)
        ((spikes * weights[0]).sum() + (membrane * weights[1]).sum()).backward()
        grads.append((current.grad, beta.grad))
    for whole_grad, split_grad in zip(*grads, strict=True):
        assert_close(split_grad, whole_grad)


@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(1, 19), max_size=4, unique=True))
def test_splitting_time_anywhere_changes_nothing(backend, seed, cuts):
    current = draw(seed, 20, 1, 6, exact=False)
    kwargs = {"beta": 0.8, "theta": 1.2, "slope": 1.0, "backend": backend}
    whole, state, pieces = lif(current, **kwargs), None, []
    for piece in current.tensor_split(sorted(cuts)):
        pieces.append(lif(piece, state=state, **kwargs))
        state = pieces[-1].state
    assert torch.equal(torch.cat([p.spikes for p in pieces]), whole.spikes)
    assert torch.equal(torch.cat([p.membrane for p in pieces]), whole.membrane)
    assert torch.equal(state.membrane, whole.state.membrane)


# ---- Threads, overwritten inputs, second derivatives


@pytest.fixture
def threads():
    """Sets the number of threads; the one before comes back after the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@needs_c
def test_threads_change_nothing(threads):
    # Large enough for the kernel to use them: 30 * 2 * 4099 neuron-steps, and a tail behind the last block.
    call = {"current": draw(1, 30, 2, 4099, exact=False), "beta": torch.full((4099,), 0.9), "theta": 1.3, "slope": 2.0}
    threads(1)
    alone, grads = run("c", call)
    threads(2)
    together, same = run("c", call)
    assert_same_outputs(together, alone)
    for name, grad in grads.items():
        assert torch.equal(same[name], grad), name


# Sizes on both sides of the rule by which the kernel stays on one thread.
@pytest.mark.parametrize("neurons", [(1 << 15) - 1, 1 << 15])
def test_around_the_size_where_threads_start(fast, neurons):
    call = {"current": draw(1, 1, 1, neurons), "beta": torch.tensor(0.5), "theta": 1.5, "slope": 1.0}
    assert_same(run(fast, call), run("reference", call))


def test_large_outputs_survive_the_next_call(fast):
    # Outputs this large come from recycled memory.
    current = draw(1, 40, 2, 4096, exact=False).requires_grad_()
    kwargs = {"beta": 0.9, "theta": 1.3, "slope": 1.0}
    first = lif(current, backend=fast, **kwargs)
    for seed in range(3):
        lif(draw(seed, 40, 2, 4096), backend=fast, **kwargs)
    reference = lif(current, backend="reference", **kwargs)
    assert_same_outputs(first, reference)
    (grad,) = torch.autograd.grad((first.spikes * first.membrane).sum(), current)
    for seed in range(3):
        lif(draw(seed, 40, 2, 4096).requires_grad_(), backend=fast, **kwargs).spikes.sum().backward()
    (wanted,) = torch.autograd.grad((reference.spikes * reference.membrane).sum(), current)
    assert_close(grad, wanted)


@pytest.mark.parametrize("what", ["theta", "theta_grad", "beta", "current"])
@needs_c
def test_overwriting_an_input_before_backward_is_an_error_in_c(what):
    # It recomputes the scan from them: going on would give the gradients of another network.
    given = {"theta": torch.tensor(1.5), "theta_grad": torch.tensor(1.0), "beta": torch.tensor(0.5)}
    leaf = draw(1, 4, 1, 3).requires_grad_()
    given["current"] = leaf * 1
    inputs = dict(given)
    out = lif(inputs.pop("current"), slope=1.0, backend="c", **inputs)
    with torch.no_grad():
        given[what].fill_(0.25)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.spikes.sum().backward()


def test_overwriting_the_surrogates_center_before_backward_is_an_error(backend):
    center = torch.tensor(1.0)
    out = lif(draw(1, 4, 1, 3).requires_grad_(), beta=0.5, theta=1.5, theta_grad=center, slope=1.0, backend=backend)
    center.fill_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.spikes.sum().backward()


def test_a_second_derivative_is_refused(fast):
    current = draw(1, 4, 1, 3).requires_grad_()
    out = lif(current, beta=0.5, theta=1.5, slope=1.0, backend=fast)
    (grad,) = torch.autograd.grad((out.membrane**2).sum(), current, create_graph=True)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        grad.sum().backward()


def test_backward_twice_over_a_kept_graph_gives_the_same(fast):
    current = draw(1, 4, 1, 3).requires_grad_()
    out = lif(current, beta=0.5, theta=1.5, slope=1.0, backend=fast)
    loss = (out.spikes * out.membrane).sum()
    first, second = (torch.autograd.grad(loss, current, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


@pytest.fixture
def default_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("backend", ["reference", "torch", pytest.param("c", marks=needs_c)])
def test_pytorchs_default_dtype_does_not_matter(backend, default_float64):
    current = torch.tensor([2.0, 0.0, 3.0], dtype=torch.float32).view(3, 1, 1)
    out = lif(current, beta=0.5, theta=2.0, slope=1.0, backend=backend)
    assert out.spikes.dtype == out.membrane.dtype == torch.float32
    assert out.membrane.flatten().tolist() == [2.0, -1.0, 2.5]
    assert out.state.membrane.item() == 2.5


@pytest.mark.parametrize("backend", ["reference", "torch", pytest.param("c", marks=needs_c)])
def test_a_static_current_may_be_one_number(backend):
    current = torch.tensor(1.0, requires_grad=True)
    out = lif(current, beta=0.5, theta=9.0, slope=1.0, steps=3, backend=backend)
    out.state.membrane.backward()
    assert current.grad.item() == 1.75


# ---- Which backend runs


@pytest.fixture
def ran(monkeypatch):
    """The names of the backends that ran."""
    names = []
    backends = {"reference": lif_reference, "torch": lif_torch, "c": lif_c, "triton": lif_triton}
    for name, module in backends.items():
        true = module.run
        monkeypatch.setattr(module, "run", lambda scan, true=true, name=name: names.append(name) or true(scan))
    return names


PLAIN = {"beta": 0.5, "theta": 1.0, "slope": 1.0}


@pytest.mark.parametrize(
    "name", ["reference", "torch", pytest.param("c", marks=needs_c), pytest.param("triton", marks=needs_triton)]
)
def test_a_named_backend_is_the_one_that_runs(ran, name):
    device = "cuda" if name == "triton" and torch.cuda.is_available() else "cpu"
    lif(torch.ones(2, 1, 3, device=device), backend=name, **PLAIN)
    assert ran == [name]


@needs_c
def test_auto_is_c_where_it_applies_and_pytorch_elsewhere(ran):
    lif(torch.ones(2, 1, 3), **PLAIN)
    lif(torch.ones(2, 1, 3, dtype=torch.float64), **PLAIN)
    lif(torch.ones(2, 1, 3, dtype=torch.bfloat16), **PLAIN)
    lif(torch.ones(2, 1, 3), recurrent=torch.ones(3, 3), **PLAIN)
    lif(torch.ones(2, 1, 3), adaptation=Adaptation(0.5, 1.0), **PLAIN)
    assert ran == ["c", "torch", "torch", "torch", "torch"]


def test_auto_works_without_the_compiled_part(ran, monkeypatch):
    monkeypatch.setattr(library, "library", lambda: None)
    out = lif(torch.ones(2, 1, 3), **PLAIN)
    assert ran == ["torch"]
    assert out.spikes.tolist() == [[[1, 1, 1]], [[0, 0, 0]]]


def test_the_environment_forces_a_backend(ran, monkeypatch):
    monkeypatch.setenv("BITSPIKE_BACKEND", "reference")
    lif(torch.ones(2, 1, 3), **PLAIN)
    assert ran == ["reference"]
    # A call that names its backend keeps it.
    lif(torch.ones(2, 1, 3), backend="torch", **PLAIN)
    assert ran == ["reference", "torch"]
