"""A dense layer on spikes in C: sums of the weights' rows that fired, bias, dropout and LIF scan in one pass."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bitspike.ops.buffers import float32, pool
from bitspike.ops.dropout.c import Draw
from bitspike.ops.first_order import first_order
from bitspike.ops.lif import LIFOutput, LIFState
from bitspike.ops.lif.c import CGradients, CScan, Form, describe, threads
from bitspike.ops.lif.surrogate import Surrogate
from bitspike.ops.native.library import COUNT, NUMBER, POINTER, address, declare, kernels, succeed
from bitspike.ops.product.pack import Packed, pack
from bitspike.ops.saved import saved_tensors

_SHORT = 2**15 - 1  # signs that the kernel's 16 bits add up
BUSY = 0.3  # the share of inputs that fire above which products of floats are faster
_LARGE = 1 << 21  # weights that still stay near the processor; of more, fewer may fire
_TASKS = 4  # a thread, at least, so that none waits long for the last


class _CDense(ctypes.Structure):
    """`Dense` of dense.c, field by field."""

    _fields_ = (
        ("scan", CScan),
        *((name, ctypes.c_int64) for name in ("batch", "inputs", "outputs", "columns")),
        *((name, ctypes.c_void_p) for name in ("bits", "values", "weight", "bias", "kept")),
        ("draw", Draw),
        ("scale", ctypes.c_float),
    )


declare("dense_weight", POINTER, COUNT, COUNT, COUNT, NUMBER, POINTER)
declare("dense_forward", POINTER, NUMBER, POINTER, POINTER, POINTER)
declare("dense_backward", POINTER, NUMBER, ctypes.POINTER(CGradients), COUNT, POINTER, POINTER)
declare("dense_gradient", POINTER, COUNT, COUNT, COUNT, COUNT, NUMBER, POINTER)


class Mask(NamedTuple):
    """A mask of dropout: bytes `[T, B, N]` or draws that say what is kept, and the factor of the kept values."""

    kept: Tensor | Draw
    scale: float


class Neurons(NamedTuple):
    """The neurons of a layer: all arguments of `lif` but the current. Tensors are float32 and broadcast to `[B, N]`."""

    beta: Tensor
    theta: Tensor
    center: Tensor
    slope: float
    surrogate: Surrogate
    keep_membrane: bool


def pack_inputs(x: Tensor, outputs: int) -> Packed | None:
    """Return packed inputs `[T, B, K]` for `dense`; None unless few are not 0, and all are whole with exact sums."""
    inputs = x.shape[-1]
    packed = pack(x, inputs) if inputs <= _SHORT else None
    limit = BUSY * min(1.0, _LARGE / (inputs * outputs)) * x.numel()
    return packed if packed is not None and packed.events <= limit else None


def dense(
    x: Tensor,
    packed: Packed,
    signs: Tensor,
    bias: Tensor | None,
    mask: Mask | None,
    neurons: Neurons,
    state: LIFState | None,
) -> LIFOutput | None:
    """lif(dropout(x @ signs.T + bias)); x `[T, B, K]`, `packed` is x in bits, signs `[N, K]` of -1 and +1, bias `[N]`.

    None if a membrane is not finite; the modules say why. The sum over inputs is exact, so the current is rounded once,
    when the bias is added.
    """
    steps, batch, outputs = x.shape[0], x.shape[1], signs.shape[0]
    shape = torch.Size((batch, outputs))
    rest = state or LIFState(float32(shape).zero_(), float32(shape).zero_())
    form = Form(steps, False, shape, neurons.slope, neurons.surrogate, neurons.keep_membrane)
    spikes, membrane, last = _Dense.apply(
        x, signs, bias, neurons.beta, rest.membrane, neurons.theta, neurons.center, rest.spikes, form, packed, mask
    )
    if not last.isfinite().all():
        return None
    return LIFOutput(spikes, membrane, LIFState(last, spikes[-1].clone()))


@first_order
class _Dense(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, signs: Tensor, bias: Tensor | None, *rest: Any) -> tuple[Tensor | None, ...]:
        *scanned, form, packed, mask = rest
        columns = -(-(signs.shape[0] + 32) // 64) * 64 - 32  # never a power of two, whose rows would share cache sets
        weight = torch.empty(signs.shape[1], columns, dtype=torch.int16, device="cpu")
        held = signs.contiguous()
        kernels().dense_weight(held.data_ptr(), *signs.shape, columns, _threads(form), weight.data_ptr())
        padded = None if bias is None else F.pad(bias, (0, columns - signs.shape[0]))
        kept = mask.kept if mask and isinstance(mask.kept, Tensor) else None
        ctx.save_for_backward(signs, weight, padded, *scanned, packed.bits, packed.values, kept)
        ctx.form, ctx.mask = form, mask and mask._replace(kept=Draw() if kept is not None else mask.kept)
        ctx.set_materialize_grads(False)
        spikes = pool.empty((form.steps, *form.shape))
        membrane = pool.empty(spikes.shape) if form.keep_membrane else None
        last = float32(form.shape)
        _held, layer = _layer(ctx.form, weight, padded, scanned, packed, kept, ctx.mask)
        outputs = map(address, (spikes, membrane, last))
        succeed("dense", kernels().dense_forward(ctypes.byref(layer), _threads(form), *outputs))
        return spikes, membrane, last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        signs, weight, padded, *scanned, bits, values, kept = saved_tensors(ctx)
        form, (outputs, inputs) = ctx.form, signs.shape
        _held, layer = _layer(form, weight, padded, scanned, Packed(bits, values, 0), kept, ctx.mask)
        workers = _threads(form)
        blocks = -(-outputs // 128)
        groups = min(form.shape[0], -(-_TASKS * workers // blocks)) if workers > 1 else 1
        grad_weight = pool.empty((groups, *weight.shape)).zero_()
        grad_bias = float32((groups, weight.shape[1])).zero_()
        current = pool.empty((form.steps, *form.shape)) if ctx.needs_input_grad[0] else None
        u0 = float32(form.shape)
        beta = float32(form.shape) if ctx.needs_input_grad[3] else None
        given = [g if g is None else g.contiguous() for g in grads]
        gradients = CGradients(*map(address, (*given, current, u0, beta)))
        failed = kernels().dense_backward(
            ctypes.byref(layer), workers, ctypes.byref(gradients), groups, grad_weight.data_ptr(), grad_bias.data_ptr()
        )
        succeed("dense", failed)
        x = None
        if current is not None:
            x = pool.empty((form.steps, form.shape[0], inputs))
            torch.mm(current.flatten(0, 1), signs, out=x.view(-1, inputs))
        total = float32((outputs, inputs))
        kernels().dense_gradient(
            grad_weight.data_ptr(), groups, outputs, inputs, weight.shape[1], workers, total.data_ptr()
        )
        return (
            x,
            total,
            grad_bias.sum(0)[:outputs] if ctx.needs_input_grad[2] else None,
            None if beta is None else beta.sum_to_size(scanned[0].shape),
            u0,
            *[None] * 6,
        )


def _threads(form: Form) -> int:
    return threads(form._replace(steps=form.steps * 8))  # a step costs more here than in a scan alone


def _layer(
    form: Form,
    weight: Tensor,
    bias: Tensor | None,
    scanned: list[Tensor],
    packed: Packed,
    kept: Tensor | None,
    mask: Mask | None,
) -> tuple[list[Tensor], _CDense]:
    """Return the tensors that must outlive the kernel's call, and the layer as the kernel takes it."""
    beta, u0, theta, center, z0 = scanned
    held, scan = describe((weight, beta, u0, theta, center, z0), form)  # the first stands for a current
    inputs = len(weight)
    layer = _CDense(
        scan,
        form.shape[0],
        inputs,
        form.shape[1],
        weight.shape[1],
        *map(address, (packed.bits, packed.values, weight, bias, kept)),
        mask.kept if mask else Draw(),
        mask.scale if mask else 1.0,
    )
    return held, layer
