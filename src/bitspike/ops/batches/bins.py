"""Binned events as values: what batches of them are made from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Bins:
    """Binned events, stored only where a bin holds some.

    `index [E]` (int32) is a bin's place in its sample, `t * size + position`, and `count [E]` (uint8) what it holds.
    Sample i is the `lengths[i]` bins from `starts[i]` on; no place occurs twice in it. `longest` is the most bins that
    a sample of a batch has, so that nothing needs to wait for the device.
    """

    index: Tensor
    count: Tensor
    starts: Tensor
    lengths: Tensor
    steps: int
    shape: tuple[int, ...]
    longest: int

    @property
    def size(self) -> int:
        """The number of positions in a step."""
        return torch.Size(self.shape).numel()


def sensor(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the height and the width of a sensor; a row of channels has height 1."""
    return (shape[-2] if len(shape) > 1 else 1), shape[-1]
