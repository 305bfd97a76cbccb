"""The command `bitspike evaluate`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bitspike.cli.app import app
from bitspike.cli.console import bars, echo, echo_json, say, titled
from bitspike.cli.options import AsJson, Device
from bitspike.cli.process import tune_process


class Split(StrEnum):
    """The samples of the dataset to evaluate on."""

    test = "test"
    valid = "valid"
    train = "train"


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
    """Evaluate the best network of a run on its test, validation or training samples."""
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
    echo(f"{done.spec.name} ({done.run}) on the {split.value} samples of {titled(done.data.title, done.data.edition)}")
    echo(f"accuracy  {result.accuracy:.2%} of {result.samples}   loss {result.loss:.4g}")
    if result.unanswered:
        echo(f"no answer {result.unanswered:.2%}: no output neuron fired, which counts as wrong")
    names = done.network.neuron_names()
    for name, dead, spikes in zip(names, result.dead, result.spikes, strict=True):
        if name == names[-1] and done.network.readout == "membrane":
            echo(f"{name:<14} never fires: its membrane is the answer")
            continue
        echo(f"{name:<14} {spikes:10.1f} spikes a sample   {dead:6.1%} of neurons silent")
    if done.data.classes > 1:
        by_label = (f"{label}: {right / count:.1%}" for label, (right, count) in result.correct_by_label.items())
        echo("by class  " + "  ".join(by_label))
