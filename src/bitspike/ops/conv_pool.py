"""A convolution with real weights and the average pool behind it as one convolution, without the image in between."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def pooled_kernel(weight: Tensor, size: int) -> Tensor:
    """The mean of size * size shifted copies of the kernels: `[O, C, kh, kw]` to `[O, C, kh+size-1, kw+size-1]`."""
    edge = size - 1
    return F.avg_pool2d(F.pad(weight, (edge, edge, edge, edge)), size, stride=1)


def conv_pool(x: Tensor, weight: Tensor, bias: Tensor | None, size: int) -> Tensor:
    """avg_pool2d(conv2d(x, weight, bias), size) as one convolution of stride `size`; x `[N, C, H, W]`.

    The same sums in another order, so rounded otherwise; the gradients are autograd's. For a 5x5 kernel and size 2
    that is 2.8 times fewer products.
    """
    kernel = pooled_kernel(weight, size)
    if kernel.shape[2] % size or kernel.shape[3] % size:
        return F.conv2d(x, kernel, bias, stride=size)
    # Squares of size * size pixels become channels, and the stride goes: the gradient of an image of few channels by
    # a strided convolution leaves most of a GPU's tile idle.
    height, width = _used(x, kernel, size)
    return F.conv2d(F.pixel_unshuffle(x[:, :, :height, :width], size), F.pixel_unshuffle(kernel, size), bias)


def _used(x: Tensor, kernel: Tensor, size: int) -> tuple[int, int]:
    """Rows and columns of x that the pool does not cut off."""
    height, width = ((n - k) // size * size + k for n, k in zip(x.shape[2:], kernel.shape[2:], strict=True))
    return height, width
