"""The peers of the benchmark: each computes what it is said to, and trains."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from bitspike import build, count_loss, lif
from bitspike.bench import peers
from bitspike.bench.cases import Case
from bitspike.bench.contender import Contender, using
from bitspike.bench.peers.torch_parts import AfterBackward, pool_of
from bitspike.bench.peers.torch_parts import count_loss as shared_loss
from bitspike.bench.problem import prepare
from bitspike.schedules import Relax
from helpers.bench import CPU, TINY, by_name, tiny


def test_peers_are_named_with_commas():
    assert peers.named("none") == []
    assert peers.named("snntorch, snntorch") == ["snntorch"]
    assert "snntorch" in peers.named("all")
    with pytest.raises(ValueError, match="no peer is named 'snn'; known: snntorch, spikingjelly, norse, spyx, and"):
        peers.named("snn,snntorch")


@pytest.mark.parametrize("name", peers.KNOWN)
def test_a_missing_peer_says_what_to_install(name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=f"{name} is not installed; run: pip install .*{name}=="):
        peers.named(name)
    assert peers.named("all") == []


def variant(name: str, problem) -> Contender:
    pytest.importorskip(name.partition("-")[0])
    return next(each for each in peers.variants(name.partition("-")[0]) if each.name == name).make(problem)


@by_name
@pytest.mark.parametrize("name", ["snntorch", "spikingjelly"])
def test_a_peers_step_trains(case, name):
    problem = prepare(case, CPU)
    contender = variant(name, problem)
    with using(contender.arithmetic, CPU):
        losses = [contender.step().item() for _ in range(6)]
    assert all(math.isfinite(loss) for loss in losses)
    assert contender.version in ("1.0.0", "2.0.0")
    assert contender.differs
    if case.name == "shd":
        assert len(set(losses)) > 1


def quiet(case: Case):
    """Without dropout, and with thresholds that these few steps reach but no membrane hits."""
    problem = prepare(case, CPU)
    schedules = tuple(Relax(1 / 3, 2 / 3, 0.5) for _ in problem.recipe.schedules)
    recipe = replace(problem.recipe, dropouts=(0.0,) * len(schedules), schedules=schedules)
    return replace(problem, recipe=recipe)


def copied(target, problem):
    """Our network with the weights of a peer's."""
    recipe, case = problem.recipe, problem.case
    net = build(
        case.notation,
        case.input_shape,
        beta=list(recipe.betas),
        slope=list(recipe.slopes),
        theta=[schedule(0) for schedule in recipe.schedules],
        norm="step" if recipe.norm else None,
        surrogate_center="current",
        steps=case.steps,
    )
    with torch.no_grad():
        for p, q in zip(net.parameters(), target.parameters(), strict=True):
            p.copy_(q)
    return net


def ordered(module):
    """A peer's parameters in the order of ours: layer by layer."""
    found = []
    for synapse, norm in zip(module.synapses, module.norms, strict=True):
        found += [*synapse.parameters(), *norm.parameters()]
    return SimpleNamespace(parameters=lambda: found)


@pytest.mark.parametrize("case", TINY[:3], ids=lambda case: case.name)
def test_snntorchs_loop_has_our_mathematics(case):
    snntorch = pytest.importorskip("bitspike.bench.peers.snntorch")
    problem = quiet(case)
    loop = snntorch.Loop(problem)
    net = copied(ordered(loop), problem)
    spikes, membranes = loop(problem.floats(), case.steps, case.static)
    out = net(problem.floats())
    assert 0 < spikes.mean() < 1
    assert torch.equal(spikes, out.spikes)
    assert torch.allclose(membranes, out.membrane, atol=1e-4)
    count_loss(out.spikes, problem.labels).backward()
    peers.library("snntorch.functional").mse_count_loss(0.8, 0.2)(spikes, problem.labels).backward()
    for p, q in zip(net.parameters(), ordered(loop).parameters(), strict=True):
        assert (p.grad - q.grad).abs().max() <= 1e-4 * q.grad.abs().max()


def test_the_shared_loss_is_snntorchs():
    functional = pytest.importorskip("snntorch.functional")
    spikes, labels = torch.rand(9, 3, 5).round(), torch.tensor([0, 4, 2])
    assert torch.equal(shared_loss(spikes, labels), functional.mse_count_loss(0.8, 0.2)(spikes, labels))


def decayed_reset(currents, beta, theta):
    """u = beta*(u - theta*z) + I, as SpikingJelly and Norse reset."""
    u = z = torch.zeros_like(currents[0])
    spikes = []
    for current in currents:
        u = (u - theta * z) - (u - theta * z) * (1 - beta) + current
        z = (u >= theta).float()
        spikes.append(z)
    return torch.stack(spikes)


@pytest.mark.parametrize("case", TINY[:3], ids=lambda case: case.name)
@pytest.mark.parametrize("setting", ["", "hoisted"])
def test_spikingjellys_network_differs_in_the_reset_only(case, setting):
    pytest.importorskip("spikingjelly")
    module = peers.library("bitspike.bench.peers.spikingjelly")
    problem = quiet(case)
    network = module.Network(problem, module.Setting(hoisted=setting == "hoisted"))
    x = problem.floats()
    spikes = network(x)
    z = x.expand(case.steps, *x.shape) if case.static else x
    for i, (beta, schedule) in enumerate(zip(problem.recipe.betas, problem.recipe.schedules, strict=True)):
        z = decayed_reset(network.current(i, z).detach(), beta, schedule(0))
    assert 0 < spikes.mean() < 1
    assert (spikes != z).float().mean() < 0.02  # membranes of a sum taken in another order
    network.anneal(0, 7.5)
    assert network.neurons[0].v_threshold == 7.5


def test_spikingjellys_batch_norm_is_ours_a_step_and_another_folded():
    pytest.importorskip("spikingjelly")
    module = peers.library("bitspike.bench.peers.spikingjelly")
    problem = quiet(tiny("dvs128"))
    problem = replace(problem, recipe=replace(problem.recipe, norm=True))
    x = problem.floats()
    plain, folded = (module.Network(problem, module.Setting(folded=folded)) for folded in (False, True))
    folded.load_state_dict(plain.state_dict())
    ours_ = copied(ordered(plain), problem).layers[0]
    expected = ours_.norm(ours_.pools[0](ours_.synapse(x).flatten(0, 1)).view(8, 2, 16, 14, 14))
    assert torch.allclose(plain.current(0, x), expected, atol=1e-5)
    assert not torch.allclose(folded.current(0, x), expected, atol=1e-2)


def test_spikingjellys_variants_fit_what_they_change():
    fits = {
        case.name: [each.name for each in peers.variants("spikingjelly") if each.fits(prepare(case, CPU))]
        for case in TINY
    }
    plain = "spikingjelly"
    assert fits["shd"] == fits["dvs128"] == fits["layer2k"] == [plain]
    assert fits["fashion"] == [plain, f"{plain}-folded", f"{plain}-hoisted", f"{plain}-folded-hoisted"]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", TINY[:3], ids=lambda case: case.name)
def test_norses_network_differs_in_the_reset_only(case):
    pytest.importorskip("norse")
    module = peers.library("bitspike.bench.peers.norse")
    problem = quiet(case)
    with torch.compiler.set_stance("force_eager"):
        network = module.Network(problem)
        spikes = network(problem.floats())
    x = problem.floats()
    z = x.expand(case.steps, *x.shape) if case.static else x
    for i, (beta, schedule) in enumerate(zip(problem.recipe.betas, problem.recipe.schedules, strict=True)):
        current = network.current(i, z)
        z = decayed_reset(torch.stack([network.norms[i](step) for step in current]).detach(), beta, schedule(0))
    assert 0 < spikes.mean() < 1
    assert (spikes != z).float().mean() < 0.02
    network.anneal(0, 7.5)
    assert network.cells[0].p.v_th.item() == pytest.approx(7.5 * (1 - problem.recipe.betas[0]))


@pytest.mark.filterwarnings("default")
def test_spyxs_neurons_are_ours_one_step_late():
    pytest.importorskip("spyx")
    module = peers.library("bitspike.bench.peers.spyx")
    current = torch.randn(20, 2, 5)
    spikes = torch.tensor(module._scan(peers.library("jax.numpy").asarray(current.numpy()), 0.9, 5.0, 1 / 3).tolist())
    expected = lif(current, beta=0.9, theta=1 / 3, slope=5.0).spikes
    assert torch.equal(spikes[1:], expected[:-1])
    assert not spikes[0].any()


@pytest.mark.filterwarnings("default")
@by_name
def test_norse_and_spyx_train_where_they_are_installed(case):
    done = 0
    for name in ("norse", "spyx"):
        if peers.installed(name):
            contender = variant(name, prepare(case, CPU))
            losses = [float(torch.as_tensor(contender.step()).detach()) for _ in range(2)]
            contender.wait()
            assert all(math.isfinite(loss) for loss in losses)
            done += 1
    if not done:
        pytest.skip("neither Norse nor Spyx is installed")


def test_pools_in_a_row_are_one():
    layers = tiny("fashion", notation="4Conv5-AP2-AP3-4Conv2-36Dense3").layers()
    assert [pool_of(layer) for layer in layers] == [6, 1, 1]


def test_clips_rate_and_thresholds_follow_backward():
    problem = prepare(tiny("shd"), CPU)
    weight = torch.nn.Parameter(torch.tensor([3.0, -0.5]))
    written: dict[int, float] = {}
    after = AfterBackward(problem, [weight], written.__setitem__)
    weight.grad = torch.tensor([30.0, 40.0])
    after()
    assert torch.allclose(weight.grad, torch.tensor([0.6, 0.8]), atol=1e-4)  # norm 1
    assert weight[0].item() == pytest.approx(1 - problem.recipe.lr, abs=1e-6)  # clamped, then a step of Adam
    assert written == {i: schedule(1) for i, schedule in enumerate(problem.recipe.schedules)}
    after()
    assert after.optimizer.param_groups[0]["lr"] < problem.recipe.lr
    after.clear()
    assert weight.grad is None
