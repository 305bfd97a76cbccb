"""Tasks: the right class has the highest score, or a membrane follows a trace to fire at the right time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from bitspike.data.coding import OVERSHOOT
from bitspike.nn import SpikingNetwork
from bitspike.ops import LIFOutput
from bitspike.train.config import TrainConfig
from bitspike.train.labels import Labels, MixedLabels
from bitspike.train.losses import (
    fires_most,
    judge_counts,
    judge_entropy,
    judge_scores,
    spike_count,
    trace_errors,
)


class Task(Protocol):
    """What a network learns: a loss, and a rule that says which outputs are right."""

    def loss(self, output: LIFOutput, labels: Tensor) -> Tensor:
        """Return the mean loss of the batch."""
        ...

    def correct(self, output: LIFOutput, labels: Tensor) -> Tensor:
        """Return for each sample `[B]` whether the output is right."""
        ...

    def judge(self, output: LIFOutput, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, and which samples are right (truth values, or 1 and 0), in one pass where that is faster."""
        ...


@runtime_checkable
class ScoreTask(Task, Protocol):
    """A task that can also be judged by scores `[B, classes]`, of a network whose last layer does not fire.

    Its labels may be mixed.
    """

    def judge(self, output: LIFOutput, labels: Labels) -> tuple[Tensor, Tensor]:
        """Return the loss, and which samples are right."""
        ...

    def judge_scores(self, scores: Tensor, labels: Labels) -> tuple[Tensor, Tensor]:
        """Return the loss, and which samples are right."""
        ...


def judge_output(net: SpikingNetwork, task: Task, output: LIFOutput, labels: Labels) -> tuple[Tensor, Tensor]:
    """Return the loss of the network's output, and which samples are right, by what the network answers with."""
    if isinstance(task, ScoreTask):
        spiking = net.readout == "spikes"
        return task.judge(output, labels) if spiking else task.judge_scores(net.output_scores(output), labels)
    if net.readout != "spikes":
        raise ValueError(
            f"{type(task).__name__}: it judges spikes, but the network's readout is its membrane; "
            "train with cross entropy, or build it with readout='spikes'"
        )
    if isinstance(labels, MixedLabels):
        raise ValueError(f"{type(task).__name__}: it takes one class for each sample; mix samples with cross entropy")
    return task.judge(output, labels)


@dataclass(frozen=True, slots=True)
class CountTask:
    """Classification by the class whose neuron fires most; the loss compares each neuron's count with a target.

    `weights [classes]`, on the device of the labels, says how often a sample of a class counts in the loss.
    """

    on: float = 0.8
    off: float = 0.2
    weights: Tensor | None = field(default=None, compare=False)

    def loss(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return self.judge(output, labels)[0]

    def correct(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return fires_most(spike_count(output.spikes), labels)

    def judge(self, output: LIFOutput, labels: Tensor) -> tuple[Tensor, Tensor]:
        return judge_counts(output.spikes, labels, self.on, self.off, self.weights)


@dataclass(frozen=True, slots=True)
class CrossEntropyTask:
    """Classification by the class with the highest score; the loss takes scaled scores as logits.

    Scores are spike rates, or those of a readout that does not fire. `weights [classes]`, on the device of the labels,
    says how often a sample of a class counts in the loss.
    """

    scale: float = 10.0
    smoothing: float = 0.0
    weights: Tensor | None = field(default=None, compare=False)

    def loss(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return self.judge(output, labels)[0]

    def correct(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return fires_most(spike_count(output.spikes), labels)

    def judge(self, output: LIFOutput, labels: Labels) -> tuple[Tensor, Tensor]:
        return judge_entropy(output.spikes, labels, self.scale, self.smoothing, self.weights)

    def judge_scores(self, scores: Tensor, labels: Labels) -> tuple[Tensor, Tensor]:
        return judge_scores(scores, labels, self.scale, self.smoothing, self.weights)


@dataclass(frozen=True, slots=True)
class TraceTask:
    """Temporal coding: one output neuron whose membrane should rise to 1.1 * theta at the label's time, then rest.

    A sample is right if its first spike is within one step of that time.
    """

    theta: float
    over_time: Literal["mean", "sum"] = "mean"

    def loss(self, output: LIFOutput, labels: Tensor) -> Tensor:
        if output.membrane is None:
            raise ValueError("TraceTask: the output's membrane is needed; run the network with keep_membrane=True")
        target = self._traces(labels, len(output.membrane)).to(output.membrane)
        return trace_errors(output.membrane.flatten(1), target, self.over_time).mean()

    def _traces(self, labels: Tensor, steps: int) -> Tensor:
        """Return each label's `target_trace`, `[T, B]`, made where the labels are, without reading them."""
        t = torch.arange(steps, dtype=torch.float32, device=labels.device)[:, None]
        return torch.where(t <= labels, t / labels * (1 + OVERSHOOT) * self.theta, 0.0)

    def correct(self, output: LIFOutput, labels: Tensor) -> Tensor:
        spikes = output.spikes.flatten(1)
        first = torch.where(spikes.amax(0) > 0, spikes.argmax(0), -10)
        return (first - labels).abs() <= 1

    def judge(self, output: LIFOutput, labels: Tensor) -> tuple[Tensor, Tensor]:
        return self.loss(output, labels), self.correct(output, labels)


@dataclass(frozen=True, slots=True)
class Loss:
    """An entry of LOSSES: `make` gives the task from the settings, the last layer's final threshold and the weights."""

    make: Callable[[TrainConfig, float, Tensor | None], Task]
    labels: Literal["classes", "times"] = "classes"  # what the labels of its data are
    readouts: tuple[str, ...] = ("spikes",)  # what a network may answer with


LOSSES: dict[str, Loss] = {
    "count": Loss(lambda config, theta, weights: CountTask(config.correct, config.incorrect, weights)),
    "cross_entropy": Loss(
        lambda config, theta, weights: CrossEntropyTask(config.logit_scale, config.label_smoothing, weights),
        readouts=("spikes", "membrane"),
    ),
    "trace": Loss(lambda config, theta, weights: TraceTask(theta, config.over_time), labels="times"),
}
