"""The plain definition of a spike filter: dropout, delays and gains, one after another."""

from __future__ import annotations

from torch import Tensor

from bitspike.ops.delay import delay
from bitspike.ops.dropout.reference import dropout
from bitspike.ops.filter.spike_filter import SpikeFilter
from bitspike.ops.gain import gain


def filtered(x: Tensor, spike_filter: SpikeFilter, past: Tensor | None = None) -> Tensor:
    """out = gain(delay(dropout(x))) of x `[T, B, N, ...]`; `past` holds the steps before, which are dropped already."""
    f = spike_filter
    if f.dropout > 0:
        if f.key is None:
            raise ValueError("filtered: dropout draws from a key, but the filter has none")
        x = dropout(x, f.dropout, f.key, f.layer, f.first_row)
    if f.delays is not None:
        x = delay(x, f.delays.clamp(0, f.longest), longest=f.longest, width=f.width, past=past, backend="reference")
    return x if f.gains is None else gain(x, f.gains.clamp(0, f.largest_gain), dim=2)
