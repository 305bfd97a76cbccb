"""The leaky integrate-and-fire scan, Eq. 1-2 of the paper: one public op with several equal backends."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from bitspike.ops import checks
from bitspike.ops.available import transformed
from bitspike.ops.lif.surrogate import Surrogate, require_surrogate

Backend = Literal["auto", "reference", "torch", "c", "triton"]
BACKENDS: tuple[Backend, ...] = ("auto", "reference", "torch", "c", "triton")


class LIFState(NamedTuple):
    """The state that a neuron carries from one step to the next; each part has the shape of one step `[B, ...]`.

    `past` belongs to a layer with delays: the last steps of its input `[longest, B, ...]`, which are still to come.
    `lif` itself neither reads nor returns it.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> current = torch.full((6, 1, 1), 0.75)
        >>> whole = bitspike.lif(current, beta=0.5, theta=1.0, slope=25.0)
        >>> first = bitspike.lif(current[:3], beta=0.5, theta=1.0, slope=25.0)
        >>> rest = bitspike.lif(current[3:], beta=0.5, theta=1.0, slope=25.0, state=first.state)
        >>> torch.equal(whole.spikes, torch.cat([first.spikes, rest.spikes]))
        True
    """

    membrane: Tensor
    spikes: Tensor
    adaptation: Tensor | None = None
    past: Tensor | None = None

    def detach(self) -> LIFState:
        """Return the same state without its graph: gradients stop here (truncated backpropagation through time)."""
        return LIFState(*(None if part is None else part.detach() for part in self))  # type: ignore[arg-type]


class LIFOutput(NamedTuple):
    """`spikes [T, B, ...]`, `membrane [T, B, ...]` (None if not kept) and the `state` after the last step.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> out = bitspike.lif(torch.ones(10, 4, 3), beta=0.9, theta=1.0, slope=25.0)
        >>> out.spikes.shape, out.membrane.shape
        (torch.Size([10, 4, 3]), torch.Size([10, 4, 3]))
        >>> out.state.membrane.shape
        torch.Size([4, 3])
    """

    spikes: Tensor
    membrane: Tensor | None
    state: LIFState


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Threshold theta + strength * a[t], with a[t+1] = rho * a[t] + (1 - rho) * z[t] (Bellec et al. 2018).

    Examples:
        >>> import torch
        >>> import bitspike
        >>> current = torch.ones(6, 1, 1)
        >>> bitspike.lif(current, beta=0.5, theta=1.0, slope=25.0).spikes.flatten().tolist()
        [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
        >>> adaptation = bitspike.Adaptation(rho=0.5, strength=1.0)
        >>> out = bitspike.lif(current, beta=0.5, theta=1.0, slope=25.0, adaptation=adaptation)
        >>> out.spikes.flatten().tolist()
        [1.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    """

    rho: float
    strength: float

    def __post_init__(self) -> None:
        for name in ("rho", "strength"):
            object.__setattr__(self, name, checks.as_number("Adaptation", name, getattr(self, name)))
        if not 0 <= self.rho <= 1:
            raise ValueError(f"Adaptation: rho must be in [0, 1], but is {self.rho!r}; it is a decay per step")
        if not (math.isfinite(self.strength) and self.strength >= 0):
            raise ValueError(f"Adaptation: strength must be a finite number >= 0, but is {self.strength!r}")


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


def lif(
    current: Tensor,
    *,
    beta: float | Tensor,
    theta: float | Tensor,
    theta_grad: float | Tensor | None = None,
    slope: float,
    surrogate: Surrogate = "fast_sigmoid",
    steps: int | None = None,
    state: LIFState | None = None,
    keep_membrane: bool = True,
    recurrent: Tensor | None = None,
    recurrent_grad: float = 1.0,
    adaptation: Adaptation | None = None,
    backend: Backend = "auto",
) -> LIFOutput:
    """u[t] = beta*u[t-1] + I[t] - theta*z[t-1];  z[t] = 1 if u[t] >= theta else 0.

    `current` is `[T, B, ...]`, or with `steps=T` one step `[B, ...]` that is fed T times. The reset carries no
    gradient; the spike's is the surrogate's: with d = slope*|u - theta_grad|, where `theta_grad` is theta unless
    given, 1 / (1 + d)**2 ("fast_sigmoid"), 1 / (1 + d**2) ("arctan"), max(0, 1 - d) ("triangular") or
    4*p*(1 - p), p = 1 / (1 + exp(-d)) ("sigmoid").
    `beta` and `theta` are floats or tensors that broadcast to one step; beta is learnt if it requires grad.
    `state`, from an earlier call's output, continues it exactly.

    `recurrent [N, N]` adds `z[t-1] @ recurrent.T` to the current; `recurrent_grad` is the share of the gradient that
    spikes get back through it. `adaptation` lets each neuron's threshold rise with its own spikes. The membrane is
    float32 for half-precision currents; spikes have the current's dtype. On CPU tensors a current or threshold that is
    not finite is an error; on a GPU that check, which would wait for the device, is left out.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> current = torch.full((4, 1, 1), 0.75)  # [T, B, N]
        >>> out = bitspike.lif(current, beta=0.5, theta=1.0, slope=25.0)
        >>> out.membrane.flatten().tolist()
        [0.75, 1.125, 0.3125, 0.90625]
        >>> out.spikes.flatten().tolist()
        [0.0, 1.0, 0.0, 0.0]
        >>> constant = torch.full((1, 1), 0.75)  # [B, N], fed for 4 steps
        >>> again = bitspike.lif(constant, beta=0.5, theta=1.0, slope=25.0, steps=4)
        >>> torch.equal(again.spikes, out.spikes)
        True
    """
    scan = _checked(
        current,
        beta,
        theta,
        theta_grad,
        slope,
        surrogate,
        steps,
        state,
        keep_membrane,
        recurrent,
        recurrent_grad,
        adaptation,
    )
    # Autocast would round the recurrent products, and with them spikes.
    with torch.autocast(current.device.type, enabled=False):
        output = _backend(backend, scan)(scan)
    # Whatever is not finite stays so to the last step, so one step in T is enough to look at.
    if not checks.hidden(current) and not output.state.membrane.isfinite().all():
        checks.explain_not_finite(scan.current, scan.static, scan.recurrent)
    return output


def _backend(name: str, scan: Scan) -> Callable[[Scan], LIFOutput]:
    from bitspike.ops.lif import c as lif_c
    from bitspike.ops.lif import reference as lif_reference
    from bitspike.ops.lif import torch as lif_torch
    from bitspike.ops.lif import triton as lif_triton

    origin = "backend"
    if name == "auto" and (forced := os.environ.get("BITSPIKE_BACKEND")):
        name, origin = forced, "backend (from BITSPIKE_BACKEND)"
    if transformed() and name != "reference":
        if name != "auto":
            raise ValueError(
                f"lif: {origin} {name!r} cannot run within a transform of torch.func (grad, vmap, jvp, ...); "
                "use 'reference' or 'auto'"
            )
        name = "reference"
    fast = {"c": (lif_c.refusal, lif_c.run), "triton": (lif_triton.refusal, lif_triton.run)}
    if name == "auto":
        best = "triton" if scan.current.is_cuda else "c"
        name = best if fast[best][0](scan) is None else "torch"
    if name == "reference":
        return lif_reference.run
    if name == "torch":
        return lif_torch.run
    if name in fast:
        refusal, run = fast[name]
        if reason := refusal(scan):
            raise ValueError(f"lif: {origin} {name!r} cannot run this call: {reason}; use 'auto'")
        return run
    raise _unknown_backend("lif", name, origin)


def require_backend(where: str, backend: object) -> None:
    """Raise unless `backend` is the name of a backend."""
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise _unknown_backend(where, backend)


def _unknown_backend(where: str, backend: object, origin: str = "backend") -> ValueError:
    return ValueError(
        f"{where}: {origin} must be one of {', '.join(BACKENDS)}, but is {backend!r}; it is a way to compute, "
        'the device is where the tensors are: net.to("cuda") and x.to("cuda")'
    )


def require_adaptation(where: str, adaptation: object) -> None:
    """Raise unless `adaptation` is an Adaptation or None."""
    if adaptation is not None and not isinstance(adaptation, Adaptation):
        raise TypeError(
            f"{where}: adaptation must be an Adaptation, but is a {type(adaptation).__name__}; "
            "write Adaptation(rho, strength)"
        )


def _checked(
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
    recurrent_grad: float,
    adaptation: Adaptation | None,
) -> Scan:
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
