"""Images as a network takes them: from pictures, arrays or IDX files; grey, sized and inverted as it needs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from bitspike.data.event_files import read_image_file
from bitspike.data.idx import read_idx
from bitspike.data.pictures import SUFFIXES, read_picture
from bitspike.data.samples import Images
from bitspike.data.sets.images import FASHION, MNIST
from bitspike.experiments.predicting.file_samples import (
    ARRAY_FILES,
    FileSamples,
    ReadOptions,
    arrays_in,
    labels_of,
    require_array,
)
from bitspike.experiments.predicting.trained_on import TrainedOn

LUMA = (0.299, 0.587, 0.114)  # of red, green and blue: ITU-R BT.601
DARK_BORDERS = (MNIST.title, FASHION.title, MNIST.name, FASHION.name)  # sets whose images are bright on black
BRIGHT = 0.5


def read_images(path: Path, trained_on: TrainedOn, options: ReadOptions) -> FileSamples:
    """Return the images of a picture, of an npz or HDF5 file with `images`, or of an IDX file."""
    expected: list[int | None] | None = None
    notes: list[str] = []
    if path.suffix.lower() in ARRAY_FILES:
        names = arrays_in(path)
        require_array(path, names, "images", f"images of {_size(trained_on.input_shape)}")
        values = read_image_file(path, labelled=False).values
        expected, notes = labels_of(path, trained_on, len(values), names)
    elif path.suffix.lower() in SUFFIXES:
        values = torch.from_numpy(read_picture(path))[None]
    elif "idx" in path.name:
        values = _idx_images(path)
    else:
        raise ValueError(
            f"{path}: the network was trained on {trained_on.title}, which are images; give a picture "
            f"({', '.join(each[1:] for each in SUFFIXES[:3])}, ...), an npz or HDF5 file with images, or an IDX file"
        )
    try:
        values, more = fitted(values, trained_on.input_shape)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if options.invert:
        values = 255 - values if values.dtype == torch.uint8 else 1 - values
    notes += [f"{path}: {note}" for note in (*more, *_polarity(values, trained_on))]
    unknown: list[int | None] = [None] * len(values)
    return FileSamples(Images(values, torch.full((len(values),), -1)), expected or unknown, notes)


def _idx_images(path: Path) -> Tensor:
    values = read_idx(path)
    if values.ndim != 3 or not values.numel():
        raise ValueError(f"{path}: an IDX file of images must be [N, H, W], but is {list(values.shape)}")
    return values[:, None]


def fitted(values: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, list[str]]:
    """Return images `[N, C, H, W]` with the channels and the size of `shape`, and notes on what was done to them.

    Images of another size are scaled until they fit, and filled up at their sides with the colour of their border.
    """
    if len(shape) != 3:
        raise ValueError(f"the network takes {list(shape)} as one image, which is no [channels, height, width]")
    notes = []
    kind, channels = values.dtype, values.shape[1]
    if channels == 3 and shape[0] == 1:
        values = _as(kind, (values.float() * torch.tensor(LUMA).view(3, 1, 1)).sum(1, keepdim=True))
        notes.append("colours became grey (0.299 red + 0.587 green + 0.114 blue)")
    elif channels == 1 and shape[0] == 3:
        values = values.expand(-1, 3, -1, -1)
        notes.append("grey became red, green and blue alike")
    elif channels != shape[0]:
        raise ValueError(
            f"images have {channels} channels, but the network takes {shape[0]}; give images like those of training"
        )
    if (before := tuple(values.shape[2:])) != shape[1:]:
        values = _as(kind, _scaled(values.float(), shape[1:]))
        notes.append(f"{_size(before)} pixels were scaled to {_size(shape)}")
    return values.contiguous(), notes


def _scaled(values: Tensor, size: tuple[int, ...]) -> Tensor:
    """Return images that fit the size, in their own proportions; the rest has the median of their border."""
    factor = min(want / have for want, have in zip(size, values.shape[2:], strict=True))
    height, width = (max(1, round(have * factor)) for have in values.shape[2:])
    small = interpolate(values, (height, width), mode="bilinear", antialias=True)
    down, right = size[0] - height, size[1] - width
    if not down and not right:
        return small
    fill = _border(values).median(-1).values[:, :, None, None]
    return fill + pad(small - fill, (right // 2, right - right // 2, down // 2, down - down // 2))


def _border(values: Tensor) -> Tensor:
    """Return the pixels at the border of images `[N, C, H, W]`, as `[N, C, pixels]`."""
    return torch.cat([values[:, :, 0], values[:, :, -1], values[:, :, :, 0], values[:, :, :, -1]], dim=2)


def _as(kind: torch.dtype, values: Tensor) -> Tensor:
    return values.round().clamp(0, 255).to(kind) if kind == torch.uint8 else values.clamp(0, 1)


def _polarity(values: Tensor, trained_on: TrainedOn) -> list[str]:
    """Return a note if images have a bright border, but those of training a dark one."""
    if trained_on.title not in DARK_BORDERS:
        return []
    bright = _border(values).float().mean((1, 2)) > BRIGHT * (255 if values.dtype == torch.uint8 else 1)
    if not bright.any():
        return []
    count = int(bright.sum())
    of_some = "the border of 1 image is" if count == 1 else f"the borders of {count} images are"
    some = "its border is" if len(values) == 1 else of_some
    return [f"{some} bright, but the network learnt bright things on black; try --invert"]


def _size(shape: tuple[int, ...]) -> str:
    """Return width x height, as programs for pictures say it."""
    return " x ".join(str(size) for size in reversed(shape[-2:]))
