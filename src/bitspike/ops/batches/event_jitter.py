"""The plain definition of training events that are moved, stretched and thinned, by a key and their place in a batch.

Arithmetic is in whole numbers: factors count parts of 2**-16, and so does the place of an event within its time step
and its pixel, and the share of its events that stay. So all devices agree to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bitspike.ops.batches.bins import Bins, sensor
from bitspike.ops.dropout.reference import philox

# The counter's last word: dropout's is 0 and that of images 1, so that no two draws of a key are the same.
PLACE = 2  # of the draws of a sample: the first block moves and stretches it, the second zooms and thins it
ENTRY_PLACE = 3  # of the draws of its stored bins
ENTRIES = 8  # stored bins that share a block of four 32-bit numbers: 16 bits each
ONE = 1 << 16
MOST = 255  # events that a bin can hold
TIME, ACROSS, DOWN, COUNT = 0, 1, 2, 3  # what is drawn for a bin: its place on an axis, or if a part of an event stays
WAVE = 3 * ONE // 4  # of a wave lie over the sensor, in parts of 2**-16


@dataclass(frozen=True, slots=True)
class EventJitter:
    """The settings of jitter: samples move by up to `shift` places and `time_shift` steps each way, and are stretched.

    All moves are equally likely. Time is multiplied by a factor from 1 - `stretch` to 1 + `stretch`, all multiples of
    2**-16 equally likely; so is the distance from the middle of the sensor by one from 1 - `zoom` to 1 + `zoom`. Up to
    a share `thin` of the events are lost where a wave over the sensor is highest, and none where it is lowest.
    """

    shift: int = 0
    stretch: float = 0.0
    time_shift: int = 0
    zoom: float = 0.0
    thin: float = 0.0

    def __bool__(self) -> bool:
        return self.shift > 0 or self.stretch > 0 or self.time_shift > 0 or self.zoom > 0 or self.thin > 0

    @property
    def reach(self) -> int:
        """The largest distance of the factor of time from 1, in parts of 2**-16."""
        return round(self.stretch * ONE)

    @property
    def zoom_reach(self) -> int:
        """The largest distance of the factor of places from 1, in parts of 2**-16."""
        return round(self.zoom * ONE)

    @property
    def most_lost(self) -> int:
        """The largest share of events that is lost, in parts of 2**-16."""
        return round(self.thin * ONE)


@dataclass(frozen=True, slots=True)
class Draws:
    """The draws of each sample `[B]`: moves down, to the right and to later; factors, shares in parts of 2**-16."""

    down: Tensor
    right: Tensor
    factor: Tensor  # of time
    later: Tensor
    zoom: Tensor  # of places
    lost: Tensor  # the share of events that is lost where the wave is highest
    phase: Tensor  # of the wave at the sensor's edge, in parts of 2**-16 of a wave
    upright: Tensor  # whether the wave runs down the sensor, not across it


def draws(jitter: EventJitter, batch: int, key: Tensor, first_row: int = 0) -> Draws:
    """Draw how each sample of a batch moves; places in the batch are counted from `first_row` on."""
    row = torch.arange(batch, device=key.device) + first_row
    none = torch.zeros_like(row)
    down, right, factor, later = (word & 0x7FFFFFFF for word in philox((row, none, none, none + PLACE), key))
    zoom, lost, phase, upright = (word & 0x7FFFFFFF for word in philox((row, none + 1, none, none + PLACE), key))
    return Draws(
        down % (2 * jitter.shift + 1) - jitter.shift,
        right % (2 * jitter.shift + 1) - jitter.shift,
        ONE + factor % (2 * jitter.reach + 1) - jitter.reach,
        later % (2 * jitter.time_shift + 1) - jitter.time_shift,
        ONE + zoom % (2 * jitter.zoom_reach + 1) - jitter.zoom_reach,
        lost % (jitter.most_lost + 1),
        phase % ONE,
        upright % 2 == 1,
    )


def kept_share(drawn: Draws, x: Tensor, y: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the share of events at places `x`, `y` `[B, entries]` that stays, in parts of 2**-16.

    It falls and rises in straight lines. Three quarters of a wave lie across the sensor, or down it, equally likely.
    """
    height, width = sensor(shape)
    along = x * WAVE // width
    if height > 1:
        along = torch.where(drawn.upright[:, None], y * WAVE // height, along)
    wave = (along + drawn.phase[:, None]) % ONE * 2
    wave = torch.where(wave > ONE, 2 * ONE - wave, wave)
    return ONE - (drawn.lost[:, None] * wave >> 16)


def places_within(axis: int, batch: int, entries: int, key: Tensor, first_row: int = 0) -> Tensor:
    """Draw where in its time step (or, on another axis, its pixel) each bin `[B, entries]` is, in parts of 2**-16.

    Bin e takes bits of the block with counter (row, e // 8, axis, 3): of its word e % 8 // 2 the low half if e is even.
    """
    row = torch.arange(batch, device=key.device)[:, None] + first_row
    block = torch.arange(-(-entries // ENTRIES), device=key.device)
    none = torch.zeros_like(block)
    words = philox((row, block, none + axis, none + ENTRY_PLACE), key)
    halves = [half for word in words for half in (word & 0xFFFF, word >> 16)]
    return torch.stack(halves, 2).flatten(1)[:, :entries]


def jittered_counts(bins: Bins, rows: Tensor, jitter: EventJitter, key: Tensor, first_row: int = 0) -> Tensor:
    """Return counts `[steps, batch, size]` in uint8 of the samples `rows`, moved and stretched; see `scatter_counts`.

    A bin of step t goes to step floor((t + u) * factor) + later, with u drawn in [0, 1) for each bin, so that a longer
    sample has no empty steps in between. Place x of the last dimension of `shape`, of width W, goes to
    floor((x + v - W/2) * zoom + W/2) + right, with another v in [0, 1) for each bin; so does a camera's place in the
    dimension before it, with `down`. What leaves the time or the sensor is lost; bins that meet are added up, to at
    most 255. Before all this, n events in a bin become floor(n * share + w), with the `kept_share` and a third draw w
    in [0, 1).
    """
    steps, shape, size, batch, (height, width) = bins.steps, bins.shape, bins.size, len(rows), sensor(bins.shape)
    entry = torch.arange(bins.longest, device=rows.device)
    held = entry < bins.lengths[rows, None]
    at = torch.where(held, bins.starts[rows, None] + entry, 0)
    place = bins.index[at].long()
    drawn = draws(jitter, batch, key, first_row)
    t, place = place // size, place % size
    x, y, plane = place % width, place // width % height, place // (width * height)
    events = bins.count[at].long()
    if jitter.thin:
        part = places_within(COUNT, batch, bins.longest, key, first_row)
        events = events * kept_share(drawn, x, y, shape) + part >> 16
    if jitter.stretch:
        t = (t * ONE + places_within(TIME, batch, bins.longest, key, first_row)) * drawn.factor[:, None] >> 32
    if jitter.zoom:
        x = _zoomed(x, places_within(ACROSS, batch, bins.longest, key, first_row), drawn.zoom, width)
    t, x = t + drawn.later[:, None], x + drawn.right[:, None]
    if height > 1:
        if jitter.zoom:
            y = _zoomed(y, places_within(DOWN, batch, bins.longest, key, first_row), drawn.zoom, height)
        y = y + drawn.down[:, None]
    held = held & (t >= 0) & (t < steps) & (x >= 0) & (x < width) & (y >= 0) & (y < height)
    row = torch.arange(batch, device=rows.device)[:, None]
    moved = (plane * height + y) * width + x
    spare = steps * batch * size  # one more bin, for what is lost
    target = torch.where(held, (t * batch + row) * size + moved, spare)
    sums = torch.zeros(spare + 1, dtype=torch.int32, device=rows.device)
    add(sums, target.flatten(), events.int().flatten())
    return sums[:-1].clamp_(max=MOST).to(torch.uint8).view(steps, batch, size)


def _zoomed(x: Tensor, within: Tensor, zoom: Tensor, width: int) -> Tensor:
    """floor((x + within - width/2) * zoom + width/2), where `within` and `zoom [B]` count parts of 2**-16."""
    return ((x * ONE + within - (width << 15)) * zoom[:, None] + (width << 31)) >> 32


def add(sums: Tensor, at: Tensor, values: Tensor) -> None:
    """sums[at] += values, in whole numbers: their order does not matter, so PyTorch need not sort them first."""
    strict, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        sums.scatter_add_(0, at, values)
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warns)
