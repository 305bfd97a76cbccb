"""Random choices of samples from a seed: rows held out from each class, and a limited number of rows."""

from __future__ import annotations

import torch
from torch import Tensor


def held_out(labels: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return rows kept and rows held out, in order; `share` of each class is held out, at least one if it has two."""
    generator = torch.Generator().manual_seed(seed)
    out = torch.zeros(len(labels), dtype=torch.bool, device="cpu")
    for label in labels.cpu().unique():
        rows = (labels.cpu() == label).nonzero().flatten()
        count = min(max(round(share * len(rows)), 1), len(rows) - 1) if share > 0 else 0
        out[rows[torch.randperm(len(rows), generator=generator, device="cpu")[:count]]] = True
    return (~out).nonzero().flatten(), out.nonzero().flatten()


def limited(samples: int, limit: int | None, seed: int) -> Tensor:
    """Return all rows, or `limit` of them drawn from the seed, in order."""
    if limit is None or limit >= samples:
        return torch.arange(samples, device="cpu")
    drawn = torch.randperm(samples, generator=torch.Generator().manual_seed(seed), device="cpu")[:limit]
    return drawn.sort().values
