"""Text and tables on a terminal. Names and paths come from files and servers, so none may control the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.progress import Task, TextColumn
from rich.table import Table
from rich.text import Text

from bitspike.text import printable, printable_lines


class _Screen(Console):
    """A console that shows control characters instead of obeying them."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable_lines(text), **options)


def screen(*, stderr: bool = False) -> Console:
    """Return the console for tables; text in square brackets or between colons has no special meaning."""
    return _Screen(stderr=stderr, markup=False, emoji=False)


class Label(TextColumn):
    """The words beside a progress bar, shown as they are."""

    def render(self, task: Task) -> Text:
        return Text(printable(self.text_format.format(task=task)), self.style, justify=self.justify)


def table(title: str = "", *, words: Sequence[str] = (), numbers: Sequence[str] = ()) -> Table:
    """Return a table for `draw`: first columns of words, which may be folded, then of numbers, which are not."""
    made = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    made.padding, made.collapse_padding = (0, 1, 0, 0), True
    for heading in words:
        made.add_column(heading, overflow="fold")
    for heading in numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    return made


def draw(made: Table, console: Console) -> None:
    """Print the table; where the terminal is too narrow, each row becomes a few lines, so that no number is cut."""
    if _least(made) <= console.width:
        console.print(made)
        return
    if made.title:
        console.print(made.title)
    for name, *cells in zip(*(column.cells for column in made.columns), strict=True):
        console.print(name, highlight=False)
        pairs = [f"{column.header} {cell}" for column, cell in zip(made.columns[1:], cells, strict=True) if str(cell)]
        for line in _filled(pairs, console.width - 2):
            console.print(Padding(line, (0, 0, 0, 2)), highlight=False)


def _least(made: Table) -> int:
    """Return the least width of the table, with words folded to 12 characters and numbers not folded."""
    least = 2 * (len(made.columns) - 1)  # between them
    for column in made.columns:
        widest = max(cell_len(str(cell)) for cell in (column.header, *column.cells))
        least += widest if column.no_wrap else min(widest, 12)
    return least


def _filled(parts: Sequence[str], width: int) -> Iterator[str]:
    """Yield lines with as many of the parts as fit; no part is broken."""
    line = ""
    for part in parts:
        if line and cell_len(f"{line}  {part}") > width:
            yield line
            line = ""
        line = f"{line}  {part}" if line else part
    if line:
        yield line
