"""A call of `lif` in Triton against the definition: outputs bit for bit, gradients to the surrogate's bf16."""

import torch
from hypothesis import strategies as st

from bitspike import Adaptation, LIFState, lif
from bitspike.ops.lif.surrogate import GRADS


def draw(seed, *shape, exact=True):
    """Numbers around 0.5: small integers, whose float32 arithmetic with beta = 1/2 is exact, or any."""
    generator = torch.Generator().manual_seed(seed)
    if exact:
        return torch.randint(-3, 5, shape, generator=generator).float()
    return torch.randn(shape, generator=generator) + 0.5


def assert_same_outputs(ours, reference):
    assert torch.equal(ours.spikes, reference.spikes)
    if ours.membrane is not None and reference.membrane is not None:
        assert torch.equal(ours.membrane, reference.membrane)
    for mine, wanted in zip(ours.state, reference.state, strict=True):
        assert (mine is None and wanted is None) or torch.equal(mine, wanted)


@st.composite
def calls(draw_one):
    """A call of `lif` on plain neurons, of any form."""
    seed = draw_one(st.integers(0, 10_000))
    exact = draw_one(st.booleans())
    steps = draw_one(st.integers(1, 12))
    shape = draw_one(st.sampled_from([(1, 1), (2, 3), (3,), (1, 17), (2, 2, 3, 3)]))
    beta = draw_one(st.sampled_from([0.0, 0.25, 0.5, 1.0] if exact else [0.0, 0.37, 0.9, 1.0]))
    theta = draw_one(st.sampled_from([1.5, 3.0] if exact else [0.7, 1.3]))
    generator = torch.Generator().manual_seed(seed)
    if draw_one(st.booleans()):
        theta = theta + torch.randint(0, 3, shape[1:], generator=generator) / 2
    if draw_one(st.booleans()):
        choice = torch.randint(0, 3, shape[1:], generator=generator)
        beta = torch.tensor([0.25, 0.5, 1.0])[choice]
    elif draw_one(st.booleans()):
        beta = torch.tensor(beta)
    static = draw_one(st.booleans())
    call = {
        "current": draw(seed + 1, *shape, exact=exact) if static else draw(seed + 1, steps, *shape, exact=exact),
        "beta": beta,
        "theta": theta,
        "theta_grad": draw_one(st.sampled_from([None, 0.5, 2.0])),
        "slope": draw_one(st.sampled_from([0.25, 1.0, 7.5])),
        "surrogate": draw_one(st.sampled_from(list(GRADS))),
    }
    if static:
        call["steps"] = steps
    if draw_one(st.booleans()):
        z0 = torch.randint(0, 2, shape, generator=generator).float()
        call["state"] = LIFState(draw(seed + 2, *shape, exact=exact), z0)
    return call


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OUTPUTS = ("spikes", "membrane", "u", "z", "a")
ADAPTIVE = Adaptation(0.75, 0.25)  # whose decays are exact for a dozen steps


def moved(call, dtype=None):
    """The call on the device; everything but a half-precision current in `dtype`, if given."""

    def move(value):
        if isinstance(value, LIFState):
            return LIFState(*map(move, value))
        return value.to(DEVICE, dtype) if isinstance(value, torch.Tensor) else value

    return {name: move(value) for name, value in call.items()}


def one_step(call):
    return call["current"].shape if "steps" in call else call["current"].shape[1:]


def incoming(call, names=OUTPUTS):
    """A random gradient for each of the outputs named."""
    steps = call.get("steps") or call["current"].shape[0]
    shapes = [(steps, *one_step(call))] * 2 + [one_step(call)] * 3
    return {name: draw(9 + i, *shapes[i], exact=False) for i, name in enumerate(OUTPUTS) if name in names}


def gradients(backend, call, given, dtype=None):
    """Outputs, and the gradients that `given` sends to every input that can have one."""
    call = moved(call, dtype)
    leaves = {name: call[name].clone().requires_grad_() for name in ("current", "beta", "recurrent") if name in call}
    call |= leaves
    if "state" in call:
        call["state"] = LIFState(*(None if part is None else part.clone().requires_grad_() for part in call["state"]))
        leaves |= {f"state {i}": part for i, part in enumerate(call["state"]) if part is not None}
    out = lif(call.pop("current"), backend=backend, **call)
    parts = dict(zip(OUTPUTS, (out.spikes, out.membrane, *out.state[:3]), strict=True))
    parts = {name: parts[name] for name in given if parts[name] is not None and parts[name].requires_grad}
    torch.autograd.backward(list(parts.values()), [given[name].to(part) for name, part in parts.items()])
    return out, {name: leaf.grad for name, leaf in leaves.items()}


def check(call, names=OUTPUTS, share=2**-7):
    """Outputs equal the definition in float32, gradients that in float64, to a share of the largest.

    The current's arithmetic must be exact, so that both fire alike. Beta's gradient is a sum over the neurons that
    share it, which may cancel: its share is of the sum without signs.
    """
    call = call | {"beta": torch.as_tensor(call["beta"])}
    given = incoming(call, names)
    ours, grads = gradients("triton", call, given)
    assert_same_outputs(ours, lif(**moved(call), backend="reference"))
    spread = call | {"beta": call["beta"].expand(one_step(call))}
    exact = gradients("reference", spread, given, torch.float64)[1]
    for name, wanted in exact.items():
        if wanted is None:  # the start's spikes may only meet the reset, which has no gradient
            assert grads[name] is None or not grads[name].any(), name
            continue
        scale = wanted.abs().sum_to_size(grads[name].shape).max()
        error = (grads[name].double() - wanted.sum_to_size(grads[name].shape)).abs().max()
        assert error <= share * scale, f"{name}: {error / scale:.2e} of the largest"


def with_state(call, adaptive=False):
    shape = one_step(call)
    level = draw(4, *shape).abs() / 4 if adaptive else None
    return call | {"state": LIFState(draw(2, *shape), draw(3, *shape).gt(0).float(), level)}
