"""Statistics of how well an output neuron fires at its target time, over training iterations and seeds."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class TimingStatistics:
    """Statistics of spike times: means over the last iterations and all seeds; shares are in [0, 1].

    Examples:
        >>> import torch
        >>> from bitspike.analysis.timing import timing_statistics
        >>> spikes = torch.zeros(4, 100, 2)  # [iterations, T, seeds]
        >>> spikes[:, 75, 0] = 1.0
        >>> statistics = timing_statistics(spikes, target=75, last=2)
        >>> statistics.exact, statistics.seeds_near, statistics.seeds_silent
        (0.5, 1, 1)
    """

    exact: float  # share of iterations with a spike at the target time
    near: float  # ... within one step of it
    due: float  # ... between the step before the target trace crosses the threshold and the one after its peak
    alone: float  # ... within one step of the target time, and no other spike
    active: float  # ... with any spike
    spikes: float  # output spikes an iteration
    first_spike: float | None  # mean time of the first spike, where there is one
    seeds_near: int  # seeds that spike within one step of the target in over half of the iterations
    seeds_silent: int  # seeds without a single spike

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the statistics rounded, for a report."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(self).items()}


def timing_statistics(spikes: Tensor, target: int, last: int, crossing: int | None = None) -> TimingStatistics:
    """Return statistics of `spikes [K, T, S]` (iterations, time, seeds) over the last `last` iterations.

    `crossing` is the time from which a membrane on its target trace would fire; the target time if not given.

    Examples:
        >>> import torch
        >>> from bitspike.analysis.timing import timing_statistics
        >>> spikes = torch.zeros(4, 100, 2)  # [iterations, T, seeds]
        >>> spikes[:, 75, 0] = 1.0
        >>> timing_statistics(spikes, target=75, last=2).near  # one of two seeds fires in time
        0.5
    """
    iterations, steps, _ = spikes.shape
    if not 1 <= last <= iterations:
        raise ValueError(f"timing_statistics: last must be in 1..{iterations} (the iterations), but is {last!r}")
    if not 0 <= target < steps:
        raise ValueError(f"timing_statistics: target must be in 0..{steps - 1} (the time steps), but is {target!r}")
    window = spikes[-last:]
    count = window.sum(1)
    near = window[:, max(target - 1, 0) : target + 2].amax(1)
    due = window[:, max((target if crossing is None else crossing) - 1, 0) : target + 2].amax(1)
    active = count > 0
    first = window.argmax(1)[active]
    return TimingStatistics(
        exact=window[:, target].mean().item(),
        near=near.mean().item(),
        due=due.mean().item(),
        alone=((near > 0) & (count == 1)).float().mean().item(),
        active=active.float().mean().item(),
        spikes=count.mean().item(),
        first_spike=first.float().mean().item() if len(first) else None,
        seeds_near=int((near.mean(0) > 0.5).sum()),
        seeds_silent=int((~active.any(0)).sum()),
    )
