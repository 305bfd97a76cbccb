"""The temporal coding task (Fig. 4): one output neuron learns to fire once, at a target time.

All seeds of a case train as one batch of independent networks: a seed's numbers do not depend on its company.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bitspike.anneal import ThresholdAnnealing
from bitspike.data.coding import INPUTS, OVERSHOOT, STEPS, TARGET_TIME, coding_input, target_trace
from bitspike.nn import LIF
from bitspike.nn.initial import Init, bounds
from bitspike.nn.neurons import SurrogateCenter
from bitspike.ops import LIFOutput, binarize, grouped_linear
from bitspike.schedules import Schedule
from bitspike.train.losses import trace_errors

HIDDEN = 1000  # 100-1000-1 neurons: Sec. 4.1
# The trace reaches theta before its peak, so a membrane that follows it may rightly fire from here on.
CROSSING_TIME = math.ceil(TARGET_TIME / (1 + OVERSHOOT))
SLOPE, LEARNING_RATE, MOMENTUM = 5.0, 1e-3, 0.9  # the appendix' table of the temporal coding task


@dataclass(frozen=True, slots=True)
class Case:
    """One panel of the figure: a network, its thresholds and how the error is summed."""

    name: str
    title: str
    binary: bool
    beta: float
    theta: Schedule
    source: str
    surrogate_center: SurrogateCenter = "initial"
    init: Init = "torch"
    loss: Literal["mean", "sum"] = "mean"  # over time; the mean is the sum at a hundredth of the learning rate
    learning_rate: float = LEARNING_RATE


class SeedBatch(nn.Module):
    """S independent 100-1000-1 networks; every tensor has a dimension of seeds, no number crosses it."""

    def __init__(self, case: Case, seeds: Sequence[int]) -> None:
        super().__init__()
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]

        def draw(bound: float, *shape: int) -> nn.Parameter:
            return nn.Parameter(
                torch.stack([torch.empty(shape).uniform_(-bound, bound, generator=g) for g in generators])
            )

        self.binary = case.binary
        inputs = [coding_input(g) for g in generators]
        self.register_buffer("inputs", torch.stack(inputs, 1))  # [T, S, inputs], the same in every iteration
        w, b = bounds(case.init, INPUTS, HIDDEN)
        self.weight1, self.bias1 = draw(w, HIDDEN, INPUTS), draw(b, HIDDEN)
        w, b = bounds(case.init, HIDDEN, 1)
        self.weight2, self.bias2 = draw(w, 1, HIDDEN), draw(b, 1)
        theta = case.theta(0)
        neurons = {"slope": SLOPE, "surrogate_center": case.surrogate_center}
        self.hidden = LIF(case.beta, theta, **neurons)  # type: ignore[arg-type]
        self.output = LIF(case.beta, theta, **neurons)  # type: ignore[arg-type]

    def forward(self) -> tuple[Tensor, LIFOutput]:
        """The hidden spikes `[T, S, hidden]` and the output neuron's `[T, S]`."""
        w1, w2 = (binarize(w) if self.binary else w for w in (self.weight1, self.weight2))
        hidden = self.hidden(grouped_linear(self.get_buffer("inputs"), w1, self.bias1), keep_membrane=False).spikes
        output: LIFOutput = self.output(grouped_linear(hidden, w2, self.bias2).squeeze(2))
        return hidden, output


@dataclass(frozen=True, slots=True)
class History:
    """What a case did, per iteration: `membrane` and `spikes` of the output `[K, T, S]`, the rest `[K, S]` or `[K]`."""

    case: Case
    seeds: tuple[int, ...]
    target: Tensor  # [T]
    membrane: Tensor
    spikes: Tensor
    loss: Tensor
    dead: Tensor  # share of hidden neurons without a spike
    theta: Tensor  # [K]


def train(
    case: Case, seeds: Sequence[int], iterations: int = 1000, on_iteration: Callable[[], None] = lambda: None
) -> History:
    """Train one network a seed and keep what each iteration did (before its update)."""
    net = SeedBatch(case, seeds)
    target = target_trace(case.theta.final)
    optimizer = torch.optim.SGD(net.parameters(), lr=case.learning_rate, momentum=MOMENTUM)
    annealing = ThresholdAnnealing(net, case.theta)
    membrane, spikes = (torch.empty(iterations, STEPS, len(seeds)) for _ in range(2))
    loss, dead = (torch.empty(iterations, len(seeds)) for _ in range(2))
    theta = torch.empty(iterations)
    for k in range(iterations):
        hidden, output = net()
        if output.membrane is None:
            raise RuntimeError("train: the output layer did not keep its membrane, which the loss is of")
        per_seed = trace_errors(output.membrane, target[:, None], case.loss)
        theta[k] = net.output.theta
        membrane[k], spikes[k] = output.membrane.detach(), output.spikes.detach()
        loss[k] = per_seed.detach()
        dead[k] = (hidden.detach().amax(0) == 0).float().mean(1)
        optimizer.zero_grad()
        per_seed.sum().backward()
        optimizer.step()
        annealing.step()
        on_iteration()
    return History(case, tuple(seeds), target, membrane, spikes, loss, dead, theta)
