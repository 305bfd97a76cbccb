"""Benchmarks against other libraries: what is counted and timed is what is said, on cases small enough for a CPU."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from bitspike import build, count_loss, lif
from bitspike.bench import cases as cases_module
from bitspike.bench import measure, peers, timing
from bitspike.bench.cases import CASES, ON_CPU, ON_GPU, Case, choose, growth
from bitspike.bench.contender import Arithmetic, Contender, using
from bitspike.bench.floor import Ceilings, Work, count, measure_ceilings
from bitspike.bench.measure import Plan, fastest, run
from bitspike.bench.ours import ours, samples_of
from bitspike.bench.picture import draw
from bitspike.bench.problem import prepare, synthetic
from bitspike.bench.show import number, show
from bitspike.bench.timing import Entrant, Spread, counted, race, ratios, warm_up

CPU = torch.device("cpu")


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="module")
def _known_ceilings():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "measure_ceilings", lambda device, before=None: Ceilings(2e11, 3e10))
        yield


def tiny(name: str, **changes) -> Case:
    small = {
        "fashion": {},
        "dvs128": {},
        "shd": {"notation": "30Dense12Dense4", "input_shape": (30,), "density": 0.9, "repeats": 1 / 3},
    }
    layer = {"notation": "24Dense24", "input_shape": (24,), "density": 0.5}
    return replace(CASES[name], **{"steps": 8, "batch": 2, **small.get(name, layer), **changes})


TINY = [tiny("fashion"), tiny("dvs128"), tiny("shd"), tiny("layer2k")]
by_name = pytest.mark.parametrize("case", TINY, ids=lambda case: case.name)


# Cases


def test_the_cases_are_those_of_the_paper():
    for name in ("fashion", "dvs128", "shd"):
        problem = prepare(tiny(name, notation=CASES[name].notation, input_shape=CASES[name].input_shape), CPU)
        assert problem.experiment.net.notation == CASES[name].notation
        assert problem.experiment.train.batch == 2
        assert len(problem.recipe.schedules) == len(CASES[name].layers())
    fashion, shd = (prepare(tiny(name), CPU).recipe for name in ("fashion", "shd"))
    assert (fashion.norm, fashion.optimizer, fashion.dropouts) == (True, "sgd", (0, 0, 0.648))
    assert (shd.norm, shd.optimizer, shd.dropouts) == (False, "adam", (0.186, 0.0176))
    assert (shd.grad_clip, shd.weight_clip, fashion.grad_clip) == (1.0, 1.0, None)


def test_neuron_steps_count_every_layer():
    assert CASES["fashion"].neurons() == 16 * 12 * 12 + 64 * 4 * 4 + 10
    assert CASES["shd"].neuron_steps() == (3000 + 20) * 32 * 333


def test_without_names_the_device_decides():
    assert [case.name for case in choose([], "cuda")] == list(ON_GPU)
    assert [case.name for case in choose([], "cpu")] == list(ON_CPU)
    assert [case.name for case in choose(["shd", "shd", "dense-T50"], "cpu")] == ["shd", "dense-T50"]


def test_an_unknown_case_names_the_known_ones():
    known = "no case is named 'shdd'; known: fashion, dvs128, dvs128-16, shd, layer16k, layer2k, growth"
    with pytest.raises(ValueError, match=known):
        choose(["shdd"], "cpu")


def test_growth_changes_one_thing_at_a_time():
    groups: dict[str, list[Case]] = {}
    for case in choose(["growth"], "cpu"):
        groups.setdefault(case.group, []).append(case)
    assert list(groups) == [f"{kind}, {along}" for kind in ("dense", "conv") for along in ("T", "width", "batch")]
    for group, members in groups.items():
        along = group.split(", ")[1]
        sizes = [case.grown_to() for case in members]
        assert sizes == sorted(set(sizes))
        assert len({(case.steps if along != "T" else 0) for case in members}) == 1
        assert len({(case.batch if along != "batch" else 0) for case in members}) == 1
        assert len({case.notation for case in members}) == (len(members) if along == "width" else 1)
    assert [case.steps for case in groups["dense, T"]] == [50, 100, 200, 400, 800, 1600, 3200]


@by_name
def test_synthetic_data_is_as_dense_as_said(case):
    wide = replace(case, batch=200, steps=20)
    values = synthetic(wide, wide.batch, 0, CPU)
    assert values.dtype == torch.uint8
    assert values.count_nonzero() / values.numel() == pytest.approx(case.density, rel=0.1)
    assert values.max() == {"fashion": 255, "layer2k": 1}.get(case.name, 4)
    if case.repeats:
        assert (values > 1).sum() / (values > 0).sum() == pytest.approx(1 / 3, rel=0.05)
    problem = prepare(case, CPU)
    assert problem.x.shape == ((2, *case.input_shape) if case.static else (8, 2, *case.input_shape))
    assert problem.x.is_floating_point() == case.static
    assert problem.x.max() <= 1 or not case.static


# The floor


def test_a_dense_network_counted_by_hand():
    case = tiny("shd", notation="30Dense12Dense4", batch=2, steps=8)
    work = count(case, "adam")
    assert work.operations == 2 * 16 * (2 * 30 * 12 + 3 * 12 * 4)  # the first layer has no gradient of its input
    weights = 31 * 12 + 13 * 4
    assert work.bytes == 2 * 16 * 30 + 3 * 16 * 12 // 8 + 10 * 4 * weights
    assert work.streamed == work.bytes + 8 * 16 * (12 + 4) + 4 * 16 * 12


def test_a_convolution_with_its_pool_is_one_strided_convolution_and_an_image_is_convolved_once():
    case = tiny("fashion")
    operations = 2 * (
        2 * 2 * (16 * 144) * 6**2  # once, of the weights and forward only
        + 3 * 16 * (64 * 16) * 16 * 6**2
        + 3 * 16 * 1024 * 10
    )
    assert count(case, "sgd").operations == operations
    assert count(replace(case, steps=16), "sgd").operations < 2 * operations
    moved = count(replace(case, static=False), "sgd").operations - operations
    assert moved == 2 * 2 * (16 - 2) * (16 * 144) * 6**2


def test_the_floor_is_the_slower_of_products_and_memory():
    ceilings = Ceilings(operations=1e12, bytes=1e9)
    assert ceilings.milliseconds(Work(int(2e9), 1000, 5_000_000)) == pytest.approx(2)
    assert ceilings.milliseconds(Work(int(2e9), 1000, 5_000_000), streamed=True) == pytest.approx(5)


def test_ceilings_keep_the_best_seen():
    found = measure_ceilings(CPU, Ceilings(1e30, 1.0))
    assert found.operations == 1e30
    assert 1e8 < found.bytes < 1e13


# Our own step


@pytest.mark.parametrize("case", TINY[:3], ids=lambda case: case.name)
def test_our_step_is_the_trainers(case):
    contender = ours(prepare(case, CPU))
    trainer = contender.step.trainer
    before = [p.detach().clone() for p in trainer.net.parameters()]
    first = trainer.thetas()
    with using(contender.arithmetic, CPU):
        for _ in range(3):
            contender.step()
    assert trainer.progress.step == 3
    assert all(b > a for a, b in zip(first, trainer.thetas(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.net.parameters(), strict=True))


def test_our_steps_go_on_where_an_epoch_ends():
    contender = ours(prepare(tiny("shd"), CPU))
    contender.step()
    trainer = contender.step.trainer
    trainer.progress.iteration = trainer.work.count
    contender.step()
    assert trainer.progress.iteration == 1
    assert trainer.progress.step == 2


def test_our_single_layer_takes_counts_and_leaves_gradients():
    problem = prepare(tiny("layer2k"), CPU)
    loss = ours(problem).step()
    assert problem.x.dtype == torch.uint8
    assert 0 < loss.item() <= 8 * 2 * 24
    assert loss.item() == loss.item() // 1


def test_training_samples_are_several_batches_and_one_for_growth():
    assert len(samples_of(prepare(tiny("shd"), CPU))) == 8
    assert len(samples_of(prepare(replace(growth()[0], steps=4, batch=2), CPU))) == 2


# Peers


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
    from bitspike.schedules import Relax

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
    from bitspike.bench.peers.torch_parts import count_loss as shared

    spikes, labels = torch.rand(9, 3, 5).round(), torch.tensor([0, 4, 2])
    assert torch.equal(shared(spikes, labels), functional.mse_count_loss(0.8, 0.2)(spikes, labels))


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


def test_clips_rate_and_thresholds_follow_backward():
    from bitspike.bench.peers.torch_parts import AfterBackward

    problem = prepare(tiny("shd"), CPU)
    weight = torch.nn.Parameter(torch.tensor([3.0, -0.5]))
    written: dict[int, float] = {}
    after = AfterBackward(problem, [weight], written.__setitem__)
    weight.grad = torch.tensor([30.0, 40.0])
    after()
    assert torch.allclose(weight.grad, torch.tensor([0.6, 0.8]), atol=1e-4)  # norm 1
    assert weight[0].item() == pytest.approx(1 - problem.recipe.lr, rel=1e-3)  # clamped, then a step of Adam
    assert written == {i: schedule(1) for i, schedule in enumerate(problem.recipe.schedules)}
    after()
    assert after.optimizer.param_groups[0]["lr"] < problem.recipe.lr
    after.clear()
    assert weight.grad is None


# Timing


def fake(name: str, log: list[str], clock: list[float], seconds: float, **options) -> Contender:
    def step() -> None:
        log.append(name)
        clock[0] += seconds

    return Contender(name, name, "1", "", (), step, lambda: None, **options)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


def test_contenders_take_turns(clock):
    log: list[str] = []
    entrants = [Entrant(fake(name, log, clock, seconds)) for name, seconds in (("a", 0.1), ("b", 0.4))]
    race(entrants, CPU, 2.0)
    assert log == ["a", "b"] * 4  # half a second a round
    assert entrants[0].seconds == pytest.approx([0.1] * 4)
    assert ratios(*entrants).median == pytest.approx(4)


def test_there_are_three_rounds_at_least_and_25_at_most(clock):
    log: list[str] = []
    race([Entrant(fake("a", log, clock, 100.0))], CPU, 1.0)
    assert len(log) == 3
    race([Entrant(fake("b", log, clock, 0.001))], CPU, 1.0)
    assert len(log) == 3 + 25


def test_short_steps_are_timed_in_bursts(clock):
    log: list[str] = []
    entrant = warm_up(fake("a", log, clock, 0.002), CPU, 0)
    assert (entrant.steps, len(log)) == (10, timing.WARM_UP["cpu"])
    race([entrant], CPU, 0.0)
    assert entrant.seconds == pytest.approx([0.002] * 3)
    assert warm_up(fake("b", log, clock, 3.0), CPU, 0).steps == 1


def test_ratios_are_taken_round_by_round():
    a, b = (Entrant(fake(name, [], [0.0], 0)) for name in "ab")
    a.seconds, b.seconds = [1.0, 2.0, 10.0], [3.0, 6.0, 30.0]
    assert (ratios(a, b).low, ratios(a, b).high) == (3, 3)


def test_spread_is_median_and_quartiles():
    spread = Spread.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (spread.low, spread.median, spread.high) == (2, 3, 4)
    assert Spread.of([2.0]).rounded() == {"median": 2, "low": 2, "high": 2}
    assert Spread(1.23456789, 1, 1).rounded()["median"] == 1.235


def test_kernels_and_launches_are_told_apart():
    def event(kind, name, annotation=False):
        kind_ = SimpleNamespace(name=kind)
        return SimpleNamespace(device_type=kind_, name=name, is_user_annotation=annotation)

    events = [
        event("CUDA", "gemm"),
        event("CUDA", "_lif_fwd_kernel"),
        event("CUDA", "Memcpy DtoD"),
        event("CUDA", "Memset (Device)"),
        event("CUDA", "Optimizer.step#Adam.step", annotation=True),
        event("CPU", "aten::mm"),
        event("CPU", "cudaLaunchKernel"),
        event("CPU", "cuLaunchKernelEx"),
        event("CPU", "cudaGraphLaunch"),
        event("CPU", "cudaMemcpyAsync"),
    ]
    assert counted(events) == {"kernels": 2, "launches": 3}


def test_a_real_profile_has_the_fields_that_are_counted():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        torch.ones(3) + 1
    assert {event.device_type.name for event in seen.events()} == {"CPU"}
    assert counted(seen.events()) == {"kernels": 0, "launches": 0}
    assert not any(event.is_user_annotation for event in seen.events())


def test_arithmetic_is_set_while_a_contender_runs_and_put_back():
    def now():
        return (
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
            torch.are_deterministic_algorithms_enabled(),
            torch.is_autocast_enabled("cpu"),
        )

    before = now()
    with using(Arithmetic(matmul_tf32=True, conv_tf32=False, autocast_bf16=True, deterministic=True), CPU):
        assert now() == (True, False, True, True)
    assert now() == before


# The whole


def measured(*cases: Case, against=("snntorch",), **options):
    pytest.importorskip("snntorch")
    return run(Plan(cases, against, CPU, 0.0, **options))


@pytest.fixture(scope="module")
def result():
    return measured(tiny("shd"), replace(growth()[0], steps=4, batch=2), replace(growth()[1], steps=6, batch=2))


def test_the_result_is_plain_data(result):
    assert json.loads(json.dumps(result)) == result
    assert result["format"] == 1
    assert set(result["versions"]) >= {"bitspike", "torch", "python", "machine"}
    case = result["cases"]["shd"]
    assert set(case) >= {"title", "notation", "batch", "steps", "work", "neuron_steps", "floor", "rows"}
    assert set(case["floor"]) == {"operations", "bytes", "bytes_streamed", "ms", "ms_streamed"}
    assert list(case["rows"]) == ["bitspike", "snntorch"]
    for row in case["rows"].values():
        assert {"library", "version", "setting", "differs", "ms", "rounds", "peak_mb", "times_ours", "gpu"} <= set(row)
        assert row["ms"]["low"] <= row["ms"]["median"] <= row["ms"]["high"]
        assert row["rounds"] >= 3
        expected = 1e6 * row["ms"]["median"] / case["neuron_steps"]
        assert row["ns_per_neuron_step"] == pytest.approx(expected, rel=1e-3)
    assert case["rows"]["bitspike"]["times_ours"]["median"] == 1
    assert case["floor"]["ms"] == pytest.approx(
        1e3
        * max(
            case["floor"]["operations"] / result["ceilings"]["operations_per_s"],
            case["floor"]["bytes"] / result["ceilings"]["bytes_per_s"],
        ),
        rel=1e-3,
    )


def test_one_that_fails_is_written_down_and_the_others_go_on(monkeypatch):
    def broken(problem):
        raise RuntimeError("no kernel\nfor this device")

    told = []
    saved = []
    known = {"snntorch": (peers.Variant("snntorch", broken),)}
    monkeypatch.setattr(measure, "variants", lambda name: known[name])
    result = measured(
        tiny("shd"),
        against=("snntorch", "norse"),
        failed=lambda name, error: told.append(name),
        done=lambda latest: saved.append(list(latest["cases"])),
    )
    rows = result["cases"]["shd"]["rows"]
    assert rows["snntorch"] == {"error": "RuntimeError: no kernel for this device"}
    assert rows["norse"]["error"].startswith("KeyError")
    assert "ms" in rows["bitspike"]
    assert sorted(told) == ["norse", "snntorch"]
    assert saved == [["shd"]]


def test_after_the_deadline_nobody_starts():
    rows = measured(tiny("shd"), deadline=0.0)["cases"]["shd"]["rows"]
    assert rows == {name: {"error": "no time was left"} for name in ("bitspike", "snntorch")}


def test_the_fastest_of_a_library():
    rows = {
        "bitspike": {"library": "bitspike", "ms": {"median": 1}},
        "sj": {"library": "spikingjelly", "ms": {"median": 9}},
        "sj-folded": {"library": "spikingjelly", "ms": {"median": 5}},
        "sj-bf16": {"error": "no"},
    }
    assert fastest(rows, "spikingjelly") == "sj-folded"
    assert fastest(rows, "norse") is None


def test_tables_name_every_row(result):
    console = Console(width=120, record=True, file=io.StringIO())
    broken = {"cases": {**result["cases"], "dvs128": {**result["cases"]["shd"], "rows": {"spyx": {"error": "X: y"}}}}}
    show(broken, console)
    text = console.export_text()
    for word in (
        "shd: SHD",
        "bitspike",
        "snntorch 1.0.0",
        "differs:",
        "floor",
        "failed",
        "spyx: X: y",
        "growth: dense, T",
    ):
        assert word in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (0.012345, "0.0123"), (12.34, "12.3"), (264.4, "264"), (56789.0, "56,800")],
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_pictures_are_drawn_of_what_there_is(result, tmp_path):
    assert [path.name for path in draw(result, tmp_path)] == ["bench.png", "growth.png"]
    assert (tmp_path / "bench.png").read_bytes()[:4] == b"\x89PNG"
    only = {**result, "cases": {"shd": result["cases"]["shd"]}}
    assert [path.name for path in draw(only, tmp_path / "more")] == ["bench.png"]


def test_the_command_line_measures_prints_and_saves(cli, tmp_path, monkeypatch):
    pytest.importorskip("snntorch")
    monkeypatch.setitem(cases_module.CASES, "shd", tiny("shd"))
    status, out, _ = cli(
        "bench", "shd", "--against", "snntorch", "--device", "cpu", "--seconds", "0", "--json", "--out", tmp_path
    )
    assert status == 0
    printed = json.loads(out)
    assert printed == json.loads((tmp_path / "bench.json").read_text())
    assert list(printed["cases"]["shd"]["rows"]) == ["bitspike", "snntorch"]
    assert (tmp_path / "bench.png").is_file()
    status, out, _ = cli("bench", "shd", "--against", "none", "--device", "cpu", "--seconds", "0")
    assert (status, "snntorch" in out) == (0, False)
    assert "bitspike" in out


def test_the_command_lines_errors_are_one_line(cli, monkeypatch):
    status, _, err = cli("bench", "shdd")
    assert (status, err.count("\n")) == (1, 1)
    assert "known: fashion" in err
    monkeypatch.setattr(peers, "installed", lambda name: False)
    status, _, err = cli("bench", "shd", "--against", "spikingjelly")
    assert (status, err.count("\n")) == (1, 1)
    assert "spikingjelly is not installed; run: pip install --no-deps spikingjelly==2.0.0" in err


def test_no_peer_is_loaded_unasked():
    names = ("snntorch", "spikingjelly", "norse", "spyx", "jax", "matplotlib")
    code = (
        f"import sys, bitspike.bench.measure, bitspike.bench.picture; print([n for n in {names!r} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
