"""The plain definition of delays: whole steps, or a weighted sum over taps. Every fast twin is compared with it.

In both, `past [P, B, N, ...]` holds the steps before the first one, and no delay is longer than P.
"""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST = 1e-20  # a tap's least weight


def taps(delays: Tensor, longest: int, width: float | Tensor) -> Tensor:
    """w[j, k] = exp(-((k - d_j) / width)**2 / 2) / (its sum over k), for k = 0..longest: `[N, longest + 1]`.

    `delays` is `[N]`; `width` is a number or a 0-d tensor. A softmax is the same quotient, and stays finite where every
    exponential is too small for a float. Weights below SMALLEST are 0: no sum would notice them, but products with them
    leave the range of normal floats, and CPUs compute those more than ten times slower.
    """
    steps = torch.arange(longest + 1, dtype=delays.dtype, device=delays.device)
    away = (steps - delays[:, None]) / width
    weights = torch.softmax(-away.square() / 2, dim=1)
    return weights.masked_fill(weights < SMALLEST, 0.0)


def shifted(spikes: Tensor, delays: Tensor, past: Tensor) -> Tensor:
    """out[t, :, j] = spikes[t - d_j, :, j], with `past` before the first step; whole `delays [N]`."""
    time = torch.arange(len(spikes), device=spikes.device)[:, None]
    rows = len(past) + time - delays  # [T, N], of what follows
    rows = rows.view(len(spikes), 1, -1, *[1] * (spikes.dim() - 3)).expand(spikes.shape)
    return torch.cat([past, spikes]).gather(0, rows)


def filtered(spikes: Tensor, weights: Tensor, past: Tensor) -> Tensor:
    """out[t, :, j] = sum over k = 0..P of weights[j, k] * spikes[t - k, :, j], with `past` before the first step.

    The sum is taken from k = 0 on; each product and each sum is rounded.
    """
    whole = torch.cat([past, spikes])
    by_neuron = weights.view(-1, *[1] * (spikes.dim() - 3), weights.shape[1])
    out = by_neuron[..., 0] * spikes
    for k in range(1, len(past) + 1):
        out = out + by_neuron[..., k] * whole[len(past) - k : len(whole) - k]
    return out
