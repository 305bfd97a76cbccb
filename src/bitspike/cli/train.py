"""`bitspike train` and `bitspike evaluate`."""

from __future__ import annotations

import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Column

from bitspike.cli.app import AsJson, Device, app, bars, echo, echo_json, say
from bitspike.cli.forecast import Forecast
from bitspike.cli.process import tune_process
from bitspike.terminal import Label, screen
from bitspike.text import printable

if TYPE_CHECKING:
    from bitspike.data.samples import Dataset
    from bitspike.experiments.schema import Experiment
    from bitspike.nn import SpikingNetwork

Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value in place of any field of the experiment, such as train.lr=1e-3; repeatable."),
]


REFRESH = 0.1  # seconds between moves of the bar: an iteration may take less than one


class Graph(StrEnum):
    """Whether training iterations become one launch."""

    auto = "auto"
    off = "off"


class Split(StrEnum):
    """Which samples."""

    test = "test"
    valid = "valid"
    train = "train"


@app.command()
def train(
    experiment: Annotated[
        str, typer.Argument(metavar="PRESET|FILE.toml", help="A preset (`bitspike preset list`) or your own file.")
    ],
    out: Annotated[Path | None, typer.Option(help="The run's folder (default: runs/NAME).")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of weights, order and dropout.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Train so many times, with seeds seed, seed+1, ...")] = None,
    together: Annotated[
        bool,
        typer.Option("--together", help="Train the trials side by side: equal numbers, and on a GPU in less time."),
    ] = False,
    epochs: Annotated[int | None, typer.Option(min=1, help="At most so many epochs.")] = None,
    device: Device = "auto",
    graph: Annotated[
        Graph, typer.Option(help="On a GPU, replay whole iterations from a CUDA graph where that works: equal numbers.")
    ] = Graph.auto,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    set_: Set = None,
    as_json: AsJson = False,
) -> None:
    """Train a network; the folder then holds the experiment, metrics, the best weights and a checkpoint to resume from.

    On several GPUs or processes: torchrun --nproc-per-node N -m bitspike train ...
    """
    from bitspike.experiments.presets import preset_or_file

    if together and trials is None:
        raise ValueError("--together trains several trials side by side; say how many with --trials N")
    settings = list(set_ or [])
    settings += [f"{key}={value}" for key, value in (("seed", seed), ("train.epochs", epochs)) if value is not None]
    spec = preset_or_file(experiment, settings)  # before torch is loaded: a wrong name is told at once
    tune_process()
    from bitspike.experiments.assembly import RunOptions, pick_device
    from bitspike.experiments.folders import complete, resumable
    from bitspike.experiments.runs import train_run, train_trials
    from bitspike.train.world import World

    out = out or Path("runs") / (re.sub(r"[^\w.+-]+", "-", spec.name).strip(".-") or "run")
    fresh = resume and not resumable(out)
    with telling(World.rank_here() == 0, spec) as told, catching_interrupts() as interrupted:
        told.runs = 1 if trials is None or together else max(trials - len(complete(out)), 1)
        told.greeting = f"nothing to resume in {out}: a new run starts" if fresh else ""
        options = RunOptions(
            device=pick_device(device),
            resume=resume,
            graph=graph.value,
            command=shlex.join(["bitspike", *sys.argv[1:]]),
            listener=told.listener(interrupted),
            progress=told.begin,
            started=told.started,
        )
        if trials is None:
            summary = train_run(spec, out, options)
        else:
            summary = train_trials(spec, out, trials, options, together=together)
    if summary is None:
        if World.rank_here() == 0:
            say(f"bitspike: interrupted; saved in {out}, add --resume to go on")
        raise typer.Exit(130)
    if World.rank_here() == 0:
        echo_json(summary) if as_json else _show(summary, out)
    if {"nan", "dead"} & {summary.get("ended"), *summary.get("endings", ())}:
        raise typer.Exit(3)


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, or one of trials.")],
    split: Annotated[Split, typer.Option(help="Which samples; valid only where the run held some out.")] = Split.test,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Show static inputs for so many time steps, a multiple of net.glances (default: as in training).",
        ),
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """The best network of a run on its test, validation or training samples."""
    tune_process()
    from bitspike.experiments.assembly import RunOptions, pick_device
    from bitspike.experiments.saved import evaluate_run

    with bars() as begin:
        options = RunOptions(device=pick_device(device), progress=begin)
        done = evaluate_run(run, split.value, options, steps=steps)
    for warning in done.warnings:
        say(f"warning: {warning}")
    if as_json:
        echo_json(done.as_json())
        return
    result = done.result
    echo(f"{done.spec.name} ({done.run}) on the {split.value} samples of {_named(done.data.title, done.data.edition)}")
    echo(f"accuracy  {result.accuracy:.2%} of {result.samples}   loss {result.loss:.4g}")
    if result.unanswered:
        echo(f"no answer {result.unanswered:.2%}: no output neuron fired, which counts as wrong")
    names = done.network.neuron_names()
    for name, dead, spikes in zip(names, result.dead, result.spikes, strict=True):
        echo(f"{name:<14} {spikes:10.1f} spikes a sample   {dead:6.1%} of neurons silent")
    if done.data.classes > 1:
        by_label = (f"{label}: {right / count:.1%}" for label, (right, count) in result.correct_by_label.items())
        echo("by class  " + "  ".join(by_label))


def _named(title: str, edition: str) -> str:
    return title if edition == "published" or edition in title else f"{title} ({edition})"


def _in_bins(data: Dataset) -> str:
    """What binning left of the events: a wrong time unit shows here."""
    left_out = getattr(data.train, "left_out", 0.0)
    return f"; {1 - left_out:.1%} of the events are in the bins" if left_out else ""


def _show(summary: Mapping[str, Any], out: Path) -> None:
    data = _named(summary["data"], summary["edition"])
    echo(f"{summary['experiment']} on {data}, protocol {summary['protocol']}, test accuracy:")
    if "trials" in summary:
        best, mean, sigma = (
            "-" if summary[key] is None else f"{100 * summary[key]:.2f}" for key in ("best", "mean", "sigma")
        )
        seeds = ", ".join(map(str, summary["seeds"]))
        echo(f"  here   best {best}  mean {mean}  sigma {sigma}  (seeds {seeds}; {summary['seconds']:.0f} s)")
    else:
        accuracy = "-" if summary["accuracy"] is None else f"{100 * summary['accuracy']:.2f}"
        echo(
            f"  here   {accuracy}  (seed {summary['seed']}, {summary['accuracy_of'].removeprefix('test set, ')}: "
            f"{summary['best_epoch']} of {summary['epochs']}; {summary['seconds']:.0f} s)"
        )
    if summary.get("unanswered"):
        echo(f"         no output neuron fires for {summary['unanswered']:.2%} of the samples; they count as wrong")
    if paper := summary["paper"]:
        echo(
            f"  paper  best {paper['best']:.2f}  mean {paper['mean']:.2f}  sigma {paper['sigma']:.2f}  "
            "(5 trials, the best test epoch of each)"
        )
    if summary["unlike_preset"]:
        echo(f"not the preset: {'; '.join(summary['unlike_preset'])}")
    stopped = summary.get("ended") in ("nan", "dead")
    for warning in summary["warnings"][: -1 if stopped else None]:
        echo(f"warning: {warning}")
    if stopped:
        echo(f"stopped: {summary['warnings'][-1]}")
    echo(f"everything is in {out}")


@contextmanager
def catching_interrupts() -> Iterator[list[bool]]:
    """A list that turns non-empty on Ctrl-C or SIGTERM, so that the run can save; a second Ctrl-C ends it at once."""
    asked: list[bool] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(True)
        say("bitspike: saving after this iteration; once more to stop at once")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Told:
    """What a person sees of a run: how long it will take, a bar of the epoch with its figures, and a line an epoch."""

    def __init__(self, shown: Progress, spec: Experiment) -> None:
        self.shown, self.spec = shown, spec
        self.runs = 1  # one after the other
        self.greeting = ""  # said before the first of them
        self.forecast: Forecast | None = None  # of the run that has just begun
        self.task: Any = None
        self.watched: Mapping[str, Any] | None = None
        self.waiting, self.moved_at = 0, 0.0  # iterations that the bar has yet to show, and when it last moved

    def begin(self, stage: str, steps: int) -> Any:
        task = self.shown.add_task(stage, total=steps, figures="")

        def advance() -> None:
            self.shown.advance(task)
            if self.shown.tasks[task].finished:
                self.shown.update(task, visible=False)

        return advance

    def started(self, spec: Experiment, data: Dataset, net: SpikingNetwork, out: Path) -> None:
        if self.greeting:
            self.say(self.greeting)
            self.greeting = ""
        if self.forecast is None:
            self.forecast = Forecast(spec, data, next(net.parameters()).device.type, self.runs)
        weights = sum(p.numel() for p in net.parameters())
        kind = "1-bit" if spec.net.binary else "float32"
        self.say(f"{spec.name}: {net.notation}, {weights:,} parameters, {kind} weights, seed {spec.seed} -> {out}")
        self.say(
            f"{_named(data.title, data.edition)}: {len(data.train):,} samples for training"
            f"{' and validation' if spec.train.protocol == 'holdout' else ''}, "
            f"{len(data.test):,} for testing; protocol {spec.train.protocol}{_in_bins(data)}"
        )

    def say(self, message: str) -> None:
        self.shown.console.print(printable(message), highlight=False, soft_wrap=True)

    def listener(self, interrupted: list[bool]) -> Any:
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
        title = f"epoch {epoch}/{self.spec.train.epochs}"
        if self.forecast is not None and (line := self.forecast.begins(epoch, iterations, done)):
            self.say(line)
        if self.task is None:
            self.task = self.shown.add_task(title, total=iterations, figures="")
        self.waiting, self.watched = 0, None
        self.shown.reset(self.task, total=iterations, completed=done, description=title)

    def iteration(self, watched: Mapping[str, Any] | None) -> None:
        if self.forecast is not None and (line := self.forecast.iteration(watched is not None)):
            self.say(line)
        if self.shown.disable:
            return
        self.waiting += 1
        self.watched = watched or self.watched
        if (now := time.monotonic()) - self.moved_at < REFRESH:
            return
        figures = _figures(self.watched["accuracy"], self.watched["loss"], self.watched) if self.watched else ""
        self.shown.update(self.task, advance=self.waiting, figures=figures)
        self.waiting, self.moved_at = 0, now

    def evaluation_begins(self, batches: int) -> Callable[[], None]:
        self.shown.reset(self.task, total=batches, description="evaluating")
        self.shown.update(self.task, figures="")
        return lambda: self.shown.advance(self.task)

    def epoch_ends(self, row: Mapping[str, Any]) -> None:
        on = "test" if "test_accuracy" in row else "valid"
        timing = row["timing"]
        whose = f"trial {row['trial']}  " if "trial" in row else ""
        self.say(
            f"{whose}epoch {row['epoch']:>3}  train {row['train_accuracy']:6.2%}  "
            f"{on} {_figures(row[f'{on}_accuracy'], row[f'{on}_loss'], row)}  "
            f"{_seconds(timing)}"
        )
        spent = timing["train_seconds"] + timing["evaluate_seconds"]
        if self.forecast is not None and (line := self.forecast.epoch_ends(spent)):
            self.say(line)


def _seconds(timing: Mapping[str, float | None]) -> str:
    """Of training and evaluation; within a CUDA graph nobody knows what loading data took."""
    share = timing["data_share"]
    spent = f"{timing['train_seconds']:.1f} + {timing['evaluate_seconds']:.1f} s"
    return spent if share is None else f"{spent}, data {share:.1%}"


class _Mute(_Told):
    """The other processes of a distributed run keep quiet."""

    def say(self, message: str) -> None:
        pass


def _figures(accuracy: float, loss: float, values: Mapping[str, Any]) -> str:
    theta = " ".join(f"{theta:.4g}" for theta in values["theta"])
    dead = " ".join(f"{100 * share:.0f}" for share in values["dead"])
    return f"{accuracy:6.2%}  loss {loss:.4g}  theta {theta}  dead {dead} %  spikes {sum(values['spikes']):,.0f}"


@contextmanager
def telling(first: bool, spec: Experiment) -> Iterator[_Told]:
    """What a person sees of a run: a bar of the epoch, a line an epoch, warnings; nothing unless `first`."""
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
        *columns, console=console, transient=True, expand=True, disable=not (first and console.is_terminal)
    ) as shown:
        yield (_Told if first else _Mute)(shown, spec)
