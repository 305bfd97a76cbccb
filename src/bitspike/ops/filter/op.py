"""A whole spike filter in one pass on the CPU, as training takes it."""

from __future__ import annotations

import torch
from torch import Tensor

from bitspike.ops.delay.reference import taps
from bitspike.ops.dropout.c import draw
from bitspike.ops.filter.c import soft
from bitspike.ops.filter.spike_filter import SpikeFilter
from bitspike.ops.gain.reference import whole_gains


def filtered(x: Tensor, spike_filter: SpikeFilter, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the definition's `filtered` of x `[T, B, N, ...]` float32, bit for bit; its delays must be soft.

    Also returned are the last `longest` steps of past and input after dropout: the past of what comes next.
    """
    f = spike_filter
    if not x.numel():
        raise ValueError(f"filtered: x must be [T, B, N, ...] with at least one number, but has shape {list(x.shape)}")
    if f.delays is None or f.width is None:
        raise ValueError("filtered: delays must be soft in C; call the ops one after another")
    reach = f.longest if past is not None else min(f.longest, len(x))  # beyond the start there is nothing
    weights = taps(f.delays.clamp(0, f.longest), f.longest, f.width)[:, : reach + 1]
    gains = None if f.gains is None else whole_gains(f.gains.clamp(0, f.largest_gain))
    draws = None
    if f.dropout > 0:
        if f.key is None:
            raise ValueError("filtered: dropout draws from a key, but the filter has none")
        draws = draw(f.dropout, f.key, f.layer, f.first_row * x.shape[2:].numel())
    out, held = soft(x, weights, past, gains, draws, f.scale)
    if reach < f.longest:
        held = torch.cat([x.new_zeros((f.longest - reach, *x.shape[1:])), held])
    return out, held
