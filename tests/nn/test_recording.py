"""`record` on any module: every neuron layer's spikes and membrane, of bitspike's, snnTorch's and SpikingJelly's."""

from __future__ import annotations

import copy
import pickle
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import bitspike
from bitspike import LIF, BinaryLinear, LIFOutput, RecurrentLIF, build, record
from bitspike.nn import Block, SpikingNetwork
from bitspike.suggest import measure_drive
from helpers.peers import VERSIONS, SnnTorch, snntorch

STEPS = 7


@pytest.fixture(params=VERSIONS)
def peer(request: pytest.FixtureRequest) -> SnnTorch:
    return snntorch(request.param)


@pytest.fixture
def jelly() -> ModuleType:
    pytest.importorskip("spikingjelly")
    from spikingjelly.activation_based import neuron

    return neuron


def sequence(*shape: int) -> Tensor:
    return torch.rand(STEPS, 4, *shape, generator=torch.Generator().manual_seed(1)) * 2


def exact_linear(inputs: int, outputs: int) -> nn.Linear:
    """A layer of sixteenths: sums of sixteenths are exact, whatever number of rows a product has."""
    layer = nn.Linear(inputs, outputs)
    for part in layer.parameters():
        part.data = (part.data * 16).round() / 16
    return layer


def assert_recorded(layer: Any, spikes: Tensor, membrane: Tensor | None) -> None:
    assert 0 < spikes.mean() < 1
    assert torch.equal(layer.spikes, spikes)
    assert layer.membrane is None if membrane is None else torch.equal(layer.membrane, membrane)


# ---- bitspike's own layers


class Own(nn.Module):
    """A user's module: a block, a container, and a layer called once a step with its state passed on."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block(BinaryLinear(6, 9), LIF(0.9, 1.5))
        self.inner = nn.ModuleDict({"synapse": BinaryLinear(9, 5), "neurons": RecurrentLIF(5, 0.5, 2.0)})
        self.last = LIF(0.5, 0.7)

    def forward(self, x: Tensor) -> tuple[LIFOutput, LIFOutput, list[LIFOutput]]:
        first = self.block(x, keep_membrane=False)
        second = self.inner["neurons"](self.inner["synapse"](first.spikes))
        outputs, state = [], None
        for current in second.spikes:
            outputs.append(self.last(current[None], state))
            state = outputs[-1].state
        return first, second, outputs


def test_a_users_module_is_recorded_by_module_name() -> None:
    net, x = Own(), sequence(6)
    with record(net) as layers:
        first, second, steps = net(x)
    assert list(layers) == ["block.lif", "inner.neurons", "last"]
    assert_recorded(layers["block.lif"], first.spikes, net.block(x).membrane)
    assert_recorded(layers["inner.neurons"], second.spikes, second.membrane)
    assert_recorded(layers["last"], torch.cat([out.spikes for out in steps]), torch.cat([o.membrane for o in steps]))
    whole = net.last(second.spikes)
    assert_recorded(layers["last"], whole.spikes, whole.membrane)


def test_recording_changes_no_number_and_leaves_nothing_behind() -> None:
    net, x = Own(), sequence(6)
    plain = net(x)
    with record(net):
        recorded = net(x)
    after = net(x)
    for first, second, steps in (recorded, after):
        assert torch.equal(first.spikes, plain[0].spikes)
        assert torch.equal(second.membrane, plain[1].membrane)
        assert all(torch.equal(a.membrane, b.membrane) for a, b in zip(steps, plain[2], strict=True))
    assert after[0].membrane is None
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_a_built_network_is_recorded_as_by_its_own_method() -> None:
    net, x = build("6-9-5", steps=STEPS), torch.rand(4, 6)
    with record(net) as ours, net.record() as its:
        out = net(x)
    assert ours == its
    assert list(ours) == net.neuron_names()
    assert ours["layers.1.lif"] is out


def test_a_built_network_inside_another_module_keeps_its_layers_names_and_order_of_glances() -> None:
    inner = build("2Conv3-AP2-32Dense5", (1, 10, 10), steps=10, glances=5, theta=0.5)
    net, x = nn.Sequential(nn.Identity(), inner), torch.rand(3, 1, 10, 10)
    with record(net) as layers:
        net(x)
    for name, wanted in zip(inner.neuron_names(), inner.run(x), strict=True):
        assert_recorded(layers[f"1.{name}"], wanted.spikes, wanted.membrane)


def test_what_training_observes_is_recorded_with_its_membranes() -> None:
    net, x = build("6-9-5", steps=STEPS), torch.rand(4, 6)
    with record(net) as layers:
        net.observe(x)
    assert torch.equal(layers["layers.0.lif"].membrane, net.run(x)[0].membrane)


def test_the_next_pass_is_recorded_anew_and_an_error_keeps_the_last() -> None:
    net = nn.Sequential(LIF(0.5, 1.0))
    with record(net) as layers:
        net(sequence(3))
        net(sequence(3)[:2])
        assert layers["0"].spikes.shape == (2, 4, 3)
        with pytest.raises(ValueError, match="lif"):
            net(torch.rand(0))
        assert layers["0"].spikes.shape == (2, 4, 3)
    net(sequence(3))
    assert layers["0"].spikes.shape == (2, 4, 3)


def test_a_recording_inside_a_recording_gives_the_outer_one_back() -> None:
    net = nn.Sequential(LIF(0.5, 1.0))
    with record(net) as outer:
        with record(net) as inner:
            net(sequence(3))
        net(sequence(3)[:2])
    assert (len(inner["0"].spikes), len(outer["0"].spikes)) == (STEPS, 2)


def test_a_bare_layer_is_recorded_under_its_empty_name() -> None:
    layer = LIF(0.5, 1.0)
    with record(layer) as layers:
        out = layer(sequence(3))
    assert_recorded(layers[""], out.spikes, out.membrane)


def test_a_layer_of_ones_own_that_gives_spikes_alone() -> None:
    class Spikes(LIF):
        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(x).spikes

    net = nn.Sequential(Spikes(0.5, 1.0))
    with record(net) as layers:
        out = net(sequence(3))
    assert_recorded(layers["0"], out, None)


def test_gradients_flow_through_a_recording() -> None:
    net, x = Own(), sequence(6)
    with record(net) as layers:
        net(x)
    sum(layer.membrane.square().sum() for layer in layers.values()).backward()  # type: ignore[union-attr]
    assert net.block.synapse.weight.grad is not None
    assert net.block.synapse.weight.grad.abs().sum() > 0
    with record(net) as layers, torch.no_grad():
        net(x)
    assert not any(layer.spikes.requires_grad for layer in layers.values())


def test_a_network_with_more_layers_than_its_blocks_shows_all() -> None:
    class More(SpikingNetwork):
        def __init__(self, net: SpikingNetwork) -> None:
            super().__init__(list(net.layers), (6,), STEPS, "6-9-5")  # type: ignore[arg-type]
            self.extra = LIF(0.5, 0.5)

        def forward(self, x: Tensor, *, steps: int | None = None) -> LIFOutput:
            out: LIFOutput = self.extra(super().forward(x, steps=steps).spikes)
            return out

    net, x = More(build("6-9-5", theta=0.5)), sequence(6)
    with record(net) as layers:
        out = net(x)
    assert list(layers) == ["layers.0.lif", "layers.1.lif", "extra"]
    assert torch.equal(layers["extra"].spikes, out.spikes)
    assert torch.equal(layers["layers.1.lif"].membrane, net.run(x)[1].membrane)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
@pytest.mark.parametrize("make", [lambda: build("6-9-5"), lambda: nn.Sequential(LIF(0.5, 1.0))])
def test_a_copy_made_inside_is_not_recorded(make: Any, copied: Any) -> None:
    net, x = make(), sequence(6)
    with record(net) as layers:
        other = copied(net)
        other(x)
        assert not layers
        net(x[:2])
    other(x)
    assert {len(layer.spikes) for layer in layers.values()} == {2}


# ---- snnTorch


class Loop(nn.Module):
    """snnTorch as its users write it: state passed in, once a step."""

    def __init__(self, neurons: nn.Module, states: int = 1) -> None:
        super().__init__()
        self.synapse = nn.Linear(6, 8)
        self.neurons = neurons
        self.states = states

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        begin = {1: "init_leaky", 2: "init_synaptic", 3: "init_alpha"}[self.states]
        state = getattr(self.neurons, begin)()
        state, spikes, membrane = state if isinstance(state, (tuple, list)) else (state,), [], []
        for step in x:
            z, *state = self.neurons(self.synapse(step), *state)
            spikes.append(z)
            membrane.append(state[-1])
        return torch.stack(spikes), torch.stack(membrane)


@pytest.mark.parametrize("reset", ["subtract", "zero", "none"])
def test_snntorch_with_state_passed_in(peer: SnnTorch, reset: str) -> None:
    if reset == "none" and peer.snn.__version__ == "0.4.11":
        pytest.skip("the old one always resets")
    net = Loop(peer.leaky(0.9, 0.5, 5.0, reset_mechanism=reset))
    with record(net) as layers:
        spikes, membrane = net(sequence(6))
    assert_recorded(layers["neurons"], spikes, membrane)


@pytest.mark.parametrize("kind", ["Synaptic", "Alpha"])
def test_snntorch_neurons_with_more_state_show_their_membrane(peer: SnnTorch, kind: str) -> None:
    theta, states = {"Synaptic": (0.5, 2), "Alpha": (0.05, 3)}[kind]
    net = Loop(getattr(peer.snn, kind)(0.9, 0.8, threshold=theta), states)
    with record(net) as layers:
        spikes, membrane = net(sequence(6))
    assert_recorded(layers["neurons"], spikes, membrane)


class OverTime(nn.Module):
    """A network that is called once a step, as one that takes the sequence."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> list[Any]:
        return [self.net(step) for step in x]


def test_snntorch_with_hidden_state_shows_it(peer: SnnTorch) -> None:
    hidden, last = (peer.leaky(0.9, 0.5, 5.0, init_hidden=True, output=output) for output in (False, True))
    net = OverTime(nn.Sequential(nn.Linear(6, 8), hidden, nn.Linear(8, 8), last))
    seen: list[Tensor] = []
    hidden.register_forward_hook(lambda module, args, spikes: seen.extend((spikes, module.mem)))
    with record(net) as layers:
        outputs = net(sequence(6))
    assert list(layers) == ["net.1", "net.3"]
    assert_recorded(layers["net.1"], torch.stack(seen[::2]), torch.stack(seen[1::2]))
    assert_recorded(layers["net.3"], torch.stack([z for z, _ in outputs]), torch.stack([u for _, u in outputs]))


def test_snntorch_layers_that_take_the_sequence_whole() -> None:
    snn = snntorch("1.0.0").snn
    parallel = nn.Sequential(snn.LeakyParallel(6, 8, threshold=0.3))
    with record(parallel) as layers:
        spikes = parallel(sequence(6))
    assert_recorded(layers["0"], spikes, None)
    stateful = nn.Sequential(snn.StateLeaky(beta=0.9, channels=6, threshold=0.5, output=True))
    with record(stateful) as layers:
        spikes, membrane = stateful(sequence(6))
    assert_recorded(layers["0"], spikes, membrane)


def test_an_snntorch_layer_without_spikes_is_told() -> None:
    net = nn.Sequential(snntorch("1.0.0").snn.StateLeaky(beta=0.9, channels=6, output=False))
    says = r"record: 0: a StateLeaky gives spikes only if created with output=True"
    with pytest.raises(TypeError, match=says), record(net):
        net(sequence(6))


# ---- SpikingJelly


@pytest.mark.parametrize("reset", [0.0, None])
@pytest.mark.parametrize("mode", ["s", "m"])
@pytest.mark.parametrize("kind", ["LIFNode", "IFNode", "ParametricLIFNode"])
def test_spikingjelly_in_both_modes(jelly: ModuleType, kind: str, mode: str, reset: float | None) -> None:
    node = getattr(jelly, kind)(step_mode=mode, v_reset=reset, v_threshold=0.6)
    layered = nn.Sequential(exact_linear(6, 8), node)
    x = (sequence(6) * 16).round() / 16
    net = OverTime(layered) if mode == "s" else layered
    with record(net) as layers:
        out = net(x)
    spikes = torch.stack(out) if mode == "s" else out
    twin = getattr(jelly, kind)(step_mode="m", v_reset=reset, v_threshold=0.6, store_v_seq=True)
    assert torch.equal(twin(layered[0](x)), spikes)
    assert_recorded(next(iter(layers.values())), spikes, twin.v_seq)
    assert node.store_v_seq is False
    assert node.v_seq is None


def test_two_recordings_of_spikingjelly_see_the_same(jelly: ModuleType) -> None:
    net, x = nn.Sequential(jelly.LIFNode(step_mode="m", v_threshold=0.6)), sequence(6)
    with record(net) as outer, record(net) as inner:
        for _ in range(2):
            with pytest.raises(AttributeError, match="dtype"):
                net([x[0]])
            net[0].reset()
            net(x)
    assert outer["0"].membrane is not None
    assert_recorded(inner["0"], outer["0"].spikes, outer["0"].membrane)
    assert net[0].store_v_seq is False


def test_a_sequence_that_spikingjelly_stores_itself_stays(jelly: ModuleType) -> None:
    net = nn.Sequential(jelly.LIFNode(step_mode="m", store_v_seq=True))
    with record(net) as layers:
        net(sequence(6))
    assert net[0].store_v_seq is True
    assert torch.equal(net[0].v_seq, layers["0"].membrane)


def test_an_error_in_spikingjelly_leaves_it_as_it_was(jelly: ModuleType) -> None:
    net = nn.Sequential(jelly.LIFNode(step_mode="m"))
    with pytest.raises(AttributeError, match="dtype"), record(net):
        net([torch.rand(4, 3)])
    assert net[0].store_v_seq is False


# ---- Mixed, and what cannot be recorded


def test_libraries_can_be_mixed(jelly: ModuleType) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ours = LIF(0.9, 1.0)
            self.torch = snntorch("1.0.0").leaky(0.9, 1.0, 25.0)
            self.jelly = jelly.LIFNode(step_mode="m", v_threshold=0.3)

        def forward(self, x: Tensor) -> Tensor:
            spikes, mem, steps = self.ours(x).spikes, self.torch.init_leaky(), []
            for step in spikes:
                z, mem = self.torch(step, mem)
                steps.append(z)
            return self.jelly(torch.stack(steps))

    net = Mixed()
    with record(net) as layers:
        out = net(sequence(6))
    assert {name: tuple(layer.membrane.shape) for name, layer in layers.items()} == dict.fromkeys(
        ["ours", "torch", "jelly"], (STEPS, 4, 6)
    )
    assert torch.equal(layers["jelly"].spikes, out)


def test_a_network_without_neurons_is_told() -> None:
    with pytest.raises(ValueError, match=r"record: the network has no neuron layer; bitspike's LIF"), record(nn.ReLU()):
        pass
    with pytest.raises(TypeError, match=r"record: net must be a torch\.nn\.Module, but is the class LIF"), record(LIF):
        pass


def test_a_layer_that_was_not_called_is_told_when_asked_for() -> None:
    net = Own()
    net.unused = LIF()
    with record(net) as layers:
        with pytest.raises(KeyError, match="nothing is recorded yet; call the network itself inside the block"):
            layers["last"]
        net(sequence(6))
    with pytest.raises(KeyError, match=r"did not call a neuron layer named 'unused'; recorded: block\.lif, inner"):
        layers["unused"]
    assert layers.get("unused") is None


def test_a_layer_called_in_two_places_is_told() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lif = LIF(0.5, 1.0)

        def forward(self, x: Tensor) -> LIFOutput:
            out: LIFOutput = self.lif(self.lif(x).spikes[..., :2])
            return out

    net, says = Twice(), r"record: lif was called with \[4, 2\] and \[4, 6\].*a layer for each place"
    with pytest.raises(ValueError, match=says), record(net):
        net(sequence(6))
    net(sequence(6))
    with pytest.raises(ValueError, match=says.replace("record", "measure_drive")):
        measure_drive(net, sequence(6))


def test_it_is_public() -> None:
    assert bitspike.record is record
