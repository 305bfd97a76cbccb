"""What an output should do: fire most for its class, or follow a membrane trace to fire in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from bitspike.data.coding import OVERSHOOT
from bitspike.ops import LIFOutput
from bitspike.train.losses import (
    count_loss,
    cross_entropy_loss,
    fires_most,
    judge_counts,
    judge_distilled,
    judge_entropy,
    spike_count,
)


class Task(Protocol):
    """`loss` is a mean over the batch; `correct [B]` says which samples the output got right."""

    def loss(self, output: LIFOutput, labels: Tensor) -> Tensor: ...

    def correct(self, output: LIFOutput, labels: Tensor) -> Tensor: ...

    def judge(self, output: LIFOutput, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Both, as truth values or 1 and 0; at once where that is faster."""
        ...


@dataclass(frozen=True, slots=True)
class CountTask:
    """Classification: the class whose neuron fires most."""

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
    """Classification by the class whose neuron fires most; spike rates, scaled, are logits."""

    scale: float = 10.0
    smoothing: float = 0.0

    def loss(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return cross_entropy_loss(output.spikes, labels, self.scale, self.smoothing)

    def correct(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return fires_most(spike_count(output.spikes), labels)

    def judge(self, output: LIFOutput, labels: Tensor) -> tuple[Tensor, Tensor]:
        return judge_entropy(output.spikes, labels, self.scale, self.smoothing)


@dataclass(frozen=True, slots=True, eq=False)
class DistillTask:
    """Classification with a teacher: `targets [N, C]` are its probabilities at `temperature`, a row a training sample.

    Only training learns from them, through `judge_taught`; evaluations, of whatever samples, judge by labels alone.
    """

    plain: CrossEntropyTask
    targets: Tensor
    weight: float = 0.5
    temperature: float = 1.0

    def loss(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return self.plain.loss(output, labels)

    def correct(self, output: LIFOutput, labels: Tensor) -> Tensor:
        return self.plain.correct(output, labels)

    def judge(self, output: LIFOutput, labels: Tensor) -> tuple[Tensor, Tensor]:
        return self.plain.judge(output, labels)

    def judge_taught(self, output: LIFOutput, labels: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """As `judge`, of the training samples `rows [B]`, with what the teacher says of them in the loss."""
        return judge_distilled(
            output.spikes,
            labels,
            self.targets.index_select(0, rows),
            scale=self.plain.scale,
            smoothing=self.plain.smoothing,
            weight=self.weight,
            temperature=self.temperature,
        )

    def require_fit(self, samples: int, device: torch.device) -> None:
        """The targets are of so many training samples, and where these are."""
        if len(self.targets) != samples or self.targets.device != device:
            raise ValueError(
                f"DistillTask: targets must be a row for each of {samples} training samples on {device}, "
                f"but are {len(self.targets)} on {self.targets.device}; make them of the samples that train"
            )


@dataclass(frozen=True, slots=True)
class TraceTask:
    """Temporal coding: one output neuron whose membrane should rise to 1.1 * theta at the label's time, then rest.

    Correct is a first spike within one step of that time.
    """

    theta: float
    over_time: Literal["mean", "sum"] = "mean"

    def loss(self, output: LIFOutput, labels: Tensor) -> Tensor:
        if output.membrane is None:
            raise ValueError("TraceTask: the output's membrane is needed; run the network with keep_membrane=True")
        target = self._traces(labels, len(output.membrane)).to(output.membrane)
        errors = (target - output.membrane.flatten(1)) ** 2
        return (errors.sum(0) if self.over_time == "sum" else errors.mean(0)).mean()

    def _traces(self, labels: Tensor, steps: int) -> Tensor:
        """`[T, B]`: each label's `target_trace`, made where the labels are, without reading them."""
        t = torch.arange(steps, dtype=torch.float32, device=labels.device)[:, None]
        return torch.where(t <= labels, t / labels * (1 + OVERSHOOT) * self.theta, 0.0)

    def correct(self, output: LIFOutput, labels: Tensor) -> Tensor:
        spikes = output.spikes.flatten(1)
        first = torch.where(spikes.amax(0) > 0, spikes.argmax(0), -10)
        return (first - labels).abs() <= 1

    def judge(self, output: LIFOutput, labels: Tensor) -> tuple[Tensor, Tensor]:
        return self.loss(output, labels), self.correct(output, labels)
