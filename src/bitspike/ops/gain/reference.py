"""The plain definition of gains: each sender's values times a whole number."""

from __future__ import annotations

from torch import Tensor


def gain(x: Tensor, gains: Tensor, *, dim: int = -1) -> Tensor:
    """out_j = round(g_j) * x_j for each index j of dimension `dim`; half goes to the even whole number.

    `gains [N]` get the gradient of g_j * x_j: rounding passes it on as it is.

    Examples:
        >>> import torch
        >>> from bitspike.ops import gain
        >>> gain(torch.ones(2, 3), torch.tensor([0.4, 3.6, 15.0])).tolist()
        [[0.0, 4.0, 15.0], [0.0, 4.0, 15.0]]
    """
    _require_one_each(x, gains, dim)
    after = -dim - 1 if dim < 0 else x.dim() - dim - 1
    return x * whole_gains(gains).to(x.dtype).view(-1, *[1] * after)


def whole_gains(gains: Tensor) -> Tensor:
    """Return the gains as whole numbers; half goes to the even one, and gradients pass as they are."""
    # The bracket is exact, and so is the sum: a whole number within 1/2 of g is at most twice as far from 0.
    return gains + (gains.round() - gains).detach()


def _require_one_each(x: Tensor, gains: Tensor, dim: int) -> None:
    """Raise unless x is floating point, and has as many values in dimension `dim` as there are gains."""
    given: dict[str, object] = {"x": x, "gains": gains}
    for name, each in given.items():
        if not isinstance(each, Tensor) or not each.is_floating_point():
            found = f"of {each.dtype}" if isinstance(each, Tensor) else f"a {type(each).__name__}"
            raise TypeError(f"gain: {name} must be a tensor of floating point numbers, but is {found}; call .float()")
    if gains.dim() != 1 or not -x.dim() <= dim < x.dim() or x.shape[dim] != len(gains):
        raise ValueError(
            f"gain: x must have one value for each gain in dimension {dim}, but x has shape {list(x.shape)} and the "
            f"gains {list(gains.shape)}"
        )
