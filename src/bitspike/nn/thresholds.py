"""Checks for a threshold that is assigned to a neuron layer, which keeps it as a buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bitspike.ops.checks import as_positive

if TYPE_CHECKING:
    from bitspike.nn.neurons import LIF


def no_gradient(where: str, name: str) -> TypeError:
    """Return the error for a threshold that requires a gradient."""
    return TypeError(
        f"{where}: {name} cannot be learnt: thresholds follow a schedule and get no gradient; "
        f"set a number or a tensor without grad, anneal it with ThresholdAnnealing, or learn the decay, learn_beta=True"
    )


def as_threshold(layer: LIF, name: str, value: object) -> Tensor:
    """Return the buffer that holds the threshold: a number is written into it, a tensor takes its place."""
    where = type(layer).__name__
    if isinstance(value, nn.Parameter) or (isinstance(value, Tensor) and value.requires_grad):
        raise no_gradient(where, name)
    if isinstance(value, Tensor):
        _require_threshold(where, name, value, layer.neuron_shape())
        return value.to(torch.promote_types(value.dtype, torch.float32))  # half precision is too coarse to anneal
    return layer.get_buffer(name).fill_(as_positive(where, name, value))


def _require_threshold(where: str, name: str, value: Tensor, neurons: torch.Size) -> None:
    """Raise unless `value` holds numbers > 0 that fit the layer's neurons; on a GPU the values are not read."""
    if not value.is_floating_point():
        raise TypeError(f"{where}: {name} must be floating point, but has dtype {value.dtype}; call .float() first")
    try:
        torch.broadcast_shapes(value.shape, neurons)
    except RuntimeError:
        raise ValueError(
            f"{where}: {name} of shape {list(value.shape)} does not fit neurons of shape {list(neurons)}; "
            "give a number or one value per neuron"
        ) from None
    if value.device.type == "cpu" and (bad := ~((value > 0) & value.isfinite())).any():
        raise ValueError(
            f"{where}: {name} must be finite and > 0, but is {value[bad].flatten()[0].item():g}; "
            "a threshold of 0 or less fires at rest"
        )


def as_theta(layer: LIF, value: object) -> Tensor:
    """Return the buffer that holds the new threshold; a surrogate whose center is "current" moves with it."""
    theta = as_threshold(layer, "theta", value)
    if layer.surrogate_center == "current":
        layer.theta_grad = value.clone() if isinstance(value, Tensor) else value  # type: ignore[assignment]
    return theta
