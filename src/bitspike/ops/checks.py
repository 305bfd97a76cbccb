"""Checks of arguments. Each error is one line: where, the rule, what came, what to do."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import NoReturn, TypeGuard

import torch
from torch import Tensor

from bitspike.ops.available import transformed


class NotFiniteError(ValueError):
    """The error for NaN or infinity in a current, membrane or learnt decay: training diverged, or the input is bad."""


def require_current(current: Tensor, steps: int | None) -> None:
    """Raise unless `current` is floating point, `[T, B, ...]` or one step with the number of steps it is fed for."""
    if not isinstance(current, Tensor):
        raise TypeError(f"lif: current must be a torch.Tensor, but is a {type(current).__name__}")
    if not current.is_floating_point():
        raise TypeError(
            f"lif: current must be floating point, but has dtype {current.dtype}; call current.float() first"
        )
    if steps is not None:
        if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 1:
            raise ValueError(
                f"lif: steps must be a whole number >= 1, but is {steps!r}; it feeds one current `[B, ...]` "
                "for that many steps (leave it out for a current `[T, B, ...]`)"
            )
        return
    if current.dim() < 2:
        raise ValueError(
            f"lif: current must be [T, B, ...], time first, but has shape {list(current.shape)}; "
            "pass steps=T if it is one step that stays constant"
        )
    if current.shape[0] == 0:
        raise ValueError(f"lif: current must have at least one time step, but has shape {list(current.shape)}")


def require_device(name: str, value: Tensor, device: torch.device) -> None:
    """Raise unless `value` is on the current's device."""
    if value.device != device:
        raise ValueError(f"lif: {name} is on {value.device} but current on {device}; move one to the other's device")


def parameter(name: str, value: float | Tensor, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a float or tensor as a tensor of `dtype` on `device` that broadcasts to one step's `shape`."""
    if isinstance(value, Tensor):
        if value.dim() > 0:
            require_device(name, value, device)
        tensor = value.to(device=device, dtype=dtype)
    elif isinstance(value, Real) and not isinstance(value, bool):
        tensor = torch.full((), float(value), dtype=dtype, device=device)  # a copy from the host would break a graph
    else:
        raise TypeError(f"lif: {name} must be a number or a tensor, but is a {type(value).__name__}")
    try:
        fits = torch.broadcast_shapes(tensor.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"lif: {name} of shape {list(tensor.shape)} does not broadcast to one step of the current, "
            f"{list(shape)}; give a number or one value per neuron"
        )
    return tensor


def hidden(values: Tensor) -> bool:
    """Return whether values must not be read: on a GPU that waits for the device, under torch.func there are none."""
    return values.is_cuda or values.is_meta or transformed()


def require_beta(beta: Tensor) -> None:
    """Raise unless decays are in [0, 1]; values that must not be read (see `hidden`) are not checked.

    A NaN is a NotFiniteError: training that diverged makes one of a learnt beta, and training loops look for that.
    """
    if hidden(beta):
        return
    bad = ~((beta >= 0) & (beta <= 1))
    if not bad.any():
        return
    missing = int(beta.isnan().sum())
    if missing and beta.requires_grad:
        raise NotFiniteError(
            f"lif: the learnt beta must be finite, but {missing} of {beta.numel()} values are not; "
            "look for a diverged training upstream"
        )
    raise (NotFiniteError if missing else ValueError)(
        f"lif: beta must be in [0, 1], but is {beta[bad].flatten()[0].item():g}; "
        "it is the share of the membrane kept per step"
    )


def require_theta(name: str, theta: Tensor) -> None:
    """Raise unless thresholds are > 0 and without gradient; values that must not be read are not checked."""
    if theta.requires_grad:
        raise ValueError(
            f"lif: {name} must not require grad: thresholds follow a schedule and get no gradient; "
            "pass theta.detach(), or learn beta instead"
        )
    if hidden(theta):
        return
    bad = ~((theta > 0) & theta.isfinite())
    if bad.any():
        raise ValueError(
            f"lif: {name} must be finite and > 0, but is {theta[bad].flatten()[0].item():g}; "
            "a threshold of 0 or less fires at rest"
        )


def as_number(where: str, name: str, value: object) -> float:
    """Return any real number as a Python float: also NumPy's numbers and tensors of one element."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise TypeError(f"{where}: {name} must be a number, but is a tensor that requires grad; it cannot be learnt")
    if not isinstance(value, (str, bytes, bool)):
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, RuntimeError):
            pass
    if isinstance(value, Tensor):
        raise ValueError(f"{where}: {name} must be one number, but is a tensor of shape {list(value.shape)}")
    kind = "" if value is None or isinstance(value, bool) else f", a {type(value).__name__}"
    raise TypeError(f"{where}: {name} must be a number, but is {value!r}{kind}")


def as_positive(where: str, name: str, value: object) -> float:
    """Return a finite number > 0 as a Python float."""
    number = as_number(where, name, value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{where}: {name} must be a finite number > 0, but is {number!r}")
    return number


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number of Python or NumPy, and no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


MOST_DELAY = 2**16 - 1  # steps of a layer: as many as packed files hold
MOST_STEPS = 2**31 - 1


def as_longest(where: str, value: object, most: int = MOST_STEPS) -> int:
    """Return the longest delay, a whole number in 0..most, as a Python int."""
    if not is_whole(value) or value < 0:
        raise ValueError(f"{where}: longest must be a whole number of steps >= 0, but is {value!r}")
    if value > most:
        raise ValueError(f"{where}: longest must be at most {most} steps, but is {value}")
    return int(value)


MOST_GAIN = 255  # a byte; spikes times it are exact in every number format that kernels use


def as_largest_gain(where: str, value: object) -> int:
    """Return the largest gain, a whole number in 1..255, as a Python int."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 < int(value) <= MOST_GAIN:
        raise ValueError(f"{where}: largest must be a whole number in 1..{MOST_GAIN}, but is {value!r}")
    return int(value)


def require_truth(where: str, name: str, value: object) -> None:
    """Raise unless `value` is True or False (NumPy's too): any word, "no" among them, would count as true."""
    of_numpy = (getattr(value, "dtype", None), getattr(value, "shape", None)) == (bool, ())
    if not isinstance(value, bool) and not of_numpy:
        raise TypeError(f"{where}: {name} must be True or False, but is {value!r}")


def require_clip(where: str, clip: float | None) -> None:
    """Raise unless `clip` is a number > 0 or None."""
    if clip is None:
        return
    if isinstance(clip, bool) or not isinstance(clip, Real):
        raise TypeError(f"{where}: clip must be a number > 0 or None, but is {clip!r}; None never cuts the gradient")
    if not clip > 0:
        raise ValueError(f"{where}: clip must be > 0 or None, but is {clip!r}; None never cuts the gradient")


def require_recurrent(recurrent: Tensor | None, shape: torch.Size, device: torch.device) -> None:
    """Raise unless `recurrent` is None or a square matrix for the neurons of the last of several dimensions."""
    if recurrent is None:
        return
    if not isinstance(recurrent, Tensor):
        raise TypeError(f"lif: recurrent must be a tensor [N, N], but is a {type(recurrent).__name__}")
    if len(shape) < 2:
        raise ValueError(
            f"lif: recurrent needs a current [T, B, N], but one step has shape {list(shape)}; add a batch dimension"
        )
    require_device("recurrent", recurrent, device)
    neurons = shape[-1]
    if recurrent.shape != (neurons, neurons):
        raise ValueError(
            f"lif: recurrent must be [N, N] for the current's {neurons} neurons, but has shape {list(recurrent.shape)}"
        )


def require_state(name: str, value: Tensor | None, shape: torch.Size, device: torch.device) -> None:
    """Raise unless `value`, a part of a state, has the shape of one step and the current's device."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"lif: state.{name} must be a tensor, but is {value!r}; pass the `state` of an earlier output, "
            "or state=None to start at rest"
        )
    require_device(f"state.{name}", value, device)
    if value.shape != shape:
        raise ValueError(
            f"lif: state.{name} has shape {list(value.shape)} but one step of the current is {list(shape)}; "
            "a state continues a call on the same batch (pass state=None to start at rest)"
        )


def is_ordinary(value: object, shape: tuple[int, ...], device: torch.device) -> bool:
    """Return whether compiled kernels may read `value`: a float32 tensor of `shape` on `device`, and no subclass.

    Its numbers must be as they lie in memory: PyTorch may keep a minus sign as a mark on the tensor.
    """
    return (
        (type(value) is Tensor or type(value) is torch.nn.Parameter)
        and value.dtype == torch.float32
        and value.shape == shape
        and value.device == device
        and value.layout == torch.strided
        and not value.is_neg()
    )


def explain_not_finite(current: Tensor, static: bool, recurrent: Tensor | None) -> NoReturn:
    """Raise the error for a membrane that is not finite, which says where that comes from."""
    bad = (~current.isfinite()).nonzero()
    if len(bad) == 0 and recurrent is not None and not recurrent.isfinite().all():
        raise NotFiniteError(
            "lif: the recurrent weights must be finite, but some are not; look for a diverged training upstream"
        )
    if len(bad) == 0:
        raise NotFiniteError(
            "lif: the membrane is no longer finite although the current is; it overflowed, or the state it "
            "started from was not finite: lower the current's scale or beta, or start from state=None"
        )
    first = tuple(bad[0].tolist())
    where = f"index {list(first)}" if static else f"t={first[0]}, index {list(first[1:])}"
    raise NotFiniteError(
        f"lif: current must be finite, but {len(bad)} of {current.numel()} values are not "
        f"(first: {current[first].item():g} at {where}); look for diverged weights or bad input upstream"
    )
