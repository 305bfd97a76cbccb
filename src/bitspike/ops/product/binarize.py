"""Weights of one bit: the sign of a latent real weight, with a straight-through gradient; and soft weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitspike.ops.available import fused_on_gpu, transformed
from bitspike.ops.checks import require_clip


class _Binarize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, w: Tensor, clip: float | None) -> Tensor:
        _keep(ctx, w, clip)
        return _signs(w)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _passed(ctx, grads[0]), None

    @staticmethod
    def jvp(ctx: Any, of_w: Tensor, _: None) -> Tensor:
        return _passed(ctx, of_w).clone()  # an output of its own, not the input again


class _TransformedBinarize(_Binarize):
    """The sign for torch.func only; this form is not used elsewhere, since its calls cost more."""

    generate_vmap_rule = True

    @staticmethod
    def forward(w: Tensor, clip: float | None) -> Tensor:  # type: ignore[override]
        return _signs(w)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float | None], output: Tensor) -> None:
        _keep(ctx, *inputs)


def _signs(w: Tensor) -> Tensor:
    if w.dtype == torch.float32 and w.is_contiguous() and fused_on_gpu(w.device):
        from bitspike.ops.product.triton import signs

        return signs(w)
    # 2*sign + 1 is -1, 1 or 3, so the clamp makes zeros +1. Plus 0*w: a NaN has no sign, and passing it on
    # lets the neurons report it where a -1 would hide it.
    return torch.sign(w).mul_(2).add_(1).clamp(-1, 1).add_(w, alpha=0)


def _keep(ctx: Any, w: Tensor, clip: float | None) -> None:
    ctx.clip = clip
    if clip is not None:
        ctx.save_for_backward(w)
        ctx.save_for_forward(w)


def _passed(ctx: Any, grad: Tensor) -> Tensor:
    """Return the part of a gradient that goes straight through: where |w| <= clip."""
    if ctx.clip is None:
        return grad
    (w,) = ctx.saved_tensors
    passed: Tensor = grad * (w.abs() <= ctx.clip)
    return passed


def binarize(w: Tensor, clip: float | None = None) -> Tensor:
    """-1 or +1 by sign (zero is +1), in w's dtype; the gradient is 1, or 0 where |w| > clip.

    A weight that is not finite has diverged, and gives NaN.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> weight = torch.tensor([0.3, -0.2, 0.0, -2.0], requires_grad=True)
        >>> signs = bitspike.binarize(weight, clip=1.0)
        >>> signs.tolist()
        [1.0, -1.0, 1.0, -1.0]
        >>> signs.sum().backward()
        >>> weight.grad.tolist()
        [1.0, 1.0, 1.0, 0.0]
    """
    if not isinstance(w, Tensor):
        raise TypeError(f"binarize: w must be a tensor of latent weights, but is a {type(w).__name__}")
    if not w.is_floating_point():
        raise TypeError(
            f"binarize: w must be a floating-point tensor (the latent weights), but has dtype {w.dtype}; "
            "call w.float() first"
        )
    require_clip("binarize", clip)
    function = _TransformedBinarize if transformed() else _Binarize
    signs: Tensor = function.apply(w, clip)
    return signs


def soften(w: Tensor, hardness: Tensor) -> Tensor:
    """tanh(hardness * w), scaled to a mean square of 1: real weights that become -1 and +1 as `hardness` rises.

    The gradient is the true one. At infinity they are `binarize`'s, and the gradient is 0.

    Examples:
        >>> import torch
        >>> from bitspike.ops import soften
        >>> weight = torch.tensor([0.5, -0.25])
        >>> [round(value, 4) for value in soften(weight, torch.tensor(1.0)).tolist()]
        [1.2496, -0.6623]
        >>> soften(weight, torch.tensor(float("inf"))).tolist()
        [1.0, -1.0]
    """
    hard = torch.isinf(hardness)
    soft = torch.tanh(w * torch.where(hard, torch.ones_like(hardness), hardness))
    return torch.where(hard, binarize(w.detach()), soft / soft.square().mean().sqrt())
