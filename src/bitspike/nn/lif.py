"""Leaky integrate-and-fire neurons: a module that owns thresholds and decays and calls one op, `lif`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from bitspike.nn.checked import Check, Checked, setting
from bitspike.nn.thresholds import as_theta, as_threshold, no_gradient
from bitspike.ops import Adaptation, Backend, LIFOutput, LIFState, Surrogate, lif
from bitspike.ops.checks import as_number, as_positive, require_truth
from bitspike.ops.lif.op import require_backend
from bitspike.ops.lif.state import require_adaptation
from bitspike.ops.lif.surrogate import require_surrogate

SurrogateCenter = Literal["initial", "current"]


def _at_least_float32() -> torch.dtype:
    """Return PyTorch's default dtype, but never half precision: a rounded threshold is too coarse to anneal."""
    return torch.promote_types(torch.get_default_dtype(), torch.float32)


def _shown(value: Tensor) -> str:
    return "?" if value.is_meta else f"{value.item():.4g}"


def _require_center(where: str, value: object) -> None:
    if not isinstance(value, str) or value not in ("initial", "current"):
        raise ValueError(
            f"{where}: surrogate_center must be 'initial' (the paper) or 'current' (the released code), "
            f"but is {value!r}"
        )


def _fixed_beta(layer: LIF, value: object) -> object:
    name = type(layer).__name__
    raise AttributeError(
        f"{name}: beta is given when the layer is made, {name}(beta=...), or learnt with learn_beta=True; "
        f"it cannot be set to {value!r} later"
    )


class LIF(Checked):
    """Leaky integrate-and-fire neurons (Eq. 1-2) over `current [T, B, ...]`; the buffer `theta` is their threshold.

    `beta` is the share of the membrane that is kept in each step. `theta` is the threshold: set it at any time with
    `lif.theta = 3.0`, or give a tensor, which then replaces the buffer. Thresholds follow a schedule and get no
    gradient. Every other setting may be changed later too; it is checked where it is set.

    `surrogate` is the shape of the spike's gradient and `slope` its steepness, as in `lif`. With
    `surrogate_center="initial"` its center stays at the starting threshold while annealing raises theta (the paper);
    with `"current"` it moves along (the authors' released code). `learn_beta` learns the decay: one for the layer, or
    one for each neuron if `neurons` says how many there are. It is stored as a logit, so that it stays in (0, 1).
    `adaptation` adds Bellec's adaptive threshold. `backend` is a way to compute, for comparisons.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> neurons = bitspike.LIF(beta=0.5, theta=1.0)
        >>> out = neurons(torch.full((4, 1, 1), 0.75))  # [T, B, N]
        >>> out.spikes.flatten().tolist()
        [0.0, 1.0, 0.0, 0.0]
        >>> out.membrane.flatten().tolist()
        [0.75, 1.125, 0.3125, 0.90625]
        >>> neurons.theta = 3.0
        >>> neurons(torch.full((4, 1, 1), 0.75)).spikes.sum().item()
        0.0
    """

    theta: Tensor
    theta_grad: Tensor
    checks: ClassVar[Mapping[str, Check]] = {
        "theta": as_theta,
        "theta_grad": lambda layer, value: as_threshold(layer, "theta_grad", value),
        "beta": _fixed_beta,
        "slope": lambda layer, value: as_positive(type(layer).__name__, "slope", value),
        "surrogate": setting(require_surrogate),
        "surrogate_center": setting(_require_center),
        "adaptation": setting(require_adaptation),
        "backend": setting(require_backend),
    }

    def __init__(
        self,
        beta: float | Tensor = 0.9,
        theta: float = 1.0,
        *,
        slope: float = 25.0,
        surrogate: Surrogate = "fast_sigmoid",
        surrogate_center: SurrogateCenter = "initial",
        learn_beta: bool = False,
        neurons: int | tuple[int, ...] | None = None,
        adaptation: Adaptation | None = None,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        name = type(self).__name__
        require_truth(name, "learn_beta", learn_beta)
        self.slope = slope
        self.surrogate: Surrogate = surrogate
        self.surrogate_center: SurrogateCenter = surrogate_center
        self.adaptation = adaptation
        self.backend: Backend = backend
        theta = as_positive(name, "theta", theta)
        for buffer in ("theta", "theta_grad"):
            self.register_buffer(buffer, torch.tensor(theta, dtype=_at_least_float32()))
        self._own_beta(beta, learn_beta, neurons)

    def _own_beta(self, beta: float | Tensor, learn: bool, neurons: int | tuple[int, ...] | None) -> None:
        name = type(self).__name__
        if not isinstance(beta, Tensor):
            beta = as_number(name, "beta", beta)
        # Looked at where it is, or on the CPU: a layer may be made on a device that holds no values (meta).
        device = beta.device if isinstance(beta, Tensor) else torch.device("cpu")
        values = torch.as_tensor(beta, dtype=_at_least_float32(), device=device).detach().clone()
        if neurons is not None:
            shape = tuple(neurons) if isinstance(neurons, (tuple, list)) else (neurons,)
            if not all(isinstance(n, Integral) and n >= 1 for n in shape):
                raise ValueError(f"{name}: neurons must be >= 1 and whole, but is {neurons!r}; None shares one beta")
            if values.dim() > 0 and values.shape != shape:
                raise ValueError(
                    f"{name}: beta has shape {list(values.shape)} but there are {neurons} neurons; "
                    "give one number or one a neuron"
                )
            values = values.expand(shape).clone()
        seen = values.device.type != "meta"  # which holds no values
        if seen and not ((values >= 0) & (values <= 1)).all():
            raise ValueError(
                f"{name}: beta must be in [0, 1], but is {beta!r}; it is the share of the membrane kept per step"
            )
        if learn and seen and not ((values > 0) & (values < 1)).all():
            raise ValueError(
                f"{name}: a learnt beta must start inside (0, 1), but is {beta!r}; at 0 or 1 its logit is infinite"
            )
        if not isinstance(beta, Tensor):
            values = values.to(torch.get_default_device())
        if not learn:
            self.register_buffer("_beta", values)
            return
        self.beta_logit = nn.Parameter(values.logit())

    @property
    def beta(self) -> Tensor:
        """The share of the membrane kept per step."""
        if isinstance(logit := getattr(self, "beta_logit", None), Tensor):
            return logit.sigmoid()
        fixed: Tensor = self.get_buffer("_beta")
        return fixed

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Move or convert the layer; thresholds and decays stay at least float32, since rounding would flip spikes."""
        before = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, buffer in self._buffers.items():
            kept = before[name]
            if buffer is not None and kept is not None and buffer.dtype in (torch.float16, torch.bfloat16):
                self._buffers[name] = kept.to(buffer.device)
        return self

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Add a parameter to the layer; refuse a threshold, which must be a buffer."""
        if name in ("theta", "theta_grad"):
            raise no_gradient(type(self).__name__, name)
        super().register_parameter(name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a buffer to the layer; check a threshold that replaces another one."""
        if name in ("theta", "theta_grad") and name in self._buffers:
            tensor = as_threshold(self, name, tensor)
        super().register_buffer(name, tensor, persistent)

    @torch.no_grad()
    def set_theta(self, theta: float, *, initial: float) -> None:
        """Write the threshold in place; the surrogate goes to `initial`, or follows if its center is "current"."""
        name = type(self).__name__
        theta, initial = as_positive(name, "theta", theta), as_positive(name, "initial", initial)
        self.theta.fill_(theta)
        self.theta_grad.fill_(theta if self.surrogate_center == "current" else initial)

    def neuron_shape(self) -> torch.Size:
        """Return the shape of one sample's neurons, as far as the layer knows it: the shape of its decays."""
        return self.beta.shape

    def recurrent_weight(self) -> Tensor | None:
        """Return the weights through which spikes reach the layer one step later; None if there are none."""
        return None

    def recurrent_factors(self) -> tuple[Tensor | None, float]:
        """Return the recurrent weights, and a number that their sums are multiplied by: together `recurrent_weight`."""
        return self.recurrent_weight(), 1.0

    def recurrent_share(self) -> float:
        """Return the share of the gradient that goes back through the recurrent weights."""
        return 1.0

    def forward(
        self,
        current: Tensor,
        state: LIFState | None = None,
        *,
        steps: int | None = None,
        keep_membrane: bool = True,
    ) -> LIFOutput:
        recurrent, scale = self.recurrent_factors()
        return lif(
            current,
            beta=self.beta,
            theta=self.theta,
            theta_grad=self.theta_grad,
            slope=self.slope,
            surrogate=self.surrogate,
            steps=steps,
            state=state,
            keep_membrane=keep_membrane,
            recurrent=recurrent,
            recurrent_scale=scale,
            recurrent_grad=self.recurrent_share(),
            adaptation=self.adaptation,
            backend=self.backend,
        )

    def extra_repr(self) -> str:
        beta = self.beta.detach()
        decay = _shown(beta) if beta.numel() == 1 or beta.is_meta else f"[{beta.min():.4g}..{beta.max():.4g}]"
        learnt = " (learnt)" if hasattr(self, "beta_logit") else ""
        adaptation = f", {self.adaptation}" if self.adaptation else ""
        return (
            f"beta={decay}{learnt}, theta={_shown(self.theta)}, slope={self.slope:.4g}, "
            f"surrogate={self.surrogate!r}, surrogate_center={self.surrogate_center!r}{adaptation}"
        )
