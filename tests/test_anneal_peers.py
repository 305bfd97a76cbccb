"""ThresholdAnnealing on networks of snnTorch and SpikingJelly, and an annealed training against the released code's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from bitspike import LIF, Linear, Relax, ThresholdAnnealing, build, count_loss
from helpers.peers import VERSIONS, Layer, Loop, SignConv2d, SignLinear, SnnTorch, copy_parameters, one_thread, snntorch

RISE = Relax(1.0, 3.0, 0.25)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)  # the peers' own layers draw from the global generator


@pytest.fixture(scope="module", params=VERSIONS)
def peer(request: pytest.FixtureRequest) -> SnnTorch:
    return snntorch(request.param)


@pytest.fixture(scope="module")
def jelly() -> ModuleType:
    return pytest.importorskip("spikingjelly.activation_based.neuron")


def train(net: nn.Module, annealing: ThresholdAnnealing, forward: Callable[[Tensor], Tensor], steps: int = 4) -> None:
    """The loop of any user: optimizer.step(), then annealing.step(); asserts that something was learnt."""
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    x, target = torch.rand(3, 6, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2])
    weights = [p.detach().clone() for p in net.parameters()]
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(forward(x), target).backward()
        optimizer.step()
        annealing.step()
    assert any(not torch.equal(before, p) for before, p in zip(weights, net.parameters(), strict=True))


def assert_follows(annealing: ThresholdAnnealing, schedule: Relax = RISE) -> None:
    """Every threshold is the schedule's, to float32."""
    wanted = dict.fromkeys(annealing.thresholds(), schedule(annealing.steps_taken))
    assert annealing.thresholds() == pytest.approx(wanted, rel=1e-7)


class TestSnnTorch:
    def test_leaky_layers_in_a_loop_follow_the_schedule(self, peer: SnnTorch) -> None:
        net = Loop(
            [Layer(nn.Linear(6, 8), peer.leaky(0.9, 1.0, 5.0)), Layer(nn.Linear(8, 3), peer.leaky(0.9, 1.0, 5.0))]
        )
        annealing = ThresholdAnnealing(net, RISE)
        assert list(annealing.thresholds()) == ["layers.0.lif", "layers.1.lif"]
        assert_follows(annealing)
        train(net, annealing, lambda x: net(x, 10)[0][-1].sum(0))
        assert annealing.steps_taken == 4
        assert_follows(annealing)

    def test_hidden_state_inside_a_sequential(self, peer: SnnTorch) -> None:
        net = nn.Sequential(
            nn.Linear(6, 8),
            peer.leaky(0.9, 1.0, 5.0, init_hidden=True),
            nn.Linear(8, 3),
            peer.leaky(0.9, 1.0, 5.0, init_hidden=True, output=True),
        )

        def forward(x: Tensor) -> Tensor:
            peer.snn.Leaky.reset_hidden()
            return torch.stack([net(x)[0] for _ in range(10)]).sum(0)

        annealing = ThresholdAnnealing(net, RISE)
        train(net, annealing, forward)
        assert list(annealing.thresholds()) == ["1", "3"]
        assert_follows(annealing)

    def test_a_learnable_thresholds_value_is_read_without_a_warning(self) -> None:
        neurons = snntorch("1.0.0").leaky(0.9, 1.0, 5.0, learn_threshold=True)
        assert ThresholdAnnealing(nn.Sequential(neurons), RISE).thresholds() == {"0": 1.0}

    def test_a_learnable_threshold_stays_the_optimizers_parameter(self) -> None:
        peer = snntorch("1.0.0")
        neurons = peer.leaky(0.9, 1.0, 5.0, learn_threshold=True)
        net = Loop([Layer(nn.Linear(6, 3), neurons)])
        parameter = neurons.threshold
        annealing = ThresholdAnnealing(net, RISE)
        train(net, annealing, lambda x: net(x, 10)[0][-1].sum(0))
        assert neurons.threshold is parameter
        assert isinstance(parameter, nn.Parameter)
        assert parameter.grad.abs() > 0  # the optimizer moved it, and the schedule has the last word
        assert parameter.item() == pytest.approx(RISE(4), rel=1e-7)

    def test_recurrent_and_synaptic_neurons(self) -> None:
        snn = snntorch("1.0.0").snn
        recurrent = snn.RLeaky(beta=0.9, linear_features=8)
        synaptic = snn.Synaptic(alpha=0.8, beta=0.9)
        net = nn.ModuleDict({"a": nn.Linear(6, 8), "r": recurrent, "b": nn.Linear(8, 3), "s": synaptic})

        def forward(x: Tensor) -> Tensor:
            z, u = recurrent.init_rleaky()
            current, mem = synaptic.init_synaptic()
            counts = torch.zeros(len(x), 3)
            for _ in range(10):
                z, u = recurrent(net["a"](x), z, u)
                out, current, mem = synaptic(net["b"](z), current, mem)
                counts = counts + out
            return counts

        annealing = ThresholdAnnealing(net, [RISE, Linear(1.0, 2.0, 8)])
        train(net, annealing, forward)
        assert annealing.thresholds() == pytest.approx({"r": RISE(4), "s": 1.5}, rel=1e-7)

    def test_a_users_own_subclass_is_annealed(self, peer: SnnTorch) -> None:
        class Mine(peer.snn.Leaky):
            pass

        neurons = Mine(beta=0.9)
        assert "snntorch" not in type(neurons).__module__
        annealing = ThresholdAnnealing(nn.Sequential(nn.Linear(2, 2), neurons), RISE)
        annealing.step()
        assert neurons.threshold.item() == pytest.approx(RISE(1))

    def test_one_threshold_a_neuron_takes_one_value(self, peer: SnnTorch) -> None:
        neurons = peer.snn.Leaky(beta=0.9, threshold=torch.ones(5))
        annealing = ThresholdAnnealing(nn.Sequential(neurons), RISE)
        annealing.step()
        assert torch.equal(neurons.threshold, torch.full((5,), RISE(1)))
        assert_follows(annealing)

    def test_a_whole_number_as_threshold_is_annealed_too(self, peer: SnnTorch) -> None:
        neurons = peer.snn.Leaky(beta=0.9, threshold=1)  # snnTorch keeps it as an integer tensor
        annealing = ThresholdAnnealing(nn.Sequential(neurons), RISE)
        annealing.step()
        assert_follows(annealing)
        assert float(neurons.threshold) == pytest.approx(RISE(1))

    def test_a_higher_threshold_fires_where_snntorch_itself_would(self, peer: SnnTorch) -> None:
        x = torch.rand(4, 6, generator=torch.Generator().manual_seed(1))
        net = Loop([Layer(SignLinear(6, 8), peer.leaky(0.9, 1.0, 5.0))])
        annealing = ThresholdAnnealing(net, RISE)
        before = net(x, 20)[0][0]
        for _ in range(5):
            annealing.step()
        born_high = Loop([Layer(SignLinear(6, 8), peer.leaky(0.9, RISE(5), 5.0))])
        copy_parameters(net, born_high)
        after = net(x, 20)[0][0]
        assert torch.equal(after, born_high(x, 20)[0][0])
        assert 0 < after.sum() < before.sum()


class TestSpikingJelly:
    @pytest.mark.parametrize("mode", ["s", "m"])
    @pytest.mark.parametrize("kind", ["LIFNode", "ParametricLIFNode"])
    def test_nodes_follow_the_schedule_through_training(self, jelly: ModuleType, kind: str, mode: str) -> None:
        from spikingjelly.activation_based import functional

        node = getattr(jelly, kind)
        net = nn.Sequential(
            nn.Linear(6, 8), node(step_mode=mode, v_threshold=0.5), nn.Linear(8, 3), node(step_mode=mode)
        )

        def forward(x: Tensor) -> Tensor:
            functional.reset_net(net)
            if mode == "m":
                return net(x.expand(10, *x.shape)).sum(0)
            return torch.stack([net(x) for _ in range(10)]).sum(0)

        schedule = Relax(0.1, 0.3, 0.25)  # their input is divided by the time constant, so membranes stay small
        annealing = ThresholdAnnealing(net, schedule)
        assert annealing.thresholds() == {"1": 0.1, "3": 0.1}
        train(net, annealing, forward)
        assert annealing.thresholds() == {"1": schedule(4), "3": schedule(4)}  # plain floats: no rounding

    @pytest.mark.parametrize("mode", ["s", "m"])
    def test_a_higher_threshold_fires_where_spikingjelly_itself_would(self, jelly: ModuleType, mode: str) -> None:
        x = torch.rand(20, 4, 6, generator=torch.Generator().manual_seed(1)) * 3

        def fire(node: nn.Module) -> Tensor:
            node.reset()
            return node(x) if mode == "m" else torch.stack([node(step) for step in x])

        node = jelly.LIFNode(step_mode=mode, v_reset=None)
        annealing = ThresholdAnnealing(nn.Sequential(node), Relax(0.5, 2.0, 0.1))
        before = fire(node)
        for _ in range(3):
            annealing.step()
        after = fire(node)
        assert torch.equal(after, fire(jelly.LIFNode(step_mode=mode, v_reset=None, v_threshold=node.v_threshold)))
        assert 0 < after.sum() < before.sum()

    def test_their_threshold_stays_a_float(self, jelly: ModuleType) -> None:
        node = jelly.LIFNode()
        ThresholdAnnealing(nn.Sequential(node), Linear(1, 3, 2)).step()
        assert isinstance(node.v_threshold, float)
        assert node.v_threshold == 2.0


@pytest.fixture
def mixed(jelly: ModuleType) -> nn.ModuleDict:
    peer = snntorch("1.0.0")
    return nn.ModuleDict({"ours": LIF(0.9, 1.0), "torch": peer.leaky(0.9, 1.0, 25.0), "jelly": jelly.LIFNode()})


class TestMixedNetworks:
    def test_one_schedule_moves_every_library(self, mixed: nn.ModuleDict) -> None:
        annealing = ThresholdAnnealing(mixed, RISE)
        for _ in range(3):
            annealing.step()
        assert list(annealing.thresholds()) == ["ours", "torch", "jelly"]
        assert_follows(annealing)

    def test_a_list_goes_in_module_order(self, mixed: nn.ModuleDict) -> None:
        ThresholdAnnealing(mixed, [Relax(n, 9.0, 0.5) for n in (1.0, 2.0, 3.0)])
        assert (mixed["ours"].theta, mixed["torch"].threshold, mixed["jelly"].v_threshold) == (1.0, 2.0, 3.0)

    def test_a_dict_leaves_the_layers_it_does_not_name(self, mixed: nn.ModuleDict) -> None:
        annealing = ThresholdAnnealing(mixed, {"torch": Relax(2.0, 9.0, 0.5)})
        annealing.finish()
        assert annealing.thresholds() == {"ours": 1.0, "torch": 9.0, "jelly": 1.0}

    def test_an_unknown_name_lists_the_known_ones(self, mixed: nn.ModuleDict) -> None:
        with pytest.raises(KeyError, match=r"'torhc'; known: ours, torch, jelly; did you mean 'torch'\?"):
            ThresholdAnnealing(mixed, {"torhc": RISE})

    def test_finish_sets_the_final_values_and_a_step_resumes(self, mixed: nn.ModuleDict) -> None:
        annealing = ThresholdAnnealing(mixed, RISE)
        annealing.step()
        annealing.finish()
        assert set(annealing.thresholds().values()) == {3.0}
        annealing.step()
        assert annealing.steps_taken == 2
        assert_follows(annealing)

    def test_a_saved_state_continues_in_a_new_network(self, mixed: nn.ModuleDict, jelly: ModuleType) -> None:
        annealing = ThresholdAnnealing(mixed, RISE)
        for _ in range(5):
            annealing.step()
        state = json.loads(json.dumps(annealing.state_dict()))  # plain data: any checkpoint format holds it
        fresh = nn.ModuleDict(
            {"ours": LIF(0.9, 1.0), "torch": snntorch("1.0.0").leaky(0.9, 1.0, 25.0), "jelly": jelly.LIFNode()}
        )
        resumed = ThresholdAnnealing(fresh, RISE)
        resumed.load_state_dict(state)
        assert resumed.thresholds() == annealing.thresholds()
        annealing.step()
        resumed.step()
        assert resumed.thresholds() == annealing.thresholds()
        with pytest.raises(ValueError, match="saved with other schedules"):
            ThresholdAnnealing(fresh, Relax(1.0, 4.0, 0.25)).load_state_dict(state)

    def test_a_block_shows_the_final_values_and_goes_back(self, mixed: nn.ModuleDict) -> None:
        annealing = ThresholdAnnealing(mixed, RISE)
        annealing.step()
        with annealing.finish():
            with annealing.finish():
                pass
            assert set(annealing.thresholds().values()) == {3.0}
            annealing.step()
        assert_follows(annealing)
        annealing.finish()
        with annealing.finish():
            pass
        assert set(annealing.thresholds().values()) == {3.0}

    def test_a_threshold_step_before_backward_changes_no_gradient_of_theirs(self, jelly: ModuleType) -> None:
        """Unlike bitspike's layers, which refuse it, they keep what backward needs; so nothing has to be said."""

        def gradients(net: nn.Module, *, early: bool) -> list[Tensor]:
            annealing = ThresholdAnnealing(net, RISE)
            net.zero_grad()
            loss = torch.stack([net(x) for x in torch.rand(5, 3, 6, generator=torch.Generator().manual_seed(0))]).sum()
            if early:
                annealing.step()
            loss.backward()
            return [p.grad.clone() for p in net.parameters() if p.grad is not None]

        for make in (
            lambda: snntorch("1.0.0").leaky(0.9, 1.0, 5.0, init_hidden=True),
            lambda: snntorch("1.0.0").leaky(0.9, 1.0, 5.0, init_hidden=True, learn_threshold=True),
            jelly.LIFNode,
            lambda: jelly.LIFNode(detach_reset=True, v_reset=None),
        ):
            late, early = (
                gradients(nn.Sequential(nn.Linear(6, 4), make()), early=early)
                for early in (False, True)
                if torch.manual_seed(0)
            )
            assert late[0].abs().sum() > 0
            assert all(torch.equal(a, b) for a, b in zip(late, early, strict=True))


def assert_close(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    assert (ours - theirs).abs().max() <= tolerance * theirs.abs().max()


STEPS = 25
RISES = (Relax(1 + 1 / 3, 3.7, 0.2), Relax(1.7, 4 + 1 / 3, 0.05))
NETWORKS = {"dense": ("12Dense20Dense4", (12,)), "convolutional": ("6Conv3-AP2-96Dense4", (1, 10, 10))}


def released_code(peer: SnnTorch, kind: str) -> Loop:
    first, second = (peer.leaky(0.9, rise.start, 0.5) for rise in RISES)
    if kind == "dense":
        return Loop([Layer(SignLinear(12, 20), first), Layer(SignLinear(20, 4), second)])
    conv = Layer(SignConv2d(1, 6, 3, bias=False), first, pool=2, norm=nn.BatchNorm2d(6))
    return Loop([conv, Layer(SignLinear(96, 4), second)])


@pytest.mark.parametrize(
    ("kind", "backend"),
    [
        ("dense", "reference"),
        ("convolutional", "auto"),
        pytest.param("dense", "auto", marks=pytest.mark.slow),
        pytest.param("convolutional", "reference", marks=pytest.mark.slow),
    ],
)
def test_an_annealed_training_is_the_released_codes(peer: SnnTorch, kind: str, backend: str) -> None:
    notation, shape = NETWORKS[kind]
    random = torch.Generator().manual_seed(3)
    net = build(
        notation,
        shape,
        beta=0.9,
        slope=0.5,
        norm="step",
        surrogate_center="current",
        steps=STEPS,
        init="released",
        generator=random,
        backend=backend,
    )
    loop = released_code(peer, kind)
    copy_parameters(net, loop)
    signs = [p.sign() for p in net.parameters()]
    annealing = ThresholdAnnealing(net, RISES)
    ours, theirs = (torch.optim.SGD(n.parameters(), lr=0.002, momentum=0.9) for n in (net, loop))
    alike = 0
    for _ in range(20):
        x = torch.randint(0, 17, (8, *shape), generator=random) / 16
        labels = torch.randint(0, 4, (8,), generator=random)
        ours.zero_grad()
        layers = net.run(x, keep_hidden_membrane=False)
        loss = count_loss(layers[-1].spikes, labels)
        loss.backward()
        ours.step()
        annealing.step()

        theirs.zero_grad()
        spikes = loop(x, STEPS)[0]
        if not all(torch.equal(a.spikes, b) for a, b in zip(layers, spikes, strict=True)):
            break  # weights differ in their last digits, and now a membrane lay between: from here on trainings part
        alike += 1
        wanted = peer.count_loss(spikes[-1], labels)
        wanted.backward()
        theirs.step()
        with torch.no_grad():
            for layer, rise in zip(loop.layers, RISES, strict=True):
                layer.lif.threshold += rise.rate * (rise.stop - layer.lif.threshold)

        # Losses count spikes, so they are equal until rounding flips one; it adds up in weights, 4e-6 after 20 steps.
        assert torch.equal(loss, wanted)
        for p, q in zip(net.parameters(), loop.parameters(), strict=True):
            assert_close(p, q, 1e-5)
        for block, layer in zip(net.layers, loop.layers, strict=True):
            assert_close(block.lif.theta, layer.lif.threshold, 1e-6)
    assert alike >= 12
    # Else nothing would have been learnt that a binary network can see.
    assert sum(int((s != p.sign()).sum()) for s, p in zip(signs, net.parameters(), strict=True)) > 50
