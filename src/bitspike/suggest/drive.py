"""The drive of a layer: how high its membranes rise, and the threshold at which half of it fires."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bitspike.nn.neurons import LeakyReadout

_CLOSE = 1.02  # the ratio of two thresholds that are near enough to each other
_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class Drive:
    """The drive of a layer: `peaks [B, ...]` is the highest free membrane of each neuron for each sample.

    A free membrane has no spike and no reset. Up to its first spike every membrane is free, so a neuron fires for a
    sample if its peak reaches theta. Where there are several glances, each glance has its own peak. The peaks of a
    layer whose spikes come back to it are those of a run in which half of what is driven fires.

    `theta` is the threshold at which the layer fired into the next one when that was measured. `feedback` says whether
    the layer's spikes come back to it.

    Examples:
        >>> import torch
        >>> from bitspike.suggest import Drive
        >>> drive = Drive("layers.0.lif", peaks=torch.tensor([[1.0, 2.0, 3.0]]), theta=1.0)
        >>> drive.typical
        2.0
        >>> drive.alive(theta=2.0) == 2 / 3
        True
        >>> drive.largest_rate(theta_inf=5.0)
        0.25
    """

    layer: str
    peaks: Tensor
    theta: float
    feedback: bool = False

    @property
    def typical(self) -> float:
        """The median of the peaks above rest; weights of -1/+1 drive about half of the neurons down, whatever theta.

        It is 1 where no peak is above rest, as may be in a readout that never fires.
        """
        driven = self.peaks[self.peaks > 0].sort().values  # torch.quantile takes no more than 2**24 values
        return driven[len(driven) // 2].item() if len(driven) else 1.0

    def alive(self, theta: float) -> float:
        """Return the share of neurons that fire for some sample of the batch at `theta`."""
        return (self.peaks.amax(0) >= theta).double().mean().item()

    def largest_rate(self, theta_inf: float) -> float:
        """(typical - theta) / (theta_inf - theta), at most 1: a faster Relax passes the typical peak in one update.

        This is the paper's bound on the rate (Eq. 7) for the current weights, with the typical neuron in place of all:
        the weakest neuron that fires is almost at theta, and would allow no rate at all.
        """
        return min((self.typical - self.theta) / (theta_inf - self.theta), 1.0)


FiresAt = Callable[[Drive], float]  # from a layer's drive, whose theta is still 0, to its threshold


def drive_of(name: str, neurons: nn.Module, peaks: Tensor, fires_at: FiresAt, *, feedback: bool = False) -> Drive:
    """Return the drive of a layer with these peaks; raise if nothing drives neurons that should fire."""
    if not (peaks > 0).any() and not isinstance(neurons, LeakyReadout):
        raise ValueError(
            f"measure_drive: no neuron of {name} is driven above rest by this batch, so it would fire at no "
            "threshold; give a larger batch, lower thresholds (stop), or other initial weights"
        )
    drive = Drive(name, peaks, 0.0, feedback)
    return replace(drive, theta=fires_at(drive))


class Firing(NamedTuple):
    """A layer in a run at some threshold: which pairs of sample and neuron fire, and their highest membranes."""

    fired: Tensor  # [B, ...]
    highest: Tensor

    @property
    def share(self) -> float:
        """The share of the driven pairs that fire; a pair is driven if its membrane is above rest at some time."""
        driven = self.fired | (self.highest > 0)
        return self.fired.sum().item() / max(driven.sum().item(), 1)


def peaks_with_feedback(run: Callable[[float], Firing], without: Drive) -> Tensor:
    """Return the peaks of a layer that hears itself: of `run(theta)`, where theta lets half of what is driven fire.

    A lower threshold means more spikes, more feedback and other membranes, so this threshold is searched for, from the
    typical peak without feedback on. If no threshold is found, the peaks are those without feedback.
    """

    def most_fire(theta: float) -> bool:
        return run(theta).share > 0.5

    now = without.typical
    at_first = most_fire(now)
    for _ in range(_DOUBLINGS):
        then = now * 2 if at_first else now / 2
        if most_fire(then) != at_first:
            break
        now = then
    else:
        return without.peaks
    low, high = min(now, then), max(now, then)
    while high > _CLOSE * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if most_fire(middle) else (low, middle)
    fired, highest = run(low)
    return torch.where(fired, highest.clamp(min=low), highest)
