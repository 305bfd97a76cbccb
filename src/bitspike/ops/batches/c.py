"""Batches in C on the CPU: training events that are moved, stretched and thinned."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from bitspike.ops.batches.bins import Bins, sensor
from bitspike.ops.batches.event_jitter import EventJitter
from bitspike.ops.native.library import NUMBER, POINTER, allowed, declare, kernels

_ALONE = 1 << 12  # bins below which waking a second thread costs more than it saves


class _CJitter(ctypes.Structure):
    """`Jitter` of event_jitter.c, field by field."""

    _fields_ = (
        ("key", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in ("steps", "batch", "size", "height", "width", "tall", "first_row")),
        *((name, ctypes.c_int64) for name in ("shift", "time_shift", "reach", "zoom_reach", "most_lost")),
    )


declare("event_jitter", *[POINTER] * 5, NUMBER, POINTER, result=None)


def usable(bins: Bins) -> bool:
    """Return whether batches of these bins may be made in C: int32 and uint8 on the CPU, and C there, not forbidden.

    C does not know a row of channels with polarities.
    """
    height, width = sensor(bins.shape)
    fits = (bins.index.dtype, bins.count.dtype) == (torch.int32, torch.uint8) and (height > 1 or bins.size == width)
    return fits and bins.index.device.type == bins.count.device.type == "cpu" and allowed()


def jittered_counts(bins: Bins, rows: Tensor, jitter: EventJitter, key: Tensor, first_row: int = 0) -> Tensor:
    """Return what the definition in event_jitter.py returns, bit for bit: counts `[steps, batch, size]` in uint8."""
    height, width = sensor(bins.shape)
    index, count = bins.index.contiguous(), bins.count.contiguous()
    starts, lengths = bins.starts[rows].long(), bins.lengths[rows].long().clamp(0, bins.longest)
    stored = min(len(index), len(count))
    if len(rows) and not (int(starts.min()) >= 0 and int((starts + lengths).max()) <= stored):
        raise IndexError(f"jittered_counts: samples must lie within the {stored} stored bins, but some do not")
    counts = torch.zeros(bins.steps, len(rows), bins.size, dtype=torch.uint8, device="cpu")
    settings = _CJitter(
        int(key) & (2**64 - 1), bins.steps, len(rows), bins.size, height, width, height > 1, first_row,
        jitter.shift, jitter.time_shift, jitter.reach, jitter.zoom_reach, jitter.most_lost,
    )  # fmt: skip
    threads = torch.get_num_threads() if len(rows) * bins.longest >= _ALONE else 1
    given = (tensor.data_ptr() for tensor in (index, count, starts, lengths))
    kernels().event_jitter(ctypes.byref(settings), *given, threads, counts.data_ptr())
    return counts
