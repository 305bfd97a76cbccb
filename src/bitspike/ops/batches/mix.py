"""The plain definition of training events that are mixed: a sample takes a part of another one.

The part is some channels of a row of channels, or a rectangle of a camera's pixels. The other of sample b in a batch of
B is sample B - 1 - b, so that two samples take from each other; or it is drawn from the samples of the same class.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bitspike.ops.batches.bins import sensor
from bitspike.ops.dropout.reference import philox

# The counter's last word: dropout's is 0, jitter's are 1 to 3, so that no two draws of a key are the same.
SAMPLE_PLACE = 4  # of the draws of a sample
CHANNEL_PLACE = 5  # of the draws of its channels
OTHER_PLACE = 6  # of the draw of its other
ONE = 1 << 16


def largest_share(mix: float) -> int:
    """Return the largest share of channels, in parts of 2**-16."""
    return round(mix * ONE)


def largest_sides(mix: float, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the height and the width of the largest rectangle: sqrt(mix) of the sensor's."""
    height, width = sensor(shape)
    return round(math.sqrt(mix) * height), round(math.sqrt(mix) * width)


def taken(batch: int, shape: tuple[int, ...], mix: float, key: Tensor) -> Tensor:
    """Draw truth values `[B, size]`: which places of a sample of `shape` are taken from its other."""
    row = torch.arange(batch, device=key.device)
    none = torch.zeros_like(row)
    words = [word & 0x7FFFFFFF for word in philox((row, none, none, none + SAMPLE_PLACE), key)]
    if sensor(shape)[0] == 1:  # of each polarity, too
        return _channels(words[0] % (largest_share(mix) + 1), torch.Size(shape).numel(), key)
    rectangle = _rectangle(words, shape, mix)
    planes = torch.Size(shape).numel() // rectangle.shape[1]
    return rectangle.repeat(1, planes)


def _channels(share: Tensor, channels: int, key: Tensor) -> Tensor:
    """Take each channel with the probability `share [B]`, in parts of 2**-16, by a draw of its own: `[B, channels]`.

    The share of a sample is drawn from 0 to the largest, all equally likely.
    """
    row = torch.arange(len(share), device=key.device)[:, None]
    channel = torch.arange(channels, device=key.device)
    none = torch.zeros_like(channel)
    word = philox((row, channel, none, none + CHANNEL_PLACE), key)[0]
    return (word >> 16) < share[:, None]


def _rectangle(words: list[Tensor], shape: tuple[int, ...], mix: float) -> Tensor:
    """Take a rectangle of pixels in all channels: `[B, height * width]`.

    Its height and width are drawn from 0 to those of the largest, then its place; all are equally likely.
    """
    (height, width), (high, wide) = sensor(shape), largest_sides(mix, shape)
    tall, broad = words[0] % (high + 1), words[1] % (wide + 1)
    top, left = words[2] % (height - tall + 1), words[3] % (width - broad + 1)
    y, x = (torch.arange(n, device=tall.device) for n in (height, width))
    rows = (y >= top[:, None]) & (y < (top + tall)[:, None])
    columns = (x >= left[:, None]) & (x < (left + broad)[:, None])
    return (rows[:, :, None] & columns[:, None, :]).flatten(1)


def same_class(labels: Tensor, table: Tensor, starts: Tensor, key: Tensor) -> Tensor:
    """Draw a sample of the same class for each of `labels [B]`: all are equally likely, also the sample itself.

    Samples of class c are `table[starts[c] : starts[c + 1]]`.
    """
    row = torch.arange(len(labels), device=key.device)
    none = torch.zeros_like(row)
    drawn = philox((row, none, none, none + OTHER_PLACE), key)[0] & 0x7FFFFFFF
    first = starts[labels]
    return table[first + drawn % (starts[labels + 1] - first)]


def mixed_counts(counts: Tensor, others: Tensor, mix: float, key: Tensor) -> tuple[Tensor, Tensor]:
    """Return counts `[T, B, ...]` with parts of `others`, and the share that each has taken, `[B]` float32."""
    batch, shape = counts.shape[1], tuple(counts.shape[2:])
    mask = taken(batch, shape, mix, key)
    # on a GPU, PyTorch divides by a Python number as a product with its inverse, which is not the nearest
    share = mask.sum(1).float() / torch.full((batch,), float(mask.shape[1]), device=key.device)
    return torch.where(mask.view(batch, *shape), others, counts), share
