"""Batches in C on the CPU: training events that are moved, stretched and thinned."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from bitspike.ops.batches.event_jitter import EventJitter, sensor
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


def usable(index: Tensor, count: Tensor) -> bool:
    """Return whether batches of these bins may be made in C: int32 and uint8 on the CPU, and C there, not forbidden."""
    fits = (index.dtype, count.dtype) == (torch.int32, torch.uint8)
    return fits and index.device.type == count.device.type == "cpu" and allowed()


def jittered_counts(
    index: Tensor,
    count: Tensor,
    starts: Tensor,
    lengths: Tensor,
    rows: Tensor,
    steps: int,
    shape: tuple[int, ...],
    longest: int,
    jitter: EventJitter,
    key: Tensor,
    first_row: int = 0,
) -> Tensor:
    """Return what the definition in event_jitter.py returns, bit for bit: counts `[steps, batch, size]` in uint8."""
    (height, width), size = sensor(shape), torch.Size(shape).numel()
    index, count = index.contiguous(), count.contiguous()
    starts, lengths = starts[rows].long(), lengths[rows].long().clamp(0, longest)
    stored = min(len(index), len(count))
    if len(rows) and not (int(starts.min()) >= 0 and int((starts + lengths).max()) <= stored):
        raise IndexError(f"jittered_counts: samples must lie within the {stored} stored bins, but some do not")
    counts = torch.zeros(steps, len(rows), size, dtype=torch.uint8, device="cpu")
    settings = _CJitter(
        int(key) & (2**64 - 1), steps, len(rows), size, height, width, len(shape) > 1, first_row,
        jitter.shift, jitter.time_shift, jitter.reach, jitter.zoom_reach, jitter.most_lost,
    )  # fmt: skip
    threads = torch.get_num_threads() if len(rows) * longest >= _ALONE else 1
    given = (tensor.data_ptr() for tensor in (index, count, starts, lengths))
    kernels().event_jitter(ctypes.byref(settings), *given, threads, counts.data_ptr())
    return counts
