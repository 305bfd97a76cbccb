"""Random draws that depend only on the run's seed, their purpose and the iteration."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def mixed(seed: int, purpose: str, index: int = 0) -> int:
    """Return a seed below 2**63 for one purpose at one iteration."""
    drawn = hashlib.blake2b(f"{seed}/{purpose}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "little") >> 1


def order(samples: int, repeat: int, seed: int, epoch: int) -> Tensor:
    """Return the rows of an epoch: `repeat` passes over all samples, each shuffled."""
    generator = torch.Generator().manual_seed(mixed(seed, "order", epoch))
    return torch.cat([torch.randperm(samples, generator=generator, device="cpu") for _ in range(repeat)])
