"""The backward pass of a first convolution on a static image: its current is constant in time.

Its forward pass stays with the plain modules: on real numbers sums round, and the order of operations is theirs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from triton import next_power_of_2

from bitspike.ops.first_order import first_order
from bitspike.ops.norm import kernels_static as norm_kernels
from bitspike.ops.product.geometry import Synapse
from bitspike.ops.product.triton import weight_grad
from bitspike.ops.saved import contiguous_tensors


def attach(
    current: Tensor, before: Tensor, x: Tensor, synapse: Synapse, weight: Tensor, clip: float | None,
    norm: tuple[Tensor, Tensor, float] | None,
) -> Tensor:  # fmt: skip
    """Return `current [B, N, h, w]` with gradients to the latent weight, and to weight and bias of the norm.

    `current` is the batch norm of `before`, which is what the synapse makes of `x [B, C, H, W]`.
    """
    gamma, beta, eps = norm if norm is not None else (None, None, 0.0)
    out: Tensor = _Entry.apply(current, before, x, weight, gamma, beta, synapse, clip, eps)
    return out


@first_order
class _Entry(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        current, before, x, weight, gamma, _, ctx.synapse, ctx.clip, ctx.eps = args
        ctx.save_for_backward(before, x, weight, gamma)
        same: Tensor = current.view_as(current)
        return same

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        before, x, weight, gamma = contiguous_tensors(ctx)
        grad, of_gamma, of_beta = _rows(grads[0].contiguous(), before, gamma, ctx.eps)
        of_weight, _ = weight_grad(grad, x, weight, ctx.synapse, 1.0 / ctx.synapse.pool**2, ctx.clip)
        return None, None, None, of_weight, of_gamma, of_beta, None, None, None


def _rows(
    grad: Tensor, before: Tensor, gamma: Tensor | None, eps: float
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the gradient of `before` as rows `[places, channels]`, and those of the norm's parameters."""
    batch, channels, height, width = grad.shape
    if gamma is None:
        return grad.permute(0, 2, 3, 1).contiguous().view(-1, channels), None, None
    rows = torch.empty(batch * height * width, channels, dtype=torch.float32, device=grad.device)
    of_gamma, of_beta = torch.empty_like(gamma), torch.empty_like(gamma)
    parts = min(64, -(-len(rows) // 1024))
    share = -(-len(rows) // parts)
    sums = torch.empty(4, parts, channels, dtype=torch.float32, device=grad.device)
    shape = {"CHANNELS": channels, "PLACES": height * width, "PARTS": parts}
    norm_kernels._sums_kernel[(channels, parts)](grad, before, sums, len(rows), share, **shape, BLOCK=1024)
    norm_kernels._apply_kernel[(-(-len(rows) // 64),)](
        grad, before, gamma, sums, rows, of_gamma, of_beta, len(rows), eps, **shape,
        P_BLOCK=next_power_of_2(parts), C_BLOCK=next_power_of_2(channels), BLOCK=64,
    )  # fmt: skip
    return rows, of_gamma, of_beta
