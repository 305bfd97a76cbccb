"""The average of the weights over iterations, whose signs flip less than those of the last one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """sum_i d**(k - i) * w_i / sum_i d**(k - i) over the parameters w_i after iterations i = 1..k, with decay d.

    Weights, biases and batch norm's parameters alike. The sum is kept where the parameters are, in the same memory for
    good; what it is divided by follows from k.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self.parameters: list[Tensor] = list(parameters)
        self.decay = decay
        self.sums = [torch.zeros_like(p) for p in parameters]  # (1 - d) * sum_i d**(k - i) * w_i

    @torch.no_grad()
    def take(self) -> None:
        """Take in the parameters of now; nothing waits for the device."""
        torch._foreach_lerp_(self.sums, self.parameters, 1 - self.decay)

    @contextmanager
    def in_place(self, step: int) -> Iterator[None]:
        """The parameters are the average of `step` iterations within the block, and then what they were."""
        if step == 0:  # nothing to average yet
            yield
            return
        with torch.no_grad():
            kept = [p.clone() for p in self.parameters]
            whole = -math.expm1(step * math.log(self.decay))  # 1 - d**step
            torch._foreach_copy_(self.parameters, torch._foreach_div(self.sums, whole))
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, kept)

    def load(self, sums: Sequence[Tensor]) -> None:
        """From the checkpoint."""
        for mine, saved in zip(self.sums, sums, strict=True):
            if mine.shape != saved.shape:
                raise ValueError(f"average: {list(saved.shape)} instead of {list(mine.shape)}")
            mine.copy_(saved)
