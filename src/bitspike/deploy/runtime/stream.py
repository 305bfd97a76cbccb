"""Streams: a network that is fed with one step, or one event, at a time, and may be asked at any time."""

from __future__ import annotations

import ctypes
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitspike.deploy.model import Floats, NetworkModel
from bitspike.deploy.runtime.c_engine import CEngine
from bitspike.deploy.runtime.layout import MOST_PLANES, NUMBER_BITS
from bitspike.deploy.runtime.overflow import TOO_LARGE, bound_of
from bitspike.deploy.runtime.plain_engine import PlainNetwork, membrane_scores


class Stream(ABC):
    """A network that runs on one sample, step by step. `event` and `advance`, or `step`, feed it; `scores` asks it.

    Examples:
        >>> import numpy as np
        >>> from bitspike.deploy.engine import Engine
        >>> from bitspike.deploy.model import LayerModel, NetworkModel
        >>> one = np.ones(1, np.float32)
        >>> layer = LayerModel("dense", (2, 1, 1), (1, 1, 1), np.array([[True, False]]), beta=one / 2, theta=one)
        >>> stream = Engine(NetworkModel("2-1", (2,), steps=4, readout="spikes", layers=(layer,))).stream()
        >>> stream.event(0)
        >>> stream.advance()
        >>> stream.step(np.array([0, 1], np.uint8))
        >>> stream.spikes.tolist(), stream.membrane.tolist(), stream.scores().tolist()
        ([0.0], [-1.5], [0.5])
    """

    def __init__(self, model: NetworkModel) -> None:
        self.model = model
        self.size = int(np.prod(model.input_shape))
        self._bounds = [bound_of(layer) for layer in model.layers]
        self.reset()

    def reset(self) -> None:
        """Put all neurons to rest; forget counts, scores, and events that wait for a step."""
        self._waiting = np.zeros(self.size, np.uint16)
        self._fed, self._largest = 0, 0.0  # steps, and the largest input in them
        self._rest()

    def event(self, index: int | Iterable[int], count: int = 1) -> None:
        """Add `count` events of one input, or of each of several, to the step that comes; `index` counts from 0.

        An input may have `most_events` in a step. If one of several inputs is refused, those before it have theirs.
        """
        for each in index if isinstance(index, Iterable) else (index,):
            at, more = _whole("an input's index", each), _whole("count", count)
            if not 0 <= at < self.size:
                raise ValueError(f"Stream: an input's index must be 0 to {self.size - 1}, but is {at}")
            if not 0 <= more <= self.most_events - int(self._waiting[at]):
                raise ValueError(
                    f"Stream: an input may have 0 to {self.most_events} events in a step, but input {at}, which has "
                    f"{self._waiting[at]}, got {more} more; make steps shorter"
                )
            self._event(at, more)
            self._waiting[at] += more

    def advance(self) -> None:
        """Run one step on the events since the last one."""
        self._advance()
        self._waiting[:] = 0
        self._require_finite(float(self.most_events))

    @property
    def most_events(self) -> int:
        """How many events an input may have in a step."""
        return int(2**MOST_PLANES - 1)

    @abstractmethod
    def _rest(self) -> None:
        """Put all neurons to rest and forget counts and scores."""

    @abstractmethod
    def _event(self, index: int, count: int) -> None:
        """Add events that have been checked."""

    @abstractmethod
    def _advance(self) -> None:
        """Run one step on the events that wait."""

    @abstractmethod
    def _step(self, frame: Floats) -> None:
        """Run one step on a frame that has been checked."""

    @abstractmethod
    def _membrane_of(self, layer: int) -> Floats:
        """Return the membrane of a layer after the last step, its neurons in any order."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many steps were run since the reset."""

    @property
    @abstractmethod
    def spikes(self) -> Floats:
        """The last layer's spikes in the last step, `[classes]`."""

    @property
    @abstractmethod
    def membrane(self) -> Floats:
        """The last layer's membrane after the last step, `[classes]`."""

    @property
    @abstractmethod
    def counts(self) -> NDArray[np.int64]:
        """The last layer's spikes since the reset, `[classes]`."""

    @abstractmethod
    def scores(self) -> Floats:
        """Return the scores of the steps so far, `[classes]`; all 0 before the first."""

    def step(self, frame: Any) -> None:
        """Run one step on a frame `[*input_shape]`: float32, or uint8 event counts."""
        from bitspike.deploy.engine import as_array

        x = as_array(frame)
        if x.shape != self.model.input_shape or x.dtype not in (np.float32, np.uint8):
            raise ValueError(
                f"Stream: a frame must be {list(self.model.input_shape)} of float32 or uint8, but is {list(x.shape)} "
                f"of {x.dtype}; one frame is one time step of one sample"
            )
        require_counts("Stream", x, self.model)
        if not np.isfinite(x).all():
            raise ValueError("Stream: a frame must be finite, but has nan or inf in it")
        if self._waiting.any():
            raise ValueError("Stream: events wait for a step, which a frame would be beside; call advance() first")
        self._step(np.ascontiguousarray(x, np.float32))
        self._require_finite(float(np.abs(x).max()))

    def _require_finite(self, largest: float) -> None:
        """Raise if a membrane is not finite after a step on inputs of up to `largest`, as a batch's engine does.

        Only layers are looked at whose membranes may have left float32 in the steps so far.
        """
        self._fed, self._largest = self._fed + 1, max(self._largest, largest)
        for i, bound in enumerate(self._bounds):
            may = bound.may_overflow(self._largest if i == 0 else 1.0, self._fed)
            if may and not np.isfinite(self._membrane_of(i)).all():
                raise ValueError(f"Stream: {TOO_LARGE}, and call reset()")


class CStream(Stream):
    """A stream of the C runtime."""

    def __init__(self, engine: CEngine, *, reals: bool) -> None:
        delays = engine.model.layers[0].delays is not None
        self._engine, self._only_frames = engine, reals and delays
        self._model = engine.c_model(reals=reals or not delays, image=False)
        self._state = engine.new_state(self._model)
        self._at = ctypes.addressof(self._model), self._state.ctypes.data
        super().__init__(engine.model)

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._engine.call(name, *self._at, *arguments)

    @property
    def most_events(self) -> int:
        return int(2**self._engine.planes - 1)

    def _rest(self) -> None:
        self._call("reset")

    def _event(self, index: int, count: int) -> None:
        if self._only_frames:
            raise ValueError(
                "Stream: this network has delays, and its stream holds real inputs, which are frames; use step(frame), "
                "or stream() for events"
            )
        if self._call("event", index, count):
            raise ValueError(f"Stream: the network takes no events of input {index}; use step(frame)")

    def _advance(self) -> None:
        self._call("step", None)

    def _step(self, frame: Floats) -> None:
        if self._call("step", frame.ctypes.data):
            raise ValueError(
                "Stream: this network has delays, and its stream holds event counts from 0 to "
                f"{2**self._engine.planes - 1}, but the frame has other values; use stream(reals=True)"
            )

    @property
    def steps(self) -> int:
        return int(self._call("steps"))

    @property
    def spikes(self) -> Floats:
        words = -(-self.model.classes // 32)
        address = self._call("spikes", len(self.model.layers) - 1)
        bits = np.unpackbits(_copied(address, 4 * words, ctypes.c_uint8), bitorder="little")[: self.model.classes]
        return self._engine.channels_first(bits.astype(np.float32))

    @property
    def membrane(self) -> Floats:
        return self._engine.channels_first(self._membrane_of(len(self.model.layers) - 1))

    def _membrane_of(self, layer: int) -> Floats:
        address, neurons = self._call("membrane", layer), self.model.layers[layer].neurons
        if self._engine.fixed:
            return np.asarray(_copied(address, neurons, ctypes.c_int32) / 2**NUMBER_BITS, np.float32)
        return _copied(address, neurons, ctypes.c_float)

    @property
    def counts(self) -> NDArray[np.int64]:
        counts = _copied(self._call("counts"), self.model.classes, ctypes.c_uint32)
        return self._engine.channels_first(counts.astype(np.int64))

    def scores(self) -> Floats:
        scores = np.empty(self.model.classes, np.float32)
        self._call("scores", scores.ctypes.data)
        return self._engine.channels_first(scores)


class PlainStream(Stream):
    """A stream of the plain engine."""

    def _rest(self) -> None:
        self._network = PlainNetwork(self.model, 1)
        self._steps = 0
        self._counts = self._total = np.zeros(self.model.classes)
        self._spikes = np.zeros(self.model.classes, np.float32)
        self._membranes = [np.zeros(layer.output, np.float32) for layer in self.model.layers]

    def _event(self, index: int, count: int) -> None:
        """Do nothing: all events wait in `_waiting`."""

    def _advance(self) -> None:
        self._step(self._waiting.astype(np.float32))

    def _step(self, frame: Floats) -> None:
        outputs = self._network.step(frame.reshape(1, -1))
        self._spikes, self._membranes = outputs[-1].spikes.ravel(), [output.membrane for output in outputs]
        self._counts, self._total = self._counts + self._spikes, self._total + self.membrane
        self._steps += 1

    @property
    def steps(self) -> int:
        return self._steps

    @property
    def spikes(self) -> Floats:
        return self._spikes.copy()

    @property
    def membrane(self) -> Floats:
        return self._membranes[-1].flatten()

    def _membrane_of(self, layer: int) -> Floats:
        return self._membranes[layer]

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts.astype(np.int64)

    def scores(self) -> Floats:
        steps = max(self._steps, 1)
        if self.model.readout == "spikes":
            return (self._counts / steps).astype(np.float32)
        return membrane_scores(self.model, self._total, steps)


def _whole(name: str, value: Any) -> int:
    """Return a whole number as an int; raise TypeError for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"Stream: {name} must be a whole number, but is {value!r}") from None


def _copied(address: int, count: int, kind: Any) -> NDArray[Any]:
    return np.ctypeslib.as_array((kind * count).from_address(address)).copy()


def require_counts(where: str, x: NDArray[Any], model: NetworkModel) -> None:
    """Raise if bytes of a sequence, which are event counts, look like the pixels of a network on images."""
    if x.dtype == np.uint8 and model.input.kind == "image" and x.max(initial=0) > 1:
        raise ValueError(
            f"{where}: bytes of a sequence are event counts, but the network was trained on images of 0 to 1, and "
            f"{x.max()} is among them; pass x.astype('float32') / 255"
        )
