"""Synapses of one bit: PyTorch's Linear and Conv2d on the signs of their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitspike.nn.checked import Check, Checked, setting
from bitspike.ops import binarize, soften
from bitspike.ops.checks import require_clip, require_truth

# Steps a convolution takes at once on the CPU: the float32 sum of a kernel's gradient over all of a long sequence
# loses digits (2e-5 of the largest at T = 100), and a shorter one stays in cache.
_STEPS_AT_ONCE = 10


BINARY_CHECKS: dict[str, Check] = {
    "binary": setting(lambda where, value: require_truth(where, "binary", value)),
    "clip": setting(require_clip),
}


def _hardness(synapse: nn.Module, value: object) -> object:
    """Return `value` if it is None or a 0-d tensor, which a schedule moves in place; else raise."""
    if value is not None and not (isinstance(value, Tensor) and value.is_floating_point() and value.dim() == 0):
        raise TypeError(
            f"{type(synapse).__name__}: hardness must be a 0-d tensor or None, but is {value!r}; "
            "write torch.tensor(hardness)"
        )
    return value


_SYNAPSE_CHECKS = {**BINARY_CHECKS, "hardness": _hardness}


def per_step(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return `function(x)` for images `[B, C, H, W]` or rows `[B, N]`, or step by step for `x [T, B, ...]`."""
    if x.dim() in (2, 4):
        return function(x)
    flat = function(x.flatten(0, 1))
    return flat.view(*x.shape[:2], *flat.shape[1:])


def require_images(where: str, x: Tensor, channels: int) -> None:
    """Raise unless `x` is `[B, C, H, W]` or `[T, B, C, H, W]` with these channels and at least one step."""
    if x.dim() not in (4, 5) or x.shape[-3] != channels:
        raise ValueError(
            f"{where}: input must be [B, {channels}, H, W] or [T, B, {channels}, H, W], but has shape {list(x.shape)}"
        )
    if x.dim() == 5 and x.shape[0] == 0:
        raise ValueError(f"{where}: input must have at least one time step, but has shape {list(x.shape)}")


class BinaryLinear(nn.Linear, Checked):
    """x @ sign(w).T + b over the last dimension; `binary=False` is the float32 twin. The bias stays real.

    The parameter `weight` is the latent real weight that the optimizer moves; `clip` stops its gradient
    where |w| > clip. With a `hardness` weights are soft (`ops.soften`) while gradients are recorded, and signs else.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> layer = bitspike.BinaryLinear(3, 2, bias=False)
        >>> layer.weight.data = torch.tensor([[0.3, -0.2, 0.1], [-0.5, -0.4, 0.0]])
        >>> layer.signs().tolist()
        [[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]]
        >>> layer(torch.tensor([1.0, 1.0, 0.0])).tolist()
        [0.0, -2.0]
    """

    checks = _SYNAPSE_CHECKS

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
        self.hardness: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() < 1 or x.shape[-1] != self.in_features:
            raise ValueError(f"BinaryLinear: input must be [..., {self.in_features}], but has shape {list(x.shape)}")
        return F.linear(x, used_weight(self), self.bias)

    def signs(self) -> Tensor:
        """Return the weights of one bit, -1 or +1."""
        return binarize(self.weight, self.clip)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, binary={self.binary}"


class BinaryConv2d(nn.Conv2d, Checked):
    """conv2d(x, sign(w)) over `[B, C, H, W]` or `[T, B, C, H, W]`; `binary=False` is the float32 twin.

    No bias unless asked for, as in the paper's networks; otherwise as BinaryLinear.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> conv = bitspike.BinaryConv2d(in_channels=1, out_channels=16, kernel_size=5)
        >>> conv(torch.rand(10, 4, 1, 28, 28)).shape  # [T, B, channels, height, width]
        torch.Size([10, 4, 16, 24, 24])
        >>> sorted(conv.signs().unique().tolist())
        [-1.0, 1.0]
    """

    checks = _SYNAPSE_CHECKS

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
        self.hardness: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        require_images("BinaryConv2d", x, self.in_channels)
        weight = used_weight(self)

        def convolve(images: Tensor) -> Tensor:
            out: Tensor = self._conv_forward(images, weight, self.bias)
            return out

        if x.dim() == 5 and x.device.type == "cpu" and len(x) > _STEPS_AT_ONCE:
            return torch.cat([per_step(convolve, steps) for steps in x.split(_STEPS_AT_ONCE)])
        return per_step(convolve, x)

    def signs(self) -> Tensor:
        """Return the weights of one bit, -1 or +1."""
        return binarize(self.weight, self.clip)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, binary={self.binary}"


def used_weight(synapse: BinaryLinear | BinaryConv2d) -> Tensor:
    """Return the weights that a synapse multiplies with: signs, soft weights (which become signs), or real ones."""
    if not synapse.binary:
        return synapse.weight
    if synapse.hardness is not None and torch.is_grad_enabled():
        return soften(synapse.weight, synapse.hardness)
    return synapse.signs()
