"""Dense layers on event counts or filtered spikes as one matrix product of the GPU's own library.

Factors have 16 bits and sums 32. Counts to 255 and signs are exact in bfloat16, and so are float32 sums of them below
2**24. Weighted sums of spikes are two float16 numbers each, their value and 2**11 times the rest (22 bits): the product
of twice as many columns is float32's to rounding. Gradients are rounded to bfloat16.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bitspike.ops.launch import STORED
from bitspike.ops.product import kernels_weight
from bitspike.ops.product.geometry import WORD, Synapse, padded


def takes(synapse: Synapse) -> bool:
    """Return whether a layer on event counts can be one matrix product."""
    return synapse.source.height * synapse.source.width == 1 and synapse.source.channels * 255 < 2**24


def signs(weight: Tensor, rows: int, dtype: torch.dtype = torch.bfloat16, halves: int = 1) -> Tensor:
    """Return the signs of `weight [N, K]` as `[rows, halves * (K padded to 32)]`, 0 in the padding.

    A second half is the signs times 2**-11.
    """
    n, k = weight.shape
    wide = padded(k, WORD)
    out = torch.empty(rows, halves * wide, dtype=dtype, device=weight.device)
    kernels_weight._signs_kernel[(rows, -(-wide // 1024))](weight, out, n, k, wide, halves, 1024)
    return out


def rows(counts: Tensor, wide: int) -> Tensor:
    """Return counts `[T, B, K]` as bfloat16 `[T * B, wide]`."""
    size, k = counts.shape[0] * counts.shape[1], counts.flatten(2).shape[2]
    out = torch.empty(size, wide, dtype=torch.bfloat16, device=counts.device)
    kernels_weight._widen_kernel[(size, -(-wide // 1024))](counts, out, k, wide, 1024)
    return out


def _mm(a: Tensor, b: Tensor) -> Tensor:
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def product(rows: Tensor, matrix: Tensor) -> Tensor:
    """rows @ matrix.T, `[T * B, N padded]` float32, exact for whole numbers."""
    return _mm(rows, matrix.T)


def source_grad(grad: Tensor, matrix: Tensor) -> Tensor:
    """grad @ matrix, the gradient of rows `[T * B, K padded]`, from that of the current `[T * B, <= N padded]`."""
    return grad @ matrix[: grad.shape[1]].to(grad.dtype)


def weight_grad(grad: Tensor, rows: Tensor, weight: Tensor, clip: float | None) -> Tensor:
    """Return the gradient of the latent weight `[N, K, 1, 1]` from that of the current `[T * B, >= N]`."""
    n, k = weight.shape[0], weight[0].numel()
    whole = _mm(grad.to(STORED).T, rows.to(STORED))
    found = whole[:n, :k].reshape(weight.shape)
    return found if clip is None else found * (weight.abs() <= clip)
