"""The optimizer: how it is made, what a checkpoint keeps of it, and the norms of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bitspike.nn import LIF, BinaryConv2d, BinaryLinear, Delay, Gain, RecurrentLIF
from bitspike.train.config import TrainConfig

WEIGHTED = (BinaryLinear, BinaryConv2d, RecurrentLIF)
_NONE_OF = {
    "norms": "no batch norm (net.norm, net.dense_norm)",
    "delays": "no delays (net.delays)",
    "gains": "no gains (net.gains)",
    "decays": "no learnt decays (net.learn_beta)",
}


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters that share a starting learning rate and a weight decay (None: the optimizer has none)."""

    members: list[nn.Parameter]
    lr: float
    weight_decay: float | None = None


def parameter_groups(net: nn.Module, config: TrainConfig) -> list[ParameterGroup]:
    """Return the optimizer's groups of parameters: one for each rate of `train.rates`, and one for all the others.

    With adamw each of them falls into two: weights decay; biases, batch norms, delays, gains and learnt decays do not.
    """
    kinds = _kinds(net)
    own = {} if config.rates is None else config.rates.given()
    for kind in own:
        if kind not in kinds.values():
            raise ValueError(f"train.rates.{kind}: the network has {_NONE_OF[kind]}; leave it out, or set it to none")
    weights = {id(module.weight) for module in net.modules() if isinstance(module, WEIGHTED)}
    groups = []
    for kind, lr in (("", config.lr), *own.items()):
        members = [p for p in net.parameters() if kind == (kinds[id(p)] if kinds.get(id(p)) in own else "")]
        if config.optimizer != "adamw":
            groups.append(ParameterGroup(members, lr))
            continue
        for decays, share in ((True, config.weight_decay or 0.0), (False, 0.0)):
            groups.append(ParameterGroup([p for p in members if (id(p) in weights) == decays], lr, share))
    return [group for group in groups if group.members]


def _kinds(net: nn.Module) -> dict[int, str]:
    """Return the kind, a field of `train.rates`, of each parameter that has one, by the parameter's id."""
    found: dict[int, str] = {}
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            found |= {id(p): "norms" for p in module.parameters(recurse=False)}
        elif isinstance(module, Delay):
            found[id(module.delays)] = "delays"
        elif isinstance(module, Gain):
            found[id(module.gains)] = "gains"
        elif isinstance(module, LIF) and isinstance(logit := getattr(module, "beta_logit", None), nn.Parameter):
            found[id(logit)] = "decays"
    return found


def make_optimizer(net: nn.Module, config: TrainConfig, *rates: Tensor) -> torch.optim.Optimizer:
    """Return the optimizer that the settings name.

    With `rates`, one float32 on the device for each of `parameter_groups`, it reads its learning rates there.
    """
    groups = parameter_groups(net, config)
    on_gpu = groups[0].members[0].is_cuda
    fused = True if on_gpu else None  # one kernel for all, which reads a tensor's rate without waiting for it
    moments: dict[str, Any] = {"betas": config.betas, "eps": config.eps, "capturable": on_gpu}
    tables: list[dict[str, Any]] = [
        {"params": group.members} | ({} if group.weight_decay is None else {"weight_decay": group.weight_decay})
        for group in groups
    ]
    made: torch.optim.Optimizer
    if config.optimizer == "adam":
        made = torch.optim.Adam(tables, lr=config.lr, fused=fused, **moments)
    elif config.optimizer == "adamw":
        made = torch.optim.AdamW(tables, lr=config.lr, fused=fused, **moments)
    else:
        made = torch.optim.SGD(tables, lr=config.lr, momentum=config.momentum, fused=fused)
    set_learning_rates(made, rates or [group.lr for group in groups])
    return made


def set_learning_rates(optimizer: torch.optim.Optimizer, rates: Sequence[float | Tensor]) -> None:
    """Set the learning rate of each group of parameters."""
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


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
