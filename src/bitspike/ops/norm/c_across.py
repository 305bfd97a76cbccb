"""Batch norm of every step in C, of a batch that lies in several processes; its sums are exchanged.

Forward they exchange the sums of all steps, then those of the squares around the mean, since PyTorch rounds the mean in
between; backward both sums of the gradient at once. All are sums of doubles, so the statistics are those of one process
bit for bit, unless the order of additions moves a double that lies between two floats.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from bitspike.ops.buffers import float32, pool
from bitspike.ops.first_order import first_order
from bitspike.ops.native.library import COUNT, NUMBER, POINTER, address, declare, kernels
from bitspike.ops.norm.across import Across
from bitspike.ops.norm.c import fused_here, layer_of, threads_for
from bitspike.ops.norm.reference import Averages

declare("norm_sums", POINTER, NUMBER, POINTER, POINTER, result=None)
declare("norm_means", POINTER, COUNT, POINTER, POINTER, result=None)
declare("norm_apply", POINTER, NUMBER, COUNT, *[POINTER] * 7, result=None)
declare("norm_grad_sums", POINTER, NUMBER, *[POINTER] * 4, result=None)
declare("norm_grad_apply", POINTER, NUMBER, COUNT, *[POINTER] * 6, result=None)


def step_norm_across(x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, eps: float, across: Across) -> Tensor:
    """Return the batch norm of reference.py for the rows here: x `[T, B, C, H, W]`, weight and bias `[C]`."""
    out: Tensor = _Across.apply(x.contiguous(), weight.contiguous(), bias.contiguous(), averages, eps, across)
    return out


@first_order
class _Across(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, averages: Averages, eps: float, across: Across
    ) -> Tensor:
        shape = (len(x), x.shape[2])
        mean, squares, inverse = float32(shape), float32(shape), float32(shape)
        ctx.save_for_backward(x, weight, bias, mean, inverse)
        ctx.form, ctx.across = (eps, averages.momentum, bool(fused_here())), across
        out = pool.empty(x.shape)
        layer, threads = layer_of(x, weight, bias, *ctx.form), threads_for(x)
        count = across.count(x.shape[1] * x.shape[3] * x.shape[4])
        sums = torch.empty(shape, dtype=torch.float64, device="cpu")
        kernels().norm_sums(ctypes.byref(layer), threads, None, address(sums))
        total = across.sum(sums)
        kernels().norm_means(ctypes.byref(layer), count, address(total), address(mean))
        kernels().norm_sums(ctypes.byref(layer), threads, address(mean), address(sums))
        total = across.sum(sums)
        pointers = map(address, (total, mean, out, squares, inverse, averages.mean, averages.variance))
        kernels().norm_apply(ctypes.byref(layer), threads, count, *pointers)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, inverse = ctx.saved_tensors
        grad = grads[0].contiguous()
        out = pool.empty(x.shape)
        layer, threads = layer_of(x, weight, bias, *ctx.form), threads_for(x)
        count = ctx.across.count(x.shape[1] * x.shape[3] * x.shape[4])
        own = torch.empty(2, *mean.shape, dtype=torch.float64, device="cpu")
        kernels().norm_grad_sums(ctypes.byref(layer), threads, *map(address, (grad, mean, own[0], own[1])))
        both = ctx.across.sum(own)
        kernels().norm_grad_apply(
            ctypes.byref(layer), threads, count, *map(address, (grad, mean, inverse, both[0], both[1], out))
        )
        # the rows' own part: gradients of parameters are added up over processes with all others
        of_weight, of_bias = (own[0] * inverse).sum(0), own[1].sum(0)
        return out, of_weight.to(weight.dtype), of_bias.to(bias.dtype), None, None, None
