"""Encoders that turn numbers into spikes `[T, ...]`: by rate (Poisson), or by the time of the first spike (latency)."""

from __future__ import annotations

import torch
from torch import Tensor

from bitspike.image_steps import require_steps


def poisson(rates: Tensor, steps: int | None = None, *, generator: torch.Generator | None = None) -> Tensor:
    """Return spikes `[T, ...]`, each 1 with the probability `rates`: one draw for each step and element.

    With `steps=T`, `rates [...]` hold for all steps; without, `rates [T, ...]` give each step its own.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> rates = torch.tensor([0.0, 0.5, 1.0])
        >>> spikes = bitspike.poisson(rates, steps=1000, generator=torch.Generator().manual_seed(0))
        >>> spikes.shape
        torch.Size([1000, 3])
        >>> spikes.mean(0)[[0, 2]].tolist()
        [0.0, 1.0]
    """
    _require_tensor("poisson", "rates", rates)
    _require_unit("poisson", "rates", rates)
    if steps is not None:
        require_steps("poisson", steps)
        rates = rates.expand(steps, *rates.shape)
    # Half precision has too few values in [0, 1) to draw a small rate from.
    wide = torch.promote_types(rates.dtype, torch.float32)
    draws = torch.rand(rates.shape, generator=generator, dtype=wide, device=rates.device)
    return (draws < rates).to(rates.dtype)


def latency(intensity: Tensor, steps: int, *, silent_below: float = 0.0) -> Tensor:
    """Return one spike `[T, ...]` for each element, at t = round((1 - intensity) * (T - 1)): the stronger, the earlier.

    Elements of at most `silent_below` never spike.

    Examples:
        >>> import torch
        >>> import bitspike
        >>> bitspike.latency(torch.tensor([1.0, 0.5, 0.0]), steps=3).tolist()  # [T, 3]
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    _require_tensor("latency", "intensity", intensity)
    require_steps("latency", steps)
    if not 0 <= silent_below <= 1:
        raise ValueError(f"latency: silent_below must be in [0, 1], but is {silent_below!r}")
    _require_unit("latency", "intensity", intensity)
    times = ((1 - intensity) * (steps - 1)).round().long()
    spikes = torch.zeros((steps, *intensity.shape), dtype=intensity.dtype, device=intensity.device)
    return spikes.scatter_(0, times[None], (intensity > silent_below).to(intensity.dtype)[None])


def _require_tensor(where: str, name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{where}: {name} must be a tensor, but is a {type(value).__name__}")


def _require_unit(where: str, name: str, values: Tensor) -> None:
    if not values.is_floating_point():
        raise TypeError(f"{where}: {name} must be floating point in [0, 1], but have dtype {values.dtype}")
    if values.numel() and not bool(((values >= 0) & (values <= 1)).all()):
        raise ValueError(
            f"{where}: {name} must be in [0, 1], but range over {values.min().item():g}..{values.max().item():g}; "
            "divide images by 255"
        )
