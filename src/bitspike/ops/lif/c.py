"""The scan in C on the CPU: float32, threads over neurons; only the current is kept for the backward pass."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bitspike.ops.buffers import float32, pool
from bitspike.ops.first_order import first_order
from bitspike.ops.lif.scan import Scan
from bitspike.ops.lif.state import LIFOutput, LIFState
from bitspike.ops.lif.surrogate import CODES, Surrogate
from bitspike.ops.native import library
from bitspike.ops.native.library import NUMBER, POINTER, address, declare, expect, kernels
from bitspike.ops.saved import saved_tensors

_ALONE = 1 << 15  # neuron-steps below which waking a second thread costs more than it saves
_COUNTS = ("steps", "neurons", "current_step", "beta_step", "theta_step", "center_step")
_POINTERS = ("current", "beta", "theta", "center", "u0", "z0")


class CScan(ctypes.Structure):
    """`Scan` of scan.h, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _COUNTS),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        ("slope", ctypes.c_float),
        ("surrogate", ctypes.c_int32),
    )


class CGradients(ctypes.Structure):
    """`Gradients` of scan.h, field by field."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("spikes", "membrane", "u_last", "current", "u0", "beta")]


declare("lif_forward", ctypes.POINTER(CScan), NUMBER, POINTER, POINTER, POINTER, result=None)
declare("lif_backward", ctypes.POINTER(CScan), NUMBER, ctypes.POINTER(CGradients))
expect("bitspike_surrogates", len(CODES))


def refusal(scan: Scan) -> str | None:
    """Return why this call cannot run in C; None if it can."""
    if scan.current.device.type != "cpu":
        return f"the current is on {scan.current.device}"
    if scan.current.dtype != torch.float32:
        return f"the current is {scan.current.dtype}, not float32"
    if scan.recurrent is not None or scan.adaptation is not None:
        return "recurrent and adaptive neurons run in PyTorch"
    if library.library() is None:
        return "the compiled kernels are missing or out of date (reinstall bitspike where there is a C compiler)"
    return None


def run(scan: Scan) -> LIFOutput:
    """Compute Eq. 1-2 in C, on all of PyTorch's threads."""
    form = Form(scan.steps, scan.static, scan.shape, scan.slope, scan.surrogate, scan.keep_membrane)
    spikes, membrane, last = _LIF.apply(
        scan.current.contiguous(), scan.beta, scan.state.membrane, scan.theta, scan.center, scan.state.spikes, form
    )
    return LIFOutput(spikes, membrane, LIFState(last, spikes[-1].clone()))


class Form(NamedTuple):
    """The part of a Scan that is not tensors."""

    steps: int
    static: bool
    shape: torch.Size
    slope: float
    surrogate: Surrogate
    keep_membrane: bool


@first_order
class _LIF(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[Tensor, Tensor | None, Tensor]:
        *tensors, form = args
        # All that backward() recomputes from goes here: PyTorch then refuses if any was overwritten since.
        ctx.save_for_backward(*tensors)
        ctx.form = form
        ctx.set_materialize_grads(False)
        spikes = pool.empty((form.steps, *form.shape))
        membrane = pool.empty(spikes.shape) if form.keep_membrane else None
        last = float32(form.shape)
        _held, scan = describe(tensors, form)
        kernels().lif_forward(ctypes.byref(scan), threads(form), *map(address, (spikes, membrane, last)))
        return spikes, membrane, last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        tensors, form = saved_tensors(ctx), ctx.form
        given = [g if g is None else g.contiguous() for g in grads]
        grad_current = pool.empty(tensors[0].shape)
        grad_u0 = float32(form.shape)
        grad_beta = float32(form.shape) if ctx.needs_input_grad[1] else None
        _held, scan = describe(tensors, form)
        gradients = CGradients(*map(address, (*given, grad_current, grad_u0, grad_beta)))
        if kernels().lif_backward(ctypes.byref(scan), threads(form), ctypes.byref(gradients)):
            raise MemoryError("lif: no memory for the backward pass of the C backend")
        if grad_beta is not None:
            grad_beta = grad_beta.sum_to_size(tensors[1].shape)
        return grad_current, grad_beta, grad_u0, None, None, None, None


def describe(tensors: Sequence[Tensor], form: Form) -> tuple[list[Tensor], CScan]:
    """Return the contiguous tensors that must outlive the kernel's call, and the scan as the kernel takes it."""
    current, beta, u0, theta, center, z0 = tensors
    parameters = [p if p.numel() == 1 else p.expand(form.shape).contiguous() for p in (beta, theta, center)]
    held = [current.contiguous(), *parameters, u0.contiguous(), z0.contiguous()]
    neurons = form.shape.numel()
    scan = CScan(
        form.steps,
        neurons,
        0 if form.static else neurons,
        *(int(p.numel() > 1) for p in parameters),
        *(tensor.data_ptr() for tensor in held),
        form.slope,
        CODES[form.surrogate],
    )
    return held, scan


def threads(form: Form) -> int:
    """Return the number of threads: PyTorch's, or one where there is little to do."""
    return torch.get_num_threads() if form.shape.numel() * form.steps >= _ALONE else 1
