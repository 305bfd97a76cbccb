"""The optimizer's parts as closed forms: learning rate by iteration, clips of gradients and weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bitspike.train.config import TrainConfig


def learning_rate(config: TrainConfig, step: int) -> float:
    """lr/2 * (1 + cos(pi * step / half_period)): down to 0 in half a period, and up again."""
    if config.schedule == "constant" or config.half_period is None:
        return config.lr
    return config.lr / 2 * (1 + math.cos(math.pi * step / config.half_period))


def make_optimizer(net: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam or SGD over all parameters."""
    parameters = list(net.parameters())
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=config.lr, betas=config.betas, eps=config.eps)
    return torch.optim.SGD(parameters, lr=config.lr, momentum=config.momentum)


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """For every group of parameters."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def gradient_norms(parameters: Sequence[nn.Parameter]) -> Tensor:
    """`[P]`: the norm of each parameter's gradient (0 where it has none)."""
    missing = parameters[0].new_zeros(())
    return torch.stack([missing if p.grad is None else torch.linalg.vector_norm(p.grad) for p in parameters])


@torch.no_grad()
def clip_gradients(parameters: Sequence[nn.Parameter], norms: Tensor, limit: float) -> None:
    """Scale all gradients so that their common norm is at most `limit`, as torch's clip_grad_norm_ does."""
    scale = (limit / (torch.linalg.vector_norm(norms) + 1e-6)).clamp(max=1.0)
    for p in parameters:
        if p.grad is not None:
            p.grad.mul_(scale)


@torch.no_grad()
def clip_weights(parameters: Sequence[nn.Parameter], bound: float) -> None:
    """Every parameter, biases and batch norm's among them, into [-bound, bound]."""
    for p in parameters:
        p.clamp_(-bound, bound)
