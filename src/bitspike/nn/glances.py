"""Glances: an image is shown at several places, one after the other. Each glance starts at rest; all spikes count.

For a network, all glances are one larger batch with fewer steps, so that the layers need not know of glances.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bitspike.ops import LIFOutput, LIFState

Place = tuple[int, int]  # rows down, columns to the right

_CROSS: tuple[Place, ...] = ((0, 0), (-1, 0), (0, -1), (0, 1), (1, 0))
_CORNERS: tuple[Place, ...] = ((-1, -1), (-1, 1), (1, -1), (1, 1))
PLACES: dict[int, tuple[Place, ...]] = {1: ((0, 0),), 5: _CROSS, 9: _CROSS + _CORNERS}


def require_glances(where: str, glances: int, input_shape: tuple[int, ...]) -> None:
    """Raise unless `glances` is 1, 5 or 9; for inputs that are not images it must be 1."""
    if type(glances) is not int or glances not in PLACES:
        raise ValueError(
            f"{where}: glances must be 1, 5 or 9, but is {glances!r}: an image as it is, also moved by a pixel up, "
            "left, right and down, and to the corners between"
        )
    if glances > 1 and len(input_shape) != 3:
        raise ValueError(
            f"{where}: glances are for images [channels, rows, columns], but inputs have shape {list(input_shape)}; "
            "leave glances at 1"
        )


def steps_each(where: str, steps: int, glances: int) -> int:
    """Return the steps of one glance, if all glances together take `steps`."""
    if steps % glances:
        raise ValueError(
            f"{where}: steps must be a multiple of the {glances} glances, but are {steps}; "
            f"{max(steps // glances, 1) * glances} would do, or a single glance"
        )
    return steps // glances


def at_places(images: Tensor, glances: int) -> Tensor:
    """Return images `[B, C, H, W]` as `[B * G, C, H, W]`: the first at all places, then the next; zeros move in.

    The copies of an image are next to each other, so that processes can share the batch as without glances.
    """
    if glances == 1:
        return images
    rows, columns = images.shape[-2:]
    padded = F.pad(images, [1] * 4)
    views = [padded[..., 1 - y : 1 - y + rows, 1 - x : 1 - x + columns] for y, x in PLACES[glances]]
    return torch.stack(views, 1).flatten(0, 1)


def in_time(values: Tensor, glances: int) -> Tensor:
    """Return values `[t, B * G, ...]` as `[G * t, B, ...]`: one glance after the other."""
    if glances == 1:
        return values
    each, rows, *rest = values.shape
    return values.view(each, rows // glances, glances, *rest).movedim(2, 0).flatten(0, 1)


def one_after_the_other(output: LIFOutput, glances: int) -> LIFOutput:
    """Return a layer's output with all glances one after the other in time, and the state of the last glance."""
    if glances == 1:
        return output
    spikes, membrane, state = output
    last = [None if part is None else part[glances - 1 :: glances] for part in state]
    membrane = None if membrane is None else in_time(membrane, glances)
    return LIFOutput(in_time(spikes, glances), membrane, LIFState(*last))  # type: ignore[arg-type]


def counted(counts: Tensor, glances: int) -> Tensor:
    """Return the sum over all glances of spike counts `[B * G, ...]`, as `[B, ...]`."""
    return counts if glances == 1 else counts.view(len(counts) // glances, glances, *counts.shape[1:]).sum(1)
