"""Dropout from a key in C: the draws as C kernels take them, and the mask of a whole current."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from bitspike.ops.dropout.reference import dropped_below
from bitspike.ops.native.library import COUNT, NUMBER, POINTER, declare, kernels

declare("dropout_mask", POINTER, COUNT, COUNT, NUMBER, POINTER, result=None)


class Draw(ctypes.Structure):
    """`Draw` of draw.h, field by field: the random numbers of dropout. All zero, it keeps everything."""

    _fields_ = (
        ("key", ctypes.c_uint64),
        ("layer", ctypes.c_int64),
        ("first", ctypes.c_int64),
        ("below", ctypes.c_uint32),
    )


def draw(p: float, key: Tensor, layer: int, first_place: int = 0) -> Draw:
    """Return the draws of the definition's `keep_mask`; place 0 of a step here is its place `first_place`."""
    return Draw(int(key) & (2**64 - 1), layer, first_place, dropped_below(p))


def keep_mask(shape: tuple[int, ...], draws: Draw) -> Tensor:
    """Return the mask of the definition's `keep_mask` as uint8 `[T, B, ...]`: 1 where the current is kept."""
    kept = torch.empty(shape, dtype=torch.uint8, device="cpu")
    places = torch.Size(shape[1:]).numel()
    kernels().dropout_mask(ctypes.byref(draws), shape[0], places, torch.get_num_threads(), kept.data_ptr())
    return kept
