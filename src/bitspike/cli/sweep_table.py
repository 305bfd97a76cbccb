"""The display of a sweep: a live table on a terminal, else a line for each trial that has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bitspike.terminal import screen
from bitspike.text import printable

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from bitspike.experiments.sweep.driver import Snapshot
    from bitspike.experiments.sweep.local_worker import LocalWorker

REFRESH = 0.25  # seconds between two drawings
MOST_LINES = 8  # trials of one worker that are listed


class SweepDisplay:
    """Shows how a sweep stands; `live` is the table, None without a terminal."""

    def __init__(self, console: Console, live: Live | None) -> None:
        self._console, self._live = console, live
        self._drawn_at = 0.0
        self._known: set[int] | None = None

    def say(self, message: str) -> None:
        """Print a line above the table."""
        self._console.print(printable(message), highlight=False, soft_wrap=True)

    def show(self, snapshot: Snapshot) -> None:
        """Draw the table again, and print a line for a new best trial; without a table, for each that has ended."""
        ended = [trial for trial in snapshot.trials if trial.state.name in ("COMPLETE", "PRUNED")]
        if self._known is None:  # those of earlier commands
            self._known = {trial.number for trial in ended} if snapshot.complete_before else set()
        new = sorted(
            (trial for trial in ended if trial.number not in self._known),
            key=lambda trial: (trial.datetime_complete is None, trial.datetime_complete, trial.number),
        )
        best = best_of(list(snapshot.trials))
        for trial in new:
            self._known.add(trial.number)
            if self._live is None or (best is not None and trial.number == best.number):  # the table shows the rest
                self.say(_trial_line(trial, snapshot))
        if self._live is not None and (new or time.monotonic() - self._drawn_at >= REFRESH):
            self._live.update(_table(snapshot), refresh=True)
            self._drawn_at = time.monotonic()


@contextmanager
def show_sweep() -> Iterator[SweepDisplay]:
    """Show a sweep on stderr for as long as the context lasts."""
    console = screen(stderr=True)
    if not console.is_terminal:
        yield SweepDisplay(console, None)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield SweepDisplay(console, live)


def duration(seconds: float) -> str:
    """Return a time in words, such as "2 h 05 min", "3 min 20 s" or "8 s".

    Examples:
        >>> from bitspike.cli.sweep_table import duration
        >>> duration(7504), duration(200), duration(8.2)
        ('2 h 05 min', '3 min 20 s', '8 s')
    """
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def best_of(trials: list[FrozenTrial]) -> FrozenTrial | None:
    """Return the most accurate complete trial; among equals the second objective chooses, then the lower number."""
    complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
    return min(complete, key=lambda trial: (-trial.values[0], *trial.values[1:], trial.number), default=None)


def _trial_line(trial: FrozenTrial, snapshot: Snapshot) -> str:
    result = trial.user_attrs.get("result", {})
    how = {"nan": "diverged: chance accuracy", "pruned": f"pruned after epoch {result.get('epochs')}"}
    if (ending := result.get("ended")) in how:
        what = how[ending]
    else:
        more = "".join(f"  {name} {result[name]:,.6g}" for name in snapshot.more_objectives)
        what = f"{trial.values[0]:.2%}{more}"
    best = best_of(list(snapshot.trials))
    found = "" if best is None else f"  best {best.values[0]:.2%} (trial {best.number})"
    done = sum(each.state.name in ("COMPLETE", "PRUNED") for each in snapshot.trials)
    return f"trial {trial.number:>3}  {what:<26}{found}  {done}/{snapshot.target}"


def _table(snapshot: Snapshot) -> Group:
    standing, rate, left = snapshot.standing, snapshot.rate(), snapshot.seconds_left()
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_row(
        ProgressBar(total=snapshot.target, completed=min(standing.complete, snapshot.target), width=24),
        f"{standing.complete}/{snapshot.target} trials",
        *(f"{count} {word}" for word in ("pruned", "diverged", "failed") if (count := getattr(standing, word))),
        f"{duration(time.monotonic() - snapshot.began)} so far",
        "" if rate is None else f"{3600 * rate:,.0f} trials/h" if rate < 10 / 60 else f"{60 * rate:,.0f} trials/min",
        "" if left is None else f"{duration(left)} left",
    )
    lines: list[Table | Text] = [head]
    best = best_of(list(snapshot.trials))
    if best is not None:
        lines.append(Text(f"best {best.values[0]:.2%}, trial {best.number}"))
    if snapshot.trouble:
        lines.append(Text(printable(f"waiting for the storage: {snapshot.trouble}"), style="yellow"))
    rows = Table.grid(padding=(0, 2, 0, 0))
    for number, worker in enumerate(snapshot.workers, 1):
        for line in _worker_lines(worker):
            rows.add_row(f"worker {number}", *line)
    return Group(*lines, rows)


def _worker_lines(worker: LocalWorker) -> list[tuple[str, str]]:
    """Return what a worker does: a line for each of its trials, or one."""
    if not worker.trials:
        return [(printable(worker.doing), "")]
    lines = [(f"trial {number}", doing) for number, doing in sorted(worker.trials.items())]
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], (f"and {more} more", "")]
