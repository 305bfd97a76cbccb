"""The definition of inference, in NumPy: what every engine and every export must give, bit for bit.

A network is a row of layers, and a layer does the same in every step: delay, gain, sum, pools, bias, scale, neurons.
An input times its gain is float32. Sums are float64 in ascending order of (channel, kernel row, kernel column), which
is exact where inputs are whole numbers; the current and the membrane are float32, and every operation on them is
rounded by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bitspike.deploy.model import Floats, LayerModel, NetworkModel, PoolModel
from bitspike.image_steps import PLACES

Doubles = NDArray[np.float64]


class Step(NamedTuple):
    """What a layer gives in one time step: spikes of 0 and 1, and the membrane; float32 `[B, channels, rows, columns]`.

    The spikes of neurons that never fire are all 0.
    """

    spikes: Floats
    membrane: Floats


class PlainLayer:
    """One layer with its state; it starts at rest."""

    def __init__(self, layer: LayerModel, batch: int) -> None:
        self.layer = layer
        rest = np.zeros((batch, *layer.output), np.float32)
        self.u, self.z, self.a = rest, rest, rest
        self.beta = _by_neuron(layer.beta, layer)
        self.theta = None if layer.theta is None else _by_neuron(layer.theta, layer)
        self.threshold = self.theta
        longest = 0 if layer.delays is None else int(layer.delays.max(initial=0))
        nothing = np.zeros((batch, *layer.input), np.float32)
        self.past = deque([nothing] * (longest + 1), maxlen=longest + 1)  # the newest is the last

    def delayed(self, x: Floats) -> Floats:
        """Return x[t - d] of each input or channel, 0 before the start."""
        if self.layer.delays is None:
            return x
        self.past.append(x)
        out = np.empty_like(x)
        for channel, steps in enumerate(self.layer.delays):
            out[:, channel] = self.past[-1 - int(steps)][:, channel]
        return out

    def step(self, current: Floats) -> Step:
        """Feed the neurons for one step: float32 `[B, *output]`."""
        drive = self.beta * self.u + current
        if self.theta is None or self.threshold is None:
            self.u = drive
            return Step(np.zeros_like(drive), drive)
        if self.layer.recurrent is not None:
            signs = np.where(self.layer.recurrent, 1.0, -1.0)
            flat = self.z.reshape(len(self.z), -1).astype(np.float64)
            feedback = (flat @ signs.T).astype(np.float32).reshape(self.z.shape)  # whole numbers: exact in any order
            drive = drive + np.float32(self.layer.recurrent_scale) * feedback
        self.u = drive - self.threshold * self.z
        if self.layer.adaptation is not None:
            rho, strength = self.layer.adaptation.rho, self.layer.adaptation.strength
            self.a = np.float32(rho) * self.a + np.float32(1 - rho) * self.z
            self.threshold = self.theta + np.float32(strength) * self.a
        self.z = (self.u >= self.threshold).astype(np.float32)
        return Step(self.z, self.u)


class PlainNetwork:
    """A network with its state, for a batch. `step` is one step of a sequence, `show` a static input."""

    def __init__(self, model: NetworkModel, batch: int) -> None:
        self.model, self.batch = model, batch
        self.shown: Floats | None = None
        self.rest()

    def rest(self) -> None:
        """Put all neurons and delays to rest."""
        self.layers = [PlainLayer(layer, self.batch) for layer in self.model.layers]

    def show(self, images: Floats) -> None:
        """Show a static input `[B, *input_shape]` from now on: the first layer's current is computed once."""
        first = self.model.layers[0]
        self.shown = current(first, images.reshape(self.batch, *first.input))

    def step(self, x: Floats | None = None) -> list[Step]:
        """Run all layers for one step: on `x` `[B, *input_shape]`, or without it on what is shown."""
        outputs: list[Step] = []
        for layer in self.layers:
            if x is None:
                assert self.shown is not None
                drive = self.shown
            else:
                drive = current(layer.layer, layer.delayed(x.reshape(self.batch, *layer.layer.input)))
            outputs.append(layer.step(drive))
            x = outputs[-1].spikes
        return outputs


def run(model: NetworkModel, x: Floats, steps: int | None = None) -> list[Step]:
    """Return every layer's spikes and membrane, `[T, B, channels, rows, columns]`.

    `x` is a sequence `[T, B, *input_shape]`, or, with `steps`, static: `[B, *input_shape]`. Glances share the steps:
    each begins at rest.
    """
    return [stacked(layer) for layer in zip(*steps_of(model, x, steps), strict=True)]


def steps_of(model: NetworkModel, x: Floats, steps: int | None = None) -> Iterator[list[Step]]:
    """Yield one step after the other: what every layer gives in it. `run` collects them."""
    if steps is None:
        network = PlainNetwork(model, x.shape[1])
        yield from map(network.step, x)
        return
    network = PlainNetwork(model, len(x))
    for down, right in PLACES[model.glances]:
        network.rest()
        network.show(moved(x, down, right))
        for _ in range(steps // model.glances):
            yield network.step()


def stacked(steps: Sequence[Step]) -> Step:
    """Return the steps of one layer as `[T, B, ...]`."""
    return Step(*map(np.stack, zip(*steps, strict=True)))


def moved(images: Floats, down: int, right: int) -> Floats:
    """Return images `[..., rows, columns]` moved by at most one pixel; 0 where nothing is left of them."""
    if not (down or right):
        return images
    rows, columns = images.shape[-2:]
    padded = np.pad(images, [(0, 0)] * (images.ndim - 2) + [(1, 1), (1, 1)])
    return padded[..., 1 - down : 1 - down + rows, 1 - right : 1 - right + columns]


def scores(model: NetworkModel, spikes: Floats, membrane: Floats) -> Floats:
    """Return the score of each class, `[B, classes]`, from the last layer's `[T, B, classes]`.

    The mean of its spikes, or (1 - beta) times the mean of its membrane: fl(fl(sum / T) * fl(1 - beta)).
    """
    steps = len(spikes)
    if model.readout == "spikes":
        return np.asarray(spikes.sum(0, dtype=np.float64) / steps, np.float32)
    total: Doubles = np.zeros(membrane.shape[1:])
    for u in membrane:  # one after the other: NumPy's own sum takes another order
        total += u
    return membrane_scores(model, total, steps)


def membrane_scores(model: NetworkModel, total: Doubles, steps: int) -> Floats:
    """Return the scores of a leaky readout from the sum of its membrane over `steps`."""
    share = np.float32(1) - model.layers[-1].beta.reshape(-1)
    return np.asarray((total / steps).astype(np.float32) * share)


def current(layer: LayerModel, x: Floats) -> Floats:
    """Return the current of all neurons, float32 `[B, *output]`, from one step's delayed input `[B, *input]`."""
    if layer.gains is not None:
        x = x * layer.gains.astype(np.float32)[:, None, None]
    total = _dense_sum(layer, x) if layer.kind == "dense" else _conv_sum(layer, x)
    for pool in layer.pools:
        total = _pooled(pool, total)
    c = (total / layer.divisor).astype(np.float32)
    if layer.bias is not None:
        c = c + layer.bias[:, None, None]
    if layer.scale is not None and layer.offset is not None:
        c = c * layer.scale[:, None, None] + layer.offset[:, None, None]
    return c


def _dense_sum(layer: LayerModel, x: Floats) -> Doubles:
    signs = np.where(layer.weight, 1.0, -1.0)
    flat = x.reshape(len(x), -1).astype(np.float64)
    if _exact(x):
        total: Doubles = flat @ signs.T
    else:
        total = np.zeros((len(x), len(signs)))
        for j, column in enumerate(signs.T):
            total += flat[:, j : j + 1] * column
    return total[:, :, None, None]


def _conv_sum(layer: LayerModel, x: Floats) -> Doubles:
    signs = np.where(layer.weight, 1.0, -1.0)
    pad = layer.padding
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    windows = _windows(padded, layer.kernel, layer.stride)
    if _exact(x):
        return np.asarray(np.tensordot(windows, signs, ([1, 4, 5], [1, 2, 3])).transpose(0, 3, 1, 2))
    total = np.zeros((len(x), len(signs), *windows.shape[2:4]))
    for channel in range(signs.shape[1]):
        for row in range(layer.kernel):
            for column in range(layer.kernel):
                values = windows[:, channel, :, :, row, column]
                total += values[:, None] * signs[:, channel, row, column, None, None]
    return total


def _pooled(pool: PoolModel, x: Doubles) -> Doubles:
    """Return the sums (of an average pool; the division comes later) or the largest of all windows."""
    windows = _windows(x, pool.size, pool.stride)
    if pool.kind == "max":
        return np.asarray(windows.max((4, 5)))
    total = np.zeros(windows.shape[:4])
    for row in range(pool.size):
        for column in range(pool.size):
            total += windows[..., row, column]
    return total


def _windows(x: Doubles, size: int, stride: int) -> Doubles:
    """Return all windows of images `[B, channels, rows, columns]`: `[B, channels, rows, columns, size, size]`."""
    rows = sliding_window_view(x, size, axis=2)[:, :, ::stride]
    return sliding_window_view(rows, size, axis=3)[:, :, :, ::stride]


def _exact(x: Floats) -> bool:
    """Return whether sums of +x and -x are exact in float64 in any order: small whole numbers."""
    return bool((np.abs(x) < 2**24).all() and (x == np.rint(x)).all())


def _by_neuron(values: Floats, layer: LayerModel) -> Floats:
    return values.reshape(1, 1, 1) if values.size == 1 else values.reshape(layer.output)
