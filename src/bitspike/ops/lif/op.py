"""The leaky integrate-and-fire scan, Eq. 1-2 of the paper: one public op with several equal backends."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from bitspike.ops import checks
from bitspike.ops.available import transformed
from bitspike.ops.lif.scan import Scan, checked_scan
from bitspike.ops.lif.state import Adaptation, LIFOutput, LIFState
from bitspike.ops.lif.surrogate import Surrogate

Backend = Literal["auto", "reference", "torch", "c", "triton"]
BACKENDS: tuple[Backend, ...] = ("auto", "reference", "torch", "c", "triton")


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
    recurrent_scale: float = 1.0,
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

    `recurrent [N, N]` adds `recurrent_scale * (z[t-1] @ recurrent.T)` to the current: with weights of -1/+1 the sum is
    exact, and rounded once when it is scaled. `recurrent_grad` is the share of the gradient that spikes get back
    through it. `adaptation` lets each neuron's threshold rise with its own spikes. The membrane is
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
    scan = checked_scan(
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
        recurrent_scale,
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
    # Here, because the C library itself imports from this folder.
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
