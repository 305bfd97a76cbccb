"""The command `bitspike train`."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitspike.cli.app import app
from bitspike.cli.console import baselines_in_words, echo, echo_json, say, titled
from bitspike.cli.interrupts import catching_interrupts
from bitspike.cli.options import AsJson, Baselines, Device, Set
from bitspike.cli.process import tune_process
from bitspike.cli.training_begins import TrainingBegins
from bitspike.cli.training_progress import show_training

if TYPE_CHECKING:
    from bitspike.analysis.baselines import Baselines as FoundBaselines


class Graph(StrEnum):
    """The choice to replay training iterations from a CUDA graph, or not."""

    auto = "auto"
    off = "off"


@app.command()
def train(
    experiment: Annotated[
        str, typer.Argument(metavar="PRESET|FILE.toml", help="A preset (`bitspike preset list`) or your own file.")
    ],
    out: Annotated[Path | None, typer.Option(help="The run's folder (default: runs/NAME).")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of weights, order and dropout.")] = None,
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
    baselines: Baselines = False,
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
    spec = preset_or_file(experiment, settings)  # before torch is loaded: a wrong name is reported at once
    tune_process()
    from bitspike.experiments.assembly import RunOptions, pick_device
    from bitspike.experiments.beside import require_classes
    from bitspike.experiments.folders import complete, resumable
    from bitspike.experiments.runs import train_run, train_trials
    from bitspike.train.world import World

    if baselines:
        require_classes(spec.data.name)
    out = out or Path("runs") / (re.sub(r"[^\w.+-]+", "-", spec.name).strip(".-") or "run")
    fresh = resume and not resumable(out)
    with show_training(spec, on_console=World.rank_here() == 0) as progress, catching_interrupts() as interrupted:
        progress.runs = 1 if trials is None or together else max(trials - len(complete(out)), 1)
        progress.greeting = f"nothing to resume in {out}: a new run starts" if fresh else ""
        options = RunOptions(
            device=pick_device(device),
            resume=resume,
            graph=graph.value,
            command=shlex.join(["bitspike", *sys.argv[1:]]),
            listener=progress.listener(interrupted),
            progress=progress.begin,
        )
        begins = TrainingBegins(progress, options, out, baselines=baselines)
        options = replace(options, started=begins)
        if trials is None:
            summary = train_run(spec, out, options)
        else:
            summary = train_trials(spec, out, trials, options, together=together)
    if summary is None:
        if World.rank_here() == 0:
            say(f"bitspike: interrupted; saved in {out}, add --resume to go on")
        raise typer.Exit(130)
    if World.rank_here() == 0:
        if begins.happened:
            _draw_curves(out)
        beside = {"baselines": asdict(begins.found)} if begins.found else {}
        echo_json({**summary, **beside}) if as_json else _show(summary, out, begins.found)
        if baselines and begins.found is None:
            say(f"nothing was trained, so no baselines were computed: bitspike evaluate {out} --baselines does")
    if {"nan", "dead"} & {summary.get("ended"), *summary.get("endings", ())}:
        raise typer.Exit(3)


def _draw_curves(out: Path) -> None:
    """Draw curves.png where matplotlib is installed; the run is complete, whether that works or not."""
    from bitspike.experiments.curves import draw_curves

    try:
        draw_curves(out)
    except (OSError, ImportError) as error:
        say(f"warning: curves.png was not drawn: {error}")


def _show(summary: Mapping[str, Any], out: Path, beside: FoundBaselines | None) -> None:
    """Print the accuracy of a run or of its trials beside the paper's, and what to know about it."""
    data = titled(summary["data"], summary["edition"])
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
    if beside is not None:
        echo(f"  baselines: {baselines_in_words(beside)}")
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
