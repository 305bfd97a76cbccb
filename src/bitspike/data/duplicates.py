"""Samples that occur twice: a digest of each sample, so that test samples that were trained on are found."""

from __future__ import annotations

import hashlib

from bitspike.data.samples import Images, Samples

LEAST_BINS = 8  # two samples with fewer bins that hold events, or pixels that are not 0, may be equal by chance


def sample_digests(samples: Samples) -> list[bytes | None]:
    """Return a digest of each sample's content, without its label; None where it has too little to compare."""
    if isinstance(samples, Images):
        flat = samples.values.cpu().flatten(1)
        enough = ((flat != 0).sum(1) >= LEAST_BINS).tolist()
        rows = flat.contiguous().numpy()
        return [_digest(row.tobytes()) if keep else None for row, keep in zip(rows, enough, strict=True)]
    index, count = samples.index.cpu().numpy(), samples.count.cpu().numpy()
    found = []
    for start, length in zip(samples.starts.tolist(), samples.lengths.tolist(), strict=True):
        here = slice(start, start + length)
        found.append(_digest(index[here].tobytes() + count[here].tobytes()) if length >= LEAST_BINS else None)
    return found


def count_repeated(samples: list[bytes | None], known: list[bytes | None]) -> int:
    """Return how many of the samples are among the known ones."""
    there = set(known) - {None}
    return sum(each in there for each in samples)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
