"""The command `bitspike suggest`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitspike.cli.app import app
from bitspike.cli.console import bars, echo, echo_json
from bitspike.cli.options import AsJson, Device, Set, require_free
from bitspike.cli.process import tune_process
from bitspike.terminal import draw, screen, table

LEGEND = (
    "drive: the typical peak of a membrane that is never reset",
    "fire at theta: neurons that fire for some sample",
    "theta: the threshold at the end of training; from: at its start",
    "rate: the share of the way in one iteration",
)


@app.command()
def suggest(
    experiment: Annotated[
        str, typer.Argument(metavar="PRESET|FILE.toml", help="A preset (`bitspike preset list`) or your own file.")
    ],
    write: Annotated[
        Path | None, typer.Option(metavar="OUT.toml", help="Write the whole experiment with these thresholds.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over OUT.toml if it exists.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of weights and of the samples drawn.")] = None,
    device: Device = "auto",
    set_: Set = None,
    as_json: AsJson = False,
) -> None:
    """Suggest a threshold for each layer of an experiment's network, measured on a batch of its training samples.

    The file needs no net.theta, and is not changed. What net.theta it has does not matter.
    """
    from bitspike.experiments.presets import preset_or_file

    if force and write is None:
        raise ValueError("--force is for --write OUT.toml; say which file to write")
    settings = [*(set_ or []), *([f"seed={seed}"] if seed is not None else [])]
    if wrong := [setting for setting in settings if setting.partition("=")[0].strip().startswith("net.theta")]:
        raise ValueError(f"--set {wrong[0]}: net.theta is what is suggested; leave it out")
    spec = preset_or_file(experiment, [*settings, "net.theta=1.0"])  # before torch is loaded
    if write is not None:
        _require_free(write, Path(experiment), force=force)
    tune_process()
    from bitspike.experiments.assembly import RunOptions, pick_device
    from bitspike.experiments.schema import as_toml
    from bitspike.experiments.suggested import suggest_thresholds
    from bitspike.files import write_text

    with bars() as begin:
        found = suggest_thresholds(spec, RunOptions(device=pick_device(device), progress=begin))
    if write is not None:
        written = found.spec.model_copy(update={"name": write.stem})  # its runs get a folder of their own
        write_text(write, as_toml(written, f"{spec.name} with the thresholds of bitspike suggest {experiment}"))
    if as_json:
        echo_json(
            {
                "experiment": spec.name,
                "data": found.title,
                "samples": found.samples,
                "iterations": found.iterations,
                "seed": spec.seed,
                "theta": [layer.theta for layer in found.layers],
                "layers": [
                    {"layer": each.layer, "drive": each.drive, "alive": each.alive, "feedback": each.feedback}
                    for each in found.layers
                ],
                "written": None if write is None else str(write),
            }
        )
        return
    echo(f"{spec.name} on {found.title}: {found.samples} training samples, seed {spec.seed}")
    made = table(words=["layer"], numbers=["drive", "fire at theta", "theta", "from", "rate"])
    for each in found.layers:
        rise = each.theta if isinstance(each.theta, dict) else {"stop": each.theta}
        shown = rise if each.fires else {}  # net.theta has a number for every layer, but this one does nothing
        numbers = [f"{shown[key]:.4g}" if key in shown else "-" for key in ("stop", "start", "rate")]
        name = f"{each.layer}, hears itself" if each.feedback else each.layer
        alive = f"{each.alive:.0%}" if each.alive is not None else "never"
        made.add_row(name, f"{each.drive:.4g}", alive, *numbers)
    draw(made, screen())
    for line in LEGEND:
        echo(line)
    if write is not None:
        echo(f"written to {write}; train it with: bitspike train {write}")


def _require_free(write: Path, given: Path, *, force: bool) -> None:
    """Raise if the file must not be written: it exists, or it is the one that was given."""
    if write.exists() and given.exists() and write.samefile(given):
        raise ValueError(f"--write {write}: this is the experiment itself, which is never changed; take another name")
    require_free("--write", write, force=force)
    if write.suffix != ".toml":
        raise ValueError(f"--write {write}: an experiment's file must end in .toml")
