"""Events as every reader gives them: one array for each column, with the samples one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Events:
    """Events of N samples; sample i holds `offsets[i]:offsets[i+1]` of each column, its time starting at 0.

    `t [E]` int64 microseconds, `x [E]`, `y [E]` or None (a line of units, as in a cochlea), `p [E]` in {0, 1} or None;
    `labels [N]` int64. `sensor` is (height, width), or (units,) where there is no y. `groups [N]` int64 says which
    samples belong together, such as those of one speaker; None where that is not known. `origin` says from when time
    counts: from a sample's `first` event, or from `zero` of its recording.
    """

    t: NDArray[np.int64]
    x: NDArray[np.integer]
    y: NDArray[np.integer] | None
    p: NDArray[np.integer] | None
    offsets: NDArray[np.int64]
    labels: NDArray[np.int64]
    sensor: tuple[int, ...]
    groups: NDArray[np.int64] | None = None
    origin: Literal["first", "zero"] = "zero"

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Events({len(self)} samples with {len(self.t):,} events of a sensor {self.sensor})"

    def select(self, kept: NDArray[np.bool_]) -> Events:
        """Return the samples where `kept [N]` is true, in their order."""
        import numpy as np

        lengths = np.diff(self.offsets)
        of_events = np.repeat(kept, lengths)
        return Events(
            self.t[of_events],
            self.x[of_events],
            None if self.y is None else self.y[of_events],
            None if self.p is None else self.p[of_events],
            np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64),
            self.labels[kept],
            self.sensor,
            None if self.groups is None else self.groups[kept],
            self.origin,
        )
