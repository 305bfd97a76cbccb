"""Colours and titles that the pictures of a search share."""

from __future__ import annotations

from typing import Any

from bitspike.analysis.search_data import SearchTrials

GREY, BEST, LATE = "#b8bfca", "#d1495b", "#00798c"


def titled(figure: Any, trials: SearchTrials, more: str = "") -> Any:
    """Return the figure with the title of the search; a name with dollars is no formula."""
    figure.suptitle(
        f"{trials.title}, {len(trials.numbers)} trials{more}", fontsize=10, x=0.01, ha="left", parse_math=False
    )
    return figure
