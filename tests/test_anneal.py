"""Optimizer step, then threshold step: iteration k runs with schedule(k), and nothing else moves."""

import copy as copying
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from bitspike import (
    LIF,
    Adaptation,
    AdaptiveLIF,
    BinaryLinear,
    Constant,
    Linear,
    RecurrentLIF,
    Relax,
    ThresholdAnnealing,
    build,
    count_loss,
    lif,
)
from bitspike.experiments.reproduce.coding.cases import CASES
from bitspike.experiments.reproduce.coding.training import train_case


def as_float32(value):
    return torch.tensor(value, dtype=torch.float32).item()


def two_layers(**kwargs):
    kwargs = {"theta": 0.5, "slope": 1.0, "steps": 4} | kwargs
    return build("6-5-3", generator=torch.Generator().manual_seed(0), **kwargs)


def train(net, annealing, iterations, optimizer=None):
    """The paper's loop. Per layer and iteration: theta and theta_grad as the forward pass saw them."""
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.05)
    seen = []
    hooks = [
        module.register_forward_pre_hook(lambda m, _: seen[-1].append((m.theta.item(), m.theta_grad.item())))
        for module in net.modules()
        if isinstance(module, LIF)
    ]
    generator = torch.Generator().manual_seed(1)
    for _ in range(iterations):
        seen.append([])
        x, labels = torch.rand(4, 6, generator=generator), torch.tensor([0, 1, 2, 0])
        optimizer.zero_grad()
        count_loss(net(x).spikes, labels).backward()
        optimizer.step()
        annealing.step()
    for hook in hooks:
        hook.remove()
    return seen


# ---- The order


def test_iteration_k_runs_with_the_papers_recurrence_after_k_updates():
    net = two_layers()
    schedules = [Relax(0.5, 2.0, 0.3), Relax(1.0, 3.0, 0.1)]
    seen = train(net, ThresholdAnnealing(net, schedules), 6)
    thetas = [0.5, 1.0]
    for layers in seen:
        assert [theta for theta, _ in layers] == pytest.approx(thetas, rel=1e-6)
        thetas = [theta + s.rate * (s.stop - theta) for theta, s in zip(thetas, schedules, strict=True)]


def test_iteration_k_runs_with_the_schedule_of_k():
    net, schedule = two_layers(), Linear(0.5, 1.5, 4)
    seen = train(net, ThresholdAnnealing(net, schedule), 6)
    assert [[theta for theta, _ in layers] for layers in seen] == [[schedule(k)] * 2 for k in range(6)]


def test_the_optimizer_moves_before_the_threshold_does():
    net, schedule = two_layers(), Linear(0.5, 1.5, 4)
    annealing = ThresholdAnnealing(net, schedule)
    optimizer, at_update = torch.optim.SGD(net.parameters(), lr=0.1), []
    optimizer.register_step_post_hook(lambda *_: at_update.append(annealing.thresholds()["layers.0.lif"]))
    train(net, annealing, 3, optimizer)
    assert at_update == [schedule(0), schedule(1), schedule(2)]
    assert annealing.thresholds()["layers.0.lif"] == schedule(3)


def test_the_shipped_loop_steps_the_optimizer_and_then_the_threshold(monkeypatch):
    # No number would tell: only the next forward pass reads the threshold. So the calls themselves are written down.
    calls, step = [], ThresholdAnnealing.step
    monkeypatch.setattr(ThresholdAnnealing, "step", lambda self: calls.append("threshold") or step(self))
    hook = register_optimizer_step_post_hook(lambda *_: calls.append("optimizer"))
    try:
        history = train_case(CASES["annealed"], [0], iterations=3, on_iteration=lambda: calls.append("next"))
    finally:
        hook.remove()
    assert calls == ["optimizer", "threshold", "next"] * 3
    assert history.theta.tolist() == [as_float32(CASES["annealed"].theta(k)) for k in range(3)]


ORDER = r"modified by an inplace .*; call annealing\.step\(\) after optimizer\.step\(\), .* before loss\.backward\(\)"


def refuses_a_step_before_backward(net, x):
    annealing = ThresholdAnnealing(net, Relax(0.5, 2.0, 0.3))
    loss = net(x).membrane.sum()
    annealing.step()
    with pytest.raises(RuntimeError, match=ORDER) as told:
        loss.backward()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("center", ["initial", "current"])
@pytest.mark.parametrize("binary", [True, False])
def test_a_threshold_step_between_forward_and_backward_says_the_order(backend, binary, center):
    refuses_a_step_before_backward(
        two_layers(backend=backend, binary=binary, surrogate_center=center), torch.rand(4, 6)
    )


@pytest.mark.parametrize("options", [{}, {"recurrent": True}, {"adaptation": Adaptation(0.9, 1.8)}])
@pytest.mark.parametrize("steps", [(), (5,)])
def test_a_step_before_backward_says_the_order_whatever_backend_is_picked(options, steps):
    refuses_a_step_before_backward(two_layers(**options), torch.ones(*steps, 4, 6))


def test_another_error_of_saved_tensors_is_pytorchs_own():
    out = lif(torch.rand(3, 2, 4, requires_grad=True), beta=0.9, theta=1.0, slope=5.0).membrane.sum()
    out.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()


def test_creating_it_writes_the_start():
    net = two_layers(theta=7.0)
    annealing = ThresholdAnnealing(net, Linear(0.5, 1.5, 4))
    assert annealing.thresholds() == {"layers.0.lif": 0.5, "layers.1.lif": 0.5}
    assert annealing.steps_taken == 0
    annealing.step()
    assert annealing.steps_taken == 1
    assert annealing.thresholds() == {"layers.0.lif": 0.75, "layers.1.lif": 0.75}


# ---- The surrogate


def test_the_surrogate_stays_at_the_first_threshold():
    net = two_layers(theta=7.0)
    seen = train(net, ThresholdAnnealing(net, Relax(0.5, 2.0, 0.3)), 4)
    assert [center for layers in seen for _, center in layers] == [0.5] * 8


def test_the_surrogate_moves_along_in_the_released_codes_way():
    net = two_layers(surrogate_center="current")
    seen = train(net, ThresholdAnnealing(net, Relax(0.5, 2.0, 0.3)), 4)
    assert all(theta == center for layers in seen for theta, center in layers)
    assert seen[3][0][0] > 1.4


def test_the_end_does_not_move_the_surrogate_either():
    net = two_layers()
    ThresholdAnnealing(net, Relax(0.5, 2.0, 0.3)).finish()
    assert [(layer.lif.theta.item(), layer.lif.theta_grad.item()) for layer in net.layers] == [(2.0, 0.5)] * 2


# ---- In place


def test_thresholds_are_written_into_the_same_memory():
    # A captured graph of the training step reads the threshold from its address.
    net = two_layers()
    buffers = [buffer for layer in net.layers for buffer in (layer.lif.theta, layer.lif.theta_grad)]
    addresses = [buffer.data_ptr() for buffer in buffers]
    annealing = ThresholdAnnealing(net, Relax(0.5, 2.0, 0.3))
    annealing.step()
    annealing.finish()
    after = [buffer for layer in net.layers for buffer in (layer.lif.theta, layer.lif.theta_grad)]
    assert all(old is new for old, new in zip(buffers, after, strict=True))
    assert [buffer.data_ptr() for buffer in after] == addresses


# ---- Resuming


def test_resuming_equals_never_stopping():
    schedules = {"layers.0.lif": Relax(0.5, 2.0, 0.3), "layers.1.lif": Linear(0.5, 1.0, 5)}
    net = two_layers()
    whole = train(net, ThresholdAnnealing(net, schedules), 7)

    net = two_layers()
    annealing = ThresholdAnnealing(net, schedules)
    first = train(net, annealing, 3)
    saved, weights = annealing.state_dict(), net.state_dict()

    resumed_net = two_layers()
    resumed_net.load_state_dict(weights)
    resumed = ThresholdAnnealing(resumed_net, schedules)
    resumed.load_state_dict(saved)
    assert resumed.steps_taken == 3
    assert first + train(resumed_net, resumed, 4) == whole


def test_a_state_survives_torchs_safe_loading(tmp_path):
    annealing = ThresholdAnnealing(two_layers(), Relax(0.5, 2.0, 0.3))
    annealing.step()
    torch.save(annealing.state_dict(), tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)
    other = ThresholdAnnealing(two_layers(), Relax(0.5, 2.0, 0.3))
    other.load_state_dict(loaded)
    assert other.thresholds() == annealing.thresholds()
    assert other.state_dict() == annealing.state_dict()


def test_finish_writes_the_final_thresholds_and_is_saved():
    annealing = ThresholdAnnealing(two_layers(), Relax(0.5, 2.0, 0.01))
    annealing.step()
    annealing.finish()
    assert annealing.thresholds() == {"layers.0.lif": 2.0, "layers.1.lif": 2.0}
    assert annealing.steps_taken == 1
    other = ThresholdAnnealing(two_layers(), Relax(0.5, 2.0, 0.01))
    other.load_state_dict(annealing.state_dict())
    assert other.thresholds() == annealing.thresholds()


def test_a_step_after_finish_goes_on_where_training_was():
    annealing = ThresholdAnnealing(two_layers(), Linear(0.5, 1.5, 4))
    annealing.step()
    annealing.finish()
    annealing.step()
    assert annealing.thresholds()["layers.0.lif"] == 1.0


# ---- For a while


def held(net):
    """Threshold and center of the surrogate of every layer, as they are in memory."""
    return [(layer.lif.theta.item(), layer.lif.theta_grad.item()) for layer in net.layers]


@pytest.mark.parametrize("center", ["initial", "current"])
def test_a_block_goes_back_to_the_schedule(center):
    net = two_layers(surrogate_center=center)
    annealing = ThresholdAnnealing(net, Relax(0.5, 2.0, 0.3))
    annealing.step()
    before = held(net)
    with annealing.finish():
        assert held(net) == [(2.0, 2.0 if center == "current" else 0.5)] * 2
    assert held(net) == before


def test_a_block_after_finish_for_good_leaves_it_finished():
    annealing = ThresholdAnnealing(two_layers(), Relax(0.5, 2.0, 0.01))
    annealing.step()
    annealing.finish()
    with annealing.finish():
        pass
    assert set(annealing.thresholds().values()) == {2.0}
    assert annealing.state_dict()["finished"]


def test_finish_for_good_inside_a_block_holds_after_it():
    annealing = ThresholdAnnealing(two_layers(), Relax(0.5, 2.0, 0.01))
    with annealing.finish():
        annealing.finish()
    assert set(annealing.thresholds().values()) == {2.0}


def test_a_block_inside_a_block_leaves_the_outer_one():
    annealing = ThresholdAnnealing(two_layers(), Linear(0.5, 1.5, 4))
    with annealing.finish():
        with annealing.finish():
            pass
        assert set(annealing.thresholds().values()) == {1.5}
    assert set(annealing.thresholds().values()) == {0.5}


def test_an_error_ends_a_block():
    annealing = ThresholdAnnealing(two_layers(), Linear(0.5, 1.5, 4))
    with pytest.raises(ZeroDivisionError), annealing.finish(), annealing.finish():
        1 / 0  # noqa: B018
    assert set(annealing.thresholds().values()) == {0.5}


def test_a_step_inside_a_block_counts_and_is_seen_after_it():
    annealing = ThresholdAnnealing(two_layers(), Linear(0.5, 1.5, 4))
    with annealing.finish():
        annealing.step()
        annealing.passed(2)
        assert set(annealing.thresholds().values()) == {1.5}
    assert annealing.steps_taken == 3
    assert set(annealing.thresholds().values()) == {1.25}


def test_iterations_that_wrote_the_thresholds_themselves_end_a_finish_for_good():
    annealing = ThresholdAnnealing(two_layers(), Linear(0.5, 1.5, 4))
    annealing.finish()
    annealing.passed()
    assert annealing.state_dict()["finished"] is False
    with annealing.finish():
        pass
    assert set(annealing.thresholds().values()) == {0.75}


def test_one_finish_can_be_entered_again():
    annealing = ThresholdAnnealing(two_layers(), Linear(0.5, 1.5, 4))
    finished = annealing.finish()
    for _ in range(2):
        with finished:
            assert set(annealing.thresholds().values()) == {1.5}
        assert set(annealing.thresholds().values()) == {0.5}
        assert not annealing.state_dict()["finished"]


def test_a_state_saved_inside_a_block_resumes_as_training_goes_on():
    schedule = Relax(0.5, 2.0, 0.3)
    net = two_layers()
    annealing = ThresholdAnnealing(net, schedule)
    annealing.step()
    with annealing.finish():
        saved, weights = annealing.state_dict(), copying.deepcopy(net.state_dict())
    other_net = two_layers()
    other_net.load_state_dict(weights)  # holds the final thresholds
    other = ThresholdAnnealing(other_net, schedule)
    other.load_state_dict(saved)
    assert held(other_net) == held(net)
    assert train(other_net, other, 3) == train(net, annealing, 3)


def test_a_state_loaded_inside_a_block_is_seen_after_it():
    schedule = Linear(0.5, 1.5, 4)
    saved = ThresholdAnnealing(two_layers(), schedule)
    saved.passed(2)
    annealing = ThresholdAnnealing(two_layers(), schedule)
    with annealing.finish():
        annealing.load_state_dict(saved.state_dict())
        assert set(annealing.thresholds().values()) == {1.5}
    assert set(annealing.thresholds().values()) == {1.0}


@pytest.mark.parametrize("copied", [copying.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_a_copy_made_inside_a_block_is_not_in_it(copied):
    net = two_layers()
    annealing = ThresholdAnnealing(net, Linear(0.5, 1.5, 4))
    with annealing.finish():
        other_net, other = copied((net, annealing))
        assert held(other_net) == [(0.5, 0.5)] * 2
        other.step()
    assert held(other_net) == [(0.75, 0.5)] * 2


class Expected:
    """What thresholds should be, in the fewest words: a count, whether for good, and how many blocks are open."""

    def __init__(self):
        self.step, self.for_good, self.blocks = 0, False, 0

    def theta(self, schedule):
        return schedule.final if self.for_good or self.blocks else schedule(self.step)


@given(st.lists(st.sampled_from(["step", "passed", "finish", "enter", "again", "leave", "save", "load"]), max_size=30))
def test_any_order_of_steps_blocks_and_states_is_as_expected(acts):
    schedules, net = [Relax(0.5, 2.0, 0.3), Linear(1.0, 3.0, 7)], two_layers(surrogate_center="current")
    annealing, expected = ThresholdAnnealing(net, schedules), Expected()
    opened, known, saved = [], [], (annealing.state_dict(), 0, False)
    for act in acts:
        if act in ("step", "passed"):
            if act == "passed":  # as a training step that writes the thresholds itself
                for buffer, value in zip(annealing.buffers(), annealing.values(expected.step + 1), strict=True):
                    buffer.fill_(value)
            getattr(annealing, act)()
            expected.step, expected.for_good = expected.step + 1, False
        elif act == "finish":
            annealing.finish()
            expected.for_good = True
        elif act == "enter" or (act == "again" and known):
            if act == "enter":
                known.append(annealing.finish())
            opened.append(known[-1])
            opened[-1].__enter__()
            expected.blocks += 1
        elif act == "leave" and opened:
            opened.pop().__exit__(None, None, None)
            expected.blocks -= 1
        elif act == "save":
            saved = (annealing.state_dict(), expected.step, expected.for_good)
        elif act == "load":
            annealing.load_state_dict(saved[0])
            _, expected.step, expected.for_good = saved
        thetas = [as_float32(expected.theta(schedule)) for schedule in schedules]
        assert held(net) == [(theta, theta) for theta in thetas]
        assert (annealing.steps_taken, annealing.state_dict()["finished"]) == (expected.step, expected.for_good)


# ---- Which layers


def test_one_schedule_is_for_all_layers():
    annealing = ThresholdAnnealing(two_layers(), Constant(1.25))
    assert annealing.thresholds() == {"layers.0.lif": 1.25, "layers.1.lif": 1.25}


@pytest.mark.parametrize("many", [list, tuple])
def test_a_list_is_one_a_layer_in_order(many):
    annealing = ThresholdAnnealing(two_layers(), many([Constant(1.25), Constant(2.5)]))
    assert annealing.thresholds() == {"layers.0.lif": 1.25, "layers.1.lif": 2.5}


def test_a_dict_leaves_the_layers_it_does_not_name():
    net = two_layers(theta=0.75)
    annealing = ThresholdAnnealing(net, {"layers.1.lif": Linear(1.0, 2.0, 2)})
    annealing.step()
    assert annealing.thresholds() == {"layers.0.lif": 0.75, "layers.1.lif": 1.5}
    assert net.layers[0].lif.theta_grad.item() == 0.75


def test_any_module_with_neurons_can_be_annealed():
    net = nn.Sequential(BinaryLinear(4, 3), RecurrentLIF(3), nn.Sequential(AdaptiveLIF()), LIF())
    annealing = ThresholdAnnealing(net, Linear(1.0, 2.0, 2))
    annealing.step()
    assert annealing.thresholds() == {"1": 1.5, "2.0": 1.5, "3": 1.5}


def test_a_class_instead_of_a_network_is_told():
    with pytest.raises(TypeError, match=r"ThresholdAnnealing: net must be a torch\.nn\.Module, but is the class LIF"):
        ThresholdAnnealing(LIF, Constant(1.0))


def test_a_bare_layer_can_be_annealed():
    layer = LIF()
    ThresholdAnnealing(layer, Constant(3.0))
    assert layer.theta.item() == 3.0


@pytest.mark.parametrize("layer", [RecurrentLIF(3, 0.5, 1.0), AdaptiveLIF(0.5, 1.0)], ids=lambda x: type(x).__name__)
def test_recurrent_and_adaptive_layers_fire_at_the_annealed_threshold(layer):
    annealing = ThresholdAnnealing(layer, Linear(1.0, 3.0, 2))
    current = torch.tensor([[[0.5, 1.5, 2.5]]])
    assert layer(current).spikes.tolist() == [[[0, 1, 1]]]
    annealing.step()
    assert layer(current).spikes.tolist() == [[[0, 0, 1]]]


def test_a_schedule_of_ones_own_is_a_callable_with_a_final_value():
    class Square:
        final = 9.0

        def __call__(self, step):
            return float((1 + min(step, 2)) ** 2)

    annealing = ThresholdAnnealing(two_layers(), Square())
    annealing.step()
    assert annealing.thresholds()["layers.0.lif"] == 4.0
    annealing.finish()
    assert annealing.thresholds()["layers.0.lif"] == 9.0


def test_thresholds_are_the_float32_of_the_schedule():
    annealing = ThresholdAnnealing(two_layers(), Relax(0.5, 2.0, 0.3))
    annealing.step()
    assert annealing.thresholds()["layers.1.lif"] == as_float32(Relax(0.5, 2.0, 0.3)(1))


class Halving:
    """A schedule of a user's own, without a repr that says anything."""

    def __call__(self, step):
        return 4.0 - 2.0**-step

    final = 4.0


@pytest.mark.parametrize(
    ("saved", "loaded"),
    [(Relax(5, 50, 0.005), Relax(5.0, 50.0, 0.005)), (Halving(), Halving())],
    ids=["whole numbers", "a schedule of one's own"],
)
def test_equal_schedules_resume_however_they_are_written(saved, loaded):
    first, second = (ThresholdAnnealing(build("4-3-2"), schedule) for schedule in (saved, loaded))
    first.step()
    second.load_state_dict(first.state_dict())
    assert second.thresholds() == first.thresholds()


def test_finish_can_be_for_a_while():
    annealing = ThresholdAnnealing(build("4-3"), Relax(2.0, 8.0, 0.5))
    annealing.step()
    with annealing.finish():
        assert annealing.thresholds() == {"layers.0.lif": 8.0}
    assert annealing.thresholds() == {"layers.0.lif": 5.0}
    annealing.finish()
    assert annealing.thresholds() == {"layers.0.lif": 8.0}


def test_a_copy_anneals_its_own_network():
    net = build("4-3")
    annealing = ThresholdAnnealing(net, Relax(2.0, 8.0, 0.5))
    for copy in (copying.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))):
        other, its_own = copy((net, annealing))
        its_own.step()
        assert other.layers[0].lif.theta == 5.0
        assert net.layers[0].lif.theta == 2.0
