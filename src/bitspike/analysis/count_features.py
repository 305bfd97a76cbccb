"""Simple features of samples, for baselines: counts in ten time bins, or pixels; fewer than 5,000 numbers a sample."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bitspike.data.samples import Frames, Images, Samples

TIME_BINS = 10
CAMERA_GRIDS = (8, 4)  # squares along the longer side of a camera; baselines choose one
MOST_FEATURES = 5000
_AT_ONCE = 256  # samples: all their events are in memory at the same time


def camera_grids(samples: Samples) -> tuple[int | None, ...]:
    """Return the numbers of squares that baselines try along a camera's longer side; (None,) for other samples.

    A camera of few pixels is not divided into more squares than it has pixels.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.count_features import camera_grids
        >>> from bitspike.data.samples import frames_from_dense
        >>> camera_grids(frames_from_dense(torch.zeros(1, 5, 2, 34, 34), torch.tensor([0])))
        (8, 4)
        >>> camera_grids(frames_from_dense(torch.zeros(1, 5, 700), torch.tensor([0])))
        (None,)
    """
    if isinstance(samples, Images) or len(samples.shape) != 3 or min(samples.shape[1:]) == 1:
        return (None,)
    side = max(samples.shape[1:])
    return tuple(dict.fromkeys(min(each, side) for each in CAMERA_GRIDS))


def count_features(samples: Samples, steps: int | None = None, *, squares: int | None = None) -> tuple[Tensor, str]:
    """Return features `[N, F]` float32 of all samples, and words that say what they are.

    Events are counted in ten time bins of equal length, for each channel. Of images these are the pixels. Where that
    would be more than 5,000 numbers, the counts or pixels of neighbours are added: of k channels in a row, or of k x k
    pixels. k is the smallest that is enough; with `squares` it is so large that no side of a camera has more squares.

    `steps` is the number of time steps that the bins divide, where it is not that of the samples: give the training
    samples' steps for test samples, so that a feature is the same time in both. Later events are in no bin.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.count_features import count_features
        >>> from bitspike.data.samples import frames_from_dense
        >>> values = torch.zeros(1, 20, 3)  # 20 steps of 3 channels
        >>> values[0, 4:6, 1] = 2  # both steps are in time bin 2
        >>> features, words = count_features(frames_from_dense(values, torch.tensor([0])))
        >>> features.shape, features[0, 2 * 3 + 1].item(), words
        (torch.Size([1, 30]), 4.0, 'counts in 10 time bins, 30 numbers a sample')
    """
    if isinstance(samples, Images):
        place, cells, joined = pooling(samples.shape, MOST_FEATURES)
        values = _pooled_pixels(samples, place, cells)
        return values, f"pixels{joined}, {cells:,} numbers a sample"
    steps = samples.steps if steps is None else steps
    bins = min(TIME_BINS, steps)
    place, cells, joined = pooling(samples.shape, MOST_FEATURES // bins, squares)
    values = _counts(samples, steps, bins, place, cells)
    return values, f"counts in {bins} time bins{joined}, {bins * cells:,} numbers a sample"


def pooling(shape: tuple[int, ...], most: int, squares: int | None = None) -> tuple[Tensor, int, str]:
    """Return for each place of a sample the cell that it belongs to, how many cells there are, and how it was joined.

    Examples:
        >>> from bitspike.analysis.count_features import pooling
        >>> pooling((6,), most=4)
        (tensor([0, 0, 1, 1, 2, 2]), 3, ' (2 channels in a row as one)')
    """
    space = shape[-2:] if len(shape) > 1 else shape
    before = math.prod(shape) // math.prod(space)
    k = 1 if squares is None else -(-max(space) // squares)
    while before * math.prod(-(-side // k) for side in space) > most and k < max(space):
        k += 1
    sides = [-(-side // k) for side in space]
    cell = torch.arange(before, device="cpu")
    for side, few in zip(space, sides, strict=True):
        cell = cell[..., None] * few + torch.arange(side, device="cpu") // k
    words = "" if k == 1 else f" ({k} channels in a row as one)" if len(space) == 1 else f" ({k} x {k} pixels as one)"
    return cell.flatten(), before * math.prod(sides), words


def _pooled_pixels(samples: Images, place: Tensor, cells: int) -> Tensor:
    """Return the sums of the pixels of each cell, as shares of white."""
    values = samples.values.flatten(1)
    device = values.device
    out = torch.zeros(len(values), cells, device=device)
    for rows in torch.arange(len(values), device=device).split(_AT_ONCE):
        part = values[rows].float()
        out[rows] = out[rows].index_add_(1, place.to(device), part)
    return out / 255 if values.dtype == torch.uint8 else out


def _counts(samples: Frames, steps: int, bins: int, place: Tensor, cells: int) -> Tensor:
    """Return the events of each time bin and cell; step t is in bin t * bins // steps, or in none from `steps` on."""
    size, device = len(place), samples.labels.device
    place = place.to(device)
    out = torch.zeros(len(samples), bins * cells, device=device)
    for rows in torch.arange(len(samples), device=device).split(_AT_ONCE):
        lengths = samples.lengths[rows]
        first = lengths.cumsum(0) - lengths
        event = torch.arange(int(lengths.sum()), device=device)
        event += torch.repeat_interleave(samples.starts[rows] - first, lengths)
        index = samples.index[event].long()
        column = index // size * bins // steps * cells + place[index % size]
        column += torch.repeat_interleave(rows * (bins * cells), lengths)
        kept = index < steps * size
        out.view(-1).index_add_(0, column[kept], samples.count[event[kept]].float())
    return out
