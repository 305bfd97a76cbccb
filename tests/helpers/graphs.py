"""Stand-ins for CUDA graphs, and how runs made with them are compared."""

import json
from functools import partial
from typing import ClassVar

import torch

from bitspike.train import iteration
from helpers import runs


def memory_of(work):
    """Return all that an iteration changes in place: a replay must find it where it was."""
    kept = [value for state in work.optimizer.state.values() for value in state.values()]
    plan = [value for value in vars(work.plan).values() if isinstance(value, torch.Tensor)]
    tricks = [tensor for trick in work.tricks for tensor in (*trick.tensors(), *trick.state().values())]
    return [*work.net.state_dict().values(), *kept, *plan, *tricks, work.sums, work.bad.first]


class ReplayStandIn:
    """A stand-in for a CUDA graph: it records without effect, and replays on the memory of the recording.

    A replay rewrites what the recording returned.
    """

    replays = 0

    def __init__(self, stream):
        assert stream is None

    def memory(self):
        return memory_of(self.body.func.__self__)

    def record(self, body):
        self.body = body
        assert isinstance(body, partial)
        before = [tensor.clone() for tensor in self.memory()]
        self.result = body()
        for tensor, value in zip(self.memory(), before, strict=True):
            tensor.copy_(value)
        self.places = [tensor.data_ptr() for tensor in self.memory()]
        return self.result

    def replay(self):
        ReplayStandIn.replays += 1
        assert [tensor.data_ptr() for tensor in self.memory()] == self.places
        vars(self.result).update(vars(self.body()))


def record_iterations(monkeypatch):
    """Let trainers on the CPU do as on a GPU: the plan holds all, and iterations are recorded by the stand-in."""
    monkeypatch.setattr(iteration, "planned_on", lambda device: True)
    monkeypatch.setattr(iteration, "no_graph", lambda *_: None)
    monkeypatch.setattr(iteration, "CudaGraph", ReplayStandIn)


def require_equal_but_for_the_graph(out, other):
    for folder in (out, other):
        summary = json.loads((folder / "summary.json").read_text())
        (folder / "summary.json").write_text(json.dumps({**summary, "graph": None}))
    runs.require_equal(out, other)


class JointStandIn:
    """A stand-in for the CUDA graph of several trainers: it records without effect, and replays on the same memory."""

    recordings: ClassVar[list[int]] = []  # how many trainers were in each
    replays = 0

    def __init__(self, stream):
        assert stream is None

    def memory(self):
        return [tensor for lane in self.body.args[0] for tensor in memory_of(lane.trainer.work)]

    def record(self, body):
        self.body = body
        JointStandIn.recordings.append(len(body.args[0]))
        before = [tensor.clone() for tensor in self.memory()]
        self.result = body()
        for tensor, value in zip(self.memory(), before, strict=True):
            tensor.copy_(value)
        self.places = [tensor.data_ptr() for tensor in self.memory()]
        return self.result

    def replay(self):
        JointStandIn.replays += 1
        assert [tensor.data_ptr() for tensor in self.memory()] == self.places
        for old, new in zip(self.result, self.body(), strict=True):
            vars(old).update(vars(new))


def require_equal_trials(out, other, trials=3):
    """Assert that trials came to the same; summaries may differ in what they say of graphs and of being together."""
    for folder in (out, other):
        for trial in range(trials):
            path = folder / f"trial-{trial}" / "summary.json"
            summary = json.loads(path.read_text()) | {"graph": None}
            summary.pop("together", None)
            summary.pop("together_since", None)
            path.write_text(json.dumps(summary))
    for trial in range(trials):
        runs.require_equal(out / f"trial-{trial}", other / f"trial-{trial}")
    keys = ("accuracies", "best", "mean", "sigma", "endings", "seeds", "warnings", "trials")
    one, two = (json.loads((folder / "summary.json").read_text()) for folder in (out, other))
    assert [one[key] for key in keys] == [two[key] for key in keys]


def trial_summary(out, trial):
    return json.loads((out / f"trial-{trial}" / "summary.json").read_text())
