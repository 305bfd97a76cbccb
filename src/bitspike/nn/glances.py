"""Glances: an image is shown at several places, one after the other. Each glance starts at rest; all spikes count.

For a network, all glances are one larger batch with fewer steps, so that the layers need not know of glances.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bitspike.image_steps import PLACES
from bitspike.ops import LIFOutput, LIFState


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
