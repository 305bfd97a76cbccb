"""The data sets of benchmarks/threshold_study.py: drawn sets of events, and built-in ones that are on the machine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bitspike.data.locate import locate

CLASSES = 10
LOST = 0.3  # the share of its channels whose bursts a sample lacks


@dataclass(frozen=True)
class Drawn:
    """A set of drawn events: every class has its own bursts, in its channels and at its times, on a noise floor.

    `bursts` are those of a channel, `rate` the spikes of a burst in one step, `noise` those between bursts.
    """

    channels: int
    steps: int
    bursts: float
    rate: float
    noise: float


DRAWN = {
    "6 channels, short, dense": Drawn(6, 50, 2.0, 0.5, 0.03),
    "8 channels, long, sparse": Drawn(8, 250, 1.0, 0.08, 0.004),
    "32 channels, medium": Drawn(32, 100, 1.0, 0.2, 0.01),
    "128 channels, short, sparse": Drawn(128, 50, 0.3, 0.1, 0.005),
    "64 channels, long, dense": Drawn(64, 250, 2.0, 0.4, 0.03),
}
BUILT_IN: dict[str, dict[str, Any]] = {
    "shd": {"bin_ms": 10.0, "steps": 100},
    "nmnist-small": {"bin_ms": 10.0, "steps": 31},
    "dvs-sign": {"bin_ms": 66.667, "steps": 75, "downsample": 4},
    "mnist": {},
    "fashion": {},
}
IMAGES = ("mnist", "fashion")


def draw(made: Drawn, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return spikes `[N, T, C]` and labels.

    A sample has its class's bursts, without those of some channels, at another loudness, earlier or later, and each
    burst moved a little.
    """
    classes, rng = np.random.default_rng(7), np.random.default_rng(seed)  # the classes are the same for every seed
    width = max(made.steps // 12, 2)
    count = classes.poisson(made.bursts, (CLASSES, made.channels))
    centers = [[classes.uniform(0.1, 0.9, n) * made.steps for n in row] for row in count]
    labels = rng.permutation(np.arange(samples) % CLASSES)
    time = np.arange(made.steps)
    spikes = np.empty((samples, made.steps, made.channels), np.uint8)
    for i, label in enumerate(labels):
        shift, loud, kept = rng.normal(0, width), rng.uniform(0.5, 1.5), rng.random(made.channels) >= LOST
        rates = np.full((made.channels, made.steps), made.noise)
        for channel in np.flatnonzero(kept):
            for middle in centers[label][channel] + shift + rng.normal(0, width / 2, count[label, channel]):
                rates[channel] += loud * made.rate * np.exp(-(((time - middle) / width) ** 2) / 2)
        rates = rates.clip(0, 1)
        spikes[i] = (rng.random(rates.shape) < rates).T
    return spikes, labels


def write_drawn(name: str, folder: Path, train: int, test: int) -> dict[str, Any]:
    """Write a drawn set as a user would have it, and return its `[data]`."""
    values: dict[str, Any] = {"kind": "spikes"}
    for field, samples, seed in (("file", train, 1), ("test_file", test, 2)):
        path = folder / f"{name.replace(', ', '-').replace(' ', '-')}-{field}.npz"
        if not path.exists():
            spikes, labels = draw(DRAWN[name], samples, seed)
            np.savez(path, spikes=spikes, labels=labels)
        values[field] = str(path)
    return values


def present() -> list[str]:
    """Return the built-in sets that are on this machine."""
    found = []
    for name in BUILT_IN:
        with suppress(FileNotFoundError):
            locate(name)
            found.append(name)
    return found
