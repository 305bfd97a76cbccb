"""IDX files, the format of MNIST and sets like it: a big-endian header, then bytes."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

from bitspike.data.array_files import read_up_to
from bitspike.data.samples import Images
from bitspike.data.unpacking import most_unpacked

LIMIT = 2 * 2**30
MOST_DIMENSIONS = 8
GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTES = 0x08


def read_idx(path: Path) -> Tensor:
    """Return the array in an IDX file, uint8 of any rank; gzip is recognised by its first bytes, not by the name."""
    try:
        with path.open("rb") as raw:
            if raw.peek(2)[:2] != GZIP_MAGIC:
                return _read(path, raw, path.stat().st_size)
            with gzip.open(raw) as stream:
                return _read(path, stream, most_unpacked(path))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: the gzip data is damaged or cut short ({error}); fetch the file again") from error


def read_images(images_path: Path, labels_path: Path, *, classes: int = 10) -> Images:
    """Read images `[N, 1, H, W]` uint8 and labels `[N]` in 0..classes-1, from one IDX file each."""
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3:
        raise ValueError(f"{images_path}: images must be an array [N, H, W], but it has the shape {list(images.shape)}")
    if labels.ndim != 1:
        raise ValueError(f"{labels_path}: labels must be an array [N], but it has the shape {list(labels.shape)}")
    if len(images) != len(labels):
        raise ValueError(
            f"{images_path}: holds {len(images)} images, but {labels_path.name} {len(labels)} labels; "
            "they must be of the same set"
        )
    if len(labels) and int(labels.max()) >= classes:
        raise ValueError(f"{labels_path}: labels must be in 0..{classes - 1}, but one is {int(labels.max())}")
    return Images(images[:, None], labels.long())


def _read(path: Path, stream: io.BufferedIOBase, most: int) -> Tensor:
    """Return one array from `stream`, which can hold at most `most` bytes."""
    shape = _shape(path, stream)
    size = math.prod(shape)
    lengths = " x ".join(map(str, shape)) or "1"
    promise = f"{path}: the header promises {lengths} = {size} bytes"
    if not size and math.prod(filter(None, shape)) > LIMIT:  # no array of any size can have such a shape
        raise ValueError(f"{path}: the header promises {lengths}, more than the {LIMIT} that are read; fetch it again")
    if size > LIMIT:
        raise ValueError(f"{promise}, more than the {LIMIT} that are read; the file is damaged, fetch it again")
    if size > most:
        raise ValueError(f"{promise}, more than the file can hold; fetch it again")
    data = read_up_to(stream, size)
    if len(data) < size:
        raise ValueError(f"{promise}, but only {len(data)} follow; fetch the file again")
    if stream.read(1):
        raise ValueError(f"{promise}, but more follow; fetch the file again")
    return (
        torch.frombuffer(data, dtype=torch.uint8).view(shape)
        if size
        else torch.empty(shape, dtype=torch.uint8, device="cpu")
    )


def _shape(path: Path, stream: io.BufferedIOBase) -> tuple[int, ...]:
    magic = stream.read(4)
    if magic[:2] != b"\0\0":
        raise ValueError(f"{path}: not an IDX file: it must begin with two zero bytes, but begins with {magic!r}")
    if len(magic) < 4:
        raise ValueError(f"{path}: ends within its header, after {len(magic)} bytes; fetch it again")
    if magic[2] != UNSIGNED_BYTES:
        raise ValueError(f"{path}: must hold unsigned bytes (type 0x08), but its type is 0x{magic[2]:02x}")
    if magic[3] > MOST_DIMENSIONS:
        raise ValueError(f"{path}: must have at most {MOST_DIMENSIONS} dimensions, but its header says {magic[3]}")
    header = stream.read(4 * magic[3])
    if len(header) < 4 * magic[3]:
        raise ValueError(f"{path}: ends within its header of {magic[3]} dimensions; fetch it again")
    return struct.unpack(f">{magic[3]}I", header)
