"""The scan in Triton: one kernel for each direction; two bytes for each neuron and step are kept.

Spikes and membranes equal the definition's bit for bit. The backward pass multiplies by the surrogate rounded to bf16,
by a relative 2**-8 at most, to nearest and so without bias. A static current keeps nothing and has it in float32.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bitspike.ops.available import OLDEST
from bitspike.ops.first_order import first_order
from bitspike.ops.lif.scan import Scan
from bitspike.ops.lif.state import LIFOutput, LIFState
from bitspike.ops.lif.surrogate import Surrogate
from bitspike.ops.saved import saved_tensors

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_NARROWEST = 32  # what the recurrent scan multiplies at once; it must take more than one product
_WIDEST = 512  # neurons of a recurrent layer: a program reads all their weights in every step


def refusal(scan: Scan) -> str | None:
    """Return why this call cannot run in Triton; None if it can."""
    device = scan.current.device
    if scan.current.dtype not in _DTYPES:
        return f"the current is {scan.current.dtype}, not float32, bfloat16 or float16"
    if device.type not in ("cpu", "cuda"):
        return f"the current is on {device}"
    if scan.recurrent is not None and len(scan.recurrent) <= _NARROWEST and device.type == "cuda":
        # Triton makes one product the start of the sum that it is added to, which rounds otherwise (seen on an H200).
        return f"{len(scan.recurrent)} recurrent neurons are too few: their sums would round in another order"
    if scan.recurrent is not None and len(scan.recurrent) > _WIDEST:
        return f"{len(scan.recurrent)} recurrent neurons are more than {_WIDEST}, which PyTorch runs faster"
    try:
        from bitspike.ops.lif.kernels import INTERPRETED
    except ImportError:
        return "Triton is not installed (pip install triton)"
    if device.type == "cpu" and not INTERPRETED:
        return "the current is on the CPU, where Triton only runs interpreted (set TRITON_INTERPRET=1 first)"
    if device.type == "cuda" and INTERPRETED:
        return "TRITON_INTERPRET=1 is set, which runs kernels on the CPU, and the current is on a GPU"
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < OLDEST:
        return f"{torch.cuda.get_device_name(device)} is older than compute capability 8.0"
    return None


class Tile(NamedTuple):
    """The tile of a kernel: neurons in a program, its warps, and rows that are loaded ahead."""

    block: int
    warps: int
    ahead: int


def tile(neurons: int) -> Tile:
    """Return one neuron a thread and deep prefetching for few neurons (memory-bound), 16 bytes a thread for many."""
    if neurons < 1 << 15:
        return Tile(32, 1, 16)
    if neurons < 1 << 17:
        return Tile(128, 4, 8)
    return Tile(512, 4, 4)


def run(scan: Scan) -> LIFOutput:
    """Compute Eq. 1-2 in one Triton kernel."""
    u0, z0, a0 = scan.start[:3] if scan.start else (None, None, None)
    rho, strength = (scan.adaptation.rho, scan.adaptation.strength) if scan.adaptation else (0.0, 0.0)
    form = Form(
        scan.steps,
        scan.static,
        scan.shape,
        scan.slope,
        scan.surrogate,
        rho,
        strength,
        scan.adaptation is not None,
        scan.keep_membrane,
        scan.recurrent_scale,
        scan.recurrent_grad,
    )
    inputs = (scan.current, scan.beta, u0, z0, a0, scan.theta, scan.center)
    if scan.recurrent is not None:
        from bitspike.ops.lif.triton_recurrent import RecurrentLIF

        spikes, membrane, *state = RecurrentLIF.apply(*inputs, scan.recurrent, form)
    else:
        spikes, membrane, *state = _LIF.apply(*inputs, form)
    return LIFOutput(spikes, membrane, LIFState(*state))


class Form(NamedTuple):
    """The part of a Scan that is not tensors."""

    steps: int
    static: bool
    shape: torch.Size
    slope: float
    surrogate: Surrogate
    rho: float
    strength: float
    adaptive: bool
    keep_membrane: bool
    recurrent_scale: float
    recurrent_grad: float

    @property
    def neurons(self) -> int:
        return self.shape.numel()

    def adaptation(self) -> tuple[float, float, float]:
        """Return rho, 1 - rho and strength as floats."""
        return float(self.rho), float(1 - self.rho), float(self.strength)  # a kernel takes 1 for a whole number


@first_order
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
        membrane = float32(shape, device) if form.keep_membrane else None
        surrogate = torch.empty(shape, dtype=torch.bfloat16, device=device) if keeps else None
        before = torch.empty_like(surrogate) if surrogate is not None and ctx.needs_input_grad[1] else None
        last = [float32(form.shape, device) if i < 2 or form.adaptive else None for i in range(3)]
        _launch(
            "_lif_fwd_kernel",
            form,
            *rows_of(current, form),
            *period_of(beta, form.shape),
            *period_of(theta, form.shape),
            *period_of(center, form.shape),
            *(plain(part) for part in (u0, z0, a0)),
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
            SURROGATE=form.surrogate,
        )
        # What backward() recomputes from goes here, too: PyTorch then refuses if any was overwritten since.
        inputs = (current, theta, center, u0, z0) if recomputed else (None,) * 5
        ctx.save_for_backward(beta, surrogate, before, *inputs)
        ctx.form, ctx.dtype = form, current.dtype
        ctx.set_materialize_grads(False)
        return spikes, membrane, *last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        beta, surrogate, before, current, theta, center, u0, z0 = saved_tensors(ctx)
        form: Form = ctx.form
        grad_spikes, grad_membrane, *grad_last = grads
        needs = ctx.needs_input_grad
        device = beta.device
        grad_shape = form.shape if form.static else (form.steps, *form.shape)
        grad_current = torch.empty(grad_shape, dtype=ctx.dtype, device=device) if needs[0] else None
        grad_beta = float32(form.shape, device) if needs[1] else None
        grad_u0 = float32(form.shape, device) if needs[2] else None
        grad_z0, grad_a0 = (float32(form.shape, device) if needs[i] and form.adaptive else None for i in (3, 4))
        given = (*rows_of(grad_spikes, form), *rows_of(grad_membrane, form), *(plain(part) for part in grad_last[:2]))
        still = grad_spikes is not None and grad_spikes.stride(0) == 0
        if surrogate is None:
            _launch(
                "_lif_static_bwd_kernel",
                form,
                *rows_of(current, form)[::2],
                *given,
                *period_of(beta, form.shape),
                *period_of(theta, form.shape),
                *period_of(center, form.shape),
                plain(u0),
                plain(z0),
                grad_current,
                grad_u0,
                grad_beta,
                form.steps,
                form.neurons,
                form.slope,
                SURROGATE=form.surrogate,
                STILL=still,
            )
        else:
            fires = form.adaptive or grad_spikes is not None or grad_last[1] is not None
            _launch(
                "_lif_bwd_kernel",
                form,
                plain(surrogate) if fires else None,
                plain(before),
                *given,
                plain(grad_last[2]),
                *period_of(beta, form.shape),
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


def float32(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Return an uninitialised float32 tensor for a kernel to fill."""
    return torch.empty(shape, dtype=torch.float32, device=device)


def rows_of(tensor: Tensor | None, form: Form) -> tuple[Tensor | None, int, int]:
    """Return a tensor `[T, B, ...]` (or `[B, ...]`), and how far apart in memory its rows and their neurons are.

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


def plain(tensor: Tensor | None) -> Tensor | None:
    """Return one step `[B, ...]` as contiguous memory."""
    return None if tensor is None else tensor.contiguous()


def period_of(parameter: Tensor, shape: torch.Size) -> tuple[Tensor, int]:
    """Return a parameter's values, and after how many neurons they repeat: 1, a sample's neurons, or all of them."""
    size = parameter.numel()
    if size != 1 and parameter.shape != shape[len(shape) - parameter.dim() :]:
        parameter, size = parameter.expand(shape), shape.numel()
    return parameter.contiguous(), size


def launch(kernel: Any, programs: int, *args: Any, warps: int, **constants: Any) -> None:
    """Run a kernel on the device of its tensors (not always the current one), without fused multiply-add."""
    if not programs:
        return
    device = next(arg.device for arg in args if isinstance(arg, Tensor))
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        kernel[(programs,)](*args, **constants, num_warps=warps, enable_fp_fusion=False)


def _launch(name: str, form: Form, *args: Any, **constants: Any) -> None:
    from bitspike.ops.lif import kernels as lif_triton_kernels

    block, warps, ahead = tile(form.neurons)
    kernel = getattr(lif_triton_kernels, name)
    launch(kernel, -(-form.neurons // block), *args, **constants, AHEAD=ahead, BLOCK=block, warps=warps)
