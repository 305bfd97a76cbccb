"""The spikes of a recording, by the cochlear model of the Spiking Heidelberg Digits (Cramer et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bitspike.data.progress import Progress, silent
from bitspike.data.speech.resampling import resample
from bitspike.ops.cochlea.membrane import MEMBRANE, RATE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bitspike.data.speech.sound import Sound

LOUDNESS = 0.3  # root mean square that every recording is brought to
BLOCK = 2**21  # numbers of the membrane that are held at once
LEAST_UNITS = 8  # at once: hair cells of so many cost as much as those of one


@dataclass(frozen=True, slots=True)
class Spikes:
    """Spikes in the order of time: `t [E]` int64 microseconds, and `unit [E]` uint16, 0 (high) to 699 (low).

    Examples:
        >>> import numpy as np
        >>> from bitspike.data import Spikes
        >>> spikes = Spikes(np.array([0, 1500]), np.array([3, 699], dtype=np.uint16), seconds=0.5)
        >>> len(spikes)
        2
    """

    t: NDArray[np.int64]
    unit: NDArray[np.uint16]
    seconds: float

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        return f"Spikes({len(self):,} spikes in {self.seconds:.3g} s)"


def encode_speech(sound: Sound, *, seed: int = 0, progress: Progress = silent) -> Spikes:
    """Return the spikes of 700 units that a sound causes; `seed` draws which nerve fibres fire.

    The sound is brought to 48 kHz and to one loudness, and faded in and out over its whole length. The same sound and
    seed give the same spikes. Times are those of steps of 1/24 ms.

    Examples:
        >>> import numpy as np
        >>> from bitspike.data import Sound, encode_speech
        >>> tone = Sound(np.sin(2 * np.pi * 440 * np.arange(2400) / 24000), rate=24000)
        >>> spikes = encode_speech(tone, seed=1)
        >>> bool(spikes.t.max() <= 100_000), 460 < int(np.median(spikes.unit)) < 500
        (True, True)
    """
    found = list(_fired(prepared(torch.from_numpy(sound.samples), sound.rate), seed, progress))
    step, unit = (torch.cat(parts) for parts in zip(*found, strict=True))
    order = torch.argsort(step * MEMBRANE.units + unit)
    t = (step[order].double() * (1e6 / (RATE // 2))).round().long()
    return Spikes(t.numpy(), unit[order].to(torch.int32).numpy().astype("uint16"), sound.seconds)


def prepared(samples: Tensor, rate: int) -> Tensor:
    """Return a sound as the model takes it: 48 kHz, one loudness, faded, with zeros up to a length that is fast."""
    sound = resample(samples, rate, RATE)
    sound = sound * (LOUDNESS / sound.square().mean().sqrt()) * window(len(sound))
    return torch.nn.functional.pad(sound, (0, quick_length(len(sound)) - len(sound)))


def window(samples: int) -> Tensor:
    """Return what a recording is faded with, `[samples]`: half a cosine up to the middle, and the same down."""
    half = samples // 2
    rise = 0.5 - 0.5 * torch.cos(torch.pi * torch.arange(half, dtype=torch.float64) / (half - 0.5))
    return torch.cat([rise, torch.ones(samples - 2 * half, dtype=torch.float64), rise.flip(0)])


def quick_length(samples: int) -> int:
    """Return the least length, from `samples` on, that is fast: the steps have no prime factor above 7."""
    while not _smooth(samples // 2 + 1):
        samples += 1
    return samples


def _smooth(n: int) -> bool:
    for prime in (2, 3, 5, 7):
        while n % prime == 0:
            n //= prime
    return n == 1


def _fired(sound: Tensor, seed: int, progress: Progress) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the steps and units of spikes, for some units at a time."""
    from bitspike.ops.cochlea.run import cochlea

    many = max(LEAST_UNITS, BLOCK // (len(sound) // 2 + 1))
    blocks = range(0, MEMBRANE.units, many)
    tick = progress("hearing", len(blocks))
    run = cochlea(sound)
    for first in blocks:
        units = range(first, min(first + many, MEMBRANE.units))
        unit, step = run(units, seed).nonzero(as_tuple=True)
        yield step, unit + first
        tick()
