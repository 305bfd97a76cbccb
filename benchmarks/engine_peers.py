"""The peers of benchmarks/engine.py: the same network in PyTorch, in snnTorch and in our own modules, all float32.

Each is a function of a batch that gives the scores. All of them hold the weights as floats of -1 and +1, times the
senders' gains, from the start, and are called under `torch.inference_mode`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from bitspike.deploy.model import LayerModel, NetworkModel
from bitspike.nn import SpikingNetwork
from bitspike.nn.glances import at_places, counted

Peer = Callable[[Tensor], Tensor]


def real_weights(layer: LayerModel) -> NDArray[np.float32]:
    """Return the weights as floats of -1 and +1, times the gain of the input or channel that each belongs to."""
    signs = np.where(layer.weight, 1, -1).astype(np.float32)
    if layer.gains is None:
        return signs
    return signs * layer.gains.astype(np.float32).reshape(1, -1, *[1] * (signs.ndim - 2))


class TorchLayer:
    """One layer's tensors, and its current on many samples at once."""

    def __init__(self, layer: LayerModel) -> None:
        self.layer = layer
        self.weight = torch.from_numpy(real_weights(layer))
        shape = (-1, 1, 1) if layer.kind == "conv" else (-1,)
        neurons = layer.output if layer.kind == "conv" else layer.output[:1]
        self.bias, self.scale, self.offset = (
            None if part is None else torch.from_numpy(part.copy()).view(shape)
            for part in (layer.bias, layer.scale, layer.offset)
        )
        self.beta, self.theta = (
            None if part is None else torch.from_numpy(part.copy()).view(neurons if part.size > 1 else ())
            for part in (layer.beta, layer.theta)
        )
        self.delays = None if layer.delays is None else torch.from_numpy(layer.delays.astype(np.int64))

    def current(self, x: Tensor) -> Tensor:
        layer = self.layer
        if layer.kind == "dense":
            c = F.linear(x.flatten(1), self.weight)
        else:
            c = F.conv2d(x, self.weight, stride=layer.stride, padding=layer.padding)
        for pool in layer.pools:
            c = (F.avg_pool2d if pool.kind == "average" else F.max_pool2d)(c, pool.size, pool.stride)
        if self.bias is not None:
            c = c + self.bias
        return c if self.scale is None or self.offset is None else c * self.scale + self.offset

    def step(self, c: Tensor, u: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        u = self.beta * u + c
        if self.theta is None:
            return u, z
        u = u - self.theta * z
        return u, (u >= self.theta).float()

    def delayed(self, x: Tensor) -> Tensor:
        """x[t - d] of a whole sequence `[T, B, N]`."""
        if self.delays is None:
            return x
        longest = int(self.delays.max())
        padded = F.pad(x, [0, 0] * (x.dim() - 1) + [longest, 0])
        times = torch.arange(len(x))[:, None] + longest - self.delays
        return padded[times, :, torch.arange(len(self.delays))].transpose(1, 2)


def _finish(model: NetworkModel, layers: list[TorchLayer], total: Tensor, steps: int) -> Tensor:
    scores = counted(total, model.glances) / steps
    return scores if model.readout == "spikes" else scores * (1 - layers[-1].beta)


def torch_loop(model: NetworkModel) -> Peer:
    """A loop over time, every layer in each step, as one would write it; a static first layer is computed once."""
    layers = [TorchLayer(layer) for layer in model.layers]

    def run(x: Tensor) -> Tensor:
        static = x.dim() == len(model.input_shape) + 1
        steps = model.steps if static else len(x)
        if static:
            constant = layers[0].current(at_places(x, model.glances))
        lines: list[list[Tensor]] = [[] for _ in layers]
        states: list[Any] = [(torch.zeros(()), torch.zeros(()))] * len(layers)
        total = torch.zeros(())
        for t in range(steps // (model.glances if static else 1)):
            z = constant if static else x[t]
            for i, layer in enumerate(layers):
                if layer.delays is not None:
                    lines[i].append(z)
                    z = _from_line(lines[i], layer.delays)
                c = constant if static and i == 0 else layer.current(z)
                states[i] = layer.step(c, *states[i])
                z = states[i][1]
            total = total + states[-1][0 if model.readout == "membrane" else 1]
        return _finish(model, layers, total, steps)

    return run


def _from_line(line: list[Tensor], delays: Tensor) -> Tensor:
    longest = int(delays.max())
    if len(line) > longest + 1:
        del line[0]
    held = torch.stack([torch.zeros_like(line[0])] * (longest + 1 - len(line)) + line)
    return held[longest - delays, :, torch.arange(len(delays))].T


def torch_layers(model: NetworkModel) -> Peer:
    """Layer after layer: one product or convolution over all steps, and a loop over time for the neurons only."""
    layers = [TorchLayer(layer) for layer in model.layers]

    def run(x: Tensor) -> Tensor:
        static = x.dim() == len(model.input_shape) + 1
        steps = model.steps if static else len(x)
        z: Tensor = at_places(x, model.glances) if static else x
        for i, layer in enumerate(layers):
            if static and i == 0:
                currents: Any = [layer.current(z)] * (steps // model.glances)
            else:
                z = layer.delayed(z)
                c = layer.current(z.flatten(0, 1))
                currents = c.view(*z.shape[:2], *c.shape[1:]).unbind()
            u, fired = torch.zeros(()), torch.zeros(())
            spikes, membranes = [], []
            for c in currents:
                u, fired = layer.step(c, u, fired)
                spikes.append(fired)
                membranes.append(u)
            z = torch.stack(spikes if layer.theta is not None else membranes)
        return _finish(model, layers, z.sum(0), steps)

    return run


def our_modules(net: SpikingNetwork) -> Peer:
    """Our own network in evaluation mode: what training's path gives at test time."""
    return net.scores


def snntorch_loop(model: NetworkModel) -> Peer:
    """snnTorch's loop: `Leaky` neurons in every step; images go through the first layer each time, as it is written."""
    import snntorch

    layers = [TorchLayer(layer) for layer in model.layers]
    neurons = [
        snntorch.Leaky(
            beta=layer.beta,
            threshold=1e30 if layer.theta is None else layer.theta,
            reset_mechanism="none" if layer.theta is None else "subtract",
        )
        for layer in layers
    ]

    def run(x: Tensor) -> Tensor:
        static = x.dim() == len(model.input_shape) + 1
        steps = model.steps if static else len(x)
        shown = at_places(x, model.glances) if static else x
        lines: list[list[Tensor]] = [[] for _ in layers]
        membranes = [neuron.init_leaky() for neuron in neurons]
        spikes, kept = [], []
        for t in range(steps // (model.glances if static else 1)):
            z = shown if static else x[t]
            for i, layer in enumerate(layers):
                if layer.delays is not None:
                    lines[i].append(z)
                    z = _from_line(lines[i], layer.delays)
                z, membranes[i] = neurons[i](layer.current(z), membranes[i])
            spikes.append(z)
            kept.append(membranes[-1])
        return _finish(model, layers, torch.stack(kept if model.readout == "membrane" else spikes).sum(0), steps)

    return run
