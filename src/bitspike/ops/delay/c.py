"""Delays in C on the CPU, float32: filters (`ops/filter`) that only delay, with the definition's bits."""

from __future__ import annotations

import torch
from torch import Tensor

from bitspike.ops.checks import is_ordinary
from bitspike.ops.filter.c import hard, soft
from bitspike.ops.native import library


def refusal(spikes: Tensor) -> str | None:
    """Return why these spikes cannot be delayed in C; None if they can."""
    if spikes.device.type != "cpu":
        return f"the spikes are on {spikes.device}"
    if spikes.dtype != torch.float32:
        return f"the numbers are {spikes.dtype}, not float32"
    if not is_ordinary(spikes, spikes.shape, spikes.device) or spikes.numel() == 0:
        return "the spikes are no ordinary tensor, or empty"
    if library.library() is None:
        return "the compiled kernels are missing or out of date (reinstall bitspike where there is a C compiler)"
    return None


def shifted(spikes: Tensor, delays: Tensor, past: Tensor | None, reach: int) -> Tensor:
    """Compute the definition's `shifted`, bit for bit; without a `past` the `reach` steps before the first are 0."""
    return hard(spikes, delays, past, reach)


def filtered(spikes: Tensor, weights: Tensor, past: Tensor | None) -> Tensor:
    """Compute the definition's `filtered`, bit for bit; without a `past` the steps before the first are 0."""
    return soft(spikes, weights, past)[0]
