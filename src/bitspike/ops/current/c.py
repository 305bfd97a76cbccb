"""What surrounds the products at test time, in C: one pass over the inputs before, and one over the current after."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from bitspike.ops.native.library import COUNT, NUMBER, POINTER, address, declare, kernels

declare("current_whole", POINTER, COUNT, NUMBER, ctypes.POINTER(ctypes.c_float))
declare("current_finish", POINTER, COUNT, COUNT, NUMBER, POINTER, POINTER, POINTER, result=None)

_SURE = 2.0**22  # below it the kernel tells whole numbers from others
_ALONE = 1 << 15  # numbers below which waking a second thread costs more than it saves


def largest_whole(x: Tensor) -> float | None:
    """Return the largest magnitude in `x`, float32, if all of it are whole numbers below 2^22; else None."""
    x = x.detach().contiguous()
    largest = ctypes.c_float()
    whole = kernels().current_whole(x.data_ptr(), x.numel(), _threads(x), ctypes.byref(largest))
    return largest.value if whole and largest.value < _SURE else None


def finish(rows: Tensor, bias: Tensor | None, scale: Tensor | None, offset: Tensor | None) -> None:
    """rows = fl(fl(fl(rows + bias) * scale) + offset) in place: `rows [R, N]` and the others `[N]`, or None."""
    parts = [None if part is None else part.contiguous() for part in (bias, scale, offset)]
    kernels().current_finish(rows.data_ptr(), *rows.shape, _threads(rows), *map(address, parts))


def _threads(x: Tensor) -> int:
    return torch.get_num_threads() if x.numel() >= _ALONE else 1
