"""Jitter of training images (moved, brighter or darker); draws depend only on a key and a place in a batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from bitspike.ops.dropout.reference import philox

LEVELS = 256  # of contrast
PLACE = 1  # the counter's last word: dropout's is 0, so that no two draws of a key are the same


@dataclass(frozen=True, slots=True)
class Jitter:
    """The settings of jitter: images move by up to `shift` pixels each way, and are multiplied.

    All moves are equally likely. The factor is one of LEVELS in 1 - `contrast` to 1 + `contrast`, also equally likely.
    """

    shift: int = 0
    contrast: float = 0.0

    def __bool__(self) -> bool:
        return self.shift > 0 or self.contrast > 0


def _random(batch: int, key: Tensor, first_row: int) -> list[Tensor]:
    """Draw four numbers of 31 bits for each image `[B]`, counted from `first_row` on.

    The first two move it, the fourth multiplies it; the third is not used.
    """
    row = torch.arange(batch, device=key.device) + first_row
    none = torch.zeros_like(row)
    return [draw & 0x7FFFFFFF for draw in philox((row, none, none, none + PLACE), key)]


def draws(jitter: Jitter, batch: int, key: Tensor, first_row: int = 0) -> tuple[Tensor, Tensor]:
    """Draw by how many rows down and columns to the right each image `[B]` moves."""
    down, right, _, _ = _random(batch, key, first_row)
    span = 2 * jitter.shift + 1
    return down % span - jitter.shift, right % span - jitter.shift


def factors(jitter: Jitter, batch: int, key: Tensor, first_row: int = 0) -> Tensor:
    """Draw the factor of each image, `[B, 1, 1, 1]` float32."""
    level = _random(batch, key, first_row)[3] % LEVELS
    return levels(jitter.contrast, key.device)[level].view(-1, 1, 1, 1)


@cache
def levels(contrast: float, device: torch.device) -> Tensor:
    """Return all possible factors, `[LEVELS]` float32; they are cached, so that a CUDA graph finds them in place."""
    return torch.linspace(1 - contrast, 1 + contrast, LEVELS, dtype=torch.float64, device="cpu").float().to(device)


def jittered(images: Tensor, jitter: Jitter, key: Tensor, first_row: int = 0) -> Tensor:
    """out[b, c, y, x] = image[b, c, y - down, x - right]; 0 outside the image."""
    height, width = images.shape[2:]
    down, right = draws(jitter, len(images), key, first_row)
    x = torch.arange(width, device=images.device) - right[:, None]
    y = torch.arange(height, device=images.device) - down[:, None]
    inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None, :]
    place = (y.clamp(0, height - 1) * width)[:, :, None] + x.clamp(0, width - 1)[:, None, :]
    flat = place.flatten(1)[:, None].expand(-1, images.shape[1], -1)
    moved = images.flatten(2).gather(2, flat).view_as(images)
    return torch.where(inside[:, None], moved, torch.zeros((), dtype=images.dtype, device=images.device))
