"""The spike (Eq. 2), and the surrogate gradients that take the place of its derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from bitspike.ops.available import transformed
from bitspike.ops.saved import saved_tensors

Surrogate = Literal["fast_sigmoid", "arctan", "triangular", "sigmoid"]


def fast_sigmoid_grad(u: Tensor, center: Tensor | float, slope: float) -> Tensor:
    """ds/du = 1 / (1 + slope * |center - u|)**2.

    Examples:
        >>> import torch
        >>> from bitspike.ops import fast_sigmoid_grad
        >>> fast_sigmoid_grad(torch.tensor([-0.5, 0.5, 1.0]), center=1.0, slope=2.0).tolist()
        [0.0625, 0.25, 1.0]
    """
    return 1.0 / (1.0 + slope * (center - u).abs()) ** 2


def arctan_grad(u: Tensor, center: Tensor | float, slope: float) -> Tensor:
    """ds/du = 1 / (1 + (slope * (center - u))**2), the derivative of arctan(slope * (u - center)) / slope.

    Examples:
        >>> import torch
        >>> from bitspike.ops import arctan_grad
        >>> arctan_grad(torch.tensor([0.5, 1.0, 1.5]), center=1.0, slope=2.0).tolist()
        [0.5, 1.0, 0.5]
    """
    return 1.0 / (1.0 + (slope * (center - u)) ** 2)


def triangular_grad(u: Tensor, center: Tensor | float, slope: float) -> Tensor:
    """ds/du = max(0, 1 - slope * |center - u|), which is 0 beyond a distance of 1 / slope.

    Examples:
        >>> import torch
        >>> from bitspike.ops import triangular_grad
        >>> triangular_grad(torch.tensor([0.0, 0.75, 1.0]), center=1.0, slope=2.0).tolist()
        [0.0, 0.5, 1.0]
    """
    return (1.0 - slope * (center - u).abs()).clamp(min=0.0)


def sigmoid_grad(u: Tensor, center: Tensor | float, slope: float) -> Tensor:
    """ds/du = 4 * p * (1 - p) with p = 1 / (1 + exp(slope * (center - u))), 4 / slope times the derivative of p.

    Examples:
        >>> import torch
        >>> from bitspike.ops import sigmoid_grad
        >>> grad = sigmoid_grad(torch.tensor([0.5, 1.0, 1.5]), center=1.0, slope=2.0)
        >>> [round(value, 4) for value in grad.tolist()]
        [0.7864, 1.0, 0.7864]
    """
    e = (-slope * (center - u).abs()).exp()  # of a number <= 0: far away it is 0, where exp(+) would overflow
    return 4.0 * e / (1.0 + e) ** 2


# Every backend has these, and all are 1 at the center. A new one is a function here with its entry and its name in
# `Surrogate` and in `net.surrogate` of experiments/net_config.py, a case in kernels_surrogate.py, and one in scan.h,
# whose numbers are the places in this table; tests/ops/lif/test_surrogate.py compares them all.
GRADS: dict[Surrogate, Callable[[Tensor, Tensor | float, float], Tensor]] = {
    "fast_sigmoid": fast_sigmoid_grad,
    "arctan": arctan_grad,
    "triangular": triangular_grad,
    "sigmoid": sigmoid_grad,
}
CODES: dict[Surrogate, int] = {name: code for code, name in enumerate(GRADS)}


def require_surrogate(where: str, surrogate: object) -> None:
    """Raise unless `surrogate` is the name of a surrogate."""
    if not isinstance(surrogate, str) or surrogate not in GRADS:
        raise ValueError(f"{where}: surrogate must be one of {', '.join(GRADS)}, but is {surrogate!r}")


class _Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, theta: Tensor, center: Tensor, slope: float, surrogate: Surrogate) -> Tensor:
        ctx.save_for_backward(u, center)
        ctx.save_for_forward(u, center)
        ctx.slope, ctx.surrogate = slope, surrogate
        return (u >= theta).to(u.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor | None, None, None]:
        u, center = saved_tensors(ctx)
        grad_u = grads[0] * GRADS[ctx.surrogate](u, center, ctx.slope)
        grad_center = -grad_u if ctx.needs_input_grad[2] else None
        return grad_u, None, grad_center, None, None

    @staticmethod
    def jvp(ctx: Any, of_u: Tensor | None, _: Any, of_center: Tensor | None, *__: Any) -> Tensor:
        u, center = ctx.saved_tensors
        moved = (0 if of_u is None else of_u) - (0 if of_center is None else of_center)
        change: Tensor = moved * GRADS[ctx.surrogate](u, center, ctx.slope)
        return change


class _TransformedSpike(_Spike):
    """The spike for torch.func only; this form is not used elsewhere, since its calls cost more than the step."""

    generate_vmap_rule = True

    @staticmethod
    def forward(u: Tensor, theta: Tensor, *_: Any) -> Tensor:  # type: ignore[override]
        return (u >= theta).to(u.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _Spike.forward(ctx, *inputs)


def spike(u: Tensor, theta: Tensor, center: Tensor, slope: float, surrogate: Surrogate = "fast_sigmoid") -> Tensor:
    """1 where u >= theta, else 0; the gradient is the surrogate's around `center`, not around theta.

    `center` receives minus the gradient of u, for thresholds that depend on earlier spikes.

    Examples:
        >>> import torch
        >>> from bitspike.ops import spike
        >>> u = torch.tensor([0.5, 1.0, 1.5], requires_grad=True)
        >>> theta = torch.tensor(1.0)
        >>> z = spike(u, theta, center=theta, slope=2.0)
        >>> z.tolist()
        [0.0, 1.0, 1.0]
        >>> z.sum().backward()
        >>> u.grad.tolist()
        [0.25, 1.0, 0.25]
    """
    require_surrogate("spike", surrogate)
    function = _TransformedSpike if transformed() else _Spike
    z: Tensor = function.apply(u, theta, center, slope, surrogate)
    return z
