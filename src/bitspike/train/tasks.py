"""Tasks: the output of the right class fires most, or a membrane follows a trace to fire at the right time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from bitspike.data.coding import OVERSHOOT
from bitspike.ops import LIFOutput
from bitspike.train.config import TrainConfig
from bitspike.train.labels import Labels
from bitspike.train.losses import (
    count_loss,
    cross_entropy_loss,
    fires_most,
    judge_counts,
    judge_entropy,
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


@dataclass(frozen=True, slots=True)
class CountTask:
    """Classification by the class whose neuron fires most; the loss compares each neuron's count with a target."""

    on: float = 0.8
    off: float = 0.2

    def loss(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return count_loss(output.spikes, labels, self.on, self.off)

    def correct(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return fires_most(spike_count(output.spikes), labels)

    def judge(self, output: LIFOutput, labels: Tensor) -> tuple[Tensor, Tensor]:
        return judge_counts(output.spikes, labels, self.on, self.off)


@dataclass(frozen=True, slots=True)
class CrossEntropyTask:
    """Classification by the class whose neuron fires most; the loss takes scaled spike rates as logits."""

    scale: float = 10.0
    smoothing: float = 0.0

    def loss(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return cross_entropy_loss(output.spikes, labels, self.scale, self.smoothing)

    def correct(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return fires_most(spike_count(output.spikes), labels)

    def judge(self, output: LIFOutput, labels: Labels) -> tuple[Tensor, Tensor]:
        return judge_entropy(output.spikes, labels, self.scale, self.smoothing)


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
    """An entry of LOSSES: `make` gives the task from the settings and the last layer's final threshold."""

    make: Callable[[TrainConfig, float], Task]
    labels: Literal["classes", "times"] = "classes"  # what the labels of its data are


LOSSES: dict[str, Loss] = {
    "count": Loss(lambda config, theta: CountTask(config.correct, config.incorrect)),
    "cross_entropy": Loss(lambda config, theta: CrossEntropyTask(config.logit_scale, config.label_smoothing)),
    "trace": Loss(lambda config, theta: TraceTask(theta, config.over_time), labels="times"),
}
