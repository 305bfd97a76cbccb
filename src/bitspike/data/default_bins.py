"""The width and the number of time bins for events whose owner gives neither: found from how long the samples last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bitspike.data.rounding import two_digits_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bitspike.data.events import Events

ROW_STEPS = 100  # about so many bins for a row of channels: a recipe's decays and delays were found with 100
CAMERA_STEPS = 30  # about so many for a camera, where a step costs more and short times say less
LONG = 0.95  # the share of samples that the bins cover to their end
KEPT = 0.99  # the share of all events that the bins cover at least
BINS_AN_EVENT = 4  # at most so many bins for each event of a sample in the middle
FEWEST = 20  # but not fewer bins than this for that reason
_ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)  # times a power of ten: round widths
_TICKS = 10  # a bin of fewer ticks of the recorder's clock is a whole number of them


@dataclass(frozen=True, slots=True)
class Bins:
    """A width in microseconds, a number of steps, and words that say where they come from."""

    bin_us: int
    steps: int
    source: str


def default_bins(
    events: Events, *, bin_us: int | None = None, steps: int | None = None, duration_us: int | None = None
) -> Bins:
    """Return bins that cover the samples: what is given stays, and the rest is found.

    The bins end where 95 % of the samples and 99 % of the events have ended, or at `duration_us` if sooner. They
    are about 100 for a row of channels and 30 for a camera, and at most four for each event of the median sample, but
    20 at least. Their width is a round number. A recorder whose clock ticks slowly gets bins of whole ticks.

    Examples:
        >>> import numpy as np
        >>> from bitspike.data.default_bins import default_bins
        >>> from bitspike.data.events import Events
        >>> t = np.tile(np.linspace(0, 812_345, 200).astype(np.int64), 10)  # ten samples of 0.8 s, 200 events each
        >>> samples = Events(t, t % 6, None, None, np.arange(11) * 200, np.zeros(10, np.int64), (6,))
        >>> found = default_bins(samples)
        >>> found.bin_us, found.steps
        (8000, 102)
        >>> found.source
        'found: 95 % of the samples end within 812 ms, 99 % of the events within 808 ms'
        >>> default_bins(samples, steps=50).bin_us, default_bins(samples, bin_us=20_000).steps
        (17000, 41)
    """
    lengths = np.diff(events.offsets)
    if not len(events.t):
        raise ValueError(
            "data: no sample has an event, so that no time bins can be found; give data.bin_ms and data.steps"
        )
    ends = events.t[events.offsets[1:][lengths > 0] - 1]
    sample_end, event_end = (
        int(np.quantile(values, share, method="higher")) for values, share in ((ends, LONG), (events.t, KEPT))
    )
    last = max(sample_end, event_end, 0)  # the last moment that a bin must hold
    cut = ""
    if duration_us is not None and last >= duration_us:
        last, cut = max(duration_us - 1, 0), f"; duration_ms ends them at {_in_words(duration_us)}"
    if bin_us is None:
        bin_us = _width(last, steps, int(np.median(lengths[lengths > 0])), events)
    return Bins(
        bin_us,
        last // bin_us + 1 if steps is None else steps,
        f"found: {LONG:.0%} of the samples end within {_in_words(sample_end)}, {KEPT:.0%} of the events within "
        f"{_in_words(event_end)}{cut}".replace("%", " %"),
    )


def _width(last: int, steps: int | None, events_a_sample: int, events: Events) -> int:
    """Return the width of a bin in microseconds, such that the bins hold the moment `last`."""
    if steps is not None:
        return math.ceil(two_digits_up((last + 1) / steps))
    wanted = CAMERA_STEPS if len(events.sensor) == 2 else ROW_STEPS
    wanted = min(wanted, max(FEWEST, BINS_AN_EVENT * events_a_sample))
    width = _nearest_round((last + 1) / wanted)
    tick = _tick(events.t)
    return max(1, round(width / tick)) * tick if width < _TICKS * tick else width


def _nearest_round(width: float) -> int:
    """Return the round number of microseconds that is nearest to `width` as a ratio, at least 1."""
    power = 10.0 ** math.floor(math.log10(max(width, 1.0)))
    able = [each * power for each in _ROUND if (each * power).is_integer()]
    return int(min(able, key=lambda each: abs(math.log(each / max(width, 1.0)))))


def _tick(t: NDArray[np.int64]) -> int:
    """Return the longest time, in microseconds, of which all times are multiples; 1 where all are 0."""
    return int(np.gcd.reduce(t)) or 1


def _in_words(microseconds: int) -> str:
    """Return a time in the unit that makes it easiest to read."""
    if microseconds >= 10_000_000:
        return f"{microseconds / 1e6:,.3g} s" if microseconds < 1e9 else f"{microseconds / 1e6:,.0f} s"
    return f"{microseconds / 1e3:,.0f} ms" if microseconds >= 10_000 else f"{microseconds / 1e3:.3g} ms"
