"""A step recorded once and replayed, the plan it reads, and the thresholds and optimizer states around it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitspike import Linear, Relax, ThresholdAnnealing, build
from bitspike.train.capture import Captured
from bitspike.train.config import TrainConfig
from bitspike.train.iteration import no_graph, planned_on
from bitspike.train.optim import load_optimizer, make_optimizer, optimizer_state
from bitspike.train.plan import Plan

CPU = torch.device("cpu")


# ---- Recording and replaying


class Counting:
    """Records nothing, and counts."""

    def __init__(self, stream):
        assert stream is None  # there is no GPU
        self.body = None

    def record(self, body):
        self.body = body
        return "recorded"

    def replay(self):
        self.body()


def test_the_first_calls_are_real_and_the_recording_is_none():
    calls = []
    step = Captured(lambda: calls.append(None), CPU, warmup=3, graph=Counting)
    for _ in range(3):
        assert step() is None
        assert not step.recorded
    assert len(calls) == 3
    assert [step() for _ in range(4)] == ["recorded"] * 4
    assert step.recorded
    assert step.reason is None
    assert len(calls) == 7  # four replays: nothing was left out, nothing done twice


def test_a_body_that_cannot_be_recorded_goes_on_as_it_is():
    made, calls = [], []

    class Failing(Counting):
        def record(self, body):
            made.append(None)
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore lines\n")

    step = Captured(lambda: calls.append(None) or len(calls), CPU, warmup=2, graph=Failing)
    assert [step() for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert step.reason == "recording failed: CUDA error: operation not permitted when stream is capturing"
    assert not step.recorded
    assert len(made) == 1


def test_an_error_without_words_goes_by_its_name():
    def fail(self, body):
        raise NotImplementedError

    step = Captured(lambda: None, CPU, warmup=0, graph=type("Failing", (Counting,), {"record": fail}))
    step()
    assert step.reason == "recording failed: NotImplementedError"


def test_a_refusal_records_nothing():
    step = Captured(lambda: 7, CPU, warmup=0, refusal="because", graph=None)
    assert [step(), step(), step.plainly(lambda: 8)] == [7, 7, 8]
    assert (step.reason, step.recorded) == ("because", False)


def test_why_there_is_no_graph():
    assert no_graph(CPU) == "CUDA graphs need a GPU"
    assert no_graph(torch.device("cuda")) is None
    assert (planned_on(CPU), planned_on(torch.device("cuda"))) == (False, True)


# ---- The plan


@given(
    st.integers(1, 20),
    st.integers(1, 7),
    st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 2**62),
    st.integers(0, 9),
    st.integers(1, 3),
)
def test_each_line_of_a_plan_is_what_was_written(total, batch, dtype, first, seed, groups):
    generator = torch.Generator().manual_seed(seed)
    batch = min(batch, total)
    count = -(-total // batch)
    thresholds = [torch.zeros((), dtype=dtype) for _ in range(3)]
    plan = Plan(count, batch, thresholds, CPU, groups)
    views = (plan.rows, plan.key, plan.step, *plan.rates, *plan.values)
    places = [view.data_ptr() for view in views]
    rows = torch.randperm(total, generator=generator)
    rates, thetas = (torch.rand(count, n, generator=generator).double() for n in (groups, 3))
    keys = [2**63 - 1 - k for k in range(count)]
    plan.write(rows, range(first, first + count), (rates / 3).tolist(), (thetas / 3).tolist(), keys)
    start = seed % count
    plan.seek(start)
    for k in range(start, count):
        plan.next()
        size = min(batch, total - k * batch)
        assert torch.equal(plan.rows[:size], rows[k * batch : k * batch + size])
        assert (plan.key.item(), plan.step.item()) == (keys[k], first + k)
        assert torch.equal(torch.stack(plan.rates), (rates[k] / 3).float())
        plan.write_values()
        assert torch.equal(torch.stack(thresholds), (thetas[k] / 3).to(dtype))
    assert [view.data_ptr() for view in views] == places


@pytest.mark.parametrize("center", ["initial", "current"])
def test_thresholds_written_by_others_are_those_of_steps(center):
    nets = [build("4-3-2", surrogate_center=center) for _ in range(2)]
    ours, theirs = (ThresholdAnnealing(net, [Relax(2.0, 9.0, 0.3), Linear(1.0, 3.0, 4)]) for net in nets)
    for step in range(1, 7):
        ours.step()
        for buffer, value in zip(theirs.buffers(), theirs.values(step), strict=True):
            buffer.fill_(value)
        theirs.passed()
        assert ours.thresholds() == theirs.thresholds()
        assert ours.state_dict() == theirs.state_dict()
        for a, b in zip(nets[0].buffers(), nets[1].buffers(), strict=True):
            assert torch.equal(a, b)
    with theirs.finish():
        assert theirs.thresholds() == {"layers.0.lif": 9.0, "layers.1.lif": 3.0}
    assert ours.thresholds() == theirs.thresholds()  # back at the step that others counted
    theirs.finish()
    theirs.passed(2)
    assert theirs.state_dict()["finished"] is False
    assert theirs.steps_taken == 8


def test_a_threshold_that_is_a_number_cannot_be_written_by_others():
    neuron = pytest.importorskip("spikingjelly.activation_based.neuron")
    annealing = ThresholdAnnealing(torch.nn.Sequential(neuron.IFNode()), Relax(1.0, 2.0, 0.5))
    with pytest.raises(ValueError, match=r"v_threshold of a IFNode must be a tensor .* call step\(\) instead"):
        annealing.buffers()


# ---- The optimizer's state


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_an_optimizer_goes_on_with_its_own_ways(name):
    config = TrainConfig(lr=0.1, optimizer=name, momentum=0.9, schedule="constant")

    def steps(net, optimizer, count):
        for k in range(count):
            for p in net.parameters():
                p.grad = torch.full_like(p, 0.1 * (k + 1))
            optimizer.step()

    nets = [build("4-3") for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    rate = torch.tensor(0.1)
    first = make_optimizer(nets[0], config)
    second = make_optimizer(nets[1], config, *(rate for _ in first.param_groups))
    steps(nets[0], first, 3)
    state = optimizer_state(first)
    assert all("lr" not in group for group in state["param_groups"])
    state["param_groups"][0] |= {"fused": True, "capturable": True}  # as a GPU's would say, whose steps are float32
    for kept in state["state"].values():
        kept |= {name: value.double() for name, value in kept.items() if name == "step"}
    nets[1].load_state_dict(nets[0].state_dict())
    load_optimizer(second, state)
    assert second.param_groups[0]["lr"] is rate
    assert not second.param_groups[0]["fused"]
    assert all(kept.get("step", torch.zeros(1).double()).dtype == torch.float64 for kept in second.state.values())
    rate.fill_(0.0)
    before = [p.clone() for p in nets[1].parameters()]
    steps(nets[1], second, 1)
    assert all(torch.equal(a, b) for a, b in zip(before, nets[1].parameters(), strict=True))  # the rate is read
    moments = [{k: v for k, v in kept.items() if k != "step"} for kept in second.state.values()]
    assert all(value.abs().sum() > 0 for kept in moments for value in kept.values())


# ---- On a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_body_that_waits_for_the_gpu_goes_on_as_it_is():
    total = torch.zeros((), device="cuda")
    step = Captured(lambda: total.add_(1).item(), torch.device("cuda"))
    assert [step() for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert step.reason.startswith("recording failed: ")
    assert "\n" not in step.reason
    again = Captured(lambda: total.add_(1), torch.device("cuda"))  # the failure broke nothing
    for _ in range(6):
        again()
    assert again.recorded
    assert total.item() == 12
