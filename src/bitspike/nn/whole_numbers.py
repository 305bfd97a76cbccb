"""A number for each sending neuron, learnt as a real one and used as a whole one: what delays and gains share."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from bitspike.ops.available import transformed


def as_neurons(where: str, neurons: object) -> int:
    """Return a number of neurons as a Python int."""
    if isinstance(neurons, bool) or not isinstance(neurons, Integral) or neurons < 1:
        raise ValueError(f"{where}: neurons must be a whole number >= 1, but is {neurons!r}")
    return int(neurons)


def in_range(values: nn.Parameter, most: int, *, training: bool) -> Tensor:
    """Return the numbers within 0..most; in training the parameter itself is clamped, too."""
    if training and not transformed():  # torch.func wants nothing changed in place
        values.data.clamp_(0, most)  # as data: an earlier call's backward pass may still come
    return values.clamp(0, most)


def rounded(values: Tensor, most: int) -> Tensor:
    """Return the numbers as whole ones in 0..most, int64; halves go to the even neighbour."""
    return values.detach().clamp(0, most).round().long()


def keep_exact(values: nn.Parameter, exact: Tensor) -> bool:
    """Put `exact` numbers back where a conversion rounded them to half precision; return whether it did."""
    if values.dtype not in (torch.float16, torch.bfloat16):
        return False
    values.data = exact.to(values.device)
    return True


def largest_beyond(state_dict: Mapping[str, Any], key: str, most: int) -> float | None:
    """Return the largest number that a state dict holds, if it would not round to one in 0..most."""
    saved = state_dict.get(key)
    if not isinstance(saved, Tensor) or saved.is_meta or not saved.numel():
        return None
    largest = float(saved.max())
    return largest if largest > most + 0.5 else None
