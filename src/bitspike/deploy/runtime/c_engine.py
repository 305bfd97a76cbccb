"""The C runtime as an engine: a network's arrays as C structures, batches over threads, and streams."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitspike.deploy.model import Floats, NetworkModel
from bitspike.deploy.runtime.layout import (
    COUNTS,
    FACTOR_BITS,
    MOST_PLANES,
    NUMBER_BITS,
    REALS,
    RuntimeLayer,
    fixed_point,
    planes_for,
    runtime_layers,
)
from bitspike.deploy.runtime.plain_engine import Step
from bitspike.nn.glances import PLACES
from bitspike.ops.native.library import COUNT, POINTER, declare, kernels

_IMAGES, _FRAMES, _BYTES = range(3)  # of batch.c
_ALIGN = 64  # bytes, of a state: vector code is faster then
_TASKS = 4  # parts of a batch for each thread, so that none waits long for the last


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class _CPool(ctypes.Structure):
    """`bs_pool` of runtime.h, field by field."""

    _fields_ = _fields(ctypes.c_uint32, "kind size stride")


def _layer_fields(factor: type) -> tuple[tuple[str, type], ...]:
    """Return `bs_layer` of runtime.h, field by field; `factor` is bs_factor."""
    return (
        *_fields(ctypes.c_uint32, "kind in_channels in_rows in_columns channels rows columns kernel stride padding"),
        *_fields(ctypes.c_uint32, "pools"),
        ("pool", _CPool * 4),
        *_fields(ctypes.c_void_p, "weight wide bias scale offset delays"),
        *_fields(ctypes.c_uint32, "longest"),
        *_fields(ctypes.c_void_p, "recurrent"),
        *_fields(factor, "recurrent_scale"),
        *_fields(ctypes.c_void_p, "beta theta"),
        *_fields(ctypes.c_uint32, "betas thetas adaptive"),
        *_fields(factor, "rho rest strength"),
    )


class _CLayer(ctypes.Structure):
    """A layer with float32 numbers."""

    _fields_ = _layer_fields(ctypes.c_float)


class _CFixedLayer(ctypes.Structure):
    """A layer with fixed-point numbers."""

    _fields_ = _layer_fields(ctypes.c_int32)


class _CModel(ctypes.Structure):
    """`bs_model` of runtime.h, field by field."""

    _fields_ = (
        *_fields(ctypes.c_uint32, "layers"),
        *_fields(ctypes.c_void_p, "layer"),
        *_fields(ctypes.c_uint32, "in_channels in_rows in_columns input planes image"),
    )


class _CBatch(ctypes.Structure):
    """`Batch` of batch.c, field by field."""

    _fields_ = (
        *_fields(ctypes.c_void_p, "model state input"),
        *_fields(ctypes.c_int64, "form steps batch inputs first last glances"),
        *_fields(ctypes.c_void_p, "places spikes membrane scores counts"),
    )


for _prefix in ("bs_", "bs_fixed_"):
    declare(_prefix + "check", POINTER)
    declare(_prefix + "state_bytes", POINTER, result=ctypes.c_size_t)
    declare(_prefix + "reset", POINTER, POINTER, result=None)
    declare(_prefix + "event", POINTER, POINTER, ctypes.c_uint32, ctypes.c_uint32)
    declare(_prefix + "step", POINTER, POINTER, POINTER)
    declare(_prefix + "steps", POINTER, POINTER, result=ctypes.c_uint32)
    declare(_prefix + "spikes", POINTER, POINTER, ctypes.c_uint32, result=POINTER)
    declare(_prefix + "membrane", POINTER, POINTER, ctypes.c_uint32, result=POINTER)
    declare(_prefix + "counts", POINTER, POINTER, result=POINTER)
    declare(_prefix + "scores", POINTER, POINTER, POINTER, result=None)
    declare(_prefix + "wide_bytes", POINTER, result=ctypes.c_size_t)
    declare(_prefix + "widen", POINTER, POINTER, result=None)
declare("bitspike_run_batch", POINTER, result=COUNT)
declare("bitspike_run_batch_fixed", POINTER, result=COUNT)


class Ran(NamedTuple):
    """All that a run gives: the layers' outputs (None where they were not asked for), and the answers."""

    layers: list[Step | None]  # each `[T, B, channels, rows, columns]`
    counts: NDArray[np.uint32]  # [B, classes]
    scores: Floats  # [B, classes]


class CEngine:
    """A network in C. `wide` spends memory on convolutions, several times that of their weights, for speed.

    `fixed` computes in fixed point (runtime_numbers.h), as a microcontroller without floats would: not the same bits.
    """

    def __init__(self, model: NetworkModel, threads: int, *, wide: bool = True, fixed: bool = False) -> None:
        self.model, self.fixed = model, fixed
        layers = runtime_layers(model)
        self._arrays: list[Any] = [layers]  # what C points to must live as long as it is used
        kind: Any = _CFixedLayer if fixed else _CLayer
        self._layers: Any = (kind * len(layers))(*(kind(*self._c_fields(layer)) for layer in layers))
        if wide:
            self._widen()
        delays = any(layer.delays is not None for layer in layers)
        largest = next((n for n in range(MOST_PLANES, 0, -1) if planes_for(model, 2**n - 1)), None)
        self.planes = largest or 1
        shape = model.input_shape if len(model.input_shape) == 3 else (int(np.prod(model.input_shape)), 1, 1)
        self._models = {
            (kind, image): _CModel(
                len(layers), ctypes.addressof(self._layers), *shape, kind, self.planes, image and not delays
            )
            for kind in (COUNTS, REALS)
            for image in (False, True)
        }
        self.inputs = int(np.prod(shape))
        self.threads = threads
        self._pool: tuple[int, ThreadPoolExecutor] | None = None  # of the process with this number
        for c_model in self._models.values():
            wrong = self.call("check", ctypes.byref(c_model))
            if wrong:
                raise ValueError(f"engine: the sizes of layer {wrong} do not fit, or its sums are too large")

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of runtime.h, of the copy with float32 or with fixed-point numbers."""
        return getattr(kernels(), ("bs_fixed_" if self.fixed else "bs_") + name)(*arguments)

    def _address(self, array: NDArray[Any] | None, dtype: type) -> int | None:
        if array is None:
            return None
        held: NDArray[Any] = np.ascontiguousarray(array, dtype)
        self._arrays.append(held)
        return held.ctypes.data

    def _real(self, array: Floats | None, bits: int) -> int | None:
        """Return the address of real numbers; of fixed-point ones with so many bits behind the point."""
        if array is None or not self.fixed:
            return self._address(array, np.float32)
        return self._address(fixed_point(array, bits), np.int32)

    def _c_fields(self, layer: RuntimeLayer) -> tuple[Any, ...]:
        """Return the fields of `bs_layer` in their order."""
        factors = [layer.recurrent_scale, layer.rho, layer.rest, layer.strength]
        if self.fixed:
            factors = [int(fixed_point(factor, FACTOR_BITS)) for factor in factors]
        return (
            layer.kind,
            *layer.input,
            *layer.output,
            layer.kernel,
            layer.stride,
            layer.padding,
            len(layer.pools),
            (_CPool * 4)(*(_CPool(*pool) for pool in layer.pools)),
            self._address(layer.weight, np.uint32),
            None,
            self._real(layer.bias, NUMBER_BITS),
            self._real(layer.scale, FACTOR_BITS),
            self._real(layer.offset, NUMBER_BITS),
            self._address(layer.delays, np.uint16),
            layer.longest,
            self._address(layer.recurrent, np.uint32),
            factors[0],
            self._real(layer.beta, FACTOR_BITS),
            self._real(layer.theta, NUMBER_BITS),
            layer.beta.size,
            0 if layer.theta is None else layer.theta.size,
            layer.adaptive,
            *factors[1:],
        )

    def _widen(self) -> None:
        for layer in self._layers:
            size = self.call("wide_bytes", ctypes.byref(layer))
            if size:
                wide = _aligned(size)
                self.call("widen", ctypes.byref(layer), wide.ctypes.data)
                self._arrays.append(wide)
                layer.wide = wide.ctypes.data

    def c_model(self, *, reals: bool, image: bool) -> _CModel:
        """Return the network as C takes it, fed with real numbers or event counts."""
        return self._models[REALS if reals else COUNTS, image]

    def new_state(self, c_model: _CModel) -> NDArray[np.uint8]:
        """Return memory for a network's state, not yet reset."""
        return _aligned(self.call("state_bytes", ctypes.byref(c_model)))

    def run_images(self, images: Floats, steps: int, recorded: set[int]) -> Ran:
        """Run static inputs `[B, ...]`."""
        ran, _ = self._run(images, _IMAGES, steps, len(images), self.c_model(reals=True, image=True), recorded)
        return ran

    def run_sequence(self, x: NDArray[Any], recorded: set[int]) -> Ran | None:
        """Run sequences `[T, B, ...]` of float32 or uint8. Frames of real numbers are found out by trying."""
        steps, batch = x.shape[:2]
        form = _BYTES if x.dtype == np.uint8 else _FRAMES
        ran, failed = self._run(x, form, steps, batch, self.c_model(reals=False, image=False), recorded)
        if not failed:
            return ran
        if not np.isfinite(x).all():
            return None
        frames = x.astype(np.float32)
        return self._run(frames, _FRAMES, steps, batch, self.c_model(reals=True, image=False), recorded)[0]

    def _run(
        self, x: NDArray[Any], form: int, steps: int, batch: int, c_model: _CModel, recorded: set[int]
    ) -> tuple[Ran, bool]:
        layers = self.model.layers
        outputs = [
            Step(*(np.empty((steps, batch, *layer.output), np.float32) for _ in range(2))) if i in recorded else None
            for i, layer in enumerate(layers)
        ]
        ran = Ran(
            outputs,
            np.empty((batch, self.model.classes), np.uint32),
            np.empty((batch, self.model.classes), np.float32),
        )
        pointers = [
            (ctypes.c_void_p * len(layers))(*(None if out is None else out[part].ctypes.data for out in outputs))
            for part in range(2)
        ]
        glances = self.model.glances if form == _IMAGES else 1
        places = np.array(PLACES[glances], np.int32)
        address = ctypes.addressof(c_model)

        def run_part(first: int, last: int) -> bool:
            state = self.new_state(c_model)
            order = _CBatch(
                address,
                state.ctypes.data,
                x.ctypes.data,
                form,
                steps,
                batch,
                self.inputs,
                first,
                last,
                glances,
                places.ctypes.data,
                ctypes.addressof(pointers[0]),
                ctypes.addressof(pointers[1]),
                ran.scores.ctypes.data,
                ran.counts.ctypes.data,
            )
            run = kernels().bitspike_run_batch_fixed if self.fixed else kernels().bitspike_run_batch
            return bool(run(ctypes.byref(order)))

        failed = self._over_threads(run_part, batch)
        return ran._replace(counts=self.channels_first(ran.counts), scores=self.channels_first(ran.scores)), failed

    def channels_first(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of the last layer's neurons `[..., classes]` in the order channels, rows, columns."""
        channels, rows, columns = self.model.layers[-1].output
        if rows * columns == 1:
            return values
        return values.reshape(-1, rows, columns, channels).transpose(0, 3, 1, 2).reshape(values.shape)

    def _over_threads(self, run_part: Any, batch: int) -> bool:
        """Run all samples, in parts; return whether one failed."""
        threads = min(self.threads, batch)
        if threads <= 1:
            return bool(run_part(0, batch))
        parts = min(batch, threads * _TASKS)
        bounds = [batch * i // parts for i in range(parts + 1)]
        pool = self._pool
        if pool is None or pool[0] != os.getpid():  # a forked process has no threads of its parent's pool
            pool = self._pool = os.getpid(), ThreadPoolExecutor(self.threads)
        return any(list(pool[1].map(run_part, bounds[:-1], bounds[1:])))


def _aligned(size: int) -> NDArray[np.uint8]:
    memory = np.empty(size + _ALIGN, np.uint8)
    start = -memory.ctypes.data % _ALIGN
    return memory[start : start + size]
