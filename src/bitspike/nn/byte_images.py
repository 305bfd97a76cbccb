"""A warning for images with values of 0 to 255, as files hold them, that were not divided by 255."""

from __future__ import annotations

import inspect
import warnings

import torch
from torch import Tensor

_FEWEST = 64  # values of a flat sample that may be an image; fewer are rather a row of a table


def holds_bytes(x: Tensor) -> bool:
    """Return whether images `[B, C, H, W]` (or flat ones) on the CPU hold whole numbers from 0 up to 128 ... 255.

    Other inputs are not taken for bytes: standardised images have negative values, currents are not whole, counts are
    small. On a GPU values are not read, since reading waits for the device.
    """
    if x.device.type != "cpu" or not x.numel() or torch.compiler.is_compiling():
        return False
    if x.dim() != 4 and x[0].numel() < _FEWEST:
        return False
    x = x.detach()
    low, high = x.aminmax()
    return 128 <= float(high) <= 255 and float(low) >= 0 and bool((x == x.round()).all())


def warn_of_bytes(x: Tensor) -> None:
    """Warn that the input holds bytes, and say what to do."""
    warnings.warn(
        f"SpikingNetwork: the input holds whole numbers from {x.min():g} to {x.max():g}, as images in files do, where "
        "0 to 1 is meant; divide it by 255 (x / 255). This is said once a network.",
        UserWarning,
        stacklevel=_callers_level(),
    )


def _callers_level() -> int:
    """Return the stack level, counted from the function that warns, of the line that called the network."""
    level, frame = 1, inspect.currentframe()
    frame = frame.f_back if frame else None
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in ("bitspike", "torch"):
        level, frame = level + 1, frame.f_back
    return level
