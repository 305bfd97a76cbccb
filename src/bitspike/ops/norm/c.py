"""Batch norm of every step by its own statistics in C: bit-equal to T calls of F.batch_norm, gradients to 1e-6."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bitspike.ops.buffers import float32, pool
from bitspike.ops.first_order import first_order
from bitspike.ops.native.library import NUMBER, POINTER, address, declare, kernels
from bitspike.ops.norm.reference import Averages

_ALONE = 1 << 14  # values below which a second thread costs more than it saves


class _CNorm(ctypes.Structure):
    """`Norm` of norm.c, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("steps", "batch", "channels", "sites")),
        *((name, ctypes.c_double) for name in ("eps", "momentum")),
        *((name, ctypes.c_void_p) for name in ("x", "weight", "bias")),
        ("fused", ctypes.c_int),
    )


declare("norm_forward", POINTER, NUMBER, *[POINTER] * 7, result=None)
declare("norm_backward", POINTER, NUMBER, *[POINTER] * 6, result=None)


def step_norm(x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, eps: float) -> Tensor | None:
    """Return the batch norm of reference.py: x `[T, B, C, H, W]`, weight and bias `[C]`; None where C cannot do it."""
    fused = fused_here()
    if fused is None or x.shape[3] * x.shape[4] == 1:  # such an image is channels-last too, which sums otherwise
        return None
    out: Tensor = _StepNorm.apply(x.contiguous(), weight.contiguous(), bias.contiguous(), averages, eps, fused)
    return out


@cache
def fused_here() -> bool | None:
    """Return whether PyTorch's batch norm fuses multiply and add on this machine; None if its bits fit neither way."""
    here: dict[str, Any] = {"generator": torch.Generator().manual_seed(0), "dtype": torch.float32, "device": "cpu"}
    x = torch.randn(2, 3, 19, 5, 5, **here) * 3 + 1
    weight, bias, mean, spread = torch.randn(4, 19, **here).unbind()
    with torch.no_grad():
        means, spreads = mean.clone(), spread.square()
        wanted = torch.stack([F.batch_norm(step, means, spreads, weight, bias, True, 0.1, 1e-5) for step in x])
        for fused in (True, False):
            averages = Averages(mean.clone(), spread.square(), 0.1)
            got = _StepNorm.apply(x, weight, bias, averages, 1e-5, fused)
            if all(map(torch.equal, (got, averages.mean, averages.variance), (wanted, means, spreads))):
                return fused
    return None


@first_order
class _StepNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, eps: float, fused: bool
    ) -> Tensor:
        shape = (len(x), x.shape[2])
        mean, squares, inverse = float32(shape), float32(shape), float32(shape)
        ctx.save_for_backward(x, weight, bias, mean, inverse)
        ctx.form = (eps, averages.momentum, fused)
        out = pool.empty(x.shape)
        layer = layer_of(x, weight, bias, *ctx.form)
        scratch = torch.empty(shape, dtype=torch.float64, device="cpu")
        pointers = map(address, (out, mean, squares, inverse, scratch, averages.mean, averages.variance))
        kernels().norm_forward(ctypes.byref(layer), threads_for(x), *pointers)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, inverse = ctx.saved_tensors
        grad = grads[0].contiguous()
        out = pool.empty(x.shape)
        each = torch.empty(2, *mean.shape, dtype=torch.float64, device="cpu")
        layer = layer_of(x, weight, bias, *ctx.form)
        kernels().norm_backward(
            ctypes.byref(layer), threads_for(x), *map(address, (grad, mean, inverse, out, each[0], each[1]))
        )
        total = each.sum(1).to(weight.dtype)
        return out, total[0], total[1], None, None, None


def threads_for(x: Tensor) -> int:
    """Return the number of threads that share the steps of x."""
    return torch.get_num_threads() if x.numel() >= _ALONE else 1


def layer_of(x: Tensor, weight: Tensor, bias: Tensor, eps: float, momentum: float, fused: bool) -> _CNorm:
    """Return the layer as C kernels take it."""
    steps, batch, channels, height, width = x.shape
    return _CNorm(steps, batch, channels, height * width, eps, momentum, *map(address, (x, weight, bias)), int(fused))
