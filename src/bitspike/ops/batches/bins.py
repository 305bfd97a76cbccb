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
    """Return the height and the width of a sensor; a row of channels has height 1, also one of two polarities, (2, N).

    A camera's frames are (polarities, height, width). Frames (height, width) without polarities are a camera's, too,
    but for a height of 2.
    """
    row = len(shape) == 1 or (len(shape) == 2 and shape[0] == 2)
    return (1 if row else shape[-2]), shape[-1]
