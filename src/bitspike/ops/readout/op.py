"""The op `leaky`: it runs in the kernels of `lif`, with a threshold that no membrane reaches."""

from __future__ import annotations

import torch
from torch import Tensor

from bitspike.ops.lif import Backend, LIFOutput, LIFState, lif

NEVER = 1e30  # a threshold that no ordinary membrane reaches, and that every dtype but float16 holds


def leaky(
    current: Tensor,
    *,
    beta: float | Tensor,
    steps: int | None = None,
    state: LIFState | None = None,
    backend: Backend = "auto",
) -> LIFOutput:
    """u[t] = beta*u[t-1] + I[t]: a membrane that neither fires nor resets; `spikes` are all zero.

    `current` is `[T, B, ...]`, or with `steps=T` one step `[B, ...]` that is fed T times. `state`, from an earlier
    call's output, continues it exactly. No gradient passes through the spikes.

    Examples:
        >>> import torch
        >>> from bitspike.ops.readout import leaky
        >>> out = leaky(torch.ones(4, 1, 1), beta=0.5)
        >>> out.membrane.flatten().tolist()
        [1.0, 1.5, 1.75, 1.875]
        >>> out.spikes.sum().item()
        0.0
    """
    if isinstance(state, LIFState) and isinstance(state.membrane, Tensor):
        state = LIFState(state.membrane, torch.zeros_like(state.membrane))  # a spike before would reset it
    never = 1.0
    if isinstance(current, Tensor) and current.is_floating_point():  # else `lif` says what is wrong
        # The largest number: an infinite threshold times no spike would be NaN. So far from its center, every
        # surrogate's gradient is 0.
        never = torch.finfo(torch.promote_types(current.dtype, torch.float32)).max
    return lif(current, beta=beta, theta=never, slope=1.0, steps=steps, state=state, backend=backend)


def leaky_scores(membrane: Tensor, beta: float | Tensor) -> Tensor:
    """mean over time of (1 - beta) * u, for a membrane `[T, B, C]`: `[B, C]`.

    With a constant current I, (1 - beta) * u tends to I whatever the decay.

    Examples:
        >>> import torch
        >>> from bitspike.ops.readout import leaky_scores
        >>> leaky_scores(torch.tensor([[[1.0]], [[1.5]]]), beta=0.5).item()
        0.625
    """
    return membrane.mean(0) * (1 - beta)


def ordered_scores(membrane: Tensor, beta: Tensor) -> Tensor:
    """Return `leaky_scores` in one order of operations: the sum over time in float64, step by step, then float32.

    With fl the rounding to float32: fl(fl(sum / T) * fl(1 - beta)).

    Examples:
        >>> import torch
        >>> from bitspike.ops.readout.op import ordered_scores
        >>> ordered_scores(torch.tensor([[[1.0]], [[1.5]]]), torch.tensor(0.5)).item()
        0.625
    """
    total = torch.zeros_like(membrane[0], dtype=torch.float64)
    for u in membrane.unbind():
        total = total + u
    return (total / len(membrane)).to(torch.float32) * (1 - beta)
