"""Drive and schedules of any module: a user's own class with neurons of bitspike, snnTorch or SpikingJelly."""

from __future__ import annotations

import copy
import itertools
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bitspike import (
    LIF,
    BinaryLinear,
    Constant,
    LIFOutput,
    RecurrentLIF,
    Relax,
    ThresholdAnnealing,
    build,
    record,
    suggest_schedules,
)
from bitspike.nn import SpikingNetwork
from bitspike.suggest import Drive, measure_drive
from helpers.peers import VERSIONS, Layer, Loop, SignConv2d, SignLinear, SnnTorch, copy_parameters, one_thread, snntorch

STEPS = 12


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module", params=VERSIONS)
def peer(request: pytest.FixtureRequest) -> SnnTorch:
    return snntorch(request.param)


@pytest.fixture(scope="module")
def jelly() -> ModuleType:
    return pytest.importorskip("spikingjelly.activation_based.neuron")


def sequence(*shape: int, batch: int = 16) -> Tensor:
    return torch.rand(STEPS, batch, *shape, generator=torch.Generator().manual_seed(1)) * 2


def assert_same(ours: list[Drive], theirs: list[Drive]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one.peaks, other.peaks)
        assert one.theta == other.theta


class Static(nn.Module):
    """snnTorch's loop over a static image."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self.loop = loop

    def forward(self, x: Tensor) -> list[Tensor]:
        return self.loop(x, STEPS)[0]


class OverTime(nn.Module):
    """A network that is called once a step, as one that takes the sequence."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> list[Any]:
        return [self.net(step) for step in x]


# ---- Equal to the networks of `build`


class Blocks(nn.Module):
    """The same blocks under a forward pass of the user's, whose layers are registered from last to first."""

    def __init__(self, net: SpikingNetwork) -> None:
        super().__init__()
        for i in reversed(range(len(net.layers))):
            self.add_module(f"b{i}", net.layers[i])
        self.count = len(net.layers)
        self.passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        for i in range(self.count):
            x = getattr(self, f"b{i}")(x).spikes
        return x


@pytest.mark.parametrize("options", [{}, {"norm": "step", "dropout": 0.5}, {"norm": "shared", "learn_beta": True}])
def test_the_same_blocks_in_a_users_module_are_driven_alike(options: dict[str, Any]) -> None:
    net = build("6Conv3-AP2-54Dense9Dense5", (1, 8, 8), init="released", **options).eval()
    own, x = Blocks(net), sequence(1, 8, 8)
    drives = measure_drive(own, x)
    assert [drive.layer for drive in drives] == ["b2.lif", "b1.lif", "b0.lif"]  # module order, as schedules go
    assert_same(measure_drive(net, x), drives[::-1])
    annealing = ThresholdAnnealing(own, suggest_schedules(own, x, iterations=100, stop=0.5))
    expected = {drive.layer: 0.25 * drive.typical for drive in drives}
    assert annealing.thresholds() == pytest.approx(expected, rel=1e-7)


def test_a_built_network_inside_another_is_driven_as_alone() -> None:
    net, x = build("6-9-5", steps=STEPS, init="released"), torch.rand(16, 6)
    assert_same(measure_drive(net, x), measure_drive(nn.Sequential(nn.Identity(), net), x))


def test_a_network_with_a_forward_pass_of_its_own_is_measured_with_it() -> None:
    class Twofold(SpikingNetwork):
        def forward(self, x: Tensor, *, steps: int | None = None) -> Any:
            return super().forward(2 * x, steps=steps)

    plain, x = build("6-9-5", steps=STEPS, init="released"), torch.rand(16, 6)
    net = Twofold(list(plain.layers), (6,), STEPS, "6-9-5")  # type: ignore[arg-type]
    assert_same(measure_drive(plain, 2 * x), measure_drive(net, x))


NETWORKS = {"dense": ("12Dense20Dense4", (12,)), "convolutional": ("6Conv3-AP2-96Dense4", (1, 10, 10))}


@pytest.mark.parametrize("kind", NETWORKS)
def test_snntorch_with_the_same_weights_gets_the_same_schedules(peer: SnnTorch, kind: str) -> None:
    notation, shape = NETWORKS[kind]
    net = build(notation, shape, beta=0.9, norm="step", steps=STEPS, init="released")
    first, second = (peer.leaky(0.9, 1.0, 25.0) for _ in range(2))
    if kind == "dense":
        loop = Loop([Layer(SignLinear(12, 20), first), Layer(SignLinear(20, 4), second)])
    else:
        conv = Layer(SignConv2d(1, 6, 3, bias=False), first, pool=2, norm=nn.BatchNorm2d(6))
        loop = Loop([conv, Layer(SignLinear(96, 4), second)])
    copy_parameters(net, loop)
    x = torch.rand(16, *shape)
    # start is given: only of a network of `build` it is known that an image is static
    ours, theirs = (
        suggest_schedules(n, x, iterations=1000, start=0.25, theta_inf=[50.0, 60.0]) for n in (net, Static(loop))
    )
    for one, other in zip(ours, theirs, strict=True):
        assert isinstance(one, Relax)
        assert isinstance(other, Relax)
        assert (other.start, other.stop, other.rate) == pytest.approx((one.start, one.stop, one.rate), rel=1e-6)


# ---- What the drive promises is what the network does


Make = Callable[[SnnTorch, ModuleType], nn.Module]


def sequential(neurons: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 9), neurons(), nn.Linear(9, 7), neurons())


KINDS: dict[str, Make] = {
    "hidden state": lambda p, j: OverTime(sequential(lambda: p.leaky(0.9, 1.0, 25.0, init_hidden=True))),
    "reset to zero": lambda p, j: OverTime(
        sequential(lambda: p.leaky(0.9, 1.0, 25.0, init_hidden=True, reset_mechanism="zero"))
    ),
    "synaptic": lambda p, j: OverTime(sequential(lambda: p.snn.Synaptic(0.5, 0.8, init_hidden=True))),
    "a step a call": lambda p, j: OverTime(sequential(j.LIFNode)),
    "all steps": lambda p, j: sequential(lambda: j.LIFNode(step_mode="m")),
    "soft reset": lambda p, j: sequential(lambda: j.IFNode(step_mode="m", v_reset=None)),
    "mixed": lambda p, j: nn.Sequential(
        LIF(0.5, 1.0),
        Spikes(),
        OverTime(p.leaky(0.9, 1.0, 25.0, init_hidden=True)),
        Stacked(),
        j.LIFNode(step_mode="m"),
    ),
}


class Spikes(nn.Module):
    def forward(self, output: LIFOutput) -> Tensor:
        return output.spikes


class Stacked(nn.Module):
    def forward(self, steps: list[Tensor]) -> Tensor:
        return torch.stack(steps)


@pytest.mark.parametrize("kind", KINDS)
def test_neurons_fire_where_their_peaks_reach_theta(peer: SnnTorch, jelly: ModuleType, kind: str) -> None:
    net, x = KINDS[kind](peer, jelly), sequence(6)
    drives = measure_drive(net, x)
    ThresholdAnnealing(net, [Constant(drive.theta) for drive in drives])
    with torch.no_grad(), record(net) as layers:
        net(x)  # for the first time: its states are at rest
    for drive in drives:
        fires = layers[drive.layer].spikes.amax(0) > 0
        assert torch.equal(fires, drive.peaks >= torch.tensor(drive.theta))
        assert fires.sum() > (drive.peaks > 0).sum() / 2


@pytest.mark.parametrize("kind", KINDS)
def test_neither_states_nor_thresholds_of_now_matter(peer: SnnTorch, jelly: ModuleType, kind: str) -> None:
    net, x = KINDS[kind](peer, jelly), sequence(6)
    before = measure_drive(net, x)
    with torch.no_grad():
        net(x + 1)
    ThresholdAnnealing(net, Constant(0.123))
    assert_same(before, measure_drive(net, x))


def test_both_modes_of_spikingjelly_are_driven_alike(jelly: ModuleType) -> None:
    step, whole = KINDS["a step a call"](None, jelly), KINDS["all steps"](None, jelly)  # type: ignore[arg-type]
    for one, other in zip(measure_drive(step, sequence(6)), measure_drive(whole, sequence(6)), strict=True):
        torch.testing.assert_close(one.peaks, other.peaks)
        assert one.theta == pytest.approx(other.theta)


class FeedsBack(nn.Module):
    """Two layers, the second of which feeds back into the first; registered from last to first."""

    def __init__(self, strength: float) -> None:
        super().__init__()
        self.second, self.first = LIF(0.5, 1.0), LIF(0.5, 1.0)
        self.forth, self.back = BinaryLinear(5, 4), BinaryLinear(4, 5, bias=False)
        self.strength = strength

    def forward(self, x: Tensor) -> None:
        states: list[Any] = [None, None]
        fed = torch.zeros(1, x.shape[1], 5)
        for current in x.split(1):
            one = self.first(current + self.strength * fed, states[0])
            two = self.second(self.forth(one.spikes), states[1])
            states, fed = [one.state, two.state], self.back(two.spikes)


@pytest.mark.parametrize("strength", [0.0, 5.0])
def test_layers_that_feed_back_are_measured_in_the_order_of_their_calls(strength: float) -> None:
    torch.manual_seed(0)
    net, x = FeedsBack(strength), sequence(5)
    second, first = measure_drive(net, x)
    assert (second.layer, first.layer) == ("second", "first")
    # a layer behind that is not measured yet is silent, at whatever threshold it is now: nothing comes back
    assert torch.equal(first.peaks, LIF(0.5, 1e30)(x).membrane.amax(0))
    # the second hears itself through the first: it is measured again, with its feedback
    spikes = LIF(0.5, first.theta)(x).spikes
    without = LIF(0.5, 1e30)(net.forth(spikes)).membrane.amax(0)
    assert torch.equal(second.peaks, without) == (strength == 0)


def share_that_fires(net: nn.Module, x: Tensor, thetas: dict[str, float], name: str) -> float:
    """Return the share of what is driven in a layer that fires, with these thresholds."""
    ThresholdAnnealing(net, {layer: Constant(theta) for layer, theta in thetas.items()})
    with torch.no_grad(), record(net) as layers:
        net(x)
    fired, driven = layers[name].spikes.amax(0) > 0, layers[name].membrane.amax(0) > 0
    return (fired.sum() / (driven | fired).sum()).item()


class Loops(nn.Module):
    """A layer of the user's whose spikes come back through weights outside of the neurons."""

    def __init__(self, neurons: nn.Module) -> None:
        super().__init__()
        self.into, self.back, self.lif = nn.Linear(6, 40), BinaryLinear(40, 40, bias=False), neurons

    def forward(self, x: Tensor) -> Tensor:
        spikes, z = [], torch.zeros(x.shape[1], 40)
        for step in x:
            z = self.lif(self.into(step) + 0.2 * self.back(z))
            spikes.append(z)
        return torch.stack(spikes)


class Recurrent(nn.Module):
    """snnTorch's own recurrent neurons."""

    def __init__(self, peer: SnnTorch) -> None:
        super().__init__()
        self.into = nn.Linear(6, 40)
        self.lif = peer.snn.RLeaky(0.9, linear_features=40, threshold=1.0)

    def forward(self, x: Tensor) -> Tensor:
        z, u = self.lif.init_rleaky()
        spikes = []
        for step in x:
            z, u = self.lif(self.into(step), z, u)
            spikes.append(z)
        return torch.stack(spikes)


FEEDBACK: dict[str, Make] = {
    "snnTorch, own loop": lambda p, j: Loops(p.leaky(0.9, 1.0, 25.0, init_hidden=True)),
    "snnTorch, RLeaky": lambda p, j: Recurrent(p),
    "SpikingJelly, own loop": lambda p, j: Loops(j.LIFNode(v_reset=None)),
    "RecurrentLIF": lambda p, j: nn.Sequential(nn.Linear(6, 40), RecurrentLIF(40, 0.9, 1.0)),
}


@pytest.mark.parametrize("kind", FEEDBACK)
def test_a_layer_that_hears_itself_is_measured_with_its_feedback(jelly: ModuleType, kind: str) -> None:
    """Its drive is the threshold at which half of what is driven fires, with the feedback of these spikes."""
    torch.manual_seed(1)
    net, x = FEEDBACK[kind](snntorch("1.0.0"), jelly), sequence(6)
    [drive] = measure_drive(net, x)
    assert 0.5 < share_that_fires(copy.deepcopy(net), x, {drive.layer: drive.typical / 1.03}, drive.layer) < 0.6
    assert 0.4 < share_that_fires(copy.deepcopy(net), x, {drive.layer: drive.typical * 1.03}, drive.layer) <= 0.52
    assert drive.theta == pytest.approx(0.5 * drive.typical)


def test_it_takes_one_pass_a_layer_and_one_for_the_last_one_s_feedback() -> None:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Blocks(build("6-9-8-5", init="released"))

        def forward(self, x: Tensor) -> Tensor:
            passes.append(len(x))
            return self.net(x)

    passes: list[int] = []
    measure_drive(Counted(), sequence(6))
    assert passes == [STEPS] * 4


# ---- The network stays as it was


class Everything(nn.Module):
    """All that a forward pass may change: statistics, states, counters, lists, generators; it may also fail."""

    def __init__(self, peer: SnnTorch, jelly: ModuleType) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.dropout = nn.Dropout(0.5)
        self.torch = peer.leaky(0.9, 1.0, 25.0, init_hidden=True)
        self.jelly = jelly.LIFNode(v_threshold=0.7)
        self.learnt = nn.Parameter(torch.ones(6))
        self.ours = LIF(0.9, 1.3)
        self.generator = torch.Generator().manual_seed(5)
        self.trace: list[Tensor] = []
        self.calls = 0
        self.last: Tensor | None = None
        self.passes = itertools.count()  # not put back: a pass that fails is one of the measurement's
        self.fails_in: int | None = None

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.rand(6, generator=self.generator) + torch.rand(6) + random.random()
        steps = []
        for step in x:
            self.calls += 1
            current = self.dropout(self.norm(step)) * self.learnt + noise
            self.learnt.data.mul_(0.999)
            steps.append(self.jelly(self.torch(current) + current))
            self.trace.append(steps[-1])
        if next(self.passes) == self.fails_in:
            raise ZeroDivisionError
        self.last = self.ours(torch.stack(steps) + noise).spikes
        return self.last


def everything(net: Everything) -> dict[str, Any]:
    """What it holds, by value."""
    return copy.deepcopy(
        {
            "state": net.state_dict(),
            "mem": net.torch.mem.detach(),
            "v": net.jelly.v.detach(),
            "v_threshold": net.jelly.v_threshold,
            "memories": list(net.jelly._memories),
            "own": (net.calls, len(net.trace), net.last.detach() if net.last is not None else None),
            "modes": [module.training for module in net.modules()],
            "grad": net.learnt.grad,
            "random": (torch.get_rng_state(), random.getstate(), net.generator.get_state()),
        }
    )


def assert_equal(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    else:
        assert one == other


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("fails", [False, True])
def test_the_network_stays_as_it_was(peer: SnnTorch, jelly: ModuleType, training: bool, fails: bool) -> None:
    net, x = Everything(peer, jelly).train(training), sequence(6)
    net(x).sum().backward()
    with record(net) as recording:
        net.fails_in = 2 if fails else None
        before = everything(net)
        objects = [*net.parameters(), *net.buffers(), net.torch.mem, net.jelly.v, net.trace, net.last]
        versions = [each._version for each in objects if isinstance(each, Tensor)]
        if fails:
            with pytest.raises(ZeroDivisionError):
                suggest_schedules(net, x, iterations=100)
        else:
            suggest_schedules(net, x, iterations=100)
        assert not recording
    assert_equal(everything(net), before)
    after = [*net.parameters(), *net.buffers(), net.torch.mem, net.jelly.v, net.trace, net.last]
    assert all(a is b for a, b in zip(objects, after, strict=True))
    assert [each._version for each in after if isinstance(each, Tensor)] == versions
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


def test_a_backward_pass_that_waits_can_still_be_made() -> None:
    net, x = Blocks(build("6-9-5", init="released", binary=False)), sequence(6)
    loss = net(x).sum()
    suggest_schedules(net, x, iterations=10)
    loss.backward()


def test_compiled_parts_of_a_network_stay_as_they_were() -> None:
    class Scripted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                self.norm = torch.jit.script(nn.BatchNorm1d(6))
            self.lif = LIF()

        def forward(self, x: Tensor) -> Any:
            return self.lif(self.norm(x.flatten(0, 1)).unflatten(0, x.shape[:2]))

    net = Scripted().eval()
    before = copy.deepcopy(net.state_dict())
    measure_drive(net, sequence(6))
    assert_equal(net.state_dict(), before)
    assert not net.norm.training


# ---- Errors


def test_a_layer_that_is_never_called_is_named() -> None:
    net = Blocks(build("6-9-5", init="released"))
    net.extra = LIF()
    with pytest.raises(ValueError, match=r"measure_drive: net\(batch\) never calls extra, so .* take layers"):
        measure_drive(net, sequence(6))


def test_a_layer_that_shows_no_membrane_is_named() -> None:
    net = nn.Sequential(snntorch("1.0.0").snn.LeakyParallel(6, 8))
    with pytest.raises(ValueError, match="measure_drive: 0, a LeakyParallel, shows no membrane"):
        measure_drive(net, sequence(6))


def test_neurons_that_rest_elsewhere_are_named(jelly: ModuleType) -> None:
    net = nn.Sequential(jelly.LIFNode(v_reset=-65.0, v_threshold=-50.0, step_mode="m"))
    with pytest.raises(ValueError, match=r"measure_drive: 0 rests at a membrane of -65, .* v_reset=None"):
        measure_drive(net, sequence(6))


@pytest.mark.parametrize(("batch", "says"), [(torch.zeros(0, 3), "empty"), (torch.zeros(2, 4, 3), "silent")])
def test_a_batch_that_drives_nothing_is_refused(batch: Tensor, says: str) -> None:
    with pytest.raises(ValueError, match=f"measure_drive: the batch is {says}"):
        measure_drive(nn.Sequential(LIF()), batch)


def test_a_batch_may_be_whatever_the_network_takes() -> None:
    class Takes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lif = LIF(0.5, 1.0)

        def forward(self, batch: dict[str, Tensor]) -> Any:
            return self.lif(batch["x"])

    x = sequence(6)
    assert_same(measure_drive(nn.Sequential(LIF(0.5, 1.0)), x), measure_drive(Takes(), {"x": x}))


# ---- What the documentation shows


def test_the_documented_snippet_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("snntorch")
    page = (Path(__file__).parents[2] / "docs" / "reports" / "annealing.md").read_text(encoding="utf-8")
    section = page.partition("## On a network of your own")[2]
    snippet = section.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(snippet, "docs/reports/annealing.md", "exec"), names)
    assert capsys.readouterr().out.startswith("lif1 torch.Size([25, 64, 100]) 0.")
    assert all(layer.spikes.any() for layer in names["layers"].values())
    assert names["annealing"].thresholds().keys() == {"lif1", "lif2"}
