"""The optimizer's parts as closed forms: learning rate by iteration, clips of gradients and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bitspike.nn import BinaryConv2d, BinaryLinear, RecurrentLIF
from bitspike.train.config import TrainConfig

_WEIGHTED = (BinaryLinear, BinaryConv2d, RecurrentLIF)


def learning_rate(config: TrainConfig, step: int, total: int | None = None) -> float:
    """lr/2 * (1 + cos(pi * step / half_period)): down to 0 in half a period, and up again.

    "decay" takes it to 0 at the end of all `total` iterations, after a straight line up from 0 in the first of them.
    """
    if config.schedule == "decay":
        return _decayed(config, step, total)
    if config.schedule == "constant" or config.half_period is None:
        return config.lr
    return config.lr / 2 * (1 + math.cos(math.pi * step / config.half_period))


def _decayed(config: TrainConfig, step: int, total: int | None) -> float:
    """lr * step / w in the first w = warmup * total iterations, then lr/2 * (1 + cos(pi (step - w) / (total - w)))."""
    if total is None:
        raise ValueError("learning_rate: the schedule 'decay' needs total, the number of all iterations, but has none")
    warm = config.warmup * total
    if step < warm:
        return config.lr * step / warm
    return config.lr / 2 * (1 + math.cos(math.pi * min((step - warm) / (total - warm), 1.0)))


def make_optimizer(net: nn.Module, config: TrainConfig, rate: Tensor | None = None) -> torch.optim.Optimizer:
    """The optimizer named, over all parameters; its rate is read from `rate`, one float32 on the device, if given."""
    parameters = list(net.parameters())
    on_gpu = parameters[0].is_cuda
    fused = True if on_gpu else None  # one kernel for all, which reads a tensor's rate without waiting for it
    moments: dict[str, Any] = {"betas": config.betas, "eps": config.eps, "capturable": on_gpu}
    made: torch.optim.Optimizer
    if config.optimizer == "adam":
        made = torch.optim.Adam(parameters, lr=config.lr, fused=fused, **moments)
    elif config.optimizer == "adamw":
        made = torch.optim.AdamW(_by_decay(net, config.weight_decay or 0.0), lr=config.lr, fused=fused, **moments)
    else:
        made = torch.optim.SGD(parameters, lr=config.lr, momentum=config.momentum, fused=fused)
    if rate is not None:
        for group in made.param_groups:
            group["lr"] = rate
    return made


def _by_decay(net: nn.Module, decay: float) -> list[dict[str, Any]]:
    """AdamW's groups: weights decay; biases, batch norms and learnt time constants have no reason to go to 0."""
    weights = {id(module.weight) for module in net.modules() if isinstance(module, _WEIGHTED)}
    kinds = ([p for p in net.parameters() if (id(p) in weights) == decays] for decays in (True, False))
    groups = zip(kinds, (decay, 0.0), strict=True)
    return [{"params": members, "weight_decay": share} for members, share in groups if members]


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """For every group of parameters."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """For the checkpoint; without the learning rate, which the step gives."""
    state = optimizer.state_dict()
    groups = [{name: value for name, value in group.items() if name != "lr"} for group in state["param_groups"]]
    return {**state, "param_groups": groups}


def load_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Moments and counts from the checkpoint; how the optimizer computes, and on which device, stays its own."""
    own = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    groups = [{**saved, **mine} for saved, mine in zip(state["param_groups"], own, strict=True)]
    optimizer.load_state_dict({**state, "param_groups": groups})
    for group, mine in zip(optimizer.param_groups, own, strict=True):
        group.update(mine)  # loading has copied the learning rate's tensor


def gradient_norms(parameters: Sequence[nn.Parameter]) -> Tensor:
    """`[P]`: the norm of each parameter's gradient (0 where it has none)."""
    grads = _gradients(parameters)
    found = iter(torch._foreach_norm(grads) if grads else ())
    return torch.stack([p.new_zeros(()) if p.grad is None else next(found) for p in parameters])


@torch.no_grad()
def clip_gradients(parameters: Sequence[nn.Parameter], norms: Tensor, limit: float) -> None:
    """Scale all gradients so that their common norm is at most `limit`, as torch's clip_grad_norm_ does."""
    scale = (limit / (torch.linalg.vector_norm(norms) + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(_gradients(parameters), scale)


@torch.no_grad()
def clip_weights(parameters: Sequence[Tensor], bound: float) -> None:
    """Each of `parameters` into [-bound, bound]."""
    torch._foreach_clamp_min_(list(parameters), -bound)
    torch._foreach_clamp_max_(list(parameters), bound)


def latent_weights(net: nn.Module) -> list[Tensor]:
    """The weights of which `net` uses only the signs: of binary synapses and recurrences, not their biases."""
    return [module.weight for module in net.modules() if isinstance(module, _WEIGHTED) and module.binary]


def _gradients(parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]
