"""Several trials in one launch: kernels with a trial dimension, for networks of one shape whose tensors lie apart.

What kernels make for several trials lies trial after trial in one tensor, each part as it is for one network alone.
What a trial has of its own (weights, thresholds, a key) is found by its address, in a table of int64. The programs of a
trial are a stretch of the grid's first axis. A kernel's argument `MANY` says whether it has that dimension: without it
nothing is read from tables, and the compiled kernel is that of one network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TrialNeurons:
    """A layer's neurons in each of `count` trials: tables of addresses `[k]`, and numbers that differ."""

    beta: Tensor
    theta: Tensor
    center: Tensor
    key: Tensor
    numbers: Tensor  # [k, 2] float32: slope, and the factor of what dropout keeps
    bounds: Tensor  # [k] int64: a random number below it drops
    bias: Tensor | None = None

    @property
    def count(self) -> int:
        """How many trials there are."""
        return len(self.bounds)


def addresses(tensors: Sequence[Tensor]) -> Tensor:
    """Return the table of the tensors' addresses, on their device; it holds as long as they stay in their place."""
    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.int64, device=tensors[0].device)
