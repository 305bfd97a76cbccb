"""The command `bitspike sweep run`."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitspike.cli.console import bars, echo, echo_json, say
from bitspike.cli.interrupts import catching_interrupts
from bitspike.cli.options import AsJson, Device, Set
from bitspike.cli.process import tune_process
from bitspike.cli.sweep_options import best_command, require_optuna
from bitspike.cli.sweep_table import duration, show_sweep
from bitspike.text import number_of

if TYPE_CHECKING:
    from bitspike.experiments.schema import Experiment
    from bitspike.experiments.sweep.facts import StudyFacts
    from bitspike.experiments.sweep.overview import Overview

TOGETHER_ON_GPU = 8  # trials that one process trains at once


class Sampler(StrEnum):
    """The ways to draw the next trial."""

    tpe = "tpe"
    nsga2 = "nsga2"
    random = "random"


class Pruner(StrEnum):
    """The ways to end bad trials early."""

    none = "none"
    median = "median"
    hyperband = "hyperband"


class Second(StrEnum):
    """The second figures that a study may optimize."""

    spikes = "spikes"
    dead = "dead"
    bits = "bits"


def run(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|FILE.toml",
            help="A preset, or your own file (with a table \\[search], or on a base recipe).",
        ),
    ],
    trials: Annotated[int, typer.Option(min=1, max=99_999, help="So many trials in all; more later go on from there.")],
    out: Annotated[Path | None, typer.Option(help="The study's folder (default: sweeps/NAME).")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**32 - 1, help="The seed of the draws and of all trainings.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="So many epochs a trial.")] = None,
    device: Device = "auto",
    workers: Annotated[int, typer.Option(min=1, max=256, help="So many processes on this machine.")] = 1,
    together: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            help="Trials that a worker trains at once, with the same results (default: 1 on a CPU, "
            f"{TOGETHER_ON_GPU} on a GPU).",
        ),
    ] = None,
    second: Annotated[
        Second | None,
        typer.Option(help="Minimize this, too: spikes a sample, the share of dead neurons, or bits of weights."),
    ] = None,
    sampler: Annotated[Sampler, typer.Option(help="How the next trial is drawn; the paper used tpe.")] = Sampler.tpe,
    pruner: Annotated[
        Pruner, typer.Option(help="End bad trials early; the paper did not. Pruned trials count.")
    ] = Pruner.none,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="postgresql://...",
            envvar="BITSPIKE_STORAGE",
            help="A server that machines share: the same command on each works on one study. PGPASSWORD may hold the "
            "password. Default: a journal file in the folder.",
        ),
    ] = None,
    study: Annotated[str | None, typer.Option(help="The study's name (default: the experiment's).")] = None,
    heartbeat: Annotated[
        int, typer.Option(min=1, max=3600, help="Seconds between signs of life on a server; dead after three.")
    ] = 20,
    set_: Set = None,
    as_json: AsJson = False,
) -> None:
    """Search for hyperparameters: train many trials, each with other settings, and keep all of them.

    The same command again goes on where it stopped; with more --trials it goes further.
    """
    require_optuna()
    if storage is not None:
        from bitspike.experiments.sweep.address import require_address

        require_address(storage)
    if second is not None and pruner is not Pruner.none:
        raise ValueError(f"--pruner {pruner} judges one figure, but --second {second} asks for two; leave one out")
    settings = [f"{key}={value}" for key, value in (("seed", seed), ("train.epochs", epochs)) if value is not None]
    spec, facts = _facts(experiment, [*(set_ or []), *settings], second, sampler, pruner)
    out = out or Path("sweeps") / (re.sub(r"[^\w.+-]+", "-", spec.name).strip(".-") or "study")
    tune_process()
    import optuna

    from bitspike.experiments.assembly import RunOptions, pick_device
    from bitspike.experiments.sweep.address import command_line
    from bitspike.experiments.sweep.data_fit import require_fit
    from bitspike.experiments.sweep.driver import Driver
    from bitspike.experiments.sweep.overview import overview
    from bitspike.experiments.sweep.studies import FILE, join_study
    from bitspike.experiments.sweep.worker import Work

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    found = str(pick_device(device))
    if not (out / FILE).is_file():  # that of a study was looked at before it was made
        with bars() as begin:
            require_fit(spec, facts, RunOptions(progress=begin))
    joined = join_study(out, study or spec.name, facts, storage, heartbeat)
    task = Work(
        folder=out.absolute(),
        name=study or spec.name,
        facts=facts.as_json(),
        trials=trials,
        address=storage,
        heartbeat=heartbeat,
        device=found,
        together=together or (1 if found == "cpu" else TOGETHER_ON_GPU),
        workers=workers,
        threads=_threads(workers),
        known_failures=(),
        command=command_line(sys.argv[1:], storage),
    )
    with show_sweep() as display, catching_interrupts() as interrupted:
        display.say(_greeting(facts, task.name, joined.storage.shown, out))
        driver = Driver(
            joined,
            task,
            _devices(device, found),
            show=display.show,
            say=display.say,
            interrupted=lambda: bool(interrupted),
        )
        finished = driver.run()
    if not finished:
        say(f"bitspike: interrupted; all is in {out}, the same command goes on")
        raise typer.Exit(130)
    seen = joined.storage.patiently(lambda: overview(joined), waiting=lambda why: None)
    echo_json({**seen.as_json(), "out": str(out)}) if as_json else _show(seen, out, driver.seconds)


def _facts(
    source: str, settings: Sequence[str], second: Second | None, sampler: Sampler, pruner: Pruner
) -> tuple[Experiment, StudyFacts]:
    """Return the experiment and the facts of the study that the command asks for."""
    from bitspike.data.datasets import require_present
    from bitspike.experiments.presets import preset_or_file
    from bitspike.experiments.schema import with_values
    from bitspike.experiments.sweep.facts import facts_of
    from bitspike.experiments.sweep.objectives import ACCURACY, SECOND, require_validation
    from bitspike.experiments.sweep.space import space_of

    spec = preset_or_file(source, settings)
    require_validation(spec)
    require_present(spec.data)  # else it would show only in the first trials
    if not any(setting.partition("=")[0].strip() == "train.tensorboard" for setting in settings):
        spec = with_values(spec, ["train.tensorboard=false"])  # hundreds of files that nobody looks at
    objectives = [ACCURACY] if second is None else [ACCURACY, SECOND[second.value]]
    space = space_of(source, settings)
    return spec, facts_of(
        source, spec, settings, space.canonical(), objectives, sampler=sampler.value, pruner=pruner.value
    )


def _threads(workers: int) -> int | None:
    """Return the threads of each of several workers: together they use each processor once."""
    if workers == 1 or "OMP_NUM_THREADS" in os.environ:
        return None
    return max(1, len(os.sched_getaffinity(0)) // workers if hasattr(os, "sched_getaffinity") else 1)


def _devices(asked: str, found: str) -> list[str]:
    """Return the devices that workers take in turn: all GPUs, unless one of them was asked for."""
    if not found.startswith("cuda") or ":" in asked:
        return [found]
    import torch

    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]


def _greeting(facts: StudyFacts, name: str, storage: str, out: Path) -> str:
    figures = " and ".join(each.name for each in facts.objectives)
    pruned = "" if facts.pruner == "none" else f", {facts.pruner} pruning"
    searched = number_of(len(facts.space), "parameter")
    return (
        f"{name}: {searched} by {facts.sampler}{pruned}, seed {facts.seed}, for {figures} on validation samples -> "
        f"{out} ({storage})"
    )


def _show(found: Overview, out: Path, seconds: float) -> None:
    """Print how the study stands, its best trial and what comes next."""
    from bitspike.experiments.sweep.chosen import values_in_words

    echo(f"{found.name}: {found.standing.words()}; {duration(seconds)}")
    if found.best is not None:
        echo(f"{found.best_is}: trial {found.best.number}, {', '.join(values_in_words(found, found.best))}")
        for name, value in found.best.parameters.items():
            echo(f"  {name} = {value:.6g}" if isinstance(value, float) else f"  {name} = {value}")
    echo(f"next: bitspike sweep show {shlex.quote(str(out))}; {best_command(out, found)}")
