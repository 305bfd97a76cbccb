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


def signs(
    weight: Tensor, rows: int, dtype: torch.dtype = torch.bfloat16, halves: int = 1, each: Tensor | None = None
) -> Tensor:
    """Return the signs of `weight [N, K]` as `[rows, halves * (K padded to 32)]`, 0 in the padding.

    A second half is the signs times 2**-11. `each` is a table of addresses of several trials' weights; their signs come
    one below the other.
    """
    n, k = weight.shape
    wide, many = padded(k, WORD), 1 if each is None else len(each)
    out = torch.empty(many * rows, halves * wide, dtype=dtype, device=weight.device)
    kernels_weight._signs_kernel[(many * rows, -(-wide // 1024))](
        weight if each is None else each, out, many, each is not None, n, k, wide, halves, 1024
    )
    return out


def rows(counts: Tensor, wide: int) -> Tensor:
    """Return counts `[T, B, K]` as bfloat16 `[T * B, wide]`."""
    size, k = counts.shape[0] * counts.shape[1], counts.flatten(2).shape[2]
    out = torch.empty(size, wide, dtype=torch.bfloat16, device=counts.device)
    kernels_weight._widen_kernel[(size, -(-wide // 1024))](counts, out, k, wide, 1024)
    return out


def _mm(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32, out=out)
    return torch.mm(a.float(), b.float(), out=out)


def product(rows: Tensor, matrix: Tensor, trials: int = 0) -> Tensor:
    """rows @ matrix.T, `[T * B, N padded]` float32, exact for whole numbers; of `trials`, each with its own matrix."""
    if not trials:
        return _mm(rows, matrix.T)
    out = torch.empty(len(rows), len(matrix) // trials, dtype=torch.float32, device=rows.device)
    for own, signs, into in zip(*(each.view(trials, -1, each.shape[1]) for each in (rows, matrix, out)), strict=True):
        _mm(own, signs.T, out=into)
    return out


def source_grad(grad: Tensor, matrix: Tensor) -> Tensor:
    """grad @ matrix, the gradient of rows `[T * B, K padded]`, from that of the current `[T * B, <= N padded]`."""
    return grad @ matrix[: grad.shape[1]].to(grad.dtype)


def weight_grads(grad: Tensor, rows: Tensor, weight: Tensor, trials: int) -> Tensor:
    """Return the gradients of the latent weights of several trials, `[k, N, K, 1, 1]`."""
    n, k = weight.shape[0], weight[0].numel()
    out = torch.empty(trials, *weight.shape, dtype=torch.float32, device=grad.device)
    for own, read, into in zip(*(each.view(trials, -1, each.shape[1]) for each in (grad, rows)), out, strict=True):
        into.view(n, k).copy_(_mm(own.to(STORED).T, read.to(STORED))[:n, :k])
    return out


def weight_grad(grad: Tensor, rows: Tensor, weight: Tensor, clip: float | None) -> Tensor:
    """Return the gradient of the latent weight `[N, K, 1, 1]` from that of the current `[T * B, >= N]`."""
    n, k = weight.shape[0], weight[0].numel()
    whole = _mm(grad.to(STORED).T, rows.to(STORED))
    found = whole[:n, :k].reshape(weight.shape)
    return found if clip is None else found * (weight.abs() <= clip)
