"""The plain definition of a leaky membrane: T steps under autograd, without spikes and without reset."""

from __future__ import annotations

import torch
from torch import Tensor


def membrane(current: Tensor, beta: float | Tensor, start: Tensor | None = None) -> Tensor:
    """u[t] = beta*u[t-1] + I[t] for a current `[T, B, ...]`; `start` is u before the first step (None: 0)."""
    u = torch.zeros_like(current[0]) if start is None else start
    steps: list[Tensor] = []
    for i in current.unbind():
        u = beta * u + i
        steps.append(u)
    return torch.stack(steps)
