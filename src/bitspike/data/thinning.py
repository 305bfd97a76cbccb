"""Thinning of images: a draw keeps each pixel or makes it black; it depends only on a seed and the sample."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import torch

from bitspike.data.samples import Images, Samples

_AT_ONCE = 4096  # samples whose draws are in memory together


def thinned(samples: Samples, keep: float, seed: int, split: str) -> Samples:
    """Keep each pixel (all its channels) with probability `keep`, else set it to 0; `keep=1` keeps all.

    The draw of a pixel is the same for every `keep`, so a smaller `keep` keeps a subset of the pixels of a larger one.
    """
    if keep == 1:
        return samples
    if not isinstance(samples, Images):
        raise ValueError("data.keep has no meaning here: it thins images, but these samples are events; leave it out")
    drawn = hashlib.blake2b(f"{seed}/keep/{split}".encode(), digest_size=4).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(drawn, "little"))
    values = torch.empty_like(samples.values)
    count, _, height, width = values.shape
    for at in range(0, count, _AT_ONCE):
        part = samples.values[at : at + _AT_ONCE]
        draws = torch.rand(len(part), 1, height, width, generator=generator, dtype=torch.float32, device="cpu")
        torch.mul(part, draws < keep, out=values[at : at + _AT_ONCE])
    return replace(samples, values=values)
