"""The tally of binning: how many events each sample has, and how many of them are in no bin, by the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

REASONS = ("before", "after", "outside", "clipped")
COLUMNS = ("given", *REASONS, "last_us")


@dataclass(frozen=True, slots=True)
class Tally:
    """How many events of each sample are in the bins; every column is `[N]` int64, on the CPU.

    `given` counts all events. Those that are in no bin are counted once, by the first reason that holds: `before` the
    first bin, `after` the last, `outside` the cells of the sensor, or `clipped` because a bin had as many as it may
    count. `last_us` is the time of the last event. Bins of `bin_us` microseconds end at `end_us`. A cell is a square
    whose side is `downsample` pixels. Later events than `duration_us` were not asked for.
    """

    bin_us: int
    end_us: int
    downsample: int
    duration_us: int | None
    given: Tensor
    before: Tensor
    after: Tensor
    outside: Tensor
    clipped: Tensor
    last_us: Tensor

    def __repr__(self) -> str:
        return (
            f"Tally({len(self.given)} samples with {int(self.given.sum()):,} events, {self.left_out:.2%} of them in no "
            f"bin; bins of {self.bin_us} us until {self.end_us} us)"
        )

    def select(self, rows: Tensor) -> Tally:
        """Return the tally of the samples `rows`."""
        return replace(self, **{name: getattr(self, name)[rows.cpu()] for name in COLUMNS})

    def shares(self) -> dict[str, float]:
        """Return the share of all events that each reason left out."""
        given = max(int(self.given.sum()), 1)
        return {reason: int(getattr(self, reason).sum()) / given for reason in REASONS}

    @property
    def left_out(self) -> float:
        """The share of all events that are in no bin."""
        return sum(int(getattr(self, reason).sum()) for reason in REASONS) / max(int(self.given.sum()), 1)
