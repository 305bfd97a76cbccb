"""Batches in Triton: functions that scatter events, gather images, and add up sums, with one kernel for each."""

from __future__ import annotations

import torch
from torch import Tensor
from triton import next_power_of_2

from bitspike.ops.batches import kernels, kernels_events
from bitspike.ops.batches.bins import Bins, sensor
from bitspike.ops.batches.event_jitter import EventJitter
from bitspike.ops.batches.jitter import Jitter, levels
from bitspike.ops.batches.mix import largest_share, largest_sides
from bitspike.ops.launch import at_once, on
from bitspike.ops.product.geometry import padded

_EVENTS = 512  # a program of scatter_counts and jittered_counts
_STEPS = 16  # a program of mixed_counts


def tally_(sums: Tensor, loss: Tensor, rights: Tensor) -> None:
    """sums[0..2] (float64) += loss * samples, right samples, samples."""
    with on(sums):
        kernels._tally_kernel[(1,)](sums, loss.detach(), rights, len(rights), BLOCK=256)


def note_first_bad_(first: Tensor, norms: Tensor, step: Tensor) -> None:
    """first[i] = step where norms[i] is not finite and first[i] is still -1."""
    size = len(first)
    with on(first):
        kernels._first_bad_kernel[(1,)](norms, first, step, SIZE=size, BLOCK=next_power_of_2(size), num_warps=1)


def gather_images(
    values: Tensor,
    labels: Tensor,
    rows: Tensor,
    jitter: Jitter = Jitter(),  # noqa: B008
    key: Tensor | None = None,
    first_row: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return values[rows] / 255 in float32, jittered, and labels[rows], for uint8 images `values [N, ...]`."""
    values, labels, rows = values.contiguous(), labels.contiguous(), rows.contiguous()
    images = torch.empty(len(rows), *values.shape[1:], dtype=torch.float32, device=values.device)
    chosen = torch.empty(len(rows), dtype=labels.dtype, device=labels.device)
    if len(rows):
        size, (height, width) = values[0].numel(), values.shape[-2:]
        with on(values):
            kernels._images_kernel[(len(rows), -(-size // 1024))](
                values, labels, rows, images, chosen, rows if key is None else key, first_row,
                levels(jitter.contrast, values.device) if jitter.contrast else images,
                SIZE=size, HEIGHT=height, WIDTH=width, SHIFT=jitter.shift,
                CONTRAST=jitter.contrast > 0, BLOCK=1024,
            )  # fmt: skip
    return images, chosen


def scatter_counts(bins: Bins, rows: Tensor, pad: int = 1) -> Tensor:
    """Return what the definition in scatter.py returns, bit for bit: counts `[steps, batch, size]` in uint8."""
    batch, width, rows = len(rows), padded(bins.size, pad), rows.contiguous()
    out = torch.zeros(bins.steps, batch, width, dtype=torch.uint8, device=bins.index.device)
    if batch and bins.longest:
        with on(bins.index):
            kernels._scatter_kernel[(batch, -(-bins.longest // _EVENTS))](
                bins.index, bins.count, bins.starts, bins.lengths, rows, out, batch, bins.size, width, bins.steps,
                BLOCK=_EVENTS,
            )  # fmt: skip
    return out


def jittered_counts(bins: Bins, rows: Tensor, jitter: EventJitter, key: Tensor, first_row: int = 0) -> Tensor:
    """Return what the definition in event_jitter.py returns, bit for bit: counts `[steps, batch, size]` in uint8."""
    batch, (height, width), rows = len(rows), sensor(bins.shape), rows.contiguous()
    sums = torch.zeros(bins.steps, batch, bins.size, dtype=torch.int32, device=bins.index.device)
    out = torch.empty_like(sums, dtype=torch.uint8)
    with on(bins.index):
        if batch and bins.longest:
            kernels_events._jittered_kernel[(batch, -(-bins.longest // _EVENTS))](
                bins.index, bins.count, bins.starts, bins.lengths, rows, sums, key, first_row, batch, bins.steps,
                SIZE=bins.size, HEIGHT=height, WIDTH=width, FLAT=height == 1,
                SHIFT=jitter.shift, REACH=jitter.reach, TIME_SHIFT=jitter.time_shift, ZOOM=jitter.zoom_reach,
                LOST=jitter.most_lost, BLOCK=_EVENTS,
            )  # fmt: skip
        if out.numel():
            block = at_once(1024)
            kernels_events._bytes_kernel[(-(-out.numel() // block),)](sums, out, out.numel(), BLOCK=block)
    return out


def mixed_counts(counts: Tensor, others: Tensor | None, mix: float, key: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the definition in mix.py returns, bit for bit; `others` may be None for `counts.flip(1)`."""
    flip = others is None
    counts, others = counts.contiguous(), (counts if others is None else others).contiguous()
    steps, batch, shape = counts.shape[0], counts.shape[1], tuple(counts.shape[2:])
    size, (height, width), (high, wide) = torch.Size(shape).numel(), sensor(shape), largest_sides(mix, shape)
    out = torch.empty_like(counts)
    shares = torch.empty(batch, dtype=torch.float32, device=counts.device)
    if batch:
        with on(counts):
            kernels_events._mixed_kernel[(batch, -(-steps // _STEPS))](
                counts, others, out, shares, key, steps, batch,
                SIZE=size, HEIGHT=height, WIDTH=width, FLAT=height == 1,
                SHARE=largest_share(mix), HIGH=high, WIDE=wide, FLIP=flip, STEPS=_STEPS,
                BLOCK=min(next_power_of_2(size), 1024),
            )  # fmt: skip
    return out, shares
