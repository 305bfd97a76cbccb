"""The arguments of a call of `lif`, checked once for all backends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bitspike.ops import checks
from bitspike.ops.lif.state import Adaptation, LIFState, require_adaptation
from bitspike.ops.lif.surrogate import Surrogate, require_surrogate


@dataclass(frozen=True)
class Scan:
    """The checked arguments of a call of `lif`, for all backends. Tensors have the membrane's dtype."""

    current: Tensor  # [T, B, ...], or [B, ...] if static; its own dtype, which the spikes take
    steps: int
    static: bool
    beta: Tensor
    theta: Tensor
    center: Tensor  # of the surrogate
    slope: float
    surrogate: Surrogate
    start: LIFState | None  # None: at rest
    recurrent: Tensor | None
    recurrent_scale: float  # what the sum through `recurrent` is multiplied by
    recurrent_grad: float  # the share of the gradient that goes back through `recurrent`
    adaptation: Adaptation | None
    keep_membrane: bool

    @cached_property
    def state(self) -> LIFState:
        """The state to start from, with zeros for a neuron at rest; made on demand: some backends need none."""
        if self.start is not None:
            return self.start

        def rest() -> Tensor:
            return torch.zeros(self.shape, dtype=self.dtype, device=self.current.device)

        return LIFState(rest(), rest(), rest() if self.adaptation else None)

    @property
    def shape(self) -> torch.Size:
        """The shape of one step."""
        return self.current.shape if self.static else self.current.shape[1:]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the membrane: at least float32, so that half precision only stores."""
        return torch.promote_types(self.current.dtype, torch.float32)


def checked_scan(
    current: Tensor,
    beta: float | Tensor,
    theta: float | Tensor,
    theta_grad: float | Tensor | None,
    slope: float,
    surrogate: Surrogate,
    steps: int | None,
    state: LIFState | None,
    keep_membrane: bool,
    recurrent: Tensor | None,
    recurrent_scale: float,
    recurrent_grad: float,
    adaptation: Adaptation | None,
) -> Scan:
    """Return the arguments of `lif` as a Scan; raise an error where one of them does not fit."""
    checks.require_current(current, steps)
    static = steps is not None
    shape = current.shape if static else current.shape[1:]
    dtype = torch.promote_types(current.dtype, torch.float32)
    slope = checks.as_positive("lif", "slope", slope)
    require_surrogate("lif", surrogate)
    require_adaptation("lif", adaptation)
    beta_t = checks.parameter("beta", beta, shape, dtype, current.device)
    theta_t = checks.parameter("theta", theta, shape, dtype, current.device)
    center = theta_t
    if theta_grad is not None:
        center = checks.parameter("theta_grad", theta_grad, shape, dtype, current.device)
    checks.require_beta(beta_t)
    checks.require_theta("theta", theta_t)
    checks.require_theta("theta_grad", center)
    checks.require_recurrent(recurrent, shape, current.device)
    return Scan(
        current=current,
        steps=int(steps) if steps is not None else current.shape[0],
        static=static,
        beta=beta_t,
        theta=theta_t,
        center=center,
        slope=slope,
        surrogate=surrogate,
        start=_state(state, shape, dtype, current.device, adaptation),
        recurrent=None if recurrent is None else recurrent.to(dtype),
        recurrent_scale=checks.as_positive("lif", "recurrent_scale", recurrent_scale),
        recurrent_grad=checks.as_positive("lif", "recurrent_grad", recurrent_grad),
        adaptation=adaptation,
        keep_membrane=keep_membrane,
    )


def _state(
    state: LIFState | None,
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    adaptation: Adaptation | None,
) -> LIFState | None:
    """Return the state to start from in the membrane's dtype; None to start at rest."""
    if state is None:
        return None
    if not isinstance(state, LIFState):
        raise TypeError(
            f"lif: state must be a LIFState, but is a {type(state).__name__}; "
            "pass the `state` of an earlier output, or None to start at rest"
        )
    for name, value in zip(LIFState._fields[:3], state, strict=False):
        if name != "adaptation" or value is not None:
            checks.require_state(name, value, shape, device)
    level = None
    if adaptation is not None:
        rested = torch.zeros(shape, dtype=dtype, device=device)
        level = rested if state.adaptation is None else state.adaptation.to(dtype)
    return LIFState(state.membrane.to(dtype), state.spikes.to(dtype), level)
