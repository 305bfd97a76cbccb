"""Batch norm of a spiking layer's current, with statistics per time step or shared over time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitspike.nn.synapses import per_step, require_images


class StepBatchNorm2d(nn.BatchNorm2d):
    """Batch norm of `[T, B, C, H, W]` with the statistics of each step's minibatch, as the released code calls it.

    The running averages move T times an iteration. A current that is constant in time, `[B, C, H, W]` with
    `steps=T`, has the same statistics at every step: T updates at once are one with momentum 1 - (1 - m)**T.
    """

    def forward(self, x: Tensor, steps: int = 1) -> Tensor:
        require_images("StepBatchNorm2d", x, self.num_features)
        if self.momentum is None:
            raise ValueError("StepBatchNorm2d: momentum must be a number, but is None")
        if not self.training and self.track_running_stats:
            return per_step(super().forward, x)
        if x.dim() == 4:
            return self._normalize(x, 1 - (1 - self.momentum) ** steps, steps)
        return torch.stack([self._normalize(step, self.momentum, 1) for step in x.unbind()])

    def _normalize(self, x: Tensor, momentum: float, steps: int) -> Tensor:
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(steps)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, True, momentum, self.eps)


class SharedBatchNorm2d(nn.BatchNorm2d):
    """Batch norm of `[T, B, C, H, W]` with one set of statistics over batch and time: a different model.

    A current that is constant in time has the same mean and variance as its T copies; only the running variance's
    correction for the sample size, n / (n - 1), is that of one copy.
    """

    def forward(self, x: Tensor, steps: int = 1) -> Tensor:
        require_images("SharedBatchNorm2d", x, self.num_features)
        return per_step(super().forward, x)
