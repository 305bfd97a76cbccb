"""The plain definition of a layer's current at test time: one addition after the other in float64, then float32.

For inputs x (float32) and weights of -1/+1, with fl the rounding to float32 and no fused multiply-add:

1. S = the sum of +x or -x in float64, in ascending order of the input, or of (channel, kernel row, kernel column).
2. Pools in their order, on S: "average" adds up its window row by row, "max" takes the largest.
3. c = fl(S / divisor): a float64 division by the number of averaged values, then one rounding.
4. With a bias: c = fl(c + bias). With a batch norm: c = fl(fl(c * scale) + offset).

Every fast twin, and every engine outside of PyTorch, is compared with this.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bitspike.ops.current.form import Form, Pool

Norm = tuple[Tensor, Tensor]  # scale and offset of each channel, float32


def current(x: Tensor, signs: Tensor, form: Form, bias: Tensor | None = None, norm: Norm | None = None) -> Tensor:
    """Return the current of a layer on `x [R, K]` (signs `[N, K]`) or `x [R, C, H, W]` (signs `[O, C, h, w]`)."""
    total = dense_sums(x, signs) if signs.dim() == 2 else conv_sums(x, signs, form)
    for pool in form.pools:
        total = pooled(total, pool)
    return finished((total / form.divisor).to(torch.float32), bias, norm)


def dense_sums(x: Tensor, signs: Tensor) -> Tensor:
    """sum over k of x[r, k] * signs[n, k] in float64, in ascending order of k: `[R, N]`."""
    x, signs = x.double(), signs.double()
    total = x.new_zeros(len(x), len(signs))
    for k in range(x.shape[1]):
        total = total + x[:, k, None] * signs[:, k]
    return total


def conv_sums(x: Tensor, signs: Tensor, form: Form) -> Tensor:
    """sum over the kernel of x * signs in float64, in ascending order of (channel, row, column): `[R, O, h, w]`."""
    (down, right), (rows, columns) = form.stride, form.padding
    # Padding adds nothing: a sum that began with +0 stays as it is when a zero of either sign is added.
    x, signs = F.pad(x.double(), (columns, columns, rows, rows)), signs.double()
    height, width = ((n - k) // s + 1 for n, k, s in zip(x.shape[2:], signs.shape[2:], form.stride, strict=True))
    total = x.new_zeros(len(x), len(signs), height, width)
    for channel in range(signs.shape[1]):
        for i in range(signs.shape[2]):
            for j in range(signs.shape[3]):
                seen = x[:, channel, i : i + down * height : down, j : j + right * width : right]
                total = total + seen[:, :height, :width].unsqueeze(1) * signs[:, channel, i, j, None, None]
    return total


def pooled(total: Tensor, pool: Pool) -> Tensor:
    """Return the sums, row by row, or the largest of each window of `total [R, O, h, w]`."""
    height, width = ((n - pool.size) // pool.stride + 1 for n in total.shape[2:])
    places = [(i, j) for i in range(pool.size) for j in range(pool.size)]
    first, *others = [total[:, :, i :: pool.stride, j :: pool.stride][:, :, :height, :width] for i, j in places]
    for seen in others:
        # Of equal ones the first has the gradient, as in PyTorch's pool.
        largest = torch.where((seen > first) | seen.isnan(), seen, first)
        first = first + seen if pool.kind == "average" else largest
    return first


def finished(c: Tensor, bias: Tensor | None, norm: Norm | None) -> Tensor:
    """Return the current after the bias, and after a batch norm's scale and offset: each step is rounded by itself."""
    shape = (-1, *[1] * (c.dim() - 2))
    if bias is not None:
        c = c + bias.view(shape)
    if norm is not None:
        scale, offset = norm
        c = c * scale.view(shape)
        c = c + offset.view(shape)
    return c


def fold_norm(weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float) -> Norm:
    """scale = weight / sqrt(variance + eps), offset = bias - mean * scale: in float64, each rounded once to float32.

    The offset takes the scale before its rounding. A weight that is None is 1, a bias that is None is 0.
    """
    deviation = (variance.double() + eps).sqrt()
    factor = 1 / deviation if weight is None else weight.double() / deviation
    offset = -(mean.double() * factor) if bias is None else bias.double() - mean.double() * factor
    return factor.to(torch.float32), offset.to(torch.float32)
