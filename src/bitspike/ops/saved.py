"""Access to tensors that a forward pass saved for its backward pass, with advice if they were overwritten."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def saved_tensors(ctx: Any) -> tuple[Tensor, ...]:
    """Return `ctx.saved_tensors`; if one was overwritten, raise an error that says in which order to call things."""
    try:
        tensors: tuple[Tensor, ...] = ctx.saved_tensors
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        raise RuntimeError(
            "backward: a threshold or weight of the forward pass has been modified by an inplace operation since; "
            "call annealing.step() after optimizer.step(), and neither of them before loss.backward()"
        ) from None
    return tensors


def contiguous_tensors(ctx: Any) -> tuple[Tensor, ...]:
    """Return `saved_tensors`, each in order in memory: hooks of autograd may return them in another order."""
    return tuple(tensor if tensor is None else tensor.contiguous() for tensor in saved_tensors(ctx))
