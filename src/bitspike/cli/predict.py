"""The command `bitspike predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitspike.cli.app import app
from bitspike.cli.console import bars, echo, echo_json, say
from bitspike.cli.errors import in_one_line
from bitspike.cli.options import AsJson, Device, SpikeSeed, Trim
from bitspike.cli.process import tune_process

if TYPE_CHECKING:
    from bitspike.experiments.predicting.networks import Network
    from bitspike.experiments.predicting.predictions import Prediction

LATE = 0.05  # a smaller share of events that come too late is not worth a note
MOST_LATE = 3  # samples with a note of their own; the others are counted
MOST = 0.5  # of the events of most samples are lost if the unit of time is wrong


@app.command()
def predict(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A run's folder, a packed file, or a name of bitspike pretrained."),
    ],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Pictures, npz or HDF5 files of images or events, recordings (WAV), or files of bitspike encode.",
        ),
    ],
    invert: Annotated[bool, typer.Option("--invert", help="Turn black into white: for images of dark things.")] = False,
    time_unit: Annotated[
        str | None, typer.Option(metavar="s|ms|us", help="The unit of an events' array t (default: as in training).")
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the spikes of up to 6 recordings and of each layer into this PNG file."),
    ] = None,
    seed: SpikeSeed = 0,
    trim: Trim = True,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Say what a trained network takes each sample of the files for, with its confidence.

    Files are turned into the network's input as in its training: images are scaled, events binned, recordings encoded.
    If a file cannot be read, the error says why, the others are answered, and the exit status is 1.
    """
    tune_process()
    from bitspike.analysis.speech_figure import MOST_COLUMNS
    from bitspike.experiments.predicting.file_samples import ReadOptions, require_time_unit
    from bitspike.experiments.predicting.files import read_files
    from bitspike.experiments.predicting.networks import open_network
    from bitspike.experiments.predicting.predictions import predict as ask
    from bitspike.experiments.speech_figure import draw_heard, require_drawable

    network = open_network(model, device)
    if figure is not None:
        require_drawable(network, figure)
    with bars() as begin:
        options = ReadOptions(
            invert=invert, seed=seed, trim=trim, time_unit=require_time_unit(time_unit), progress=begin
        )
        given = read_files(files, network.trained_on, options)
        found = ask(network, given, keep=figure is not None, progress=begin)
    for note in (*network.trained_on.notes, *given.notes):
        say(f"note: {note}")
    _say_late(network, found, files)
    if figure is not None:
        draw_heard(network, given, found, figure)
    if as_json:
        unread = {str(path): in_one_line(error) for path, error in given.unread.items()}
        echo_json({**_plain(network, found, seed, trim), "unread": unread})
    else:
        _echo_answers(found)
        if figure is not None:
            shown = f" (the first {MOST_COLUMNS} of {len(found)} recordings)" if len(found) > MOST_COLUMNS else ""
            echo(f"figure: {figure}{shown}")
    for error in given.unread.values():
        say(f"bitspike: {in_one_line(error)}")
    if given.unread:
        raise typer.Exit(1)


def _say_late(network: Network, found: list[Prediction], files: list[Path]) -> None:
    """Say which samples have many events after the network's time: the first ones by name, and how many others."""
    late = [each for each in found if each.missed > LATE]
    if network.trained_on.input.kind != "events" or not late:
        return
    from bitspike.experiments.model_input import binning_by
    from bitspike.experiments.predicting.files import is_recording

    what = "spikes" if network.trained_on.hears_recordings else "events"
    after = f"the {what} come after the network's {binning_by(network.trained_on.input).end_us / 1000:g} ms"
    lines = [f"{each.name}: {each.missed:.0%} of {after}" for each in late[:MOST_LATE]]
    if (rest := len(late) - len(lines)) > 0:
        lines.append(f"{rest} more sample{'s' * (rest > 1)}: more than {LATE:.0%} of {after}")
    lost = sum(each.missed > MOST for each in found) > MOST * len(found)
    if lost and not all(map(is_recording, files)):
        lines[-1] += "; is the unit of time another? --time-unit gives that of an array t"
    for line in lines:
        say(f"note: {line}")


def _line(prediction: Prediction) -> str:
    """Return the answer with its confidence, the next best, and what is right if the answer is wrong."""
    wrong = prediction.expected is not None and prediction.expected != prediction.label
    right = f"   wrong: {prediction.expected_name}" if wrong else ""
    if prediction.label is None:
        return f"no answer: no output fired, or all alike{right}"
    best = sorted(prediction.confidence.items(), key=lambda pair: -pair[1])[:3]
    first, *others = (f"{name} {sure:.1%}" for name, sure in best)
    return f"{first}   then {', '.join(others)}{right}" if others else f"{first}{right}"


def _echo_answers(found: list[Prediction]) -> None:
    """Print a line for each sample, and the accuracy of those with a label."""
    from bitspike.experiments.predicting.predictions import accuracy

    width = max(len(each.name) for each in found)
    for each in found:
        echo(f"{each.name:<{width}}  {_line(each)}")
    if (reached := accuracy(found)) is not None:
        share, samples = reached
        echo(f"accuracy {share:.2%} of {samples} sample{'s' * (samples != 1)} with a label")


def _plain(network: Network, found: list[Prediction], seed: int, trim: bool) -> dict[str, Any]:
    from bitspike.experiments.predicting.predictions import accuracy

    reached = accuracy(found)
    samples = [_plain_sample(each) for each in found]
    heard = {"run": network.name, "seed": seed, "trim": trim, "recordings": samples}  # their names before 0.2
    return {
        "model": network.name,
        "trained_on": network.trained_on.title,
        "accuracy": None if reached is None else reached[0],
        "labelled": 0 if reached is None else reached[1],
        "samples": samples,
        **(heard if network.trained_on.hears_recordings else {}),
    }


def _plain_sample(prediction: Prediction) -> dict[str, Any]:
    return {
        "file": prediction.name,
        "label": prediction.label,
        "answer": prediction.answer,
        "confidence": prediction.confidence,
        "expected": prediction.expected,
        "spikes": prediction.spikes,
        "missed": round(prediction.missed, 4),
    }
