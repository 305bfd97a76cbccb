"""Packing of spikes into bits in C, so that products are sums over the inputs that fired."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from bitspike.ops.buffers import pool
from bitspike.ops.native.library import COUNT, NUMBER, POINTER, declare, kernels

_LARGEST = 255  # of counts
_EXACT = 1 << 24  # whole numbers of float32 below it have no gaps


declare("pack_rows", POINTER, COUNT, COUNT, NUMBER, POINTER, ctypes.POINTER(COUNT))


class Packed(NamedTuple):
    """Packed rows of 0 and 1, or of small whole numbers: bits that mark where a 1 is, and where a larger number is."""

    bits: Tensor  # [2, rows, words] int64
    values: Tensor | None  # the rows themselves, unless all are 0 or 1
    events: int  # inputs that are not 0


def pack(x: Tensor, largest_sum: int) -> Packed | None:
    """Pack the rows of `x [..., inputs]`; None unless all are whole numbers from 0 to 255 with exact products.

    `largest_sum` bounds a sum of products where every input is 1: float32 must hold all of them without a gap.
    """
    x = x.detach().contiguous()
    inputs = x.shape[-1]
    rows = x.numel() // inputs
    bits = words((2, rows, -(-inputs // 64)))
    events = ctypes.c_int64()
    threads = torch.get_num_threads()
    kind = kernels().pack_rows(x.data_ptr(), rows, inputs, threads, bits.data_ptr(), ctypes.byref(events))
    if kind > 1 or largest_sum * (_LARGEST if kind else 1) >= _EXACT:
        return None
    return Packed(bits, x if kind else None, events.value)


def words(shape: tuple[int, ...]) -> Tensor:
    """Return an uninitialised int64 tensor from recycled memory."""
    return pool.empty((*shape, 2)).view(torch.int64).squeeze(-1)
