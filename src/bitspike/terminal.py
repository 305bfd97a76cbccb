"""Text and tables on a terminal. Titles, names, paths and messages come from files and servers: none may steer it."""

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
    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable_lines(text), **options)


def screen(*, stderr: bool = False) -> Console:
    """Where tables are drawn; what stands in square brackets or between colons is text like any other."""
    return _Screen(stderr=stderr, markup=False, emoji=False)


class Label(TextColumn):
    """A bar's words, as they are."""

    def render(self, task: Task) -> Text:
        return Text(printable(self.text_format.format(task=task)), self.style, justify=self.justify)


def table(title: str = "", *, words: Sequence[str] = (), numbers: Sequence[str] = ()) -> Table:
    """Columns of words, folded where a terminal is narrow, then of numbers, which stay whole. `draw` it."""
    made = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    made.padding, made.collapse_padding = (0, 1, 0, 0), True
    for heading in words:
        made.add_column(heading, overflow="fold")
    for heading in numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    return made


def draw(made: Table, console: Console) -> None:
    """A terminal too narrow for the numbers gets a line or two a row instead: a number that is cut is a wrong one."""
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
    """Columns that this needs with its numbers whole; words are folded to 12 characters at worst."""
    least = 2 * (len(made.columns) - 1)  # between them
    for column in made.columns:
        widest = max(cell_len(str(cell)) for cell in (column.header, *column.cells))
        least += widest if column.no_wrap else min(widest, 12)
    return least


def _filled(parts: Sequence[str], width: int) -> Iterator[str]:
    """As many of them in a line as fit, none in two."""
    line = ""
    for part in parts:
        if line and cell_len(f"{line}  {part}") > width:
            yield line
            line = ""
        line = f"{line}  {part}" if line else part
    if line:
        yield line
