"""The Triton twin of scatter_counts: zeros, and one kernel over the events of a batch. Import it where Triton is."""
# mypy: ignore-errors
# (Triton's language is not Python's: its functions have no types that mypy knows.)

from __future__ import annotations

import contextlib

import torch
import triton
import triton.language as tl
from torch import Tensor

from bitspike.ops.batches.scatter import padded

_BLOCK = 512  # events a program


@triton.jit
def _scatter_kernel(
    index, count, starts, lengths, rows, out, batch, size, width, steps, BLOCK: tl.constexpr
):  # fmt: skip
    """out[t, b, position] = count for BLOCK events of sample rows[b]; no two have one place, so no two threads meet."""
    b = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + b)
    start, length = tl.load(starts + row), tl.load(lengths + row)
    event = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    held = event < length
    place = tl.load(index + start + event, mask=held, other=0)
    value = tl.load(count + start + event, mask=held, other=0)
    t = place // size
    tl.store(out + (t * tl.cast(batch, tl.int64) + b) * width + place - t * size, value, mask=held & (t < steps))


def scatter_counts(
    index: Tensor,
    count: Tensor,
    starts: Tensor,
    lengths: Tensor,
    rows: Tensor,
    steps: int,
    size: int,
    longest: int,
    pad: int = 1,
) -> Tensor:
    """As bitspike.ops.batches.scatter.scatter_counts, bit for bit."""
    batch, width, rows = len(rows), padded(size, pad), rows.contiguous()
    out = torch.zeros(steps, batch, width, dtype=torch.uint8, device=index.device)
    grid = (batch, triton.cdiv(longest, _BLOCK))
    if batch and longest:
        # Triton launches on the current device, which need not be the tensors'.
        with torch.cuda.device(index.device) if index.is_cuda else contextlib.nullcontext():
            _scatter_kernel[grid](index, count, starts, lengths, rows, out, batch, size, width, steps, BLOCK=_BLOCK)
    return out
