"""Learnt delays: a module that owns one delay for each neuron and calls one op, `delay`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from bitspike.nn.checked import Check, Checked, setting
from bitspike.nn.whole_numbers import as_neurons, in_range, keep_exact, largest_beyond, rounded
from bitspike.ops import Backend, delay
from bitspike.ops.available import transformed
from bitspike.ops.checks import MOST_DELAY, as_longest, as_positive, hidden
from bitspike.ops.delay.op import NARROWEST
from bitspike.ops.lif.op import require_backend

SHARPEST = 0.3  # a width in steps: nearly all of the weight is on the nearest tap


def _as_width(layer: Delay, value: object) -> Tensor:
    """Return the buffer `width` with a number written into it, or a tensor that takes its place.

    A tensor on a GPU is not looked at, because that would wait for the device.
    """
    if isinstance(value, Tensor) and hidden(value):
        return value
    number = as_positive("Delay", "width", value)
    if number < NARROWEST:
        raise ValueError(
            f"Delay: width must be at least {NARROWEST:g} steps, but is {number:g}; narrower delays get no gradient, "
            "and on a GPU rounding noise in its place; call eval() for whole steps"
        )
    return value if isinstance(value, Tensor) else layer.width.fill_(number)  # in its place, where CUDA graphs read it


class Delay(Checked):
    """Delays each neuron's spikes by a learnt number of steps in 0..longest: spikes[t - d_j, :, j].

    The input is `[T, B, neurons, ...]`. The parameter `delays [neurons]` starts uniform in 0..longest. In training mode
    delays are soft: a Gaussian of the buffer `width` over whole steps, which starts at longest / 2 and which training
    shrinks (`layer.width = 1.0`, at least 0.1; a state dict does not hold it). Each call first clamps `delays` to
    0..longest. In evaluation mode delays are rounded to whole steps.

    Without a `past` a call starts in silence. After each call `state` holds the last `longest` steps of the input; give
    it as `past` to continue: an input in parts gives what it gives as a whole. `backend` is a way to compute, for
    comparisons.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> layer = bitspike.Delay(neurons=2, longest=3).eval()
        >>> layer.delays.data = torch.tensor([0.2, 2.6])
        >>> layer.rounded().tolist()
        [0, 3]
        >>> spikes = torch.zeros(5, 1, 2)  # [T, B, neurons]
        >>> spikes[0] = 1
        >>> layer(spikes).squeeze(1).T.tolist()
        [[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0]]
        >>> first = layer(spikes[:2])
        >>> rest = layer(spikes[2:], past=layer.state)
        >>> torch.equal(torch.cat([first, rest]), layer(spikes))
        True
    """

    longest: int
    delays: nn.Parameter
    width: Tensor
    state: Tensor | None
    checks: ClassVar[Mapping[str, Check]] = {
        "longest": lambda layer, value: as_longest(type(layer).__name__, value, MOST_DELAY),
        "width": _as_width,
        "backend": setting(require_backend),
    }

    def __init__(self, neurons: int, longest: int, *, backend: Backend = "auto") -> None:
        super().__init__()
        count = as_neurons("Delay", neurons)
        self.longest = longest
        self.backend: Backend = backend
        self.delays = nn.Parameter(torch.empty(count, dtype=torch.float32).uniform_(0, self.longest))
        start = torch.tensor(max(self.longest / 2, SHARPEST), dtype=torch.float32)
        self.register_buffer("width", start, persistent=False)
        self.state = None

    def forward(self, x: Tensor, past: Tensor | None = None, *, held: Tensor | None = None) -> Tensor:
        """Return `x [T, B, neurons, ...]` delayed; `past` holds the steps before it (see `remember`).

        `held` is what `remember` gives for this input. Who has it already passes it, so that it is not made twice.
        """
        self._require_input(x)
        delays = in_range(self.delays, self.longest, training=self.training)
        width = self.width if self.training else None
        out = delay(x, delays, longest=self.longest, width=width, past=past, backend=self.backend)
        self.state = None if transformed() else (self.remember(x, past) if held is None else held).detach()
        return out

    def rounded(self) -> Tensor:
        """Return the delays in whole steps, `[neurons]` in int64; halves go to the even neighbour."""
        return rounded(self.delays, self.longest)

    def remember(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        """Return a copy of the last `longest` steps of `past` and `x`, `[longest, B, neurons, ...]`."""
        wanted = (self.longest, *x.shape[1:])
        if past is None:
            past = x.new_zeros((max(self.longest - len(x), 0), *x.shape[1:]))
        elif past.shape != wanted:
            raise ValueError(
                f"Delay: past must be [longest, B, neurons, ...], {list(wanted)} for this input, but has shape "
                f"{list(past.shape)}; pass what an earlier call on the same batch left"
            )
        new = x[max(len(x) - self.longest, 0) :]
        return torch.cat([past[len(past) - (self.longest - len(new)) :], new])

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Move or convert the layer; delays stay at least float32, since rounding would move them to another step."""
        exact = self.delays.detach()
        super()._apply(fn, recurse)
        if keep_exact(self.delays, exact):
            self._buffers["width"] = self.width.float()
        return self

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Save delays within 0..longest, as they are used: the optimizer's last step may have moved them further."""
        self.delays.data.clamp_(0, self.longest)
        super()._save_to_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Load the delays; report those that are longer than this layer's longest."""
        super()._load_from_state_dict(state_dict, prefix, *args)
        found, errors = largest_beyond(state_dict, f"{prefix}delays", self.longest), args[-1]
        if found is not None:
            errors.append(
                f"{prefix}delays go up to {found:.4g} steps, but this layer's longest is {self.longest}; build the "
                "network with the delays of the saved one"
            )

    def extra_repr(self) -> str:
        return f"{len(self.delays)}, longest={self.longest}"

    def _require_input(self, x: Tensor) -> None:
        neurons = len(self.delays)
        if not isinstance(x, Tensor):
            raise TypeError(f"Delay: input must be a torch.Tensor, but is a {type(x).__name__}")
        if x.dim() < 3 or x.shape[2] != neurons or len(x) == 0:
            raise ValueError(
                f"Delay: input must be [T, B, {neurons}, ...] with at least one step, but has shape {list(x.shape)}"
            )
