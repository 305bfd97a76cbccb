"""A convolution on spikes with its average pool in C, as one strided convolution with a wider kernel.

The mean of P x P neighbours of conv(x, k) is the sum of x with the kernel's P x P shifted copies added up, taken every
P places and divided by P*P. With kernels of -1 and +1 and whole-number inputs every sum is exact, so folding changes
no bit.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bitspike.ops.buffers import pool
from bitspike.ops.first_order import first_order
from bitspike.ops.native.library import COUNT, NUMBER, POINTER, address, declare, kernels, succeed
from bitspike.ops.product.pack import Packed, pack

_SMALL = 1 << 22  # numbers of a folded kernel that is worth its memory in any case
_LARGE = 8  # a side of a pool
_COUNTS = ("images", "channels", "sites", "outputs", "places", "taps", "columns")


class _CConv(ctypes.Structure):
    """`Conv` of conv.c, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _COUNTS),
        *((name, ctypes.c_void_p) for name in ("bits", "values", "starts", "pairs")),
        ("divisor", ctypes.c_float),
    )


declare("conv_forward", POINTER, NUMBER, POINTER, POINTER)
declare("conv_weight_gradient", POINTER, NUMBER, POINTER, COUNT, POINTER)
declare("conv_input_gradient", POINTER, NUMBER, POINTER, POINTER, POINTER)


class _Geometry(NamedTuple):
    """The places of the output that each site of the input reaches, and through which tap of the folded kernel."""

    height: int  # of the output
    width: int
    starts: Tensor  # [sites + 1] int32, into pairs
    pairs: Tensor  # [.., 2] int32: place, tap


def _reached(outputs: int, taps: int, stride: int) -> Tensor:
    """Return the rows (or columns) of the input that each row (or column) of the output reads, `[outputs, taps]`."""
    return stride * torch.arange(outputs, device="cpu")[:, None] + torch.arange(taps, device="cpu")


@lru_cache(maxsize=64)
def _geometry(height: int, width: int, taps_y: int, taps_x: int, stride: int) -> _Geometry:
    out_y, out_x = (height - taps_y) // stride + 1, (width - taps_x) // stride + 1
    y, x = _reached(out_y, taps_y, stride), _reached(out_x, taps_x, stride)
    site = y[:, None, :, None] * width + x[None, :, None, :]  # [out_y, out_x, taps_y, taps_x]
    order = site.flatten().argsort(stable=True)
    taps = taps_y * taps_x
    pairs = torch.stack((order // taps, order % taps), 1).int().contiguous()
    starts = F.pad(torch.bincount(site.flatten(), minlength=height * width).cumsum(0), (1, 0)).int()
    return _Geometry(out_y, out_x, starts, pairs)


def _fold_pool(kernel: Tensor, size: int) -> Tensor:
    """Return the sum of the kernel `[O, C, H, W]` at all shifts below `size`: `[O, C, H + size - 1, W + size - 1]`."""
    if size == 1:
        return kernel
    # Sums of whole numbers: exact in any order. One side after the other takes 2 * size of them, not size**2. Smaller
    # pools gain nothing by it, and keep the order in which their gradients are summed.
    windows = [(size, size)] if size < _LARGE else [(size, 1), (1, size)]
    kernel = F.pad(kernel, (size - 1,) * 4)
    for window in windows:
        kernel = F.avg_pool2d(kernel, window, stride=1, divisor_override=1)
    return kernel


def _folds(x: Tensor, signs: Tensor, size: int) -> bool:
    """Return whether the folded kernel fits the image, and is small, or no larger than the current before the pool."""
    rows, columns = (side + size - 1 for side in signs.shape[2:])
    if x.shape[3] < rows or x.shape[4] < columns:
        return False
    places = x.shape[0] * x.shape[1] * x.shape[3] * x.shape[4]
    return size == 1 or signs.shape[:2].numel() * rows * columns <= max(_SMALL, len(signs) * places)


def conv_pool(x: Tensor, signs: Tensor, size: int = 1, later: int = 1) -> Tensor | None:
    """avg_pool2d(conv2d(x, signs), size): x `[T, B, C, H, W]` of spikes or counts, signs `[O, C, h, w]` of -1 and +1.

    If the caller adds up `later` > 1 of its numbers in later pools, it gives sums instead of averages.
    None where that needs the plain modules: x is not whole numbers, nothing is left of it, or a folded kernel would
    take more memory than the current that it saves.
    """
    if not _folds(x, signs, size):
        return None
    packed = pack(x.flatten(2), signs[0].numel() * size * size * later)
    if packed is None:
        return None
    divisor = 1 if later > 1 else size * size
    out: Tensor = _ConvPool.apply(x, _fold_pool(signs, size), packed, size, divisor)
    return out


@first_order
class _ConvPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, folded: Tensor, packed: Packed, size: int, divisor: int) -> Tensor:
        ctx.save_for_backward(folded, packed.bits, packed.values)
        ctx.shape, ctx.size, ctx.divisor = x.shape, size, divisor
        geometry, layer = _layer(x.shape, folded, packed, size, divisor)
        columns = layer.columns
        weight = F.pad(folded.permute(1, 2, 3, 0), (0, columns - len(folded))).contiguous()
        current = pool.empty((*x.shape[:2], len(folded), geometry.height, geometry.width))
        failed = kernels().conv_forward(ctypes.byref(layer), _threads(layer), weight.data_ptr(), current.data_ptr())
        succeed("conv_pool", failed)
        return current

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        folded, bits, values = ctx.saved_tensors
        grad = grads[0].contiguous()
        _geometry, layer = _layer(ctx.shape, folded, Packed(bits, values, 0), ctx.size, ctx.divisor)
        workers = _threads(layer)
        x = weight = None
        if ctx.needs_input_grad[1]:
            size = (workers, *folded.permute(1, 2, 3, 0).shape[:3], layer.columns)
            parts = torch.zeros(size, dtype=torch.float64, device="cpu")
            failed = kernels().conv_weight_gradient(
                ctypes.byref(layer), workers, grad.data_ptr(), workers, parts.data_ptr()
            )
            succeed("conv_pool", failed)
            weight = parts.sum(0)[..., : len(folded)].permute(3, 0, 1, 2).to(folded.dtype)
        if ctx.needs_input_grad[0]:
            x = pool.empty(ctx.shape)
            kernel = F.pad(folded.permute(2, 3, 0, 1), (0, -layer.channels % 16)).contiguous()
            failed = kernels().conv_input_gradient(
                ctypes.byref(layer), workers, grad.data_ptr(), kernel.data_ptr(), x.data_ptr()
            )
            succeed("conv_pool", failed)
        return x, weight, None, None, None


def _threads(layer: _CConv) -> int:
    return torch.get_num_threads() if layer.images * layer.channels * layer.sites >= 1 << 12 else 1


def _layer(shape: torch.Size, folded: Tensor, packed: Packed, size: int, divisor: int) -> tuple[_Geometry, _CConv]:
    steps, batch, channels, height, width = shape
    geometry = _geometry(height, width, folded.shape[2], folded.shape[3], size)
    layer = _CConv(
        steps * batch,
        channels,
        height * width,
        len(folded),
        geometry.height * geometry.width,
        folded.shape[2] * folded.shape[3],
        -(-len(folded) // 16) * 16,
        *map(address, (packed.bits, packed.values, geometry.starts, geometry.pairs)),
        divisor,
    )
    return geometry, layer
