"""The Triton twin of the scan: one kernel a direction over all of time, two bytes a neuron-step kept for the backward.

Spikes and membranes equal the definition's bit for bit. The backward pass multiplies by the surrogate rounded to bf16,
a relative 2**-9 a factor, to nearest and so without bias; a static current keeps nothing and has it exact.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bitspike.ops.lif import LIFOutput, LIFState, Scan

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_OLDEST = (8, 0)  # compute capability with bf16


def refusal(scan: Scan) -> str | None:
    """Why this call cannot run in Triton, or None if it can."""
    device = scan.current.device
    if scan.current.dtype not in _DTYPES:
        return f"the current is {scan.current.dtype}, not float32, bfloat16 or float16"
    if device.type not in ("cpu", "cuda"):
        return f"the current is on {device}"
    if scan.recurrent is not None:
        return "recurrent neurons run in PyTorch"
    try:
        import triton

        from bitspike.ops.lif_triton_kernels import _lif_fwd_kernel
    except ImportError:
        return "Triton is not installed (pip install triton)"
    interpreted = not isinstance(_lif_fwd_kernel, triton.JITFunction)
    if device.type == "cpu" and not interpreted:
        return "the current is on the CPU, where Triton only runs in its interpreter (TRITON_INTERPRET=1 from the start)"
    if device.type == "cuda" and interpreted:
        return "TRITON_INTERPRET=1 is set, which runs kernels on the CPU, and the current is on a GPU"
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < _OLDEST:
        return f"{torch.cuda.get_device_name(device)} is older than compute capability 8.0"
    return None


class Tile(NamedTuple):
    """How a kernel is cut: neurons a program, its warps, rows loaded ahead."""

    block: int
    warps: int
    ahead: int


def tile(neurons: int) -> Tile:
    """Few neurons: one a thread and deep prefetching, for they wait for memory. Many: 16 bytes a thread at a time."""
    if neurons < 1 << 15:
        return Tile(32, 1, 16)
    if neurons < 1 << 17:
        return Tile(128, 4, 8)
    return Tile(512, 4, 4)


def run(scan: Scan) -> LIFOutput:
    """Eq. 1-2 in one Triton kernel."""
    u0, z0, a0 = scan.start or LIFState(None, None, None)  # type: ignore[arg-type]
    rho, strength = (scan.adaptation.rho, scan.adaptation.strength) if scan.adaptation else (0.0, 0.0)
    form = _Form(
        scan.steps, scan.static, scan.shape, scan.slope, rho, strength, scan.adaptation is not None, scan.keep_membrane
    )
    spikes, membrane, u, z, a = _LIF.apply(scan.current, scan.beta, u0, z0, a0, scan.theta, scan.center, form)
    return LIFOutput(spikes, membrane, LIFState(u, z, a))


class _Form(NamedTuple):
    """What of a Scan is not a tensor."""

    steps: int
    static: bool
    shape: torch.Size
    slope: float
    rho: float
    strength: float
    adaptive: bool
    keep_membrane: bool

    @property
    def neurons(self) -> int:
        return self.shape.numel()

    def adaptation(self) -> tuple[float, float, float]:
        """rho, 1 - rho and strength."""
        return self.rho, 1 - self.rho, self.strength


class _LIF(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[Tensor | None, ...]:
        current, beta, u0, z0, a0, theta, center, form = args
        device, shape = current.device, (form.steps, *form.shape)
        learning = any(ctx.needs_input_grad)
        # A static current's scan is run again in the backward pass, which then needs the inputs instead.
        recomputed = form.static and not form.adaptive
        keeps = learning and not recomputed
        spikes = torch.empty(shape, dtype=current.dtype, device=device)
        membrane = _float32(shape, device) if form.keep_membrane else None
        surrogate = torch.empty(shape, dtype=torch.bfloat16, device=device) if keeps else None
        before = torch.empty_like(surrogate) if surrogate is not None and ctx.needs_input_grad[1] else None
        last = [_float32(form.shape, device) if i < 2 or form.adaptive else None for i in range(3)]
        _launch(
            "_lif_fwd_kernel",
            form,
            *_rows(current, form),
            *_period(beta, form.shape),
            *_period(theta, form.shape),
            *_period(center, form.shape),
            *(_plain(part) for part in (u0, z0, a0)),
            spikes,
            membrane,
            surrogate,
            before,
            *last,
            form.steps,
            form.neurons,
            form.slope,
            *form.adaptation(),
            STATIC=form.static,
            ADAPTIVE=form.adaptive,
        )
        # What backward() recomputes from goes here, too: PyTorch then refuses if any was overwritten since.
        inputs = (current, theta, center, u0, z0) if recomputed else (None,) * 5
        ctx.save_for_backward(beta, surrogate, before, *inputs)
        ctx.form, ctx.dtype = form, current.dtype
        ctx.set_materialize_grads(False)
        return spikes, membrane, *last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        beta, surrogate, before, current, theta, center, u0, z0 = ctx.saved_tensors
        form: _Form = ctx.form
        grad_spikes, grad_membrane, *grad_last = grads
        needs = ctx.needs_input_grad
        device = beta.device
        grad_shape = form.shape if form.static else (form.steps, *form.shape)
        grad_current = torch.empty(grad_shape, dtype=ctx.dtype, device=device) if needs[0] else None
        grad_beta = _float32(form.shape, device) if needs[1] else None
        grad_u0 = _float32(form.shape, device) if needs[2] else None
        grad_z0, grad_a0 = (_float32(form.shape, device) if needs[i] and form.adaptive else None for i in (3, 4))
        given = (*_rows(grad_spikes, form), *_rows(grad_membrane, form), *(_plain(part) for part in grad_last[:2]))
        still = grad_spikes is not None and grad_spikes.stride(0) == 0
        if surrogate is None:
            _launch(
                "_lif_static_bwd_kernel",
                form,
                *_rows(current, form)[::2],
                *given,
                *_period(beta, form.shape),
                *_period(theta, form.shape),
                *_period(center, form.shape),
                _plain(u0),
                _plain(z0),
                grad_current,
                grad_u0,
                grad_beta,
                form.steps,
                form.neurons,
                form.slope,
                STILL=still,
            )
        else:
            fires = form.adaptive or grad_spikes is not None or grad_last[1] is not None
            _launch(
                "_lif_bwd_kernel",
                form,
                surrogate if fires else None,
                before,
                *given,
                _plain(grad_last[2]),
                *_period(beta, form.shape),
                grad_current,
                grad_u0,
                grad_z0,
                grad_a0,
                grad_beta,
                form.steps,
                form.neurons,
                *form.adaptation(),
                STATIC=form.static,
                ADAPTIVE=form.adaptive,
                STILL=still,
            )
        if grad_beta is not None:
            grad_beta = grad_beta.sum_to_size(beta.shape)
        return grad_current, grad_beta, grad_u0, grad_z0, grad_a0, None, None, None


def _float32(shape: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device=device)


def _rows(tensor: Tensor | None, form: _Form) -> tuple[Tensor | None, int, int]:
    """A tensor `[T, B, ...]` (or `[B, ...]`) and how far apart in memory its rows and their neurons are.

    A gradient that repeats over time, or is one number, is read where it lies.
    """
    if tensor is None:
        return None, 0, 0
    timed = tensor.dim() > len(form.shape)
    row = tensor[0] if timed else tensor
    stride = tensor.stride(0) if timed else 0
    if row.is_contiguous():
        return tensor, stride, 1
    if not any(row.stride()):
        return tensor, stride, 0
    if stride == 0:
        return row.contiguous(), 0, 1
    return tensor.contiguous(), form.neurons, 1


def _plain(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _period(parameter: Tensor, shape: torch.Size) -> tuple[Tensor, int]:
    """A parameter's values, and after how many neurons they repeat: one for all, one a neuron of a sample, or each."""
    size = parameter.numel()
    if size != 1 and parameter.shape != shape[len(shape) - parameter.dim() :]:
        parameter, size = parameter.expand(shape), shape.numel()
    return parameter.contiguous(), size


def _launch(name: str, form: _Form, *args: Any, **constants: Any) -> None:
    if not form.neurons:
        return
    from bitspike.ops import lif_triton_kernels

    block, warps, ahead = tile(form.neurons)
    device = next(arg.device for arg in args if isinstance(arg, Tensor))
    # Triton launches on the current device, which need not be the tensors'.
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        getattr(lif_triton_kernels, name)[(-(-form.neurons // block),)](
            *args, **constants, AHEAD=ahead, BLOCK=block, num_warps=warps, enable_fp_fusion=False
        )
