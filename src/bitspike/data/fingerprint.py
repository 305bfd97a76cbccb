"""One number for the content of samples: it does not depend on where their files lie or how they are packed."""

from __future__ import annotations

import hashlib
import json

from bitspike.data.samples import Images, Samples


def fingerprint(samples: Samples) -> str:
    """Return the sha256 of all samples and labels, in their order."""
    head: list[object] = [type(samples).__name__, len(samples), samples.steps, list(samples.shape)]
    if isinstance(samples, Images):
        parts = [samples.values]
        head.append(str(samples.values.dtype))
    else:  # selecting samples moves no events: only those that are chosen count
        starts, lengths = samples.starts.tolist(), samples.lengths.tolist()
        head.append(lengths)
        pieces = [slice(start, start + length) for start, length in zip(starts, lengths, strict=True)]
        parts = [part for piece in pieces for part in (samples.index[piece], samples.count[piece])]
    summed = hashlib.sha256(json.dumps(head).encode())
    for part in (*parts, samples.labels):
        summed.update(part.cpu().contiguous().flatten().numpy().data)
    return summed.hexdigest()
