"""Synapses of one bit: PyTorch's Linear and Conv2d on the signs of their weights."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from bitspike.ops import binarize


def per_step(function: Any, x: Tensor, *, dims: int) -> Tensor:
    """function on `[T, B, ...]` or `[B, ...]`, where the function itself takes `dims` dimensions."""
    if x.dim() == dims:
        out: Tensor = function(x)
        return out
    if x.dim() != dims + 1:
        raise ValueError(
            f"expected a tensor of {dims} dimensions, or {dims + 1} with time first, but got shape {list(x.shape)}"
        )
    flat: Tensor = function(x.flatten(0, 1))
    return flat.view(*x.shape[:2], *flat.shape[1:])


class BinaryLinear(nn.Linear):
    """x @ sign(w).T + b over the last dimension; `binary=False` is the float32 twin. The bias stays real.

    The parameter `weight` is the latent real weight that the optimizer moves; `clip` stops its gradient
    where |w| > clip.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        binary: bool = True,
        clip: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(in_features, out_features, bias, **kwargs)
        self.binary = binary
        self.clip = clip

    def forward(self, x: Tensor) -> Tensor:
        weight = binarize(self.weight, self.clip) if self.binary else self.weight
        return F.linear(x, weight, self.bias)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, binary={self.binary}"


class BinaryConv2d(nn.Conv2d):
    """conv2d(x, sign(w)) over `[B, C, H, W]` or `[T, B, C, H, W]`; `binary=False` is the float32 twin.

    No bias unless asked for, as in the paper's networks; otherwise as BinaryLinear.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        *,
        bias: bool = False,
        binary: bool = True,
        clip: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, bias=bias, **kwargs)
        self.binary = binary
        self.clip = clip

    def forward(self, x: Tensor) -> Tensor:
        weight = binarize(self.weight, self.clip) if self.binary else self.weight
        return per_step(lambda step: self._conv_forward(step, weight, self.bias), x, dims=4)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, binary={self.binary}"
