"""The sum over taps as products of matrices: on any device, for any dtype, differentiable by autograd.

A band of a matrix holds a neuron's taps, and one product gives many steps at once. A sum over shifted copies would read
and write all of the memory once for each tap.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_AT_ONCE = 50  # steps that one product gives: fewer waste copies, more multiply by the zeros outside the band


def filtered(spikes: Tensor, weights: Tensor, past: Tensor) -> Tensor:
    """Compute the definition's `filtered`; sums are rounded in another order."""
    steps, reach = len(spikes), len(past)
    parts = max(steps // max(_AT_ONCE, reach), 1)
    size = -(-steps // parts)
    batch, neurons, sites = spikes.shape[1], spikes.shape[2], spikes.shape[3:].numel()
    rows = torch.cat([past, spikes]).view(reach + steps, batch, neurons, sites)
    rows = rows.permute(2, 0, 1, 3).reshape(neurons, reach + steps, batch * sites)
    rows = F.pad(rows, (0, 0, 0, parts * size - steps))
    band = _band(weights, size)
    pieces = [band @ rows[:, first : first + reach + size] for first in range(0, parts * size, size)]
    out = torch.cat(pieces, 1)[:, :steps]
    return out.view(neurons, steps, batch, sites).permute(1, 2, 0, 3).reshape(spikes.shape)


def _band(weights: Tensor, size: int) -> Tensor:
    """Return `[N, size, P + size]`: row t holds the taps of a neuron, the last one first, from column t on."""
    taps = weights.shape[1]
    padded = F.pad(weights.flip(1), (0, size))  # each row is one longer than the band's: it moves the next one on
    return padded.repeat(1, size)[:, : size * (taps - 1 + size)].view(len(weights), size, taps - 1 + size)
