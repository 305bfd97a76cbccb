"""The tables of `bitspike data info`: samples of each class, and the figures of every split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bitspike.terminal import table

if TYPE_CHECKING:
    from rich.table import Table

    from bitspike.data.profiles import EventProfile, ImageProfile, Profile, SplitProfile, Spread

MOST_CLASSES = 40  # rows; --json has all
FEW_CLASSES = 10  # have a row each, whether they are balanced or not
BALANCED = 0.1  # of the smallest class: what the largest may have more


def class_table(shown: Profile) -> Table:
    """Return the number of samples of each class in each split, and the share of the largest class.

    Many classes with nearly the same number of samples share one row.
    """
    made = table(words=["class"], numbers=list(shown.splits))
    if classes_share_a_row(shown):
        made.add_row(f"each of {len(shown.class_names)}", *(_range(split.by_class) for split in shown.splits.values()))
        made.add_row("all", *(f"{split.samples:,}" for split in shown.splits.values()))
        return made
    for at, name in enumerate(shown.class_names[:MOST_CLASSES]):
        made.add_row(name, *(f"{split.by_class[at]:,}" for split in shown.splits.values()))
    if (more := len(shown.class_names) - MOST_CLASSES) > 0:
        rest = (f"{sum(split.by_class[MOST_CLASSES:]):,}" for split in shown.splits.values())
        made.add_row(f"{more} more", *rest)
    made.add_row("all", *(f"{split.samples:,}" for split in shown.splits.values()))
    made.add_row("largest class", *(f"{split.majority[1]:.1%}" for split in shown.splits.values()))
    return made


def classes_share_a_row(shown: Profile) -> bool:
    """Return whether the table of classes has one row for all, as they are many and balanced in every split."""
    return len(shown.class_names) > FEW_CLASSES and all(_balanced(split.by_class) for split in shown.splits.values())


def _balanced(by_class: Sequence[int]) -> bool:
    """Return whether all classes have the same number of samples, but for one sample or a tenth."""
    return min(by_class) > 0 and max(by_class) - min(by_class) <= max(1, BALANCED * min(by_class))


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}..{high:,}"


def figures_table(shown: Profile, width: int) -> Table:
    """Return the figures of events or images, a column for each split.

    Where `width` characters are too few, medians and percentiles stand in rows of their own.
    """
    rows = [(title, [cell(split) for split in shown.splits.values()]) for title, cell in _ROWS]
    rows = [(title, cells) for title, cells in rows if any(cells)]
    heading = "median (5..95 %)"
    longest = [
        max(len(heading), *(len(title) for title, _ in rows)),
        *(max(map(len, column)) for column in zip(*(cells for _, cells in rows), strict=True)),
    ]
    if sum(longest) + 2 * len(shown.splits) > width:
        heading, rows = "median", [row for title, cells in rows for row in _apart(title, cells)]
    made = table(words=[heading], numbers=list(shown.splits))
    made.columns[0].no_wrap = True
    for title, cells in rows:
        made.add_row(title, *cells)
    return made


def _apart(title: str, cells: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return a row of medians with percentiles as two rows; any other row as it is."""
    if not any(cell.endswith(")") for cell in cells):
        return [(title, list(cells))]
    medians, ranges = zip(*(cell.rstrip(")").partition(" (")[::2] for cell in cells), strict=True)
    indent = " " * (len(title) - len(title.lstrip()))
    return [(title, list(medians)), (f"{indent}  5..95 %", list(ranges))]


def _of_events(cell: Callable[[EventProfile], str]) -> Callable[[SplitProfile], str]:
    return lambda split: "" if split.events is None else cell(split.events)


def _of_images(cell: Callable[[ImageProfile], str]) -> Callable[[SplitProfile], str]:
    return lambda split: "" if split.images is None else cell(split.images)


def _lost(reason: str) -> Callable[[SplitProfile], str]:
    return _of_events(lambda events: "" if events.lost is None else f"{events.lost[reason]:.2%}")


def _spread(value: Spread | None) -> str:
    return "" if value is None else f"{_short(value.median)} ({_short(value.low)}..{_short(value.high)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 or value == round(value) else f"{value:.2g}"


_ROWS: tuple[tuple[str, Callable[[SplitProfile], str]], ...] = (
    ("groups", lambda split: "" if split.groups is None else f"{len(split.groups):,}"),
    ("events a sample", _of_events(lambda events: _spread(events.per_sample))),
    ("  in a step", _of_events(lambda events: _spread(events.per_step))),
    ("  in a channel", _of_events(lambda events: _spread(events.per_channel))),
    ("silent channels", _of_events(lambda events: f"{events.silent_channels:.1%}")),
    ("busiest channel", _of_events(lambda events: f"{events.busiest[1]:.1%}")),
    ("largest count", _of_events(lambda events: f"{events.largest_count}")),
    ("begins at step", _of_events(lambda events: _spread(events.begins) if events.begins.high else "")),
    ("steps with events", _of_events(lambda events: _spread(events.steps_used))),
    ("95 % come by step", _of_events(lambda events: f"{events.over_at:,}")),
    ("duration, ms", _of_events(lambda events: _spread(events.duration_ms))),
    ("longer than bins", _of_events(lambda e: "" if e.longer is None else f"{e.longer:.1%}")),
    ("lost before bins", _lost("before")),
    ("lost after bins", _lost("after")),
    ("lost at the border", _lost("outside")),
    ("lost by clipping", _lost("clipped")),
    ("pixels", _of_images(lambda images: f"{images.dtype}, {images.low:g} to {images.high:g}")),
    ("mean pixel", _of_images(lambda images: f"{images.mean:.3g}")),
    ("empty samples", lambda split: f"{split.empty:,}"),
    ("also in training", lambda split: f"{split.repeated:,}" if split.repeated else ""),
)
