"""Training of experiments: one run, or several trials one after the other or at the same time, into a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bitspike.experiments.assembly import RunOptions, build_network, check_fit, iteration_work, make_task
from bitspike.experiments.comparison import identity, origin
from bitspike.experiments.folders import locked_folder, prepare_folder, write_experiment
from bitspike.experiments.kept_data import KeptData
from bitspike.experiments.run_data import RunData
from bitspike.experiments.schema import Experiment
from bitspike.experiments.summaries import require_same_samples, summarize_run, summarize_trials
from bitspike.train.loop import Trainer
from bitspike.train.numerics import reproducible, threads_for
from bitspike.train.progress import Listener
from bitspike.train.run_folder import RunFolder
from bitspike.train.together import run_together
from bitspike.train.trial_listeners import TrialListeners
from bitspike.train.world import World, joined, shares_gpus

Summary = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RequestedRun:
    """A requested run: its experiment, its folder, and the listener of its progress."""

    spec: Experiment
    folder: RunFolder
    listener: Listener


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """A run that has work left: its data and its trainer."""

    run: RequestedRun
    data: RunData
    trainer: Trainer


def train_run(spec: Experiment, out: Path, options: RunOptions) -> Summary | None:
    """Train one network; return what summary.json holds, or None if it was interrupted and can be resumed."""
    with joined(options.device) as world:
        return train_group([RequestedRun(spec, RunFolder(out), options.listener)], options, world)[0]


def train_trials(
    spec: Experiment, out: Path, trials: int, options: RunOptions, *, together: bool = False
) -> Summary | None:
    """Train `trials` runs with seeds seed, seed + 1, ...; return best, mean and sample sigma of their accuracies.

    With `together` they are trained at the same time in one process: the numbers of each are the same, but its seconds
    and its peak memory are those of all together (its summary says of how many). Return None if they were interrupted.
    """
    if (out / "experiment.toml").is_file():
        raise ValueError(f"{out} holds a single run; {options.another_folder} for trials")
    if spec.seed + trials > 2**32:
        option = "--trials " if options.dataset is None else "trials="
        raise ValueError(f"{option}{trials}: seeds must be below 2**32, but the first is {spec.seed}")
    if together and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("--together trains all trials in one process, but torchrun started several; use one way")
    listeners = TrialListeners(options.listener, trials)
    runs = [
        RequestedRun(
            spec.model_copy(update={"seed": spec.seed + trial}),
            RunFolder(out / f"trial-{trial}"),
            listeners.listener_for(trial) if together else options.listener,
        )
        for trial in range(trials)
    ]
    done: list[Summary] = []
    with joined(options.device) as world:  # once: torchrun's store holds the addresses of the first time
        for group in [runs] if together else [[run] for run in runs]:
            summaries = train_group(group, options, world, above=RunFolder(out), together=together)
            done += [summary for summary in summaries if summary is not None]
            if None in summaries:
                return None
    require_same_samples(spec, done, [run.folder.path for run in runs])
    summary = summarize_trials(spec, done, options)
    if World.rank_here() == 0:
        RunFolder(out).write_summary(summary)
    return summary


def train_group(
    runs: Sequence[RequestedRun],
    options: RunOptions,
    world: World,
    *,
    above: RunFolder | None = None,
    together: bool = False,
    kept: KeptData | None = None,
) -> list[Summary | None]:
    """Train the runs (one or more) at the same time; return their summaries, None for one that was interrupted.

    Runs that are complete already are not trained again. `above` is the folder of the trials that the runs belong to.
    `kept` holds data that is opened already, and stays open; without it all memory is free again when this returns.
    """
    kept = KeptData() if kept is None else kept
    began = datetime.now(UTC).isoformat(timespec="seconds")
    done: dict[Path, Summary] = {}

    def still_to_train(run: RequestedRun) -> bool:
        summary = prepare_folder(run.spec, run.folder, options, world)
        if summary is not None:
            done[run.folder.path] = summary
        return summary is None

    with ExitStack() as held:
        held.enter_context(reproducible(runs[0].spec.train.precision))
        jobs: list[_Job] = []
        for run in [run for run in runs if still_to_train(run)]:
            jobs.append(_make_job(run, options, world, kept))
        held.callback(_release, jobs)
        for job in jobs:
            held.enter_context(locked_folder(job.run.folder, options, world))
        jobs = [job for job in jobs if still_to_train(job.run)]  # another process may have been here since
        for job in jobs if options.resume else ():
            job.trainer.resume()
        for job in jobs:
            _begin(job, options, world, above)
        if jobs:
            held.enter_context(threads_for(iteration_work(jobs[0].run.spec, jobs[0].data.dataset)))
        trainers = [job.trainer for job in jobs]
        if together:
            endings = run_together(trainers) if trainers else []
            more = {"together": len(jobs), "together_since": began}
        else:
            endings, more = [trainer.run() for trainer in trainers], {}
        for job, ended in zip(jobs, endings, strict=True):
            if ended != "interrupted":
                done[job.run.folder.path] = summarize_run(
                    job.run.spec, job.data, job.trainer, ended, options, world, more
                )
    return [done.get(run.folder.path) for run in runs]


def _make_job(run: RequestedRun, options: RunOptions, world: World, kept: KeptData) -> _Job:
    """Take the run's data, and build its network and its trainer."""
    spec = run.spec
    dataset = kept.dataset(spec, options)
    net = build_network(spec, dataset.shape)
    check_fit(spec, net, dataset)
    data = kept.on_device(spec, options)
    trainer = Trainer(
        net,
        spec.net.schedules(len(net.layers)),
        make_task(spec, net, data.train.labels),
        data.train,
        data.selection(spec),
        spec.train,
        run.folder,
        seed=spec.seed,
        repeat=spec.data.repeat,
        identity=identity(spec, dataset),
        origin=origin(spec, dataset, options, kept.digests(spec, options)),
        world=world,
        listener=run.listener,
        graph=options.graph == "auto",
    )
    return _Job(run, data, trainer)


def _release(jobs: Sequence[_Job]) -> None:
    """Free the memory of runs that have ended; the next ones need not wait for Python's garbage collection."""
    for job in jobs:
        job.trainer.release()


def _begin(job: _Job, options: RunOptions, world: World, above: RunFolder | None) -> None:
    """Write experiment.toml and tell the user; nothing is written before everything is known to fit."""
    spec, folder = job.run.spec, job.run.folder
    write_experiment(spec, job.trainer, world, above)
    if world.first:
        options.started(spec, job.data.dataset, job.trainer.net, folder.path)
        if world.size > 1 and options.device.type == "cuda" and shares_gpus():
            job.run.listener.note("processes share a GPU and exchange through the host's memory: one process is faster")
    for warning in job.data.warnings(spec):
        job.trainer.warn(warning)
