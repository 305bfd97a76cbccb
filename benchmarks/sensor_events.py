"""Parts of the sensor sets: signals become events, events become the arrays of two files."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Events = dict[
    str, Array
]  # one entry an event: "sample", "t" (time), "x" (channel or column), with a camera "y" and "p"
WHOLE = {"us": True, "ms": True, "s": False}  # whether times of this unit are written as whole numbers


@dataclass(frozen=True, slots=True)
class Plan:
    """The labels of the samples, the subject of each, and whether it is a sample of the test file."""

    labels: Array
    groups: Array
    tested: Array

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class TwoFiles:
    """The arrays of a training file and of a test file; `time_unit` is None for images."""

    train: Mapping[str, Array]
    test: Mapping[str, Array]
    time_unit: str | None = None


def generator(name: str, seed: int) -> np.random.Generator:
    """Return a generator of random numbers that belongs to a set and a seed."""
    return np.random.default_rng([zlib.crc32(name.encode()), seed])


def planned(rng: np.random.Generator, subjects: int, samples: int, classes: int, tested: int) -> Plan:
    """Draw `samples` of each subject, with balanced labels in random order, and which subjects are tested."""
    groups = np.repeat(np.arange(subjects), samples)
    labels = [rng.permutation(np.arange(samples) + rng.integers(classes)) % classes for _ in range(subjects)]
    return Plan(np.concatenate(labels), groups, np.isin(groups, rng.choice(subjects, tested, replace=False)))


def spread(rng: np.random.Generator, sigma: float, shape: int | tuple[int, ...]) -> Array:
    """Draw factors about 1: exp of a normal deviate times sigma."""
    return np.exp(sigma * rng.standard_normal(shape))


def smooth(noise: Array, width: float) -> Array:
    """Filter the last axis with a Gaussian of `width` steps; white noise keeps its variance."""
    steps = noise.shape[-1]
    half = int(min(4 * width, steps // 2)) + 1
    kernel = np.exp(-0.5 * (np.arange(-half, half + 1) / width) ** 2)
    kernel /= np.sqrt((kernel**2).sum())
    size = 1 << int(np.ceil(np.log2(steps + 2 * half + 1)))
    filtered = np.fft.irfft(np.fft.rfft(noise, size) * np.fft.rfft(kernel, size), size)
    return filtered[..., half : half + steps]


def delta_modulated(
    signal: Array, threshold: float | Array, most: int = 3, *, up_only: bool = False
) -> tuple[Array, Array]:
    """Return how often `signal[N, C, T]` rises and falls by a threshold in each step, at most `most` times.

    With `up_only` the reference follows the signal down without an event.
    """
    samples, channels, steps = signal.shape
    threshold = np.broadcast_to(threshold, (samples, channels))
    level = signal[:, :, 0].copy()
    up, down = np.zeros(signal.shape, np.uint8), np.zeros(signal.shape, np.uint8)
    for step in range(1, steps):
        change = (signal[:, :, step] - level) / threshold
        rises, falls = np.clip(np.floor(change), 0, most), np.clip(np.floor(-change), 0, most)
        up[:, :, step] = rises
        if up_only:
            level += rises * threshold
            level = np.where(change < 0, signal[:, :, step], level)
        else:
            down[:, :, step] = falls
            level += (rises - falls) * threshold
    return up, down


def events_of(counts: Array, rng: np.random.Generator, step: float) -> Events:
    """Return `counts[N, C, T]` as events, at random times within their steps of length `step`."""
    found = np.nonzero(counts)
    number = counts[found]
    sample, channel, time = (np.repeat(place, number) for place in found)
    return {"sample": sample, "t": (time + rng.random(len(sample))) * step, "x": channel}


def background(rng: np.random.Generator, rates: Array, durations: Array) -> Events:
    """Draw events of no meaning: `rates[N, C]` a unit of time, for the duration of each sample."""
    counts = rng.poisson(rates * durations[:, None])
    found = np.nonzero(counts)
    sample, channel = (np.repeat(place, counts[found]) for place in found)
    return {"sample": sample, "t": rng.random(len(sample)) * durations[sample], "x": channel}


def kept(events: Events, chosen: Array) -> Events:
    """Return the chosen events."""
    return {name: column[chosen] for name, column in events.items()}


def joined(*parts: Events) -> Events:
    """Return the events of all parts."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def with_faults(
    rng: np.random.Generator,
    plan: Plan,
    events: Events,
    durations: Array,
    channels: int,
    *,
    noise: float,
    hot: float,
    faults: tuple[float, float, float] = (0.03, 0.02, 0.04),
) -> Events:
    """Return the events of real sensors: some are lost, channels are dead or hot for a subject, and all have noise.

    `noise` and `hot` are events a unit of time; `faults` are the shares of dead and hot channels and of lost events.
    """
    subjects = 1 + int(plan.groups.max())
    dead, glows = (rng.random((subjects, channels)) < share for share in faults[:2])
    rates = np.where(glows, hot, noise * spread(rng, 0.3, (subjects, channels)))[plan.groups]
    lost = rng.random(len(events["t"])) < faults[2]
    whole = joined(kept(events, ~lost), background(rng, rates, durations))
    return kept(whole, ~dead[plan.groups[whole["sample"]], whole["x"]])


def two_files(plan: Plan, events: Events, unit: str, units: float = 1) -> TwoFiles:
    """Return the events, sorted by sample and time, as arrays of two files; `units` are those of one unit of `t`."""
    columns = dict(events)
    sample, time = columns.pop("sample"), columns.pop("t") * units
    order = np.lexsort((time, sample))
    sample, time = sample[order], time[order]
    time = np.floor(time).astype(np.int64) if WHOLE[unit] else time.astype(np.float64).round(6)
    types = {"x": np.int16, "y": np.int16, "p": np.int8}
    columns = {"t": time, **{name: column[order].astype(types[name]) for name, column in columns.items()}}

    def file_of(chosen: Array) -> dict[str, Array]:
        counts = np.bincount(sample, minlength=len(plan))[chosen]
        return {
            **{name: column[chosen[sample]] for name, column in columns.items()},
            "offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            "labels": plan.labels[chosen].astype(np.int64),
            "groups": plan.groups[chosen].astype(np.int64),
        }

    return TwoFiles(file_of(~plan.tested), file_of(plan.tested), unit)
