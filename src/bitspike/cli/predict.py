"""The command `bitspike predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitspike.cli.app import app
from bitspike.cli.console import bars, echo, echo_json, say
from bitspike.cli.options import AsJson, Device, SpikeSeed, Trim
from bitspike.cli.process import tune_process

if TYPE_CHECKING:
    from bitspike.experiments.speech import Heard, Prediction, SpeechNetwork


@app.command()
def predict(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run on spoken digits (shd), or of trials.")
    ],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Recordings (WAV), or files of bitspike encode.")
    ],
    figure: Annotated[
        Path | None, typer.Option(help="Draw the spikes of the cochlea and of each layer into this PNG file.")
    ] = None,
    seed: SpikeSeed = 0,
    trim: Trim = True,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Say which digit is spoken in each recording, with the network's confidence."""
    tune_process()
    from bitspike.analysis.traces import require_matplotlib
    from bitspike.experiments.assembly import pick_device
    from bitspike.experiments.speech import SpeechNetwork, hear

    if figure is not None:
        require_matplotlib()
        if figure.suffix.lower() != ".png":
            raise ValueError(f"--figure must end in .png, but is {figure}")
    network = SpeechNetwork(run, pick_device(device))
    with bars() as begin:
        heard = hear(files, seed=seed, trim=trim, progress=begin)
    found = network.predict(heard)
    for note in heard.notes:
        say(f"note: {note}")
    for each in found:
        if each.missed > 0.05:
            say(f"note: {each.name}: {each.missed:.0%} of the spikes come after the network's {_end(network):g} ms")
    if figure is not None:
        _draw(network, heard, found, figure)
    if as_json:
        echo_json({"run": str(network.run), "seed": seed, "trim": trim, "recordings": [_plain(each) for each in found]})
        return
    width = max(len(each.name) for each in found)
    for each in found:
        echo(f"{each.name:<{width}}  {_line(each)}")
    if figure is not None:
        echo(f"figure: {figure}")


def _end(network: SpeechNetwork) -> float:
    return network.binning.end_us / 1000


def _line(prediction: Prediction) -> str:
    """Return the answer with its confidence, and the next best."""
    if prediction.label is None:
        return "no answer: no output fired, or all alike"
    best = sorted(prediction.confidence.items(), key=lambda pair: -pair[1])[:3]
    first, *others = (f"{name} {sure:.1%}" for name, sure in best)
    return f"{first}   then {', '.join(others)}" if others else first


def _plain(prediction: Prediction) -> dict[str, Any]:
    return {
        "file": prediction.name,
        "label": prediction.label,
        "answer": prediction.answer,
        "confidence": prediction.confidence,
        "spikes": {name: int(spikes.sum()) for name, spikes in prediction.layers.items()},
        "missed": round(prediction.missed, 4),
    }


def _draw(network: SpeechNetwork, heard: Heard, found: list[Prediction], path: Path) -> None:
    from bitspike.analysis.speech_figure import HeardSpikes, draw_speech

    events = network.in_its_time(heard.events)
    panels = []
    for i, each in enumerate(found):
        here = slice(int(events.offsets[i]), int(events.offsets[i + 1]))
        sure = "" if each.label is None else f" ({each.confidence[each.answer]:.0%})"
        title = f"{Path(each.name).name}: {each.answer}{sure}"
        spikes = events.t[here] / 1000, events.x[here]
        steps = network.binning.steps * network.binning.bin_us / 1000
        panels.append(HeardSpikes(title, *spikes, each.layers, each.membrane, each.label, steps))
    draw_speech(panels, list(found[0].confidence), path)
