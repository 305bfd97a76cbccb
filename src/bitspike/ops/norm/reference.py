"""The plain definition of batch norm with statistics of each step: T calls of F.batch_norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Averages(NamedTuple):
    """The running mean and variance `[C]` for evaluation, and how far each step moves them; both None if not kept."""

    mean: Tensor | None
    variance: Tensor | None
    momentum: float


def step_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    averages: Averages,
    eps: float,
    count: Tensor | None = None,
) -> Tensor:
    """F.batch_norm of each step of x `[T, B, C, H, W]`, by the step's own statistics; the averages move T times.

    `count`, if given, counts the steps.
    """
    return torch.stack([image_norm(step, weight, bias, averages, eps, count) for step in x.unbind()])


def image_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    averages: Averages,
    eps: float,
    count: Tensor | None = None,
    steps: int = 1,
) -> Tensor:
    """F.batch_norm of one step `[B, C, H, W]` by its own statistics; the averages move once, `count` by `steps`."""
    if count is not None:
        count.add_(steps)  # first, as PyTorch does
    mean, variance, momentum = averages
    return contiguous_norm(lambda images: F.batch_norm(images, mean, variance, weight, bias, True, momentum, eps), x)


def contiguous_norm(norm: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return `norm(x)`; both its input and its incoming gradient are contiguous.

    Where one of them is a single image whose channels lie side by side, PyTorch's gradient is wrong (torch 2.13, CPU).
    The view makes the gradient contiguous, because a copy is needed to make it one row.
    """
    return norm(x.contiguous()).flatten().view(x.shape)
