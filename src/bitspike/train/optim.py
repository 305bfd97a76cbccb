"""The optimizer: how it is made, what a checkpoint keeps of it, and the norms of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bitspike.nn import BinaryConv2d, BinaryLinear, RecurrentLIF
from bitspike.train.config import TrainConfig

WEIGHTED = (BinaryLinear, BinaryConv2d, RecurrentLIF)


def make_optimizer(net: nn.Module, config: TrainConfig, rate: Tensor | None = None) -> torch.optim.Optimizer:
    """Return the optimizer that the settings name; with `rate` (one float32 on the device) it reads its rate there."""
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
    """Return AdamW's groups: weights decay; biases, batch norms and learnt time constants do not."""
    weights = {id(module.weight) for module in net.modules() if isinstance(module, WEIGHTED)}
    kinds = ([p for p in net.parameters() if (id(p) in weights) == decays] for decays in (True, False))
    groups = zip(kinds, (decay, 0.0), strict=True)
    return [{"params": members, "weight_decay": share} for members, share in groups if members]


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every group of parameters."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the optimizer's state for a checkpoint: all but the learning rate, which follows from the step."""
    state = optimizer.state_dict()
    groups = [{name: value for name, value in group.items() if name != "lr"} for group in state["param_groups"]]
    return {**state, "param_groups": groups}


def load_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Load moments and counts from a checkpoint; the optimizer keeps its device and its way to compute."""
    own = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    groups = [{**saved, **mine} for saved, mine in zip(state["param_groups"], own, strict=True)]
    optimizer.load_state_dict({**state, "param_groups": groups})
    for group, mine in zip(optimizer.param_groups, own, strict=True):
        group.update(mine)  # loading has copied the learning rate's tensor


def gradient_norms(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Return the norm of each parameter's gradient, `[P]`; 0 where there is none."""
    grads = gradients(parameters)
    found = iter(torch._foreach_norm(grads) if grads else ())
    return torch.stack([p.new_zeros(()) if p.grad is None else next(found) for p in parameters])


def gradients(parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Return the gradients of the parameters that have one."""
    return [p.grad for p in parameters if p.grad is not None]
