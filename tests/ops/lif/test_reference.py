"""Eq. 1-2 and their gradient: by hand, against a loop in plain Python, and against gradients derived on paper."""

import pytest
import torch

from bitspike import Adaptation, LIFState, lif

DOUBLE = torch.float64
# float64 is checked to the last few bits; the C backend, float32 only, is compared with these in test_lif_backends.
WIDE = pytest.mark.parametrize("wide", ["reference", "torch"])


def column(*values, dtype=torch.float32):
    """A current of one neuron, [T, 1, 1]."""
    return torch.tensor(values, dtype=dtype).view(-1, 1, 1)


# ---- The forward scan


def test_by_hand(backend):
    # u: 2 fires; 0.5*2 + 0 - 2 = -1; -0.5; -0.25 + 3 = 2.75 fires; 1.375 + 1 - 2 = 0.375
    out = lif(column(2, 0, 0, 3, 1), beta=0.5, theta=2.0, slope=1.0, backend=backend)
    assert out.membrane.flatten().tolist() == [2.0, -1.0, -0.5, 2.75, 0.375]
    assert out.spikes.flatten().tolist() == [1, 0, 0, 1, 0]
    assert out.state.membrane.item() == 0.375
    assert out.state.spikes.item() == 0
    assert out.state.adaptation is None


def test_a_membrane_at_the_threshold_fires(backend):
    below = 1.5 - 2**-23  # the next float32
    out = lif(torch.tensor([[[1.5, below]]]), beta=0.9, theta=1.5, slope=1.0, backend=backend)
    assert out.spikes.tolist() == [[[1, 0]]]


def test_the_reset_subtracts_theta_one_step_later(backend):
    # The step that fires keeps its membrane; what exceeds the threshold survives the reset.
    out = lif(column(5, 0, 0, 0), beta=1.0, theta=2.0, slope=1.0, backend=backend)
    assert out.membrane.flatten().tolist() == [5, 3, 1, 1]
    assert out.spikes.flatten().tolist() == [1, 1, 0, 0]


def test_without_decay_the_membrane_counts(backend):
    out = lif(column(*[1] * 6), beta=1.0, theta=100.0, slope=1.0, backend=backend)
    assert out.membrane.flatten().tolist() == [1, 2, 3, 4, 5, 6]


def test_full_decay_forgets(backend):
    out = lif(column(1, 2, -3, 4), beta=0.0, theta=100.0, slope=1.0, backend=backend)
    assert out.membrane.flatten().tolist() == [1, 2, -3, 4]


def test_a_negative_current_lowers_the_membrane_without_bound(backend):
    out = lif(column(-4, -4, -4), beta=0.5, theta=1.0, slope=1.0, backend=backend)
    assert out.membrane.flatten().tolist() == [-4, -6, -7]
    assert not out.spikes.any()


def test_the_state_carries_membrane_and_pending_reset(backend):
    state = LIFState(torch.tensor([[4.0]]), torch.tensor([[1.0]]))
    out = lif(column(1), beta=0.5, theta=3.0, slope=1.0, state=state, backend=backend)
    assert out.membrane.item() == 0.5 * 4 + 1 - 3


def test_the_surrogates_center_does_not_move_the_spike(backend):
    current = column(1, 2, 3)
    plain = lif(current, beta=0.5, theta=2.0, slope=1.0, backend=backend)
    moved = lif(current, beta=0.5, theta=2.0, theta_grad=0.25, slope=7.0, backend=backend)
    assert torch.equal(plain.spikes, moved.spikes)
    assert torch.equal(plain.membrane, moved.membrane)


def python_loop(current, beta, theta, u=0.0, z=0.0):
    """Eq. 1-2 for one neuron, in Python floats."""
    membrane, spikes = [], []
    for i in current:
        u = beta * u + i - theta * z
        z = 1.0 if u >= theta else 0.0
        membrane.append(u)
        spikes.append(z)
    return membrane, spikes


@WIDE
def test_it_equals_a_loop_in_plain_python(wide):
    steps, batch, neurons = 40, 2, 3
    current = torch.randn(steps, batch, neurons, dtype=DOUBLE) + 0.4
    beta = torch.tensor([0.0, 0.83, 1.0], dtype=DOUBLE)
    theta = torch.tensor([0.7, 1.3, 2.1], dtype=DOUBLE)
    u0, z0 = torch.randn(batch, neurons, dtype=DOUBLE), torch.tensor([[1.0, 0, 1], [0, 1, 1]], dtype=DOUBLE)
    out = lif(current, beta=beta, theta=theta, slope=1.0, state=LIFState(u0, z0), backend=wide)
    assert 0.1 < out.spikes.mean() < 0.9
    for b in range(batch):
        for n in range(neurons):
            start = u0[b, n].item(), z0[b, n].item()
            membrane, spikes = python_loop(current[:, b, n].tolist(), beta[n].item(), theta[n].item(), *start)
            assert out.membrane[:, b, n].tolist() == membrane
            assert out.spikes[:, b, n].tolist() == spikes


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("narrow", ["auto", "reference", "torch"])
def test_half_precision_only_stores(dtype, narrow):
    current = (torch.randn(30, 2, 5) + 0.3).to(dtype).requires_grad_()
    kwargs = {"beta": 0.9, "theta": 1.1, "slope": 2.0}
    out = lif(current, **kwargs, backend=narrow)
    assert out.spikes.dtype == dtype
    assert out.membrane.dtype == out.state.membrane.dtype == torch.float32
    wide = lif(current.float(), **kwargs, backend="reference")
    assert torch.equal(out.membrane, wide.membrane)
    assert torch.equal(out.spikes.float(), wide.spikes)
    out.membrane.sum().backward()
    assert current.grad.dtype == dtype


def test_float64_stays_float64():
    out = lif(torch.ones(2, 1, 1, dtype=DOUBLE), beta=0.1, theta=1.0, slope=1.0)
    assert out.spikes.dtype == out.membrane.dtype == out.state.membrane.dtype == DOUBLE
    assert out.membrane[1].item() == 0.1 + 1.0 - 1.0


# ---- Its gradient


def test_the_reset_carries_no_gradient(backend):
    # u[1] = beta*u[0] + I[1] - theta*z[0], and z[0] fires: with the reset attached, du[1]/dI[0] would be beta - theta.
    current = column(2, 0).requires_grad_()
    out = lif(current, beta=0.5, theta=2.0, slope=1.0, backend=backend)
    out.membrane[1].sum().backward()
    assert current.grad.flatten().tolist() == [0.5, 1.0]


def test_the_membranes_gradient_decays_with_beta(backend):
    current = column(0, 0, 0, 0).requires_grad_()
    lif(current, beta=0.5, theta=2.0, slope=1.0, backend=backend).membrane[3].sum().backward()
    assert current.grad.flatten().tolist() == [0.125, 0.25, 0.5, 1.0]


def test_the_spikes_gradient_is_the_surrogate_at_the_clamped_center(backend):
    # u = 5 is 3 away from theta_grad = 2 (and 1 from theta = 4): 1 / (1 + 1*3)**2
    current = column(5).requires_grad_()
    lif(current, beta=0.5, theta=4.0, theta_grad=2.0, slope=1.0, backend=backend).spikes.sum().backward()
    assert current.grad.item() == 1 / 16


def test_without_a_center_of_its_own_the_surrogate_is_at_theta(backend):
    current = column(5).requires_grad_()
    lif(current, beta=0.5, theta=4.0, slope=1.0, backend=backend).spikes.sum().backward()
    assert current.grad.item() == 1 / 4


def test_a_constant_currents_gradient_is_the_sum_over_time(backend):
    current = torch.zeros(1, 1, requires_grad=True)
    lif(current, beta=0.5, theta=2.0, slope=1.0, steps=3, backend=backend).membrane[2].sum().backward()
    assert current.grad.item() == 0.25 + 0.5 + 1.0


def test_betas_gradient_is_the_membrane_before(backend):
    # u[0] = 3 (from u = 2 at rest), u[1] = 0.5*3 + 1 = 2.5: du[1]/dbeta = u[0] + beta*u[-1] = 3 + 0.5*2
    beta = torch.tensor(0.5, requires_grad=True)
    state = LIFState(torch.tensor([[2.0]]), torch.tensor([[0.0]]))
    out = lif(column(2, 1), beta=beta, theta=100.0, slope=1.0, state=state, backend=backend)
    assert out.membrane.flatten().tolist() == [3.0, 2.5]
    out.membrane[1].sum().backward()
    assert beta.grad.item() == 4.0


def test_the_states_gradient_goes_back_to_where_it_started(backend):
    u0 = torch.tensor([[1.0]], requires_grad=True)
    state = LIFState(u0, torch.tensor([[1.0]]))
    out = lif(column(0, 0), beta=0.5, theta=9.0, slope=1.0, state=state, backend=backend)
    out.state.membrane.sum().backward()
    assert u0.grad.item() == 0.25


def gradients_on_paper(current, beta, theta, center, slope, u0, z0, to_spikes, to_membrane, to_last):
    """Backpropagation through time with the reset held fixed: g[t] = gz[t]*s(u[t]) + gu[t] + beta*g[t+1]."""
    us, u, z = [], u0, z0
    for i in current:
        u = beta * u + i - theta * z
        z = (u >= theta).to(u.dtype)
        us.append(u)
    later, per_step, for_beta = to_last, [], torch.zeros_like(u0)
    for t in reversed(range(len(us))):
        s = (1 + slope * (us[t] - center).abs()) ** -2
        g = to_spikes[t] * s + to_membrane[t] + later
        for_beta = for_beta + g * (us[t - 1] if t else u0)
        per_step.append(g)
        later = beta * g
    return torch.stack(per_step[::-1]), for_beta, later


@WIDE
@pytest.mark.parametrize("per_neuron", [False, True], ids=["beta", "beta per neuron"])
@pytest.mark.parametrize("static", [False, True], ids=["sequence", "static"])
def test_gradients_equal_those_derived_on_paper(wide, per_neuron, static):
    steps, shape = 25, (3, 4)
    current = (torch.randn(*shape, dtype=DOUBLE) if static else torch.randn(steps, *shape, dtype=DOUBLE)) + 0.5
    beta = torch.tensor([0.2, 0.5, 0.8, 0.95] if per_neuron else 0.8, dtype=DOUBLE)
    u0, z0 = torch.randn(*shape, dtype=DOUBLE), torch.randint(0, 2, shape).to(DOUBLE)
    to_spikes, to_membrane = torch.randn(2, steps, *shape, dtype=DOUBLE)
    to_last = torch.randn(*shape, dtype=DOUBLE)
    theta, center, slope = 1.5, 0.6, 3.0

    leaves = [x.clone().requires_grad_() for x in (current, beta, u0)]
    out = lif(
        leaves[0],
        beta=leaves[1],
        theta=theta,
        theta_grad=center,
        slope=slope,
        steps=steps if static else None,
        state=LIFState(leaves[2], z0),
        backend=wide,
    )
    assert 0.05 < out.spikes.mean() < 0.95
    loss = (out.spikes * to_spikes).sum() + (out.membrane * to_membrane).sum() + (out.state.membrane * to_last).sum()
    loss.backward()

    fed = current.expand(steps, *shape) if static else current
    g, for_beta, for_u0 = gradients_on_paper(fed, beta, theta, center, slope, u0, z0, to_spikes, to_membrane, to_last)
    expected = (g.sum(0) if static else g, for_beta.sum(0) if per_neuron else for_beta.sum(), for_u0)
    for leaf, wanted in zip(leaves, expected, strict=True):
        torch.testing.assert_close(leaf.grad, wanted, rtol=1e-12, atol=1e-12)


# ---- Recurrent and adaptive neurons


@pytest.mark.parametrize("wide", ["reference", "torch", "auto"])
def test_recurrent_spikes_arrive_one_step_later_by_row(wide):
    # Only neuron 0 fires at t=0; row n of the matrix is what neuron n receives, so column 0 arrives at t=1.
    weights = torch.tensor([[1.0, -1, 1], [1, 1, -1], [-1, -1, 1]])
    current = torch.zeros(3, 1, 3)
    current[0, 0, 0] = 4.0
    out = lif(current, beta=0.5, theta=4.0, slope=1.0, recurrent=weights, backend=wide)
    assert out.spikes[0].tolist() == [[1, 0, 0]]
    assert out.membrane[1].tolist() == [[2 + 1 - 4, 1, -1]]
    assert out.membrane[2].tolist() == [[-0.5, 0.5, -0.5]]


@pytest.mark.parametrize("wide", ["reference", "torch", "auto"])
def test_adaptive_threshold_by_hand(wide):
    # theta = 2, strength 4, rho = 1/2: a is the average of past spikes, A = 2 + 4a the threshold.
    # t=0: a=0, A=2: u=2 fires at equality
    # t=1: a=1/2, A=4: u = 2*1 + 4 - 2 (the old A) = 4 fires
    # t=2: a=3/4, A=5: u = 4 + 4.75 - 4 = 4.75 is quiet although above theta
    # t=3: a=3/8, A=3.5: u = 4.75 - 1.5 = 3.25 is quiet
    # t=4: a=3/16, A=2.75: u = 3.25 - 0.5 = 2.75 fires
    out = lif(
        column(2, 4, 4.75, -1.5, -0.5),
        beta=1.0,
        theta=2.0,
        slope=1.0,
        adaptation=Adaptation(rho=0.5, strength=4.0),
        backend=wide,
    )
    assert out.membrane.flatten().tolist() == [2, 4, 4.75, 3.25, 2.75]
    assert out.spikes.flatten().tolist() == [1, 1, 0, 0, 1]
    assert out.state.adaptation.item() == 3 / 16


@pytest.mark.parametrize("wide", ["reference", "torch"])
def test_the_adaptation_level_continues_from_the_state(wide):
    # A before = 1 + 2*0.5 = 2 resets; a = 0.25*0.5 + 0.75*1 = 0.875, A = 2.75
    state = LIFState(torch.tensor([[3.0]]), torch.tensor([[1.0]]), torch.tensor([[0.5]]))
    adaptation = Adaptation(rho=0.25, strength=2.0)
    for current, fires in ((1.75, 1), (1.625, 0)):
        out = lif(column(current), beta=1.0, theta=1.0, slope=1.0, state=state, adaptation=adaptation, backend=wide)
        assert out.membrane.item() == 3 + current - 2
        assert out.spikes.item() == fires
        assert out.state.adaptation.item() == 0.875


@WIDE
def test_no_strength_is_plain_lif(wide):
    current = torch.randn(20, 2, 3)
    kwargs = {"beta": 0.7, "theta": 0.8, "slope": 1.0, "backend": wide}
    adaptive = lif(current, adaptation=Adaptation(0.9, 0.0), **kwargs)
    assert torch.equal(adaptive.membrane, lif(current, **kwargs).membrane)


def soft_spike(u, threshold, center, slope):
    """Fires by the threshold; its gradient is autograd's own through the fast sigmoid x / (1 + slope*|x|)."""
    x = u - center
    soft = x / (1 + slope * x.abs())
    return (u >= threshold).to(u.dtype) + (soft - soft.detach())


@pytest.mark.parametrize("wide", ["reference", "torch"])
def test_a_share_of_the_gradient_goes_back_through_recurrent_weights(wide):
    """Two neurons and two steps: what neuron 0 fires at t = 0 reaches neuron 1 at t = 1, through a weight of 3."""
    current = torch.zeros(2, 1, 2, dtype=DOUBLE)
    current[0, 0, 0] = 4.5
    weights = torch.tensor([[0.0, 0.0], [3.0, 0.0]], dtype=DOUBLE)
    for share in (1.0, 0.25):
        i, w = current.clone().requires_grad_(), weights.clone().requires_grad_()
        out = lif(i, beta=0.0, theta=4.0, slope=1.0, recurrent=w, recurrent_grad=share, backend=wide)
        assert out.membrane[1].tolist() == [[-4.0, 3.0]]
        out.membrane[1, 0, 1].backward()
        surrogate = 1 / (1 + 0.5) ** 2
        assert i.grad[0, 0].tolist() == pytest.approx([share * 3 * surrogate, 0])
        assert i.grad[1, 0].tolist() == [0, 1]
        assert w.grad.tolist() == [[0, 0], [1, 0]]  # the weight's own gradient is whole


@pytest.mark.parametrize("wide", ["reference", "torch"])
def test_a_scale_multiplies_what_comes_back_and_both_gradients(wide):
    """As above, with half of what comes back: through a weight of 3 that is 1.5."""
    current = torch.zeros(2, 1, 2, dtype=DOUBLE)
    current[0, 0, 0] = 4.5
    weights = torch.tensor([[0.0, 0.0], [3.0, 0.0]], dtype=DOUBLE)
    for share in (1.0, 0.25):
        i, w = current.clone().requires_grad_(), weights.clone().requires_grad_()
        call = {"recurrent": w, "recurrent_scale": 0.5, "recurrent_grad": share, "backend": wide}
        out = lif(i, beta=0.0, theta=4.0, slope=1.0, **call)
        assert out.membrane[1].tolist() == [[-4.0, 1.5]]
        out.membrane[1, 0, 1].backward()
        assert i.grad[0, 0].tolist() == pytest.approx([share * 1.5 / (1 + 0.5) ** 2, 0])
        assert w.grad.tolist() == [[0, 0], [0.5, 0]]


@pytest.mark.parametrize("wide", ["reference", "torch"])
def test_a_scaled_sum_is_rounded_once(wide):
    """Seven times float32's 0.1, and not seven additions of it, which are another number."""
    scale = torch.tensor(0.1)
    added = sum([scale] * 6, scale)
    assert added != 7 * scale
    current = torch.zeros(2, 1, 7)
    current[0] = 1.0
    call = {"recurrent": torch.ones(7, 7), "recurrent_scale": 0.1, "backend": wide}
    membrane = lif(current, beta=0.0, theta=1.0, slope=1.0, **call).membrane
    assert torch.equal(membrane[1], (7 * scale - 1).expand(1, 7))


def autograd_loop(current, beta, theta, center, slope, u, z, a, recurrent, rho, strength):
    """A[t] = theta + strength*a[t]; u[t] = beta*u[t-1] + I[t] + W z[t-1] - A[t-1]*z[t-1], the last held fixed."""
    us, zs = [], []
    for i in current:
        reset = ((theta + strength * a) * z).detach()
        u = beta * u + i + torch.einsum("nm,bm->bn", recurrent, z) - reset
        a = rho * a + (1 - rho) * z
        z = soft_spike(u, theta + strength * a.detach(), center + strength * a, slope)
        us.append(u)
        zs.append(z)
    return torch.stack(zs), torch.stack(us), LIFState(u, z, a)


@WIDE
@pytest.mark.parametrize(("is_recurrent", "strength"), [(True, 0.0), (False, 1.8), (True, 1.8)])
def test_recurrent_and_adaptive_gradients_equal_autograds(wide, is_recurrent, strength):
    steps, batch, neurons = 15, 2, 4
    rho, theta, center, slope = 0.8, 1.2, 0.5, 2.0
    made = [
        torch.randn(steps, batch, neurons, dtype=DOUBLE) + 0.5,
        torch.tensor([0.3, 0.6, 0.9, 0.99], dtype=DOUBLE),
        torch.randn(batch, neurons, dtype=DOUBLE),
        torch.randint(0, 2, (batch, neurons)).to(DOUBLE),
        torch.rand(batch, neurons, dtype=DOUBLE),
        torch.randn(neurons, neurons, dtype=DOUBLE) if is_recurrent else torch.zeros(neurons, neurons, dtype=DOUBLE),
    ]
    weights = [torch.randn(steps, batch, neurons, dtype=DOUBLE) for _ in range(2)]
    last = [torch.randn(batch, neurons, dtype=DOUBLE) for _ in range(3)]

    def loss(spikes, membrane, state):
        total = (spikes * weights[0]).sum() + (membrane * weights[1]).sum()
        return total + sum((s * w).sum() for s, w in zip(state[:3], last, strict=True) if s is not None)

    ours = [x.clone().requires_grad_() for x in made]
    current, beta, u0, z0, a0, recurrent = ours
    out = lif(
        current,
        beta=beta,
        theta=theta,
        theta_grad=center,
        slope=slope,
        state=LIFState(u0, z0, a0 if strength else None),
        recurrent=recurrent if is_recurrent else None,
        adaptation=Adaptation(rho, strength) if strength else None,
        backend=wide,
    )
    loss(*out).backward()

    theirs = [x.clone().requires_grad_() for x in made]
    current, beta, u0, z0, a0, recurrent = theirs
    spikes, membrane, state = autograd_loop(current, beta, theta, center, slope, u0, z0, a0, recurrent, rho, strength)
    loss(spikes, membrane, state if strength else state._replace(adaptation=None)).backward()

    assert torch.equal(out.spikes, spikes.detach())
    torch.testing.assert_close(out.membrane, membrane, rtol=1e-12, atol=1e-12)
    names = ("current", "beta", "u0", "z0", "a0", "recurrent")
    for name, mine, wanted in zip(names, ours, theirs, strict=True):
        if (name == "a0" and not strength) or (name == "recurrent" and not is_recurrent):
            continue
        torch.testing.assert_close(mine.grad, wanted.grad, rtol=1e-11, atol=1e-11, msg=lambda m, n=name: f"{n}: {m}")
