"""The networks of the temporal coding task (Fig. 4): one output neuron learns to fire once, at a target time.

All seeds of a case train as one batch of independent networks: a seed's numbers do not depend on the other seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bitspike.data.coding import INPUTS, coding_input
from bitspike.experiments.reproduce.coding.cases import Case
from bitspike.nn import LIF
from bitspike.nn.initial import bounds
from bitspike.ops import LIFOutput, binarize, grouped_linear

HIDDEN = 1000  # 100-1000-1 neurons: Sec. 4.1
SLOPE = 5.0  # the appendix' table of the temporal coding task


class SeedBatch(nn.Module):
    """S independent networks of 100-1000-1 neurons: every tensor has a dimension of seeds, and no number crosses it."""

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
        """Return the hidden spikes `[T, S, hidden]`, and spikes and membrane of the output neuron `[T, S]`."""
        w1, w2 = (binarize(w) if self.binary else w for w in (self.weight1, self.weight2))
        hidden = self.hidden(grouped_linear(self.get_buffer("inputs"), w1, self.bias1), keep_membrane=False).spikes
        output: LIFOutput = self.output(grouped_linear(hidden, w2, self.bias2).squeeze(2))
        return hidden, output
