"""Autograd functions whose backward pass is written by hand: they take one gradient, and none of higher order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

_ADVICE = 'use backend="reference" (of build, or of each LIF and Delay), or set BITSPIKE_BACKEND=reference'
_Function = TypeVar("_Function", bound=type[torch.autograd.Function])


def first_order(function: _Function) -> _Function:
    """Decorate an autograd function so that its second derivative is an error, never a wrong number.

    A batch of gradients and forward-mode derivatives are errors with the same advice.

    PyTorch's own `once_differentiable` raises only where the incoming gradient requires grad. A gradient depends on the
    function's inputs as well, and without a graph to them a second derivative would silently lack their part.
    """
    forward, backward = function.forward, function.backward

    @wraps(forward)
    def linked_forward(ctx: Any, *args: Any) -> Any:
        if ctx.next_functions:  # a graph is recorded
            with torch.enable_grad():
                ctx.link = _Link.apply(*(arg for arg in args if isinstance(arg, Tensor) and arg.requires_grad))
        return forward(ctx, *args)

    @wraps(backward)
    def final_backward(ctx: Any, *grads: Tensor | None) -> Any:
        # A minus sign may be a mark on the tensor, which kernels do not see.
        grads = tuple(None if grad is None else grad.resolve_neg() for grad in grads)
        with torch.no_grad(), _clear_if_in_batch(grads):
            found = backward(ctx, *grads)
        if not torch.is_grad_enabled():  # it is with create_graph=True alone
            return found
        given = [grad for grad in grads if grad is not None and grad.requires_grad]
        tensors = [tensor for tensor in found if tensor is not None]
        final = iter(_Final.apply(len(tensors), *tensors, ctx.link, *given))
        return tuple(None if tensor is None else next(final) for tensor in found)

    function.forward, function.backward = staticmethod(linked_forward), staticmethod(final_backward)  # type: ignore[method-assign]
    function.jvp = staticmethod(_no_jvp)  # type: ignore[method-assign]
    return function


@contextmanager
def _clear_if_in_batch(grads: tuple[Tensor | None, ...]) -> Iterator[None]:
    """Turn the error of kernels that find no memory in a batch of gradients into one that says what to do."""
    try:
        yield
    except RuntimeError as error:
        if not any(grad is not None and torch._C._functorch.is_legacy_batchedtensor(grad) for grad in grads):
            raise
        raise RuntimeError(
            f"bitspike: a fast path takes one gradient at a time, but got a batch of them; {_ADVICE}"
        ) from error


def _no_jvp(ctx: Any, *tangents: Tensor) -> None:
    raise RuntimeError(f"bitspike: a fast path has no forward-mode derivative; {_ADVICE}")


class _Link(torch.autograd.Function):
    """An empty tensor with a graph to the inputs; unlike a view it keeps none of their memory."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        return inputs[0].new_empty(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        raise AssertionError("_Link: nothing flows through here")


class _Final(torch.autograd.Function):
    """A function that returns its first `count` tensors in a graph that depends on the others and has no derivative."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        raise RuntimeError(
            f"bitspike: the gradient of a fast path cannot be differentiated again; for second derivatives {_ADVICE}"
        )
