"""The display of a training: how long it will take, a bar of the epoch with its figures, and a line for each epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Column

from bitspike.cli.console import titled
from bitspike.cli.forecast import Forecast
from bitspike.terminal import Label, screen
from bitspike.text import printable

if TYPE_CHECKING:
    from bitspike.data.samples import Dataset
    from bitspike.experiments.schema import Experiment
    from bitspike.nn import SpikingNetwork
    from bitspike.train.progress import Listener

REFRESH = 0.1  # seconds between moves of the bar: an iteration may take less than one


class ConsoleProgress:
    """The display of a training on the console: a forecast, a bar of the epoch, a line for each epoch, and warnings."""

    def __init__(self, shown: Progress, spec: Experiment) -> None:
        self.shown, self.spec = shown, spec
        self.runs = 1  # how many runs follow each other
        self.greeting = ""  # a line before the first of them
        self.forecast: Forecast | None = None
        self.output_fires = True  # or its membrane is read
        self.task: Any = None
        self.watched: Mapping[str, Any] | None = None
        self.waiting, self.moved_at = 0, 0.0  # iterations that the bar has yet to show, and when it last moved

    def begin(self, stage: str, steps: int) -> Callable[[], None]:
        """Show a bar for work of so many `steps`, such as reading data; return a function that moves it by one step."""
        task = self.shown.add_task(stage, total=steps, figures="")

        def advance() -> None:
            self.shown.advance(task)
            if self.shown.tasks[task].finished:
                self.shown.update(task, visible=False)

        return advance

    def started(self, spec: Experiment, data: Dataset, net: SpikingNetwork, out: Path) -> None:
        """Say what is trained on which data, before the first epoch."""
        from bitspike.experiments.held_out import held_out_in_words
        from bitspike.experiments.recipes import lines_about
        from bitspike.experiments.schema import as_values

        if self.greeting:
            self.say(self.greeting)
            self.greeting = ""
        if self.forecast is None:
            self.forecast = Forecast(spec, data, next(net.parameters()).device.type, self.runs)
        self.output_fires = net.readout == "spikes"
        weights = sum(p.numel() for p in net.parameters())
        kind = "1-bit" if spec.net.binary else "float32"
        self.say(f"{spec.name}: {net.notation}, {weights:,} parameters, {kind} weights, seed {spec.seed} -> {out}")
        self.say(
            f"{titled(data.title, data.edition)}: {len(data.train):,} samples for training{_validated(spec, data)}, "
            f"{len(data.test):,} for testing; protocol {spec.train.protocol}{_in_bins(data)}"
        )
        for line in lines_about(spec.sources, as_values(spec)):
            self.say(line)
        if held := held_out_in_words(spec, data):
            self.say(f"held out: {held}")

    def say(self, message: str) -> None:
        """Print a line above the bars."""
        self.shown.console.print(printable(message), highlight=False, soft_wrap=True)

    def listener(self, interrupted: list[bool]) -> Listener:
        """Return the listener for a trainer; the training ends when the list `interrupted` is not empty."""
        from bitspike.train.progress import Listener

        return Listener(
            epoch_begins=self.epoch_begins,
            iteration=self.iteration,
            evaluation_begins=self.evaluation_begins,
            epoch_ends=self.epoch_ends,
            warning=lambda message: self.say(f"warning: {message}"),
            note=self.say,
            interrupted=lambda: bool(interrupted),
        )

    def epoch_begins(self, epoch: int, iterations: int, done: int) -> None:
        """Show a bar for the epoch, of which `done` iterations are done already."""
        title = f"epoch {epoch}/{self.spec.train.epochs}"
        if self.forecast is not None and (line := self.forecast.begins(epoch, iterations, done)):
            self.say(line)
        if self.task is None:
            self.task = self.shown.add_task(title, total=iterations, figures="")
        self.waiting, self.watched = 0, None
        self.shown.reset(self.task, total=iterations, completed=done, description=title)

    def iteration(self, watched: Mapping[str, Any] | None) -> None:
        """Move the bar by one iteration; `watched` are its figures, where they were read from the device."""
        if self.forecast is not None and (line := self.forecast.iteration(watched is not None)):
            self.say(line)
        if self.shown.disable:
            return
        self.waiting += 1
        self.watched = watched or self.watched
        if (now := time.monotonic()) - self.moved_at < REFRESH:
            return
        figures = self._figures(self.watched["accuracy"], self.watched["loss"], self.watched) if self.watched else ""
        self.shown.update(self.task, advance=self.waiting, figures=figures)
        self.waiting, self.moved_at = 0, now

    def evaluation_begins(self, batches: int) -> Callable[[], None]:
        """Show a bar for an evaluation; return a function that moves it by one batch."""
        self.shown.reset(self.task, total=batches, description="evaluating")
        self.shown.update(self.task, figures="")
        return lambda: self.shown.advance(self.task)

    def epoch_ends(self, row: Mapping[str, Any]) -> None:
        """Print the line of an epoch from its row of metrics."""
        on = "test" if "test_accuracy" in row else "valid"
        timing = row["timing"]
        whose = f"trial {row['trial']}  " if "trial" in row else ""
        self.say(
            f"{whose}epoch {row['epoch']:>3}  train {row['train_accuracy']:6.2%}  "
            f"{on} {self._figures(row[f'{on}_accuracy'], row[f'{on}_loss'], row)}  "
            f"{_seconds(timing)}"
        )
        spent = timing["train_seconds"] + timing["evaluate_seconds"]
        if self.forecast is not None and (line := self.forecast.epoch_ends(spent)):
            self.say(line)

    def _figures(self, accuracy: float, loss: float, values: Mapping[str, Any]) -> str:
        """Return the figures of an epoch, or of a moment in it, in one line; "-" for an output that never fires."""
        theta = [f"{theta:.4g}" for theta in values["theta"]]
        dead = [f"{100 * share:.0f}" for share in values["dead"]]
        if not self.output_fires:
            theta[-1] = dead[-1] = "-"
        spikes = sum(values["spikes"])
        shown = f"theta {' '.join(theta)}  dead {' '.join(dead)} %  spikes {spikes:,.0f}"
        return f"{accuracy:6.2%}  loss {loss:.4g}  {shown}"


def _seconds(timing: Mapping[str, float | None]) -> str:
    """Return the time of training and evaluation in words; the time of loading is not known in a CUDA graph."""
    share = timing["data_share"]
    spent = f"{timing['train_seconds']:.1f} + {timing['evaluate_seconds']:.1f} s"
    return spent if share is None else f"{spent}, data {share:.1%}"


class SilentProgress(ConsoleProgress):
    """A display that prints nothing, for all processes of a distributed run but the first."""

    def say(self, message: str) -> None:
        pass


@contextmanager
def show_training(spec: Experiment, *, on_console: bool = True) -> Iterator[ConsoleProgress]:
    """Show a training for as long as the context lasts; nothing is shown unless `on_console`."""
    columns = (
        Label("{task.description}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        # the figures give way where the terminal is narrow
        Label("{task.fields[figures]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
    )
    console = screen(stderr=True)
    with Progress(
        *columns, console=console, transient=True, expand=True, disable=not (on_console and console.is_terminal)
    ) as shown:
        yield (ConsoleProgress if on_console else SilentProgress)(shown, spec)


def _validated(spec: Experiment, data: Dataset) -> str:
    """Return which samples epochs are judged by, in words; empty if they are the test samples."""
    if data.valid is not None:
        return f", {len(data.valid):,} for validation"
    return " and validation" if spec.train.protocol == "holdout" else ""


def _in_bins(data: Dataset) -> str:
    """Return the share of events that binning kept, in words: a wrong time unit shows here."""
    left_out = getattr(data.train, "left_out", 0.0)
    return f"; {1 - left_out:.1%} of the events are in the bins" if left_out else ""
