"""A note about the unit of time: what a person should look at where samples are unusually long or short."""

from __future__ import annotations

from bitspike.data.profiles import Profile
from bitspike.data.time_mistakes import LONGEST_MS, SHORTEST_MS

SHORT_MS, LONG_MS = 10.0, 60_000.0  # a median sample of less or more is unusual, but not as rare as for a warning


def time_notes(profile: Profile) -> list[str]:
    """Return a line where the median sample lasts more than a minute, or less than 10 ms; for bins that were found.

    A unit 1,000 times too large or small cannot be told from slow or fast data, and bins that were found from the
    durations fit either. So this is a note, and there is none where a person gave the width of bins: a wrong unit does
    not fit that. Durations that are a warning give none either.

    Examples:
        >>> import numpy as np
        >>> import bitspike
        >>> from bitspike.data.time_notes import time_notes
        >>> events = np.zeros(50, [("t", "i8"), ("x", "i2")])
        >>> events["t"] = np.arange(50) * 8_000  # in us; 0.4 s
        >>> data = bitspike.data.dataset_from_torch([(events, row % 2) for row in range(20)], time_unit="ms")
        >>> time_notes(bitspike.data.profile(data))
        ['the median training sample lasts 392 s; if it does not, data.time_unit is another']
    """
    events = profile.splits["train"].events
    if events is None or events.duration_ms is None:
        return []
    median = events.duration_ms.median
    if not (SHORTEST_MS <= median < SHORT_MS or LONG_MS < median <= LONGEST_MS):
        return []
    lasts = f"{median / 1000:.3g} s" if median > LONG_MS else f"{median:.2g} ms"
    return [f"the median training sample lasts {lasts}; if it does not, data.time_unit is another"]
