"""Where the best trials of a search lie in its space: their spread by parameter, and ranges that may be too narrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bitspike.analysis.search_data import SearchAxis, SearchTrials

BEST = 10  # trials that are looked at
EDGE = 0.03  # of a range: a trial so near to its end is at the end
FEWEST = 50  # trials from which an end of a range says something


def spread(trials: SearchTrials, axis: SearchAxis) -> str:
    """Return the values that the best trials have of a parameter, in words.

    Examples:
        >>> from bitspike.analysis.search_data import SearchAxis, SearchObjective, SearchTrials
        >>> from bitspike.experiments.sweep.spread import spread
        >>> beta = SearchAxis("net.beta", [0.5, 0.25], 0.0, 1.0)
        >>> norm = SearchAxis("net.norm", ["step", "none"], choices=["none", "step"])
        >>> trials = SearchTrials("a", [0, 1], [False] * 2, [SearchObjective("accuracy, %", [1.0, 2.0])], [beta, norm])
        >>> spread(trials, beta), spread(trials, norm)
        ('0.25 to 0.5', 'none 1, step 1')
    """
    values = _best_values(trials, axis)
    if not values:
        return "-"
    if axis.choices:
        counts = Counter(map(str, values))
        return ", ".join(f"{choice} {counts[choice]}" for choice in axis.choices if counts[choice])
    numbers = sorted(float(value) for value in values)
    low, high = f"{numbers[0]:.3g}", f"{numbers[-1]:.3g}"
    return low if low == high else f"{low} to {high}"


def narrow_ranges(trials: SearchTrials) -> list[str]:
    """Return a line for each range at an end of which half of the best trials lie: better ones may lie beyond it."""
    if sum(not pruned for pruned in trials.pruned) < FEWEST:
        return []
    lines = []
    for axis in trials.axes:
        places = [axis.place(value) or 0.0 for value in _best_values(trials, axis)]
        for end, near in ((axis.low, [p <= EDGE for p in places]), (axis.high, [p >= 1 - EDGE for p in places])):
            if not axis.choices and 2 * sum(near) >= BEST:
                lines.append(
                    f"{axis.name}: {sum(near)} of the best {BEST} trials are at {end:g}, an end of the range; "
                    "better ones may lie beyond it"
                )
    return lines


def _best_values(trials: SearchTrials, axis: SearchAxis) -> Sequence[float | str]:
    """Return what the best trials drew of a parameter."""
    held = [axis.values[row] for row in trials.ranked()[:BEST]]
    return [value for value in held if value is not None]
