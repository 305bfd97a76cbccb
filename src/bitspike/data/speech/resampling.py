"""A recording at another sample rate."""

from __future__ import annotations

import math

import torch
from torch import Tensor

MARGIN_S = 0.02  # of silence on both sides, so that the end does not leak into the beginning


def resample(samples: Tensor, rate: int, new_rate: int) -> Tensor:
    """Return `samples [N]` at `new_rate`, `[round(N new_rate / rate)]`.

    The spectrum is cut, or continued with zeros, at half of the lower rate. A tone below it stays the same tone.
    """
    if rate == new_rate:
        return samples
    shared = math.gcd(rate, new_rate)
    old, new = rate // shared, new_rate // shared  # so many samples of either last equally long
    blocks = -(-(len(samples) + 2 * math.ceil(MARGIN_S * rate)) // old)
    before = math.ceil(MARGIN_S * rate / old)  # in blocks
    padded = torch.zeros((blocks + before) * old, dtype=samples.dtype)
    padded[before * old : before * old + len(samples)] = samples
    spectrum = torch.fft.rfft(padded)
    size = (blocks + before) * new
    spectrum = spectrum[: size // 2 + 1]
    if new < old and size % 2 == 0:
        spectrum[-1] = 0  # at half the rate a cosine and a sine cannot be told apart
    whole: Tensor = torch.fft.irfft(spectrum, n=size) * (new / old)
    start = before * new
    return whole[start : start + round(len(samples) * new / old)]
