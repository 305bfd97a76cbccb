"""The C runtime as an engine: a network's arrays as C structures, batches over threads, and streams."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitspike.c_library import kernels
from bitspike.deploy.model import Floats, NetworkModel
from bitspike.deploy.runtime.c_structures import CBatch, CFixedLayer, CLayer, CModel, CPool
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
from bitspike.image_steps import PLACES

_IMAGES, _FRAMES, _BYTES = range(3)  # of batch.c
_WRONG_INPUT, _NOT_FINITE = 1, 2  # of batch.c
_ALIGN = 64  # bytes, of a state: vector code is faster then
_TASKS = 4  # parts of a batch for each thread, so that none waits long for the last
_PLACES = {glances: np.array(places, np.int32) for glances, places in PLACES.items()}


class Ran(NamedTuple):
    """All that a run gives: the layers' outputs (None where they were not asked for), and the answers."""

    layers: list[Step | None]  # each `[T, B, channels, rows, columns]`
    counts: NDArray[np.uint32]  # [B, classes]
    scores: Floats  # [B, classes]
    finite: bool  # whether all membranes stayed finite that were recorded or watched


class _Memory(NamedTuple):
    """The state of a network, and the sums of an image with several glances: addresses, and what they belong to."""

    state_at: int
    map_at: int | None
    arrays: tuple[Any, ...]


class CEngine:
    """A network in C. `wide` spends memory on convolutions, several times that of their weights, for speed.

    `fixed` computes in fixed point (runtime_numbers.h), as a microcontroller without floats would: not the same bits.
    """

    def __init__(self, model: NetworkModel, threads: int, *, wide: bool = True, fixed: bool = False) -> None:
        self.model, self.fixed = model, fixed
        layers = runtime_layers(model)
        self._arrays: list[Any] = [layers]  # what C points to must live as long as it is used
        kind: Any = CFixedLayer if fixed else CLayer
        self._layers: Any = (kind * len(layers))(*(kind(*self._c_fields(layer)) for layer in layers))
        if wide:
            self._widen()
        delays = any(layer.delays is not None for layer in layers)
        largest = next((n for n in range(MOST_PLANES, 0, -1) if planes_for(model, 2**n - 1)), None)
        self.planes = largest or 1
        shape = model.input_shape if len(model.input_shape) == 3 else (int(np.prod(model.input_shape)), 1, 1)
        self._models = {
            (kind, image): CModel(
                len(layers), ctypes.addressof(self._layers), *shape, kind, self.planes, image and not delays
            )
            for kind in (COUNTS, REALS)
            for image in (False, True)
        }
        self.inputs = int(np.prod(shape))
        self.threads = threads
        self._pool: tuple[int, ThreadPoolExecutor] | None = None  # of the process with this number
        self._free: dict[int, list[_Memory]] = {ctypes.addressof(c_model): [] for c_model in self._models.values()}
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
            (CPool * 4)(*(CPool(*pool) for pool in layer.pools)),
            self._address(layer.weight, np.uint32),
            None,
            self._real(layer.bias, NUMBER_BITS),
            self._real(layer.scale, FACTOR_BITS),
            self._real(layer.offset, NUMBER_BITS),
            self._address(layer.delays, np.uint16),
            layer.longest,
            self._address(layer.gains, np.uint32),
            0 if layer.gains is None else layer.gains.shape[1],
            layer.largest_gain,
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

    def c_model(self, *, reals: bool, image: bool) -> CModel:
        """Return the network as C takes it, fed with real numbers or event counts."""
        return self._models[REALS if reals else COUNTS, image]

    def new_state(self, c_model: CModel) -> NDArray[np.uint8]:
        """Return memory for a network's state, not yet reset."""
        return _aligned(self.call("state_bytes", ctypes.byref(c_model)))

    def run_images(self, images: Floats, steps: int, recorded: set[int], watched: Collection[int] = ()) -> Ran:
        """Run static inputs `[B, ...]`; keep the outputs of recorded layers, and look at the membranes of watched ones.

        It ends when one of these is not finite.
        """
        model = self.c_model(reals=True, image=True)
        ran, _ = self._run(images, _IMAGES, steps, len(images), model, recorded, watched)
        return ran

    def run_counts(self, x: NDArray[Any], recorded: set[int], watched: Collection[int] = ()) -> Ran | None:
        """Run sequences `[T, B, ...]` of float32 or uint8, if all values are event counts; return None if not."""
        form = _BYTES if x.dtype == np.uint8 else _FRAMES
        model = self.c_model(reals=False, image=False)
        ran, fits = self._run(x, form, x.shape[0], x.shape[1], model, recorded, watched)
        return ran if fits else None

    def run_reals(self, x: Floats, recorded: set[int], watched: Collection[int] = ()) -> Ran:
        """Run sequences `[T, B, ...]` of finite real numbers."""
        model = self.c_model(reals=True, image=False)
        return self._run(x, _FRAMES, x.shape[0], x.shape[1], model, recorded, watched)[0]

    def _run(
        self,
        x: NDArray[Any],
        form: int,
        steps: int,
        batch: int,
        c_model: CModel,
        recorded: set[int],
        watched: Collection[int],
    ) -> tuple[Ran, bool]:
        """Return what came out, and whether the network takes such input."""
        layers = self.model.layers
        outputs = [
            Step(*(np.empty((steps, batch, *layer.output), np.float32) for _ in range(2))) if i in recorded else None
            for i, layer in enumerate(layers)
        ]
        ran = Ran(
            outputs,
            np.empty((batch, self.model.classes), np.uint32),
            np.empty((batch, self.model.classes), np.float32),
            finite=True,
        )
        pointers = [
            (ctypes.c_void_p * len(layers))(*(None if out is None else out[part].ctypes.data for out in outputs))
            for part in range(2)
        ]
        glances = self.model.glances if form == _IMAGES else 1
        looked_at = np.array([i in watched or i in recorded for i in range(len(layers))], np.uint8)
        address, free = ctypes.addressof(c_model), self._free[ctypes.addressof(c_model)]
        arrays = x.ctypes.data, looked_at.ctypes.data, ran.scores.ctypes.data, ran.counts.ctypes.data
        run = kernels().bitspike_run_batch_fixed if self.fixed else kernels().bitspike_run_batch

        def run_part(first: int, last: int) -> int:
            try:
                memory = free.pop()  # what an earlier part left; threads never hold the same
            except IndexError:
                memory = self._new_memory(c_model, glances)
            order = CBatch(
                address,
                memory.state_at,
                memory.map_at,
                arrays[0],
                form,
                steps,
                batch,
                self.inputs,
                first,
                last,
                glances,
                _PLACES[glances].ctypes.data,
                ctypes.addressof(pointers[0]),
                ctypes.addressof(pointers[1]),
                *arrays[1:],
            )
            ended = int(run(ctypes.byref(order)))
            free.append(memory)
            return ended

        ends = self._over_threads(run_part, batch)
        ran = ran._replace(
            counts=self.channels_first(ran.counts),
            scores=self.channels_first(ran.scores),
            finite=_NOT_FINITE not in ends,
        )
        return ran, _WRONG_INPUT not in ends

    def _new_memory(self, c_model: CModel, glances: int) -> _Memory:
        """Return the memory in which one sample runs after the other."""
        state = self.new_state(c_model)
        size = self.call("map_bytes", ctypes.byref(c_model)) if glances > 1 else 0
        sums = _aligned(size) if size else None
        return _Memory(state.ctypes.data, None if sums is None else sums.ctypes.data, (state, sums))

    def channels_first(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of the last layer's neurons `[..., classes]` in the order channels, rows, columns."""
        channels, rows, columns = self.model.layers[-1].output
        if rows * columns == 1:
            return values
        return values.reshape(-1, rows, columns, channels).transpose(0, 3, 1, 2).reshape(values.shape)

    def _over_threads(self, run_part: Any, batch: int) -> set[int]:
        """Run all samples, in parts; return how these ended."""
        threads = min(self.threads, batch)
        if threads <= 1:
            return {run_part(0, batch)}
        parts = min(batch, threads * _TASKS)
        bounds = [batch * i // parts for i in range(parts + 1)]
        pool = self._pool
        if pool is None or pool[0] != os.getpid():  # a forked process has no threads of its parent's pool
            pool = self._pool = os.getpid(), ThreadPoolExecutor(self.threads)
        return set(pool[1].map(run_part, bounds[:-1], bounds[1:]))


def _aligned(size: int) -> NDArray[np.uint8]:
    memory = np.empty(size + _ALIGN, np.uint8)
    start = -memory.ctypes.data % _ALIGN
    return memory[start : start + size]
