"""Parts that all PyTorch peers share: weights of one bit, the loss, and what follows backward in a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitspike.bench.problem import Problem
from bitspike.nn.notation import Conv, Layer


class Sign(torch.autograd.Function):
    """+1 if w >= 0, else -1; the gradient passes unchanged."""

    @staticmethod
    def forward(ctx: Any, w: Tensor) -> Tensor:
        return (w >= 0).to(w.dtype) * 2 - 1

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


class SignLinear(nn.Linear):
    """x @ sign(w).T + b, as a user of such a library writes it."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, Sign.apply(self.weight), self.bias)


class SignConv2d(nn.Conv2d):
    """conv2d(x, sign(w)), as a user of such a library writes it."""

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, Sign.apply(self.weight), self.bias)


def synapse(layer: Layer, *, binary: bool = True) -> nn.Module:
    """Return the synapse of one layer; it has real weights in the published single-layer benchmark."""
    if isinstance(layer, Conv):
        return SignConv2d(layer.inputs, layer.filters, layer.kernel, bias=False)
    return (SignLinear if binary else nn.Linear)(layer.inputs, layer.outputs)


def pool_of(layer: Layer) -> int:
    """Return the size of the layer's average pool; 1 if it has none."""
    sizes = [pool.size for pool in layer.pools] if isinstance(layer, Conv) else []
    return math.prod(sizes)


def folded(synapse: nn.Module, pool: int, x: Tensor) -> Tensor:
    """Return the current of a layer for `x [T, B, ...]`; convolution and pool take time steps as part of the batch."""
    if isinstance(synapse, nn.Linear):
        linear: Tensor = synapse(x.flatten(2))
        return linear
    flat = F.avg_pool2d(synapse(x.flatten(0, 1)), pool)
    return flat.view(*x.shape[:2], *flat.shape[1:])


def count_loss(spikes: Tensor, labels: Tensor) -> Tensor:
    """Return snnTorch's mean squared error of counts: spikes `[T, B, C]` against targets 0.8 T and 0.2 T."""
    steps, _, classes = spikes.shape
    target = F.one_hot(labels, classes).to(spikes.dtype) * (int(0.8 * steps) - int(0.2 * steps)) + int(0.2 * steps)
    return F.mse_loss(spikes.sum(0), target) / steps


class AfterBackward:
    """The work after backward in a training step, as in the released code: clips, rate, optimizer, thresholds."""

    def __init__(
        self, problem: Problem, parameters: Sequence[nn.Parameter], anneal: Callable[[int, float], object]
    ) -> None:
        recipe = problem.recipe
        self.recipe, self.parameters, self.anneal = recipe, list(parameters), anneal
        self.optimizer: torch.optim.Optimizer | None = None
        if recipe.optimizer == "adam":
            self.optimizer = torch.optim.Adam(self.parameters, lr=recipe.lr)
        elif recipe.optimizer == "sgd":
            self.optimizer = torch.optim.SGD(self.parameters, lr=recipe.lr, momentum=recipe.momentum)
        self.step = 0

    def clear(self) -> None:
        """Set the gradients to None; call it before backward."""
        for parameter in self.parameters:
            parameter.grad = None

    def __call__(self) -> None:
        recipe = self.recipe
        if self.optimizer is None:
            return
        if recipe.grad_clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, recipe.grad_clip)
        if recipe.weight_clip is not None:
            with torch.no_grad():
                for parameter in self.parameters:
                    parameter.clamp_(-recipe.weight_clip, recipe.weight_clip)
        lr = recipe.lr / 2 * (1 + math.cos(math.pi * self.step / recipe.half_period))
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.step += 1
        for i, schedule in enumerate(recipe.schedules):
            self.anneal(i, schedule(self.step))


def training_step(
    problem: Problem, net: nn.Module, forward: Callable[[], Tensor], anneal: Callable[[int, float], object]
) -> Callable[[], Tensor]:
    """Return a training step: forward, loss, backward and the rest; the single layer has only forward and backward."""
    after = AfterBackward(problem, list(net.parameters()), anneal)
    single, labels = problem.case.work == "layer", problem.labels
    net.train()

    def step() -> Tensor:
        spikes = forward()
        loss = spikes.sum() if single else count_loss(spikes, labels)
        after.clear()
        loss.backward()
        after()
        return loss

    return step


def thresholds(problem: Problem) -> tuple[float, ...]:
    """Return the thresholds at the start; 1 for the single layer, whose real weights give smaller currents."""
    if problem.case.work == "layer":
        return (1.0,)
    return tuple(schedule(0) for schedule in problem.recipe.schedules)
