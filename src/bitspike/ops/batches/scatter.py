"""The plain definition of a batch of binned events, made from lists of the bins that are not empty."""

from __future__ import annotations

import torch
from torch import Tensor

from bitspike.ops.batches.bins import Bins
from bitspike.ops.product.geometry import padded


def scatter_counts(bins: Bins, rows: Tensor, pad: int = 1) -> Tensor:
    """Return counts `[steps, batch, size]` in uint8 of the samples `rows`; `size` is padded to a multiple of `pad`."""
    index, steps, size, batch, width = bins.index, bins.steps, bins.size, len(rows), padded(bins.size, pad)
    place = torch.arange(bins.longest, device=rows.device)
    held = place < bins.lengths[rows, None]
    at = torch.where(held, bins.starts[rows, None] + place, 0)
    t = (index[at] // size).long()
    row = torch.arange(batch, device=rows.device)[:, None]
    spare = steps * batch * width  # one more bin, for the surplus entries of shorter samples
    target = torch.where(held, (t * batch + row) * width + index[at] - t * size, spare)
    out = torch.zeros(spare + 1, dtype=torch.uint8, device=rows.device)
    put(out, target.flatten(), bins.count[at].flatten())
    return out[:-1].view(steps, batch, width)


def put(out: Tensor, at: Tensor, values: Tensor) -> None:
    """out[at] = values; all places differ, except a spare one that is never read.

    PyTorch's deterministic mode would sort them first, which takes longer than a network's forward pass.
    """
    strict, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        out.scatter_(0, at, values)
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warns)
