"""The inference engine: a packed network on batches and streams, on the CPU and without PyTorch's modules."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitspike.c_library import library
from bitspike.deploy.model import Floats, NetworkModel, require_network_model
from bitspike.deploy.packing.limits import MOST_STEPS
from bitspike.deploy.runtime import plain_engine
from bitspike.deploy.runtime.c_engine import CEngine, Ran
from bitspike.deploy.runtime.overflow import TOO_LARGE, bound_of
from bitspike.deploy.runtime.plain_engine import Step, stacked
from bitspike.deploy.runtime.stream import CStream, PlainStream, Stream, require_counts
from bitspike.image_steps import require_steps, steps_each

_MOST_EVENTS = 255.0  # what an event count may be, at most
_CONVERT = "call x.astype('uint8') for images of 0 to 255 and for event counts, else x.astype('float32')"


@dataclass(frozen=True, slots=True, eq=False)
class EngineOutput:
    """What a network answered. Arrays are NumPy's; time comes first.

    `layers` holds every layer's spikes and membrane, `[T, B, channels, rows, columns]`, where they were recorded.
    """

    spikes: Floats  # [T, B, classes]
    membrane: Floats  # [T, B, classes]
    counts: NDArray[np.int64]  # [B, classes]: spikes over all steps
    scores: Floats  # [B, classes]: the network's answer is the class with the largest
    layers: tuple[Step, ...] = ()


class Engine:
    """Run a network of 1-bit weights on the CPU, bit for bit as PyTorch does in eval mode.

    `engine(batch)` takes what `net(x)` takes, as a NumPy array or a CPU tensor: `[B, *input_shape]`, shown for the
    network's steps, or a sequence `[T, B, *input_shape]`; float32, or uint8: of images these are divided by 255, of
    sequences they are event counts. `stream()` takes one step or one event at a time. The batch is shared out to
    `threads` (default: all that the process may use). `fixed_point=True` computes membranes in whole numbers of 2**-16,
    as a microcontroller without floats does: not the same bits, but what such a chip would answer.

    Examples:
        >>> import numpy as np
        >>> from bitspike.deploy.engine import Engine
        >>> from bitspike.deploy.model import LayerModel, NetworkModel
        >>> one = np.ones(1, np.float32)
        >>> layer = LayerModel("dense", (2, 1, 1), (1, 1, 1), np.array([[True, False]]), beta=one / 2, theta=one)
        >>> engine = Engine(NetworkModel("2-1", (2,), steps=4, readout="spikes", layers=(layer,)))
        >>> engine(np.array([[[1, 0]], [[0, 0]], [[3, 1]]], np.uint8)).spikes.ravel().tolist()  # [T, B, classes]
        [1.0, 0.0, 1.0]
    """

    def __init__(self, model: NetworkModel, threads: int | None = None, *, fixed_point: bool = False) -> None:
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
            raise ValueError(f"Engine: threads must be a whole number >= 1 or None, but is {threads!r}")
        require_network_model("Engine", model)
        self.model = model
        self._threads, self._fixed_point = threads, fixed_point
        self._bounds = [bound_of(layer) for layer in model.layers]
        self._c: CEngine | None = None
        if library() is None:
            if fixed_point:
                raise ValueError("Engine: fixed_point needs the compiled part of bitspike; install a C compiler first")
            warnings.warn(
                "Engine: the compiled part of bitspike is missing, so NumPy runs the network: the same results, but "
                "a hundred times slower; install a C compiler and then bitspike again",
                UserWarning,
                stacklevel=2,
            )
        else:
            self._c = CEngine(model, threads or _all_threads(), fixed=fixed_point)

    def __reduce__(self) -> tuple[Any, ...]:
        """Be copied and pickled as the model it runs: C's arrays are made anew."""
        return partial(Engine, fixed_point=self._fixed_point), (self.model, self._threads)

    def __call__(self, batch: Any, *, steps: int | None = None, record: bool = False) -> EngineOutput:
        """Run a batch; `steps` is for static input (default: the network's). `record` keeps every layer's output."""
        x, steps = self._prepared(batch, steps)
        if not x.size:
            return self._nothing(len(x) if steps is None else steps, record)
        count = len(self.model.layers)
        recorded = set(range(count)) if record else {count - 1}
        ran = self._run_plain(x, steps, recorded) if self._c is None else self._run_c(self._c, x, steps, recorded)
        if ran is None or not ran.finite:
            raise ValueError(f"Engine: {_not_finite(x)}")
        last = ran.layers[-1]
        assert last is not None  # the last layer is always recorded
        spikes, membrane = (part.reshape(*part.shape[:2], self.model.classes) for part in last)
        layers = tuple(layer for layer in ran.layers if layer is not None) if record else ()
        return EngineOutput(spikes, membrane, ran.counts.astype(np.int64), ran.scores, layers)

    def _nothing(self, steps: int, record: bool) -> EngineOutput:
        """Return the output for a batch of no samples."""
        empty = np.zeros((steps, 0, self.model.classes), np.float32)
        shapes = [(steps, 0, *layer.output) for layer in self.model.layers] if record else []
        layers = tuple(Step(np.zeros(shape, np.float32), np.zeros(shape, np.float32)) for shape in shapes)
        return EngineOutput(empty, empty.copy(), np.zeros((0, self.model.classes), np.int64), empty[0].copy(), layers)

    def stream(self, *, reals: bool = False) -> Stream:
        """Return the network at rest, to be fed with one step or one event at a time.

        A network with delays holds event counts of up to 255, unless it is told that inputs are `reals`.
        """
        if self.model.glances > 1:
            raise ValueError(
                f"Engine: the network takes {self.model.glances} glances at a static image, and a stream none; "
                "call engine(images)"
            )
        return PlainStream(self.model) if self._c is None else CStream(self._c, reals=reals)

    def _may_overflow(self, largest: float, steps: int) -> set[int]:
        """Return the layers whose membranes must be looked at; of ordinary inputs and networks there are none."""
        bounds = enumerate(self._bounds)
        return {i for i, bound in bounds if bound.may_overflow(largest if i == 0 else 1.0, steps)}

    def _run_c(self, engine: CEngine, x: NDArray[Any], steps: int | None, recorded: set[int]) -> Ran | None:
        """Return what C gives; None if the input is not finite. Frames of real numbers are found out by trying."""
        if steps is None:
            ran = engine.run_counts(x, recorded, self._may_overflow(_MOST_EVENTS, len(x)))
            if ran is not None:
                return ran
        largest = _largest(x)
        if not np.isfinite(largest):
            return None
        watched = self._may_overflow(largest, len(x) if steps is None else steps)
        if steps is None:
            return engine.run_reals(x.astype(np.float32), recorded, watched)
        return engine.run_images(x, steps, recorded, watched)

    def _run_plain(self, x: NDArray[Any], steps: int | None, recorded: set[int]) -> Ran:
        kept: dict[int, list[Step]] = {i: [] for i in recorded}
        finite = True
        for outputs in plain_engine.steps_of(self.model, x.astype(np.float32), steps):
            finite = finite and all(np.isfinite(layer.membrane).all() for layer in outputs)
            for i in recorded:
                kept[i].append(outputs[i])
        layers = [stacked(kept[i]) if i in kept else None for i in range(len(self.model.layers))]
        last = layers[-1]
        assert last is not None  # the last layer is always recorded
        spikes, membrane = (part.reshape(*part.shape[:2], -1) for part in last)
        scores = plain_engine.scores(self.model, spikes, membrane)
        return Ran(layers, spikes.sum(0).astype(np.uint32), scores, finite)

    def _prepared(self, batch: Any, steps: int | None) -> tuple[NDArray[Any], int | None]:
        """Return the input as a contiguous array of float32 or counts, and the steps of a static one."""
        x = as_array(batch)
        shape = self.model.input_shape
        extra = x.ndim - len(shape)
        if x.shape[-len(shape) :] != shape or extra not in (1, 2):
            inner = ", ".join(map(str, shape))
            raise ValueError(
                f"Engine: input must be [B, {inner}] (static) or [T, B, {inner}] (a sequence), "
                f"but has shape {list(x.shape)}"
            )
        if extra == 2 and not len(x):
            raise ValueError(f"Engine: a sequence must have at least one step, but has shape {list(x.shape)}")
        if x.dtype == np.dtype(np.float32).newbyteorder():  # of a machine with the other order of bytes
            x = x.astype(np.float32)
        if x.dtype not in (np.float32, np.uint8):
            raise TypeError(f"Engine: input must be float32, or uint8, but is {x.dtype}; {_CONVERT}")
        if steps is not None:
            require_steps("Engine", steps)
            if steps > MOST_STEPS:
                raise ValueError(f"Engine: steps must be at most {MOST_STEPS}, but are {steps}")
        if extra == 2:
            self._require_sequence(len(x), steps)
            require_counts("Engine", x, self.model)
            return np.ascontiguousarray(x), None
        if any(layer.delays is not None for layer in self.model.layers):
            raise ValueError(
                f"Engine: delays need a sequence [T, B, ...], but the input is static, {list(x.shape)}; "
                "add the missing axis"
            )
        steps = self.model.steps if steps is None else steps
        steps_each("Engine", steps, self.model.glances)
        images = x.astype(np.float32) / np.float32(255) if x.dtype == np.uint8 else x
        return np.ascontiguousarray(images), steps

    def _require_sequence(self, length: int, steps: int | None) -> None:
        if steps is not None and steps != length:
            raise ValueError(f"Engine: the input is a sequence of {length} steps, but steps={steps}; leave it out")
        if self.model.glances > 1:
            raise ValueError(
                f"Engine: {self.model.glances} glances are for static images, but the input is a sequence; "
                "pass [B, *input_shape]"
            )


def _largest(x: NDArray[Any]) -> float:
    """Return the largest magnitude; nan if there is one."""
    return float(np.maximum(x.max(), -x.min())) if x.dtype != np.uint8 else float(x.max())


def as_array(batch: Any) -> NDArray[Any]:
    """Return a NumPy array or a CPU tensor as an array; raise TypeError for anything else."""
    if isinstance(batch, np.ndarray):
        return batch
    if type(batch).__module__.partition(".")[0] == "torch" and hasattr(batch, "detach"):
        if batch.device.type != "cpu":
            raise TypeError(f"Engine: input must be on the CPU, but is on {batch.device}; call x.cpu()")
        if str(batch.layout) != "torch.strided":
            raise TypeError(f"Engine: input must be a dense tensor, but is {batch.layout}; call x.to_dense()")
        if str(batch.dtype) not in ("torch.float32", "torch.uint8"):
            raise TypeError(
                f"Engine: input must be float32, or uint8, but is {batch.dtype}; call x.byte() for images of 0 to 255 "
                "and for event counts, else x.float()"
            )
        return np.asarray(batch.detach().resolve_neg())
    raise TypeError(
        f"Engine: input must be a NumPy array or a CPU tensor, but is a {type(batch).__name__}; "
        "call np.asarray(x, 'float32')"
    )


def _all_threads() -> int:
    """Return the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_packed(path: str | Path, *, threads: int | None = None) -> Engine:
    """Return the engine of a packed file, as `save_packed` and `bitspike export --to packed` write it.

    A file that is damaged, or no packed network, raises ValueError or OSError. `threads` is how many share a batch; by
    default all that the process may use.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import torch
        >>> import bitspike
        >>> net = bitspike.build("20-10-5").eval()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     engine = bitspike.load_packed(bitspike.save_packed(net, Path(folder) / "net.safetensors"))
        ...
        >>> x = torch.rand(50, 4, 20).round()  # [T, B, inputs]
        >>> out = engine(x)
        >>> torch.equal(torch.from_numpy(out.spikes), net(x).spikes)
        True
    """
    from bitspike.deploy.packed import read_packed

    return Engine(read_packed(path), threads)


def _not_finite(x: NDArray[Any]) -> str:
    bad = int((~np.isfinite(x)).sum())
    if bad:
        return f"all inputs must be finite, but {bad} of {x.size} are not; remove nan and inf from the data"
    return TOO_LARGE
