"""Measurements of time, memory and kernels. Contenders take turns in rounds, so that a slow moment hits all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from bitspike.bench.contender import Contender, using

WARM_UP = {"cuda": 5, "cpu": 2}  # steps: kernels are compiled, graphs recorded
_BURST = 0.02  # seconds of steps that are timed as one, so that waiting for the device weighs little
_LEAST, _MOST = 3, 25  # rounds


@dataclass(slots=True)
class Spread:
    """The median and the quartiles of several numbers."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)

    def rounded(self, digits: int = 4) -> dict[str, float]:
        """Return the values with a number of significant digits, as plain JSON values."""
        return {name: float(f"{getattr(self, name):.{digits}g}") for name in ("median", "low", "high")}


@dataclass(slots=True)
class Entrant:
    """A contender with its measurements so far."""

    contender: Contender
    steps: int = 1  # a burst
    seconds: list[float] = field(default_factory=list)  # a step, by round
    first: float = 0.0  # seconds of the first step: imports, compilation
    peak: int | None = None  # bytes


def warm_up(contender: Contender, device: torch.device, before: int) -> Entrant:
    """Run the first steps and find how many fit a round; `before` is the allocated memory before the contender.

    Peak memory is that of these steps, in which a graph is recorded; replaying it takes no more.
    """
    entrant = Entrant(contender)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    entrant.first = _timed(contender, device, 1)
    for _ in range(WARM_UP[device.type] - 1):
        last = _timed(contender, device, 1)
    entrant.steps = max(1, min(200, round(_BURST / max(last, 1e-6))))
    if contender.peak_bytes is not None:
        entrant.peak = contender.peak_bytes()
    elif device.type == "cuda":
        entrant.peak = torch.cuda.max_memory_allocated(device) - before
    return entrant


def allocated(device: torch.device) -> int:
    """Return how many bytes the GPU's allocator has given out."""
    if device.type != "cuda":
        return 0
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated(device)


def _timed(contender: Contender, device: torch.device, steps: int) -> float:
    """Return the seconds of a step, as the mean over several steps that are started without waiting."""
    with using(contender.arithmetic, device):
        contender.wait()
        began = time.perf_counter()
        for _ in range(steps):
            contender.step()
        contender.wait()
        return (time.perf_counter() - began) / steps


def race(
    entrants: Sequence[Entrant], device: torch.device, seconds: float, tick: Callable[[], object] = lambda: None
) -> None:
    """Run 3 to 25 rounds, for about `seconds` in all; in each round every contender has its turn."""
    began = time.perf_counter()
    for round_ in range(_MOST):
        spent = time.perf_counter() - began
        if round_ >= _LEAST and spent * (round_ + 1) / round_ > seconds:  # another one would not fit
            break
        for entrant in entrants:
            entrant.seconds.append(_timed(entrant.contender, device, entrant.steps))
        tick()


def ratios(ours: Entrant, theirs: Entrant) -> Spread:
    """Return the spread over rounds of another library's time divided by our time."""
    return Spread.of([b / a for a, b in zip(ours.seconds, theirs.seconds, strict=True)])


def launches(contender: Contender, device: torch.device) -> dict[str, int] | None:
    """Count the GPU kernels of one step, and the calls that launch them (a CUDA graph is one); None on the CPU."""
    if device.type != "cuda":
        return None
    with using(contender.arithmetic, device), profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        contender.step()
        contender.wait()
    return counted(seen.events())


def counted(events: Any) -> dict[str, int]:
    """Count the kernels among a profile's events (without copies and fills), and the calls that launched them."""
    kernels = launched = 0
    for event in events or ():
        if event.device_type.name == "CUDA":
            marked = getattr(event, "is_user_annotation", False)  # a range drawn on the device's timeline
            kernels += not (marked or event.name.startswith(("Memcpy", "Memset")))
        elif event.name.startswith(("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "cuGraphLaunch")):
            launched += 1
    return {"kernels": kernels, "launches": launched}
