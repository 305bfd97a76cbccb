"""The command `bitspike evaluate`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitspike.cli.app import app
from bitspike.cli.console import bars, baselines_in_words, echo, echo_json, say, titled
from bitspike.cli.options import AsJson, Baselines, Device
from bitspike.cli.process import tune_process

if TYPE_CHECKING:
    from bitspike.analysis.classification import Classification
    from bitspike.experiments.saved import Evaluated
    from bitspike.train.config import TrainConfig


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
    baselines: Baselines = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the confusion matrix into this file.")
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Evaluate the best network of a run on its test, validation or training samples.

    Shown are the accuracy, precision, recall and F1 of each class, the confusion matrix and the calibration.
    """
    tune_process()
    from bitspike.analysis.confusion_figure import draw_confusion
    from bitspike.analysis.picture_files import require_picture
    from bitspike.experiments.assembly import RunOptions, pick_device
    from bitspike.experiments.saved import evaluate_run

    if out is not None:
        require_picture(out)
    with bars() as begin:
        options = RunOptions(device=pick_device(device), progress=begin)
        done = evaluate_run(run, split.value, options, steps=steps, baselines=baselines)
    for warning in done.warnings:
        say(f"warning: {warning}")
    if out is not None:
        if done.classification is None:
            raise ValueError(f"--out: {done.data.title} has no classes, so there is no confusion matrix; leave it out")
        title = f"{done.spec.name}: {done.result.accuracy:.2%} of the {split.value} samples"
        draw_confusion(done.classification, out, title)
    if as_json:
        echo_json(done.as_json())
        return
    _show(done)
    if out is not None:
        echo(f"the confusion matrix is drawn in {out}")


def _show(done: Evaluated) -> None:
    """Print the accuracy and what stands beside it, the activity of layers, and the figures of each class."""
    result = done.result
    echo(f"{done.spec.name} ({done.run}) on the {done.split} samples of {titled(done.data.title, done.data.edition)}")
    echo(f"accuracy  {result.accuracy:.2%} of {result.samples}   loss {result.loss:.4g}")
    if result.unanswered:
        echo(f"no answer {result.unanswered:.2%}: no output neuron fired, which counts as wrong")
    if done.baselines is not None:
        echo(f"baselines {baselines_in_words(done.baselines)}")
    if done.classification is not None:
        _show_means(done.classification, done.spec.train)
    names = done.network.neuron_names()
    for name, dead, spikes in zip(names, result.dead, result.spikes, strict=True):
        if name == names[-1] and done.network.readout == "membrane":
            echo(f"{name:<14} never fires: its membrane is the answer")
            continue
        echo(f"{name:<14} {spikes:10.1f} spikes a sample   {dead:6.1%} of neurons silent")
    if done.classification is not None:
        from bitspike.analysis.confusion_text import class_lines, confusion_lines

        for line in ("", *class_lines(done.classification), "", *confusion_lines(done.classification)):
            echo(line)


def _show_means(found: Classification, config: TrainConfig) -> None:
    """Print the figures of all classes together."""
    balanced = f"{found.balanced_accuracy:.2%} (mean recall of the classes)"
    echo(f"balanced accuracy {balanced}   macro F1 {found.macro_f1:.2%}")
    if found.calibration is None:
        echo("no calibration: the count loss trains numbers of spikes, which are no probabilities")
        return
    echo(
        f"calibration error {found.calibration.error:.2%}, mean confidence {found.calibration.confidence:.2%} "
        f"(softmax of {config.logit_scale:g} x score; 10 bins)"
    )
