"""The text of `bitspike data info`: lines about a data set, its tables, and what a person should know of it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bitspike.cli.console import echo
from bitspike.cli.data_table import class_table, classes_share_a_row, figures_table
from bitspike.terminal import draw, screen

if TYPE_CHECKING:
    from bitspike.data.profiles import Profile

MOST_GROUPS = 40  # that a line names; --json has all
NARROWEST = 20  # characters of a text beside its title, however narrow the terminal is
BUSIEST = 3  # channels that a line names
_TITLES = {"test_file": "test file", "validation_file": "valid file", "load_seconds": "load seconds"}


def show(values: Mapping[str, Any], shown: Profile, remarks: Sequence[str], image_steps: int | None) -> None:
    """Print the figures as text and tables, and the remarks below them; an image is shown for `image_steps`."""
    from bitspike.data.finding import listed

    console = screen()
    lines = {_TITLES.get(key, key): str(value) for key, value in values.items() if key != "name"}
    if classes_share_a_row(shown) and shown.class_names != tuple(map(str, range(len(shown.class_names)))):
        lines["classes"] += f": {listed(shown.class_names)}"
    train = shown.splits["train"].events
    if train is not None:
        width = "" if train.bin_ms is None else f" of {train.bin_ms:g} ms"
        lines["time steps"] = f"{train.steps}{width}"
    elif image_steps is not None and shown.splits["train"].images is not None:
        lines["time steps"] = f"{image_steps}, for which an image is shown (net.steps)"
    lines |= _channel_lines(shown)
    for name, split in shown.splits.items():
        if split.groups is not None:
            lines[name] = f"{shown.group_names or 'groups'} [{listed(split.groups, MOST_GROUPS)}]"
    for name, text in lines.items():
        _echo_wrapped(f"{name:<13}", text, console.width)
    echo("")
    if any(sum(split.by_class) for split in shown.splits.values()):  # or labels are times
        draw(class_table(shown), console)
        echo("")
    draw(figures_table(shown, console.width), console)
    for remark in remarks:
        echo(remark)


def _echo_wrapped(title: str, text: str, width: int) -> None:
    """Print a title and a text beside it, which goes on below its own beginning where a line is full."""
    parts = textwrap.wrap(text, max(NARROWEST, width - len(title)), break_long_words=False, break_on_hyphens=False)
    for at, part in enumerate(parts or [""]):
        echo(f"{'' if at else title:<{len(title)}}{part}")


def _channel_lines(shown: Profile) -> dict[str, str]:
    """Return which channels of the training samples are silent and which have the most events, by a short title."""
    from bitspike.data.event_profile import camera_words, channel_name
    from bitspike.data.finding import listed

    events = shown.splits["train"].events
    if events is None or events.by_channel.numel() <= BUSIEST:
        return {}
    lines = {}
    order = events.by_channel.flatten().argsort(descending=True, stable=True)[:BUSIEST].tolist()
    shares = zip(order, events.shares(order), strict=True)
    words = camera_words(shown.shape, events.downsample)
    names = ", ".join(f"{channel_name(at, shown.shape)} ({share:.1%})" for at, share in shares)
    lines["busiest"] = f"channels {names} of the training events{words}"
    if silent := events.silent:
        few = listed(silent, called=partial(channel_name, shape=shown.shape))
        lines["silent"] = f"channels {few}, of {events.by_channel.numel():,}: no event in any training sample"
    return lines
