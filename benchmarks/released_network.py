"""The released training of MNIST and FashionMNIST (snn-tha, folders mnist and fmnist), written anew in snnTorch.

Every number and the order of operations come from there, none from this library: its presets are under test too.
Two things are handed in from outside, because two programs can only be compared on the same ones: the batches and the
masks of dropout. The released network also owns a float32 twin of each layer, which a binary run never calls; it has
no gradient, so no optimizer moves it, and it is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import snntorch
import torch
import torch.nn.functional as F
from snntorch import functional, surrogate
from torch import Tensor, nn

See = Callable[[int, int, Tensor, Tensor], object]  # layer, time step, spikes and membrane [B, ...]
HALF_PERIOD = 4688  # iterations; `t_0` of both folders


@dataclass(frozen=True, slots=True)
class Recipe:
    """A released conf.py; thresholds go from `start` to `start + rise`, one a layer."""

    beta: float
    slope: float
    dropout: float
    lr: float
    momentum: float | None  # of SGD; None: Adam with PyTorch's defaults
    start: tuple[float, ...]
    rise: tuple[float, ...]
    rate: tuple[float, ...]


RELEASED = {
    "fashion": Recipe(
        beta=0.868,
        slope=0.1557,
        dropout=0.648,
        lr=8.4e-4,
        momentum=0.855,
        start=(6.9, 10.25, 17.95),
        rise=(7.1456, 12.826, 9.936668),
        rate=(0.0368, 0.29687, 0.1048),
    ),
    "mnist": Recipe(
        beta=0.99,
        slope=10.22,
        dropout=0.02856,
        lr=9.97e-3,
        momentum=None,
        start=(11.666, 14.105, 0.6656),
        rise=(4.317, 16.29, 3.496),
        rate=(0.024, 0.119, 0.0011),
    ),
}


class Sign(torch.autograd.Function):
    """+1 if w >= 0, else -1; the gradient passes unchanged."""

    @staticmethod
    def forward(ctx: Any, w: Tensor) -> Tensor:
        return torch.where(w < 0, -torch.ones_like(w), torch.ones_like(w))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


class WideFastSigmoid(torch.autograd.Function):
    """snnTorch's fast sigmoid in the input's dtype: its own makes float32 of spikes, and of all gradients behind them.

    1 where x > 0, else 0; gradient 1 / (slope * |x| + 1)**2.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grads[0] / (ctx.slope * x.abs() + 1) ** 2, None


class ReleasedNetwork(nn.Module):
    """16Conv5-AP2-64Conv5-AP2-1024Dense10 as one loop over time, every module called once a step."""

    def __init__(self, recipe: Recipe, steps: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.steps = steps
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 5, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 64, 5, bias=False), nn.BatchNorm2d(64)
        self.dense = nn.Linear(1024, 10)
        fire: Any = surrogate.fast_sigmoid(recipe.slope)
        if dtype != torch.float32:
            fire = lambda x: WideFastSigmoid.apply(x, recipe.slope)  # noqa: E731
        self.neurons = nn.ModuleList(snntorch.Leaky(recipe.beta, spike_grad=fire) for _ in recipe.start)
        self.to(dtype)
        for layer, start in zip(self.neurons, recipe.start, strict=True):
            layer.threshold = torch.tensor(start, dtype=dtype)  # cast with the rest, it would be a float32's value

    def forward(self, x: Tensor, scale: Tensor, see: See) -> Tensor:
        """Return spikes `[T, B, 10]` of images `x [B, 1, 28, 28]`; `scale [T, B, 10]` is dropout: 0 or 1 / (1 - p)."""
        lif1, lif2, lif3 = self.neurons
        u1, u2, u3 = lif1.init_leaky(), lif2.init_leaky(), lif3.init_leaky()
        record = []
        for t in range(self.steps):
            current = self.norm1(F.avg_pool2d(F.conv2d(x, Sign.apply(self.conv1.weight)), 2))
            z, u1 = lif1(current, u1)
            see(0, t, z, u1)
            current = self.norm2(F.avg_pool2d(F.conv2d(z, Sign.apply(self.conv2.weight)), 2))
            z, u2 = lif2(current, u2)
            see(1, t, z, u2)
            current = F.linear(z.flatten(1), Sign.apply(self.dense.weight), self.dense.bias) * scale[t]
            z, u3 = lif3(current, u3)
            see(2, t, z, u3)
            record.append(z)
        return torch.stack(record)


class ReleasedTraining:
    """Network, loss, optimizer, scheduler and thresholds in the order of the released train.py (annealed: no clips)."""

    def __init__(self, recipe: Recipe, steps: int, dtype: torch.dtype) -> None:
        snntorch.SpikingNeuron.init()  # it keeps every neuron layer ever made
        self.recipe = recipe
        self.net = ReleasedNetwork(recipe, steps, dtype).train()
        self.loss_of = functional.mse_count_loss(correct_rate=0.8, incorrect_rate=0.2)
        parameters = list(self.net.parameters())
        if recipe.momentum is None:
            self.optimizer: torch.optim.Optimizer = torch.optim.Adam(parameters, lr=recipe.lr, betas=(0.9, 0.999))
        else:
            self.optimizer = torch.optim.SGD(parameters, lr=recipe.lr, momentum=recipe.momentum)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=HALF_PERIOD, eta_min=0)

    def iteration(self, x: Tensor, labels: Tensor, scale: Tensor, see: See) -> float:
        """Train on one batch and return its loss: weights, learning rate and thresholds move, in that order."""
        loss = self.loss_of(self.net(x, scale, see), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self._anneal()
        return loss.item()

    def _anneal(self) -> None:
        recipe = self.recipe
        for layer, start, rise, rate in zip(self.net.neurons, recipe.start, recipe.rise, recipe.rate, strict=True):
            layer.threshold += (start + rise - layer.threshold) * rate

    def thresholds(self) -> list[float]:
        """Return the present thresholds of the three layers."""
        return [float(layer.threshold) for layer in self.net.neurons]
