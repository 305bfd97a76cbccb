"""The plain definition of training events that are mixed: a sample takes some channels from another one of its batch.

The other of sample b in a batch of B is sample B - 1 - b, so two samples take from each other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bitspike.ops.dropout.reference import philox

# The counter's last word: dropout's is 0, jitter's are 1 to 3, so that no two draws of a key are the same.
SHARE_PLACE = 4  # of the draw of a sample
CHANNEL_PLACE = 5  # of the draws of its channels
_SMALL = 1 << 16


def most(mix: float) -> int:
    """Return the largest share in parts of 2**-16."""
    return round(mix * _SMALL)


def taken(batch: int, channels: int, mix: float, key: Tensor) -> Tensor:
    """Draw truth values `[B, N]`: which channels each sample takes from its other.

    A share is drawn for each sample, from 0 to `mix`, all multiples of 2**-16 equally likely; then a channel is taken
    with this probability, each by a draw of its own.
    """
    row = torch.arange(batch, device=key.device)
    none = torch.zeros_like(row)
    drawn = philox((row, none, none, none + SHARE_PLACE), key)[0] & 0x7FFFFFFF
    share = drawn % (most(mix) + 1)
    channel = torch.arange(channels, device=key.device)
    nothing = torch.zeros_like(channel)
    word = philox((row[:, None], channel, nothing, nothing + CHANNEL_PLACE), key)[0]
    return (word >> 16) < share[:, None]


def mixed_counts(counts: Tensor, mix: float, key: Tensor) -> tuple[Tensor, Tensor]:
    """Return counts `[T, B, N]` with channels of other samples, and the share of channels taken, `[B]` float32."""
    batch, channels = counts.shape[1:]
    mask = taken(batch, channels, mix, key)
    # on a GPU, PyTorch divides by a Python number as a product with its inverse, which is not the nearest
    share = mask.sum(1).float() / torch.full((batch,), float(channels), device=key.device)
    return torch.where(mask, counts.flip(1), counts), share
